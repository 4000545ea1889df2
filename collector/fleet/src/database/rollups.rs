//! Keeps the tables of sums: adds to them, or subtracts, what captures and loss reports change.

use super::changes::{contribution, read};
use super::tables::{self, NUMBER};
use crate::error::Error;
use crate::ledger::Histograms;
use crate::rows::{Ledger, Value};
use crate::schema::CaptureRow;
use crate::sums::schema::{
    CAUSE_EXAMPLES, CauseExample, DEVICE_ROLLUPS, DeviceRollup, FLEET_ROLLUPS, ROLLUPS,
};
use crate::sums::{Days, Examples, Sums, SumsByKey, keep_best, of_device};
use crate::table::{Rollup, TableRow, Text};
use rusqlite::{Statement, ToSql, Transaction, params_from_iter};
use std::collections::BTreeSet;

/// Changes of a transaction in the tables of sums.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Sums to add.
    pub(super) sums: Sums,
    histograms: Histograms,
    /// Captures that may be examples, by app, day and cause.
    offered: Examples,
    /// Deleted captures.
    withdrawn: BTreeSet<String>,
}

impl Changes {
    /// Adds a part of a ledger, or subtracts it if `sign` is -1.
    pub(super) fn add_ledger(&mut self, ledger: &Ledger, days: Days, sign: i64) {
        self.sums.add_ledger(&mut self.histograms, ledger, days, sign);
    }

    /// Takes a new capture's examples.
    pub(super) fn offer_examples(&mut self, capture: &CaptureRow, sums: &Sums) {
        self.offered.offer(capture, sums);
    }

    /// Takes a deleted capture.
    pub(super) fn withdraw_examples(&mut self, capture: &CaptureRow) {
        self.withdrawn.insert(capture.capture_id.to_string());
    }
}

/// Writes changes.
pub(super) fn apply(transaction: &Transaction<'_>, mut changes: Changes) -> Result<(), Error> {
    changes.histograms.flush(&mut changes.sums);
    for app in changes.sums.apps() {
        let sql =
            "INSERT INTO changes VALUES (?, 1) ON CONFLICT (app) DO UPDATE SET number = number + 1";
        transaction.prepare_cached(sql)?.execute([app.as_str()])?;
    }
    keep_examples(transaction, changes.offered, &changes.withdrawn)?;
    let mut sums = changes.sums;
    let of_devices = sums.take(&DEVICE_ROLLUPS);
    add_to_devices(transaction, &of_devices, &mut sums)?;
    for rollup in ROLLUPS.iter().chain(FLEET_ROLLUPS) {
        add(transaction, rollup, &sums.take(rollup))?;
    }
    Ok(())
}

/// Adds sums to a table, and deletes rows whose sums are zero.
fn add(
    transaction: &Transaction<'_>,
    rollup: &Rollup,
    sums: &[(Vec<Value>, Vec<i64>)],
) -> Result<(), Error> {
    let (insertion, deletion) = tables::addition(rollup);
    let mut insertion = transaction.prepare_cached(&insertion)?;
    let mut deletion = transaction.prepare_cached(&deletion)?;
    for (key, added) in sums {
        if added.iter().all(|&sum| sum == 0) {
            continue;
        }
        let values = key.iter().map(|value| value as &dyn ToSql);
        let values = values.chain(added.iter().map(|sum| sum as &dyn ToSql));
        insertion.execute(params_from_iter(values))?;
        if added.iter().any(|&sum| sum < 0) {
            deletion.execute(params_from_iter(key))?;
        }
    }
    Ok(())
}

/// Rows of a device that count in the sums over devices, the first by key: so many causes, screens and stacks has no
/// device that is not hostile.
const MOST_OF_DEVICE: usize = if cfg!(test) { 1000 } else { 10_000 };

/// Adds to the sums of devices, and puts into `sums` how that changes the sums over devices.
fn add_to_devices(
    transaction: &Transaction<'_>,
    changed: &SumsByKey,
    sums: &mut Sums,
) -> Result<(), Error> {
    let reading = format!(
        "{} ORDER BY kind, day, ver, screen, pipeline, cause, cause_key LIMIT {MOST_OF_DEVICE}",
        tables::selection(&DEVICE_ROLLUPS.table, 2)
    );
    for added in changed.chunk_by(|(a, _), (b, _)| a.get(..2) == b.get(..2)) {
        let Some(device) = added.first().and_then(|(key, _)| key.get(..2)) else { continue };
        let before = read::<DeviceRollup>(transaction, &reading, device)?;
        of_device(sums, &before, -1);
        add(transaction, &DEVICE_ROLLUPS, added)?;
        // With fewer rows than the limit, all of them are known.
        let after = if before.len() < MOST_OF_DEVICE {
            merged(before, added)?
        } else {
            read::<DeviceRollup>(transaction, &reading, device)?
        };
        of_device(sums, &after, 1);
    }
    Ok(())
}

/// Returns a device's rows with what was added to them, as the table has them.
fn merged(
    mut rows: Vec<DeviceRollup>,
    added: &[(Vec<Value>, Vec<i64>)],
) -> Result<Vec<DeviceRollup>, Error> {
    fn key(row: &DeviceRollup) -> [&Text; 7] {
        let DeviceRollup { kind, day, ver, screen, pipeline, cause, cause_key, .. } = row;
        [kind, day, ver, screen, pipeline, cause, cause_key]
    }
    for (key, sums) in added {
        let values = key.iter().cloned().chain(sums.iter().map(|&sum| Value::Int(sum))).collect();
        let row = DeviceRollup::from_values(values);
        rows.push(row.ok_or(Error::Damaged(DEVICE_ROLLUPS.table.name))?);
    }
    rows.sort_by(|a, b| key(a).cmp(&key(b)));
    rows.dedup_by(|next, sum| {
        let is_same = key(next) == key(sum);
        if is_same {
            *sum += next;
        }
        is_same
    });
    rows.retain(|row| [row.captures, row.captures_once] != [0; 2]);
    rows.truncate(MOST_OF_DEVICE);
    Ok(rows)
}

/// Keeps the best examples: merges new ones with those of the tables; makes those of a day anew if a deleted capture
/// was among them.
fn keep_examples(
    transaction: &Transaction<'_>,
    offered: Examples,
    withdrawn: &BTreeSet<String>,
) -> Result<(), Error> {
    let mut days: BTreeSet<(String, String)> = BTreeSet::new();
    let sql = "SELECT app, dt FROM cause_examples WHERE capture_id = ?";
    let mut affected = transaction.prepare_cached(sql)?;
    for capture in withdrawn {
        for day in affected.query_map([capture], |row| Ok((row.get(0)?, row.get(1)?)))? {
            days.insert(day?);
        }
    }
    let (insertion, _) = tables::addition(&CAUSE_EXAMPLES);
    let mut insertion = transaction.prepare_cached(&insertion)?;
    for (app, dt) in &days {
        let sql = "DELETE FROM cause_examples WHERE app = ? AND dt = ?";
        transaction.prepare_cached(sql)?.execute([app, dt])?;
        for (_, best) in examples_of_day(transaction, app, dt)?.by_cause() {
            insert_examples(&mut insertion, best)?;
        }
    }
    let reading = tables::selection(&CAUSE_EXAMPLES.table, CauseExample::CAUSE_KEYS);
    let deletion = tables::deletion(&CAUSE_EXAMPLES.table, CauseExample::CAUSE_KEYS);
    let mut deletion = transaction.prepare_cached(&deletion)?;
    for (key, mut best) in offered.by_cause() {
        let is_of = |day: &(String, String)| {
            key.iter().take(2).eq(&[Value::Text((&day.0).into()), Value::Text((&day.1).into())])
        };
        if days.iter().any(is_of) {
            continue;
        }
        let stored: Vec<CauseExample> = read(transaction, &reading, &key)?;
        best.extend(stored.iter().cloned());
        keep_best(&mut best);
        if best.iter().all(|example| stored.contains(example)) {
            continue;
        }
        deletion.execute(params_from_iter(&key))?;
        insert_examples(&mut insertion, best)?;
    }
    Ok(())
}

fn insert_examples(insertion: &mut Statement<'_>, best: Vec<CauseExample>) -> Result<(), Error> {
    for example in best {
        insertion.execute(params_from_iter(example.values()))?;
    }
    Ok(())
}

/// Makes the examples of an app's day anew.
fn examples_of_day(transaction: &Transaction<'_>, app: &str, dt: &str) -> Result<Examples, Error> {
    let mut all = Examples::default();
    let sql = format!("SELECT {NUMBER} FROM captures WHERE dt = ? AND app = ?");
    for number in super::all::<i64, Vec<_>>(transaction, &sql, [dt, app], |row| row.get(0))? {
        if let Some((capture, sums)) = contribution(transaction, number)? {
            all.offer(&capture, &sums);
        }
    }
    Ok(all)
}
