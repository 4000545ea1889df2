//! The ledger: exact counts of a device-day, with one encoding for device and collector.
//!
//! The agent adds frames, starts and exits to [`Sums`], keeps them in a file and closes them as a [`Part`].
//! The uploader sends the bytes of [`Part::encode`]; the collector reads them with [`Part::decode`] and adds
//! the sums of many devices with [`Sums::merge`]. Nothing here reads a clock or a file.
//! `docs/LEDGER.md` describes the bytes.

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
