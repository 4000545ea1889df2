//! Records that the fast path stores unformatted, and their text.

use crate::record::{Kind, MAX_MESSAGE_BYTES};

/// A record as the fast path stores it: its fields, not formatted yet.
///
/// The first word holds the letter (8 bits) and the track's length (16 bits, from bit 16); kinds
/// with a cookie or value have it in the second word; then the track and the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed<'a> {
    pub(crate) kind: Kind,
    pub(crate) track: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) number: i64,
}

impl<'a> Packed<'a> {
    /// The word before the names.
    #[inline]
    pub fn head(kind: Kind, track_bytes: usize) -> u64 {
        kind as u64 | (track_bytes as u64 & 0xffff) << 16
    }

    /// Parses the bytes of a record from [`Packed::head`]; `None` if they are not such a record.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [letter, _, low, high, ..] = *head;
        let kind = Kind::from_letter(letter)?;
        let (number, rest) = if kind.has_number() {
            let (number, rest) = rest.split_first_chunk::<8>()?;
            (i64::from_le_bytes(*number), rest)
        } else {
            (0, rest)
        };
        let (track, name) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
        Some(Self { kind, track, name, number })
    }

    /// The record as libcutils would have written it: if it is too long, first the name is cut, then the track.
    #[must_use]
    pub fn to_text(&self, pid: u32) -> Vec<u8> {
        let mut text = format!("{}|{pid}", self.kind.letter()).into_bytes();
        if self.kind == Kind::End {
            return text;
        }
        let tail = if self.kind.has_number() { format!("|{}", self.number) } else { String::new() };
        text.push(b'|');
        let mut names = self.track.to_vec();
        if self.kind.has_track() && !(self.kind == Kind::TrackEnd && self.name.is_empty()) {
            names.push(b'|');
        }
        names.extend_from_slice(self.name);
        names.truncate(MAX_MESSAGE_BYTES.saturating_sub(text.len() + tail.len()));
        text.extend_from_slice(&names);
        text.extend_from_slice(tail.as_bytes());
        text
    }
}
