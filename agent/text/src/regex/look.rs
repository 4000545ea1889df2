//! Assertions, such as `^` and `\b`: they look at the characters before and after a position, and match no text.
//!
//! A character is of one of five kinds, so there are 25 surroundings of a position. Each is a bit, and an
//! assertion is the set of those where it holds.

const NONE: u32 = 1 << 0;
const LINE_FEED: u32 = 1 << 1;
const CARRIAGE_RETURN: u32 = 1 << 2;
const WORD: u32 = 1 << 3;
const ANY: u32 = (1 << KINDS) - 1;
const KINDS: u32 = 5;

/// The surroundings with one of these kinds before and one of those after the position.
const fn between(before: u32, after: u32) -> u32 {
    let (mut set, mut kind) = (0, 0);
    while kind < KINDS {
        if before & 1 << kind != 0 {
            set |= after << (kind * KINDS);
        }
        kind += 1;
    }
    set
}

pub(super) const TEXT_START: u32 = between(NONE, ANY);
pub(super) const TEXT_END: u32 = between(ANY, NONE);
pub(super) const LINE_START: u32 = between(NONE | LINE_FEED, ANY);
pub(super) const LINE_END: u32 = between(ANY, NONE | LINE_FEED);
/// The same where `\r\n` and `\r` end lines, too: never in the middle of `\r\n`.
pub(super) const CRLF_START: u32 = LINE_START | between(CARRIAGE_RETURN, ANY & !LINE_FEED);
pub(super) const CRLF_END: u32 =
    between(ANY, NONE | CARRIAGE_RETURN) | between(ANY & !CARRIAGE_RETURN, LINE_FEED);
pub(super) const WORD_START: u32 = between(ANY & !WORD, WORD);
pub(super) const WORD_END: u32 = between(WORD, ANY & !WORD);
pub(super) const WORD_BOUNDARY: u32 = WORD_START | WORD_END;
pub(super) const NO_WORD_BOUNDARY: u32 = between(ANY, ANY) & !WORD_BOUNDARY;

/// The surroundings of the position between two characters, as a set of one.
pub(super) fn surroundings(before: Option<char>, after: Option<char>) -> u32 {
    1 << (kind(before) * KINDS + kind(after))
}

fn kind(char: Option<char>) -> u32 {
    match char {
        None => 0,
        Some('\n') => 1,
        Some('\r') => 2,
        Some('0'..='9' | 'A'..='Z' | 'a'..='z' | '_') => 3,
        Some(_) => 4,
    }
}
