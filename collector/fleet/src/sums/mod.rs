//! Sums of captures, from which reports are made: what a capture adds to each table of [`schema`].
//!
//! [`crate::database`] adds them up over all captures. All sums are whole numbers, so that a capture that is deleted is
//! subtracted exactly. `tests/fleet/tests/oracle.rs` compares reports made of them with queries over rows.

mod add;
pub mod bucket;
mod by_key;
mod contribution;
mod device;
mod examples;
mod fleet;
mod renamed;
pub(crate) mod row;
pub mod schema;

pub use by_key::{Sums, SumsByKey};
pub use contribution::Contribution;
pub use examples::{Examples, keep_best};
pub use fleet::of_device;
pub(crate) use renamed::Replaced;

pub(crate) use crate::table::MOST;

/// Days of devices that a part of a ledger adds to those of other parts: all, and those with an ANR that the user saw.
pub(crate) type Days = [bool; 2];

pub(crate) fn whole(value: u64) -> i64 {
    i64::try_from(value.min(MOST)).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
