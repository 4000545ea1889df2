//! Rows of sums as they are added up: numbers, in arrays of one size for all tables.

use super::schema::{FLEET_ROLLUPS, ROLLUPS};
use crate::table::Rollup;

/// Largest number of key columns, and of sums, of a table.
pub(crate) const MOST_KEYS: usize = MOST.0;
pub(crate) const MOST_SUMS: usize = MOST.1;
const MOST: (usize, usize) = most(FLEET_ROLLUPS, most(ROLLUPS, (0, 0)));

const fn most(mut rollups: &[Rollup], (mut keys, mut sums): (usize, usize)) -> (usize, usize) {
    while let [Rollup { table, keys: count }, rest @ ..] = rollups {
        if *count > keys {
            keys = *count;
        }
        if table.columns.len() - *count > sums {
            sums = table.columns.len() - *count;
        }
        rollups = rest;
    }
    (keys, sums)
}

/// Codes of the key columns, then zeros.
pub(crate) type Key = [u64; MOST_KEYS];
/// Sums, then zeros.
pub(crate) type Added = [i64; MOST_SUMS];

/// A row that is a sum, with numbers for its texts: the leading columns identify it, the others are added up.
pub(crate) trait RollupRow {
    /// The table.
    const ROLLUP: Rollup;

    /// The codes of the identifying columns.
    fn key(&self) -> Key;

    /// The values of the others.
    fn sums(&self) -> Added;

    /// The row of these codes and values.
    fn of_codes(key: &Key, sums: &Added) -> Self;
}
