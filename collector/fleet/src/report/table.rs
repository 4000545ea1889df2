//! Text for a terminal: tables, numbers to the right and texts to the left, and lines that are broken.

use super::tone::{Tone, is_mark};
use std::sync::OnceLock;
use tracetee_trace::shown;

/// Columns of a terminal that nobody knows, and of a file.
const WIDTH: usize = 120;
/// Least and most columns: narrower rows are hard to follow, and the eye does not find the next one of wider rows.
const LEAST_WIDTH: usize = 60;
const MOST_WIDTH: usize = 200;
static TERMINAL: OnceLock<usize> = OnceLock::new();

/// Lays out all text of this process for a terminal with this number of columns.
pub fn set_width(columns: usize) {
    let _ = TERMINAL.set(columns.clamp(LEAST_WIDTH, MOST_WIDTH));
}

/// Columns of a line.
pub(crate) fn columns_of_terminal() -> usize {
    TERMINAL.get().copied().unwrap_or(WIDTH)
}

/// Limit of a text column's width.
const MAX_TEXT: usize = 60;
/// Indentation of the columns of a row that do not fit into its line.
const NEXT_LINE: usize = 6;

/// A column of a table.
pub(crate) struct Column<'a, R> {
    pub(crate) title: &'a str,
    pub(crate) is_left: bool,
    /// Writes the cell of a row.
    pub(crate) cell: Box<dyn Fn(&R) -> String + 'a>,
}

/// A column of texts, aligned to the left.
pub(crate) fn left<'a, R>(title: &'a str, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { title, is_left: true, cell: Box::new(cell) }
}

/// A column of numbers, aligned to the right.
pub(crate) fn right<'a, R>(title: &'a str, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { title, is_left: false, cell: Box::new(cell) }
}

/// Lays out a table.
pub(crate) fn table<'r, R: 'r>(
    rows: impl IntoIterator<Item = &'r R>,
    columns: &[Column<'_, R>],
) -> String {
    toned_table(rows, columns, |_| None)
}

/// Lays out a table whose rows may have a tone.
pub(crate) fn toned_table<'r, R: 'r>(
    rows: impl IntoIterator<Item = &'r R>,
    columns: &[Column<'_, R>],
    tone: impl Fn(&R) -> Option<Tone>,
) -> String {
    let header: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let left = columns.iter().enumerate().filter(|(_, column)| column.is_left).map(|(n, _)| n);
    let left: Vec<usize> = left.collect();
    let cells = |row| (tone(row), columns.iter().map(|column| (column.cell)(row)).collect());
    lay_out(&header, &left, &rows.into_iter().map(cells).collect::<Vec<_>>())
}

/// Lays rows out, each with its tone. `left`: indexes of the columns that are aligned to the left.
fn lay_out(header: &[&str], left: &[usize], rows: &[(Option<Tone>, Vec<String>)]) -> String {
    let cut = |text: &str| {
        let text = shown(text);
        let count = text.chars().count();
        if count <= MAX_TEXT {
            return text.into_owned();
        }
        // The end of a name tells more than its middle.
        let head: String = text.chars().take(MAX_TEXT / 2 - 1).collect();
        let tail: String = text.chars().skip(count - MAX_TEXT / 2).collect();
        format!("{head}…{tail}")
    };
    let header: Vec<String> = header.iter().map(|text| cut(text)).collect();
    let rows: Vec<(_, Vec<String>)> =
        rows.iter().map(|(tone, row)| (tone, row.iter().map(|text| cut(text)).collect())).collect();
    let width = |column: usize| {
        let of_rows =
            rows.iter().filter_map(|(_, row)| row.get(column)).map(|text| text.chars().count());
        let of_header = header.get(column).map_or(0, |text| text.chars().count());
        of_rows.max().unwrap_or(0).max(of_header)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let terminal = columns_of_terminal();
    let line = |row: &[String]| {
        let (mut text, mut used) = (String::from(" "), 1);
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if used + width + 1 > terminal && used > NEXT_LINE {
                text.truncate(text.trim_end().len());
                text.push('\n');
                text.push_str(&" ".repeat(NEXT_LINE));
                used = NEXT_LINE;
            }
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            text.push(' ');
            if left.contains(&column) {
                text.push_str(cell);
                text.push_str(&pad);
            } else {
                text.push_str(&pad);
                text.push_str(cell);
            }
            text.push(' ');
            used += width + 2;
        }
        text.trim_end().to_owned()
    };
    let mut text = Tone::Title.of(&line(&header)) + "\n";
    for (tone, row) in &rows {
        let line = line(row);
        text.push_str(&tone.map_or_else(|| line.clone(), |tone| tone.of(&line)));
        text.push('\n');
    }
    text
}

/// Breaks lines that are longer than a line of the terminal at a space; the rest is indented deeper. A number stays with its unit.
pub(crate) fn broken(text: &str) -> String {
    let terminal = columns_of_terminal();
    let mut all = String::with_capacity(text.len());
    for line in text.lines() {
        let unmarked = line.trim_start_matches(is_mark);
        let indent = unmarked.chars().take_while(|char| *char == ' ').count() + 4;
        let mut used = 0;
        for (number, word) in words(line).into_iter().enumerate() {
            let count = word.chars().filter(|char| !is_mark(*char)).count();
            if number > 0 && used + 1 + count > terminal {
                all.push('\n');
                all.push_str(&" ".repeat(indent));
                used = indent;
            } else if number > 0 {
                all.push(' ');
                used += 1;
            }
            all.push_str(word);
            used += count;
        }
        all.push('\n');
    }
    all
}

/// Returns the words of a line; spaces after the first one between two words are of the second.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut begin = 0;
    let mut has_word = false;
    for (offset, char) in line.char_indices() {
        if char != ' ' {
            has_word = true;
            continue;
        }
        let rest = line.get(offset + 1..).unwrap_or_default();
        let next: String =
            rest.chars().take_while(|char| char.is_alphanumeric() || *char == '%').collect();
        let is_unit = matches!(&*next, "ms" | "s" | "%" | "Hz" | "MHz");
        if has_word && !is_unit {
            words.extend(line.get(begin..offset));
            (begin, has_word) = (offset + 1, false);
        }
    }
    words.extend(line.get(begin..));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tone::plain;

    #[test]
    fn a_row_that_is_wider_than_the_terminal_continues_on_the_next_line() {
        let wide = "w".repeat(60);
        let row = vec![wide.clone(), "123456".to_owned(), wide.clone(), "7".to_owned()];
        let text = lay_out(&["name", "count", "what", "n"], &[0, 2], &[(None, row)]);
        let text = plain(&text);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().len(), 8, "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
        let row = (Some(Tone::Worse), vec!["x".to_owned(), "1".to_owned()]);
        let short = lay_out(&["a", "b"], &[0], &[row]);
        assert_eq!(plain(&short), "  a  b\n  x  1\n");
    }

    #[test]
    fn a_long_line_is_broken_between_words_and_not_before_a_unit() {
        let line = format!("    {}", "12.5 ms ".repeat(30));
        let text = broken(line.trim_end());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("        12.5 ms")), "{text}");
        assert_eq!(text.split_whitespace().count(), 60);
        assert_eq!(broken("    12.5 ms  main     x\n\n"), "    12.5 ms  main     x\n\n");
        let long = "x".repeat(WIDTH + 20);
        assert_eq!(broken(&format!("{long} y")), format!("{long}\n    y\n"));
    }
}
