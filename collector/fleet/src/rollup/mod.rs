//! Sums of captures, from which reports are made: what a capture adds to each table of [`schema`].
//!
//! The sums of captures are added up, in SQLite ([`crate::database`]) over all captures and in Parquet
//! ([`crate::parquet`]) over those of a part. All sums are whole numbers, so that a capture that is deleted is
//! subtracted exactly. `sql/rollups.sql` defines the same sums over the row tables.

pub mod bucket;
mod capture;
mod device;
mod examples;
mod fleet;
pub mod schema;
mod sums;

pub use examples::{Examples, keep_best};
pub use fleet::of_device;
pub use sums::{Sums, SumsByKey};

/// Largest value that is added, so that no device makes a sum overflow: 19 hours in nanoseconds.
const MOST: u64 = 1 << 46;

fn whole(value: u64) -> i64 {
    i64::try_from(value.min(MOST)).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
