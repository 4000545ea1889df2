//! Names from captures, files and peers, in a form that is safe for a terminal or a log line.
//!
//! A control character in a name could move the cursor, forge a line or ring the bell, and a character of text direction
//! could reverse neighbouring text. Both are written as JSON writes them (`\u001b`, `\n`), so that a line of JSON stays the
//! same JSON.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes control characters, line breaks included, and characters that change the direction of text.
#[must_use]
pub fn shown(name: &str) -> Cow<'_, str> {
    escaped(name, is_unsafe)
}

/// Escapes a text of several lines, in which line breaks and tabs are the program's own.
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |char| is_unsafe(char) && !matches!(char, '\n' | '\t'))
}

/// Returns a name in quotes.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", shown(name))
}

fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            char if !is_escaped(char) => safe.push(char),
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            // Writing to a string does not fail.
            char => drop(write!(safe, "\\u{:04x}", u32::from(char))),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_moves_the_cursor_or_forges_a_line_and_a_line_of_json_stays_the_same() {
        assert_eq!(shown("com.example α"), "com.example α");
        assert_eq!(
            shown("a\x1b[2J\x07\nb\u{9b}\u{202e}\t"),
            "a\\u001b[2J\\u0007\\nb\\u009b\\u202e\\t"
        );
        assert_eq!(shown_lines("a\n\tb\r"), "a\n\tb\\u000d");
        let json = serde_json::json!({"a": "\u{202e}\u{9b}\x1b"});
        let safe = shown(&json.to_string()).into_owned();
        assert!(safe.is_ascii(), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), json);
    }
}
