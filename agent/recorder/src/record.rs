//! The records that atrace writes: their shape, as the hook checks it, and their parts, as the
//! text needs them.
//!
//! [`is_record_shaped`] runs on the app's threads inside `write`: a few byte compares. [`Record`]
//! is parsed on the thread that drains; it borrows from the recorded bytes and accepts names of
//! any bytes.

use memchr::{memchr, memrchr};

/// The longest message that counts as a record, in bytes. libcutils' messages have at most 1023; the
/// kernel cuts a marker write at 4096 (TRACE_MARKER_MAX_SIZE).
pub const MAX_RECORD_BYTES: usize = 4096;

/// The bytes of libcutils' buffer before its NUL (ATRACE_MESSAGE_LENGTH less one). Android 6's libcutils
/// claims more, see `agent/tee/src/write.rs`.
pub const MAX_MESSAGE_BYTES: usize = 1023;

/// The nine kinds, in the order of the table in the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `B|pid|name`: a section of this thread begins.
    Begin = b'B',
    /// `E` or `E|pid`: the innermost section of this thread ends.
    End = b'E',
    /// `S|pid|name|cookie`: an asynchronous section begins.
    AsyncBegin = b'S',
    /// `F|pid|name|cookie`: it ends, on whatever thread.
    AsyncEnd = b'F',
    /// `C|pid|name|value`: a counter has a new value.
    Counter = b'C',
    /// `I|pid|name`: something happened on this thread.
    Instant = b'I',
    /// `N|pid|track|name`: something happened on a named track.
    TrackInstant = b'N',
    /// `G|pid|track|name|cookie`: an asynchronous section begins on a named track.
    TrackBegin = b'G',
    /// `H|pid|track|cookie` (on API 33 `H|pid|track|name|cookie`): it ends.
    TrackEnd = b'H',
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Begin,
        Self::End,
        Self::AsyncBegin,
        Self::AsyncEnd,
        Self::Counter,
        Self::Instant,
        Self::TrackInstant,
        Self::TrackBegin,
        Self::TrackEnd,
    ];

    /// Returns the letter of the kind.
    #[must_use]
    pub const fn letter(self) -> char {
        self as u8 as char
    }

    /// Returns the index of the kind in [`Kind::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&kind| kind == self).unwrap_or(0)
    }

    pub(crate) const fn has_number(self) -> bool {
        matches!(
            self,
            Self::AsyncBegin | Self::AsyncEnd | Self::Counter | Self::TrackBegin | Self::TrackEnd
        )
    }

    pub(crate) const fn has_track(self) -> bool {
        matches!(self, Self::TrackInstant | Self::TrackBegin | Self::TrackEnd)
    }

    /// The kind with that letter; `None` for another letter.
    #[inline]
    #[must_use]
    pub const fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'B' => Self::Begin,
            b'E' => Self::End,
            b'S' => Self::AsyncBegin,
            b'F' => Self::AsyncEnd,
            b'C' => Self::Counter,
            b'I' => Self::Instant,
            b'N' => Self::TrackInstant,
            b'G' => Self::TrackBegin,
            b'H' => Self::TrackEnd,
            _ => return None,
        })
    }
}

/// True if a written buffer looks like a record: a known letter, then `|` and a digit (for an end, possibly
/// nothing).
#[inline]
#[must_use]
pub const fn is_record_shaped(bytes: &[u8]) -> bool {
    match bytes {
        [letter, b'|', b'0'..=b'9', ..] => Kind::from_letter(*letter).is_some(),
        _ => is_end_without_pid(bytes),
    }
}

/// The letters of [`Kind::ALL`], a bit for each by its low 5 bits.
const LETTERS: u32 = {
    let (mut letters, mut index) = (0, 0);
    while index < Kind::ALL.len() {
        letters |= 1 << (Kind::ALL[index] as u32 & 31);
        index += 1;
    }
    letters
};

/// [`is_record_shaped`] of a record that begins with these bytes, without a branch for each of them. `false` is not
/// conclusive for an end without a process id.
#[inline(always)]
#[must_use]
pub const fn begins_as_record(bytes: [u8; 4]) -> bool {
    let word = u32::from_le_bytes(bytes);
    let [_, _, digit, _] = bytes;
    // A letter of the columns that have capitals, and the bar.
    word & 0xffe0 == 0x7c40 && LETTERS >> (word & 31) & 1 != 0 && digit.wrapping_sub(b'0') <= 9
}

#[cold]
#[inline(never)]
const fn is_end_without_pid(bytes: &[u8]) -> bool {
    matches!(bytes, [b'E'] | [b'E', b'\n'] | [b'E', b'|'] | [b'E', b'|', b'\n'])
}

/// A parsed record. Names and tracks are the raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A section begins.
    Begin {
        /// The process as the record says.
        pid: u32,
        /// The section's name; may hold `|`.
        name: &'a [u8],
    },
    /// The innermost section ends.
    End {
        /// Absent up to API 27.
        pid: Option<u32>,
    },
    /// An asynchronous section begins (`begin`) or ends.
    Async {
        /// S or F.
        begin: bool,
        /// The process as the record says.
        pid: u32,
        /// Name.
        name: &'a [u8],
        /// Distinguishes sections of the same name.
        cookie: i64,
    },
    /// A counter's value.
    Counter {
        /// The process as the record says.
        pid: u32,
        /// Name.
        name: &'a [u8],
        /// The value.
        value: i64,
        /// The trailing group, if the writer added one.
        group: Option<&'a [u8]>,
    },
    /// Something happened on this thread.
    Instant {
        /// The process as the record says.
        pid: u32,
        /// What.
        name: &'a [u8],
    },
    /// Something happened on a track.
    TrackInstant {
        /// The process as the record says.
        pid: u32,
        /// The track.
        track: &'a [u8],
        /// What.
        name: &'a [u8],
    },
    /// An asynchronous section begins on a track.
    TrackBegin {
        /// The process as the record says.
        pid: u32,
        /// The track.
        track: &'a [u8],
        /// Name.
        name: &'a [u8],
        /// Distinguishes sections of the same track.
        cookie: i64,
    },
    /// It ends.
    TrackEnd {
        /// The process as the record says.
        pid: u32,
        /// The track.
        track: &'a [u8],
        /// Name, which only API 33 writes.
        name: Option<&'a [u8]>,
        /// Cookie of the begin.
        cookie: i64,
    },
}

impl<'a> Record<'a> {
    /// Returns track (a counter's group) and name, if the record has them.
    pub const fn names(&self) -> [Option<&'a [u8]>; 2] {
        match *self {
            Self::End { .. } => [None, None],
            Self::Begin { name, .. } | Self::Instant { name, .. } | Self::Async { name, .. } => {
                [None, Some(name)]
            }
            Self::Counter { name, group, .. } => [group, Some(name)],
            Self::TrackInstant { track, name, .. } | Self::TrackBegin { track, name, .. } => {
                [Some(track), Some(name)]
            }
            Self::TrackEnd { track, name, .. } => [Some(track), name],
        }
    }

    /// Returns the record with other names, if some are given.
    pub fn with_names(mut self, new_track: Option<&'a [u8]>, new: Option<&'a [u8]>) -> Self {
        let replace = |field: &mut &'a [u8], new: Option<&'a [u8]>| *field = new.unwrap_or(field);
        match &mut self {
            Self::End { .. } => {}
            Self::Begin { name, .. } | Self::Instant { name, .. } | Self::Async { name, .. } => {
                replace(name, new);
            }
            Self::Counter { name, group, .. } => {
                replace(name, new);
                *group = new_track.or(*group);
            }
            Self::TrackInstant { track, name, .. } | Self::TrackBegin { track, name, .. } => {
                replace(track, new_track);
                replace(name, new);
            }
            Self::TrackEnd { track, name, .. } => {
                replace(track, new_track);
                *name = new.or(*name);
            }
        }
        self
    }

    /// Parses a written buffer; `None` if its fields do not match its kind.
    ///
    /// One trailing newline is the writer's (`echo … > trace_marker`), as it is for the kernel.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let (&letter, rest) = bytes.split_first()?;
        let kind = Kind::from_letter(letter)?;
        let Some(fields) = rest.strip_prefix(b"|") else {
            return (kind == Kind::End && rest.is_empty()).then_some(Self::End { pid: None });
        };
        let (pid, payload) = split_at_bar(fields).map_or((fields, None), |(p, r)| (p, Some(r)));
        if kind == Kind::End {
            return Some(Self::End { pid: number(pid) });
        }
        let pid = number(pid)?;
        let payload = payload.unwrap_or_default();
        Some(match kind {
            Kind::End => return None,
            Kind::Begin => Self::Begin { pid, name: payload },
            Kind::Instant => Self::Instant { pid, name: payload },
            Kind::AsyncBegin | Kind::AsyncEnd => {
                let (name, cookie) = split_at_last_bar(payload)?;
                let begin = kind == Kind::AsyncBegin;
                Self::Async { begin, pid, name, cookie: integer(cookie)? }
            }
            Kind::Counter => {
                let (front, last) = split_at_last_bar(payload)?;
                if let Some(value) = integer(last) {
                    return Some(Self::Counter { pid, name: front, value, group: None });
                }
                let (name, value) = split_at_last_bar(front)?;
                Self::Counter { pid, name, value: integer(value)?, group: Some(last) }
            }
            Kind::TrackInstant => {
                let (track, name) = split_at_bar(payload)?;
                Self::TrackInstant { pid, track, name }
            }
            Kind::TrackBegin => {
                let (front, cookie) = split_at_last_bar(payload)?;
                let (track, name) = split_at_bar(front)?;
                Self::TrackBegin { pid, track, name, cookie: integer(cookie)? }
            }
            Kind::TrackEnd => {
                let (front, cookie) = split_at_last_bar(payload)?;
                let (track, name) = match split_at_bar(front) {
                    Some((track, name)) => (track, Some(name)),
                    None => (front, None),
                };
                Self::TrackEnd { pid, track, name, cookie: integer(cookie)? }
            }
        })
    }

    /// Returns the kind of the record.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Begin { .. } => Kind::Begin,
            Self::End { .. } => Kind::End,
            Self::Async { begin: true, .. } => Kind::AsyncBegin,
            Self::Async { begin: false, .. } => Kind::AsyncEnd,
            Self::Counter { .. } => Kind::Counter,
            Self::Instant { .. } => Kind::Instant,
            Self::TrackInstant { .. } => Kind::TrackInstant,
            Self::TrackBegin { .. } => Kind::TrackBegin,
            Self::TrackEnd { .. } => Kind::TrackEnd,
        }
    }
}

fn split_at_bar(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr(b'|', bytes)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

fn split_at_last_bar(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memrchr(b'|', bytes)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

fn number(bytes: &[u8]) -> Option<u32> {
    // `parse` would take a plus sign.
    bytes.first().filter(|byte| byte.is_ascii_digit())?;
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn integer(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "16 million beginnings")]
    fn a_record_is_recognized_by_its_beginning_as_it_is_by_its_shape() {
        for beginning in 0..1u32 << 24 {
            let bytes = beginning.to_le_bytes();
            assert_eq!(begins_as_record(bytes), is_record_shaped(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn every_syntax_of_the_table_is_understood() {
        use Record::*;
        let cases: [(&str, Record); 17] = [
            ("B|7|name", Begin { pid: 7, name: b"name" }),
            ("B|7|a|b", Begin { pid: 7, name: b"a|b" }),
            ("B|7|", Begin { pid: 7, name: b"" }),
            ("B|7", Begin { pid: 7, name: b"" }),
            ("B|7|echoed\n", Begin { pid: 7, name: b"echoed" }),
            ("E", End { pid: None }),
            ("E|", End { pid: None }),
            ("E|7", End { pid: Some(7) }),
            ("S|7|n|-3", Async { begin: true, pid: 7, name: b"n", cookie: -3 }),
            ("F|7|a|b|3", Async { begin: false, pid: 7, name: b"a|b", cookie: 3 }),
            (
                "C|7|n|-9223372036854775808",
                Counter { pid: 7, name: b"n", value: i64::MIN, group: None },
            ),
            ("C|7|n|5|g", Counter { pid: 7, name: b"n", value: 5, group: Some(b"g") }),
            ("I|7|n", Instant { pid: 7, name: b"n" }),
            ("N|7|t|n|m", TrackInstant { pid: 7, track: b"t", name: b"n|m" }),
            ("G|7|t|n|4", TrackBegin { pid: 7, track: b"t", name: b"n", cookie: 4 }),
            ("H|7|t|4", TrackEnd { pid: 7, track: b"t", name: None, cookie: 4 }),
            ("H|7|t|n|4", TrackEnd { pid: 7, track: b"t", name: Some(b"n"), cookie: 4 }),
        ];
        for (text, record) in cases {
            assert!(is_record_shaped(text.as_bytes()), "{text}");
            assert_eq!(Record::parse(text.as_bytes()), Some(record), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_records() {
        for text in ["", "B", "B|", "B|x|n", "X|7|n", "T|7|t", "Error", "Bye", "C|", "\n", "S||"] {
            assert!(!is_record_shaped(text.as_bytes()), "{text}");
        }
        for text in ["S|7|n", "S|7|n|x", "C|7|n", "C|7|n|x|y", "N|7|t", "G|7|t|4", "B|x|n"] {
            assert_eq!(Record::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic_and_only_when_shaped(bytes: Vec<u8>) {
            if let Some(record) = Record::parse(&bytes) {
                // The rest of an end is ignored if it follows a `|`.
                proptest::prop_assert!(is_record_shaped(&bytes) || record.kind() == Kind::End);
            }
        }
    }
}
