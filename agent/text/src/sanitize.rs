//! Makes names safe for every viewer: replaces characters that would end a field or a line.
//!
//! As `android.os.Trace` does, a field separator or a line break becomes a space. Also replaced: the two characters
//! backslash-n, where catapult cuts (the backslash becomes a slash), the Unicode line separators, which end JavaScript's
//! `.`, and invalid UTF-8 (U+FFFD). Catapult would treat a name that quotes a line of ftrace text as that line, because its
//! expression looks for the last match: the bracket of its `(tgid) [cpu]` becomes round. The end of a script element, at
//! which Perfetto also stops reading plain text, is split by a space.

use std::borrow::Cow;

/// Appends `name` to `out`, made safe.
pub(crate) fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    if name.iter().all(|&byte| is_plain(byte)) {
        out.extend_from_slice(name);
        return;
    }
    let text: Cow<'_, str> = String::from_utf8_lossy(name);
    let mut chars = text.chars().peekable();
    let mut utf8 = [0; 4];
    while let Some(char) = chars.next() {
        let safe = match char {
            '|' | '\n' | '\r' | '\0' | '\u{2028}' | '\u{2029}' => ' ',
            '\\' if chars.peek() == Some(&'n') => '/',
            '[' if quotes_a_line(out, chars.clone()) => '(',
            other => other,
        };
        out.extend_from_slice(safe.encode_utf8(&mut utf8).as_bytes());
        if safe == '<' && ends_a_script(chars.clone()) {
            out.push(b' ');
        }
    }
}

/// True if the text after a `<` makes it the end of a script element.
fn ends_a_script(after: impl Iterator<Item = char>) -> bool {
    "/script".chars().eq(after.take(7).map(|char| char.to_ascii_lowercase()))
}

/// True if a `[` after `before` looks like that in `…-17 (   17) [000] …`.
fn quotes_a_line(before: &[u8], after: impl Iterator<Item = char>) -> bool {
    let text = String::from_utf8_lossy(before.get(before.len().saturating_sub(4)..).unwrap_or(&[]));
    let mut back = text.chars().rev();
    let mut after = after.skip_while(char::is_ascii_digit);
    back.next().is_some_and(char::is_whitespace)
        && back.next() == Some(')')
        && after.next() == Some(']')
}

/// ASCII that never needs a change.
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'|' | b'\n' | b'\r' | 0 | b'\\' | b'[' | b'<' | 0x80..)
}

/// A thread's name in the form for the start of a line: never empty, never `<...>` (which
/// means "unknown" to the viewers), no control characters, no end of a script element.
pub(crate) fn thread_name(comm: &[u8], tid: i32) -> String {
    let text = String::from_utf8_lossy(comm);
    let text: String = text
        .chars()
        .map(|char| match char {
            '\u{2028}' | '\u{2029}' => ' ',
            char if char.is_control() => ' ',
            char => char,
        })
        .collect();
    let mut text = text;
    let ends = |part: &[u8]| part.eq_ignore_ascii_case(b"</script");
    while let Some(at) = text.as_bytes().windows(8).position(ends) {
        text.insert(at + 1, ' ');
    }
    match text.trim() {
        "" => format!("Thread-{tid}"),
        "<...>" => "...".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(name: &[u8]) -> String {
        let mut out = Vec::new();
        push_name(&mut out, name);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn characters_that_viewers_misread_are_replaced_and_the_rest_is_kept() {
        assert_eq!(safe(b"a|b\nc\rd\0e"), "a b c d e");
        assert_eq!(safe(br"x\ny\z\"), r"x/ny\z\");
        assert_eq!(safe("päd 🎉 <b>".as_bytes()), "päd 🎉 <b>");
        assert_eq!(safe("a\u{2028}b".as_bytes()), "a b");
        assert_eq!(safe(b"bad \xff\xfe utf"), "bad \u{fffd}\u{fffd} utf");
        assert_eq!(safe(b""), "");
    }

    #[test]
    fn the_end_of_a_script_is_broken_up() {
        assert_eq!(safe(b"eval: <b></script>"), "eval: <b>< /script>");
        assert_eq!(safe(b"</SCRIPT </scrip"), "< /SCRIPT </scrip");
        assert_eq!(safe(b"com.example.A.<init>"), "com.example.A.<init>");
    }

    #[test]
    fn a_quoted_line_is_no_line() {
        assert_eq!(safe(b"a-1 (1) [000] ...1 3.0: x: y"), "a-1 (1) (000] ...1 3.0: x: y");
        assert_eq!(safe(b"f(x)[3] (y) [z] [7]"), "f(x)[3] (y) [z] [7]");
    }

    #[test]
    fn thread_names_are_never_empty_nor_unknown() {
        assert_eq!(thread_name(b"", 7), "Thread-7");
        assert_eq!(thread_name(b" \n ", 7), "Thread-7");
        assert_eq!(thread_name(b"<...>", 7), "...");
        assert_eq!(thread_name(b"a-b [c] (d)", 7), "a-b [c] (d)");
        assert_eq!(thread_name(b"x</Script>", 7), "x< /Script>");
    }

    proptest::proptest! {
        #[test]
        fn no_name_breaks_a_line_or_a_field(mut name: Vec<u8>, at: usize, mark: bool) {
            let at = at % (name.len() + 1);
            let ends = if mark { &b"</sCRIPT"[..] } else { b"\\n" };
            name.splice(at..at, ends.iter().copied());
            let text = safe(&name);
            let breaks = ['|', '\n', '\r', '\0', '\u{2028}', '\u{2029}'];
            let whole = !text.contains(breaks)
                && !text.contains("\\n")
                && !text.to_ascii_lowercase().contains("</script");
            proptest::prop_assert!(whole);
        }
    }
}
