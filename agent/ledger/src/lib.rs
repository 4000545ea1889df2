//! The ledger: exact counts of a device-day, with one encoding for device and collector.
//!
//! The agent adds frames, starts and exits to [`Sums`], keeps them in a file and closes them as a [`Part`].
//! The uploader sends the bytes of [`Part::encode`]; the collector reads them with [`Part::decode`] and adds
//! the sums of many devices with [`Sums::merge`]. Nothing here reads a clock or a file.
//! `docs/LEDGER.md` describes the use.
//!
//! # The bytes of a part
//!
//! Numbers are unsigned LEB128 in their shortest form. A text is its number of bytes, then UTF-8.
//!
//! | | |
//! |---|---|
//! | version | one byte, 1 |
//! | day, version code, part | days since 1970-01-01; `versionCode`; number of the part within day and version |
//! | segment | number of attributes, then name and value of each, by name |
//! | sums | observed s, stood still s, sessions, slow sessions, major faults, own cost µs, peak PSS KiB |
//! | starts | for cold, warm, hot: starts, slow starts, histogram of TTID in ms, histogram of TTFD in ms |
//! | exits | number of reasons, then reason and count of each, by reason; then the same of those that a user saw |
//! | rows | number of rows, then the rows by key |
//! | checksum | FNV-1a of all bytes before it, 64 bits, little-endian |
//!
//! A row is its key (screen, refresh rate in mHz, pipeline, source), frames, late, frozen (more than 700 ms), frames by
//! verdict of the compositor (not janky, app, compositor, other), and a histogram of the late frames' overrun in µs.
//! The codes of [`Pipeline`] and [`Source`] are the positions of their values, from 0.
//!
//! A histogram has 16 buckets for each power of two; values below 16 have a bucket each. It is the number of buckets
//! that are not empty, then for each of them `2 × count + g`. `g` is 1 if a number follows that says how many empty
//! buckets come before this one. The sum of all values ends a histogram that has a bucket. A count of 2^63 - 1 or more
//! is written as 2^63 - 1, with the rest as a number after the gap.
//!
//! A reader refuses a part that is larger than [`MAX_BYTES`], has bytes left over, a wrong checksum, or counts that no
//! frames can have: more late frames than frames, or a sum outside its buckets' bounds. Equal parts have equal
//! bytes. Merging adds (saturating), takes the maximum of the peak PSS, and is associative and commutative.

#![forbid(unsafe_code)]

mod codec;
mod counts;
mod histogram;
mod part;
mod row;
#[cfg(test)]
mod tests;

pub use codec::checksum;
pub use counts::Counts;
pub use histogram::Histogram;
pub use part::{Part, Start, StartType, Sums};
pub use row::{Pipeline, Row, RowKey, Source};

/// Bytes of an encoded part, at most.
pub const MAX_BYTES: usize = 64 << 10;
/// Rows of a part, at most.
pub const MAX_ROWS: usize = 64;
/// Bytes of the name of a screen, at most.
pub const MAX_SCREEN_BYTES: usize = 120;
/// Attributes of a segment, at most.
pub const MAX_ATTRIBUTES: usize = 4;
/// Bytes of the name or the value of an attribute, and of an exit's reason, at most.
pub const MAX_NAME_BYTES: usize = 64;
/// Reasons of exits, at most.
pub const MAX_REASONS: usize = 32;
/// Name that stands for all names beyond a limit.
pub const OTHER: &str = "other";

/// Returns `name`, cut to `bytes` at a character's boundary.
fn bounded(name: &str, bytes: usize) -> &str {
    &name[..name.floor_char_boundary(bytes)]
}
