//! Tables of some of the captures, for reports since a time or of one version.
//!
//! Sums of all captures cannot be told apart by time and version: a device counts once, whichever captures it sent. So what each
//! selected capture has added to the sums is added again, to tables of their own in a temporary file, which SQLite deletes. A
//! report of them has the same queries, and is exact.

use super::changes::{contribution, read};
use super::rollups::{Changes, apply};
use super::tables::{self, NUMBER};
use super::{Database, SharedEnd};
use crate::error::Error;
use crate::rows::Value;
use crate::schema::{LOSSES, LossRow};
use crate::selection::Since;
use rusqlite::{Connection, params};

/// Captures whose sums are added up in memory.
const BATCH: usize = 2_000;

impl Database {
    /// Makes tables of the captures of an app that were made since a time, under a version. Loss reports have no version: with one,
    /// none is selected.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Damaged`].
    pub(crate) fn selected(
        &self,
        app: &str,
        since: Option<&Since>,
        ver: Option<&str>,
    ) -> Result<Self, Error> {
        let selected = Self::temporary(self.end.clone())?;
        let (day, ms) = since.map_or(("", 0), |since| (since.day(), since.ms));
        // The day of a device whose clock is wrong is that of the capture's arrival.
        let sql = format!(
            "SELECT {NUMBER} FROM captures WHERE app = ?1 AND (?2 IS NULL OR ver = ?2) \
             AND (dt > ?3 OR (dt = ?3 AND made_ms >= ?4)) ORDER BY {NUMBER}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let numbers: Vec<i64> = statement
            .query_map(params![app, ver, day, ms], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for batch in numbers.chunks(BATCH) {
            let mut changes = Changes::default();
            for &number in batch {
                self.end.check()?;
                let Some((capture, sums)) = contribution(&self.connection, number)? else {
                    continue;
                };
                changes.sums.merge(&sums, 1);
                changes.offer_examples(&capture, &sums);
            }
            selected.add(changes)?;
        }
        if ver.is_none() {
            let mut changes = Changes::default();
            let first = first_id(ms);
            let sql = format!(
                "{} AND (dt > ? OR (dt = ? AND report_id >= ?))",
                tables::reading(&LOSSES, "app")
            );
            let of = [app, day, day, &first].map(|text| Value::Text(text.into()));
            for loss in read::<LossRow>(&self.connection, &sql, &of)? {
                changes.sums.add_loss(&loss, 1);
            }
            selected.add(changes)?;
        }
        Ok(selected)
    }

    /// Makes empty tables in a temporary file. They have no digests.
    fn temporary(end: SharedEnd) -> Result<Self, Error> {
        let connection = Connection::open("")?;
        connection.pragma_update(None, "synchronous", "off")?;
        connection.pragma_update(None, "journal_mode", "off")?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "temp_store", "file")?;
        connection.set_prepared_statement_cache_capacity(super::STATEMENTS);
        connection.execute_batch(&tables::definitions())?;
        Self::of(connection, end)
    }

    fn add(&self, changes: Changes) -> Result<(), Error> {
        let transaction = self.connection.unchecked_transaction()?;
        apply(&transaction, changes)?;
        Ok(transaction.commit()?)
    }
}

/// The first id (UUIDv7) of a time.
fn first_id(ms: i64) -> String {
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
