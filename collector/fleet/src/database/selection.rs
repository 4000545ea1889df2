//! Tables of some of the captures, for reports since a time, of one version, or of some devices.
//!
//! The store's sums are of all captures; they cannot be split by time, version or kind of device, because a device counts once
//! however many captures it sent. So the contributions of the selected captures are added up again, in tables of their own in a
//! temporary file, which SQLite deletes. A report of them has the same queries, and is exact.

use super::changes::{contribution, ledger, read};
use super::rollups::{Changes, apply};
use super::tables::{self, CHANCE, LEDGER_NUMBER, NUMBER};
use super::{Database, SharedEnd, quoted_text};
use crate::change::classes::class_of;
use crate::error::Error;
use crate::rows::Value;
use crate::schema::{CaptureRow, LOSSES, LossRow};
use crate::selection::Ask;
use crate::sums::Sums;
use rusqlite::{Connection, params};
use std::collections::HashSet;

/// Captures whose sums are added up in memory.
const BATCH: usize = 2_000;

/// Returns the `SELECT` of the source of an app's ledgers that has most frames, and its late frames, percent, as a text.
#[must_use]
pub fn late_of_ledgers(app: &str, version: Option<&str>) -> String {
    let rows = rows_of("ledger_frames", app, version);
    format!(
        "SELECT source, CAST(100.0 * sum(late) / sum(frames) AS TEXT) AS late {rows} GROUP BY source \
         HAVING sum(frames) > 0 ORDER BY sum(frames) DESC LIMIT 1"
    )
}

/// Returns the `SELECT` of an app's captures by schedule in a random order: id, device, key. Emulators and debuggable builds are
/// left out.
#[must_use]
pub fn scheduled(app: &str, version: Option<&str>) -> String {
    let rows = rows_of("captures", app, version);
    format!(
        "SELECT capture_id, device, raw_key {rows} AND cohort = 'time' AND NOT emulator AND NOT debuggable ORDER BY {CHANCE}"
    )
}

fn rows_of(table: &str, app: &str, version: Option<&str>) -> String {
    let of_version = version.map(|version| format!(" AND ver = {}", quoted_text(version)));
    format!("FROM {table} WHERE app = {}{}", quoted_text(app), of_version.unwrap_or_default())
}

impl Database {
    /// Makes tables of the captures and ledgers of an app that a report asks for, by time, version, API level and class of device, and
    /// returns the numbers of at most `most` of them, chosen by chance. Loss reports have the time alone: with another filter,
    /// none is selected.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Damaged`].
    pub(crate) fn selected(
        &self,
        app: &str,
        ask: &Ask,
        most: usize,
    ) -> Result<(Self, Vec<i64>), Error> {
        let selected = Self::temporary(self.end.clone())?;
        let (since, version) = (ask.since.as_ref(), ask.version.as_deref());
        let (api, class) = (ask.api, ask.class);
        let devices = class.map(|class| self.devices_of(app, class)).transpose()?;
        let (day, ms) = since.map_or(("", 0), |since| (since.day(), since.ms));
        // The day of a device whose clock is wrong is that of the capture's arrival.
        let sql = format!(
            "SELECT {NUMBER}, device, {CHANCE} FROM captures WHERE app = ?1 AND (?2 IS NULL OR ver = ?2) \
             AND (?5 IS NULL OR api = ?5) AND (dt > ?3 OR (dt = ?3 AND made_ms >= ?4)) ORDER BY {NUMBER}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows =
            statement.query(params![app, version, day, ms, api.map(u64::cast_signed)])?;
        let mut chances: Vec<(String, i64)> = Vec::new();
        while let Some(row) = rows.next()? {
            let device: String = row.get(1)?;
            if devices.as_ref().is_none_or(|devices| devices.contains(&device)) {
                chances.push((row.get(2)?, row.get(0)?));
            }
        }
        drop(rows);
        for batch in chances.chunks(BATCH) {
            let mut changes = Changes::default();
            self.read_captures(batch.iter().map(|one| one.1), |capture, sums| {
                changes.sums.merge(sums, 1);
                changes.offer_examples(capture, sums);
            })?;
            selected.add(changes)?;
        }
        // Of a ledger, the whole day of the time counts.
        let sql = format!(
            "SELECT {LEDGER_NUMBER}, device, ver, dt FROM ledger_days WHERE app = ?1 AND dt >= ?3 \
             AND (?2 IS NULL OR ver = ?2) AND (?4 IS NULL OR api = ?4) ORDER BY dt, ver, device"
        );
        let parameters = params![app, version, day, api.map(u64::cast_signed)];
        let found: Vec<(i64, [String; 3])> =
            super::all(&self.connection, &sql, parameters, |row| {
                Ok((row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?]))
            })?;
        let is_of = |name: &[String; 3]| devices.as_ref().is_none_or(|own| own.contains(&name[0]));
        let (mut changes, mut last, mut has_anr) = (Changes::default(), None, false);
        for (number, name) in found.iter().filter(|(_, name)| is_of(name)) {
            self.end.check()?;
            let Some(ledger) = ledger(&self.connection, *number)? else { continue };
            let is_first = last != Some(name);
            let had_anr = has_anr && !is_first;
            has_anr = had_anr || ledger.day.user_anrs > 0;
            changes.add_ledger(&ledger, [is_first, has_anr && !had_anr], 1);
            last = Some(name);
        }
        selected.add(changes)?;
        if ask.has_all_devices() {
            let mut changes = Changes::default();
            let first = first_id(ms);
            let sql = format!(
                "{} AND (dt > ? OR (dt = ? AND report_id >= ?))",
                tables::reading(&LOSSES, "app")
            );
            let parameters = [app, day, day, &first].map(|text| Value::Text(text.into()));
            for loss in read::<LossRow>(&self.connection, &sql, &parameters)? {
                changes.sums.add_loss(&loss, 1);
            }
            selected.add(changes)?;
        }
        if chances.len() > most {
            chances.select_nth_unstable(most);
        }
        Ok((selected, chances.into_iter().take(most).map(|one| one.1).collect()))
    }

    /// Returns the numbers of at most `most` captures of an app, chosen by chance.
    pub(crate) fn sample_captures(&self, app: &str, most: usize) -> Result<Vec<i64>, Error> {
        let sql = format!("SELECT {NUMBER} FROM captures WHERE app = ? ORDER BY {CHANCE} LIMIT ?");
        super::all(&self.connection, &sql, params![app, (most as u64).cast_signed()], |row| {
            row.get(0)
        })
    }

    /// Returns the keys and devices of the first captures of [`scheduled`], at most `most`.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn scheduled(
        &self,
        app: &str,
        version: Option<&str>,
        most: u32,
    ) -> Result<Vec<(String, String)>, Error> {
        let sql = format!("{} LIMIT ?", scheduled(app, version));
        super::all(&self.connection, &sql, [most], |row| Ok((row.get(2)?, row.get(1)?)))
    }

    /// Calls `take` with each of these captures and what it has added to the sums.
    pub(crate) fn read_captures(
        &self,
        numbers: impl IntoIterator<Item = i64>,
        mut take: impl FnMut(&CaptureRow, &Sums),
    ) -> Result<(), Error> {
        for number in numbers {
            self.end.check()?;
            if let Some((capture, sums)) = contribution(&self.connection, number)? {
                take(&capture, &sums);
            }
        }
        Ok(())
    }

    /// Returns the devices of an app that are of a class.
    fn devices_of(&self, app: &str, class: i32) -> Result<HashSet<String>, Error> {
        let sql = "SELECT device, sum(quick_ns), sum(frames) FROM device_traits WHERE app = ? GROUP BY device";
        let found: Vec<(String, i64, i64)> = super::all(&self.connection, sql, [app], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        let is_of = |(_, quick_ns, frames): &(String, i64, i64)| {
            class_of((quick_ns / frames.max(&1)).cast_unsigned()) == class
        };
        Ok(found.into_iter().filter(is_of).map(|(device, ..)| device).collect())
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
        Self::new(connection, end)
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
