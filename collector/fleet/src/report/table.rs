//! Tables for a terminal: numbers to the right, texts to the left and cut where they are too long.

/// Limit of a text column's width; a terminal has some hundred columns.
const MAX_TEXT: usize = 60;

/// Lays rows out. `left`: indexes of the columns that are aligned to the left.
pub(crate) fn lay_out(header: &[&str], left: &[usize], rows: &[Vec<String>]) -> String {
    let cut = |text: &str| {
        let count = text.chars().count();
        if count <= MAX_TEXT {
            return text.to_owned();
        }
        // The end of a name tells more than its middle.
        let head: String = text.chars().take(MAX_TEXT / 2 - 1).collect();
        let tail: String = text.chars().skip(count - MAX_TEXT / 2).collect();
        format!("{head}…{tail}")
    };
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|text| cut(text)).collect()).collect();
    let width = |column: usize| {
        let of_rows =
            rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        let of_header = header.get(column).map_or(0, |text| text.chars().count());
        of_rows.max().unwrap_or(0).max(of_header)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |row: &[String]| {
        let mut text = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
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
        }
        text.trim_end().to_owned() + "\n"
    };
    let header: Vec<String> = header.iter().map(|&text| text.to_owned()).collect();
    let mut text = line(&header);
    for row in &rows {
        text.push_str(&line(row));
    }
    text
}
