//! Tones of words in a report, which a terminal shows as colours. The report's text marks them by control characters: no name has
//! these, because `shown` escapes them. [`plain`] removes the marks.

use std::borrow::Cow;

/// A tone of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tone {
    /// A title, or the header of a table.
    Title = 1,
    /// A regression.
    Worse,
    /// An improvement.
    Better,
    /// Late frames.
    Late,
    /// Something to do.
    Hint,
}

const ALL: [Tone; 5] = [Tone::Title, Tone::Worse, Tone::Better, Tone::Late, Tone::Hint];
const END: char = '\u{6}';

impl Tone {
    /// Marks words as having this tone.
    #[must_use]
    pub fn of(self, words: &str) -> String {
        format!("{}{words}{END}", char::from(self as u8))
    }
}

/// True for a mark, which takes no column.
pub(crate) const fn is_mark(char: char) -> bool {
    matches!(char, '\u{1}'..=END)
}

/// Splits a text at its marks: words and their tone.
pub fn pieces(text: &str) -> impl Iterator<Item = (Option<Tone>, &str)> {
    let mut tone = None;
    text.split_inclusive(is_mark).map(move |piece| {
        let words = piece.trim_end_matches(is_mark);
        let mark = piece.chars().next_back();
        let next = ALL.into_iter().find(|tone| mark == Some(char::from(*tone as u8)));
        (std::mem::replace(&mut tone, next), words)
    })
}

/// Removes the marks of a text.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(is_mark) { text.replace(is_mark, "").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_give_their_words_a_tone_and_take_no_column() {
        let text = format!("{}: a{}b", Tone::Title.of("app"), Tone::Worse.of("WORSE"));
        let found: Vec<_> = pieces(&text).filter(|(_, words)| !words.is_empty()).collect();
        let expected =
            [(Some(Tone::Title), "app"), (None, ": a"), (Some(Tone::Worse), "WORSE"), (None, "b")];
        assert_eq!(found, expected);
        assert_eq!(plain(&text), "app: aWORSEb");
        assert!(ALL.iter().all(|tone| tone.of("").chars().all(is_mark)));
    }

    #[test]
    fn a_name_cannot_have_a_tone() {
        let name = Tone::Worse.of("name");
        assert_eq!(plain(&tracetee_trace::shown(&name)), "\\u0002name\\u0006");
    }
}
