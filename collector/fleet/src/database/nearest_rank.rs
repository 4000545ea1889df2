//! The SQL function `nearest_rank(value, count, percent)`: the smallest value of a group such that this share of the counts is at
//! values up to it.

use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use std::collections::BTreeMap;

struct NearestRank;

impl Aggregate<(BTreeMap<i64, i64>, i64), Option<i64>> for NearestRank {
    fn init(&self, context: &mut Context<'_>) -> rusqlite::Result<(BTreeMap<i64, i64>, i64)> {
        Ok((BTreeMap::new(), context.get(2)?))
    }

    fn step(
        &self,
        context: &mut Context<'_>,
        (counts, _): &mut (BTreeMap<i64, i64>, i64),
    ) -> rusqlite::Result<()> {
        *counts.entry(context.get(0)?).or_default() += context.get::<i64>(1)?;
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        group: Option<(BTreeMap<i64, i64>, i64)>,
    ) -> rusqlite::Result<Option<i64>> {
        let (counts, percent) = group.unwrap_or_default();
        let total: i64 = counts.values().sum();
        let mut so_far = 0;
        let reached = counts.into_iter().find(|(_, count)| {
            so_far += count;
            so_far.saturating_mul(100) >= total.saturating_mul(percent)
        });
        Ok(reached.map(|(value, _)| value))
    }
}

/// Makes the function known to a connection.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function("nearest_rank", 3, flags, NearestRank)
}
