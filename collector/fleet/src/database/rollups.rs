//! Keeps the tables of sums: adds to them, or subtracts, what captures and loss reports change.

use super::changes::read;
use super::tables::{self, NUMBER};
use crate::error::Error;
use crate::rollup::schema::{
    CAUSE_EXAMPLES, CauseExample, DEVICE_ROLLUPS, DeviceRollup, FLEET_ROLLUPS, ROLLUPS,
};
use crate::rollup::{Sums, SumsByKey, examples, keep_best, of_device};
use crate::rows::{Rows, Value};
use crate::schema::{CAPTURES, FRAME_SLICES};
use crate::table::{Rollup, TableRow};
use rusqlite::{Transaction, params_from_iter};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction changes in the tables of sums.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Sums to add.
    pub(super) sums: Sums,
    /// Captures that may be examples, by app, day and cause.
    offered: BTreeMap<Vec<Value>, Vec<CauseExample>>,
    /// Deleted captures.
    withdrawn: BTreeSet<String>,
}

impl Changes {
    /// Takes a new capture's examples.
    pub(super) fn offer_examples(&mut self, rows: &Rows) {
        for example in examples(rows) {
            let best = self.offered.entry(example.cause_of()).or_default();
            best.push(example);
            keep_best(best);
        }
    }

    /// Takes a deleted capture.
    pub(super) fn withdraw_examples(&mut self, rows: &Rows) {
        self.withdrawn.extend(rows.capture.iter().map(|capture| capture.capture_id.clone()));
    }
}

/// Writes changes.
pub(super) fn apply(transaction: &Transaction<'_>, mut changes: Changes) -> Result<(), Error> {
    let apps = changed_apps(&mut changes);
    for app in apps {
        let sql =
            "INSERT INTO changes VALUES (?, 1) ON CONFLICT (app) DO UPDATE SET number = number + 1";
        transaction.prepare_cached(sql)?.execute([app])?;
    }
    keep_examples(transaction, changes.offered, &changes.withdrawn)?;
    let mut sums = changes.sums;
    let of_devices = sums.take(DEVICE_ROLLUPS.table.name);
    add_to_devices(transaction, of_devices, &mut sums)?;
    for rollup in ROLLUPS.iter().chain(FLEET_ROLLUPS) {
        add(transaction, rollup, sums.take(rollup.table.name))?;
    }
    Ok(())
}

/// The apps with changed sums: the first column of each key.
fn changed_apps(changes: &mut Changes) -> BTreeSet<String> {
    let keys = changes.sums.keys().chain(changes.offered.keys());
    keys.filter_map(|key| match key.first() {
        Some(Value::Text(app)) => Some(app.clone()),
        _ => None,
    })
    .collect()
}

/// Adds sums to a table, and deletes rows whose sums are zero.
fn add(transaction: &Transaction<'_>, rollup: &Rollup, sums: SumsByKey) -> Result<(), Error> {
    let (insertion, deletion) = tables::addition(rollup);
    let mut insertion = transaction.prepare_cached(&insertion)?;
    let mut deletion = transaction.prepare_cached(&deletion)?;
    for (key, added) in sums {
        if added.iter().all(|&sum| sum == 0) {
            continue;
        }
        let is_less = added.iter().any(|&sum| sum < 0);
        let values = key.iter().cloned().chain(added.into_iter().map(Value::Int));
        insertion.execute(params_from_iter(values))?;
        if is_less {
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
    changed: SumsByKey,
    sums: &mut Sums,
) -> Result<(), Error> {
    let mut by_device: BTreeMap<Vec<Value>, SumsByKey> = BTreeMap::new();
    for (key, added) in changed {
        let device = key.iter().take(2).cloned().collect();
        by_device.entry(device).or_default().insert(key, added);
    }
    let reading = format!(
        "{} ORDER BY kind, day, ver, screen, pipeline, cause, cause_key LIMIT {MOST_OF_DEVICE}",
        tables::reading_of_device()
    );
    for (device, added) in by_device {
        of_device(sums, &read::<DeviceRollup>(transaction, &reading, &device)?, -1);
        add(transaction, &DEVICE_ROLLUPS, added)?;
        of_device(sums, &read::<DeviceRollup>(transaction, &reading, &device)?, 1);
    }
    Ok(())
}

/// Keeps the best examples: merges new ones with those of the tables; makes those of a day anew if a deleted capture
/// was among them.
fn keep_examples(
    transaction: &Transaction<'_>,
    offered: BTreeMap<Vec<Value>, Vec<CauseExample>>,
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
    for (app, dt) in &days {
        let sql = "DELETE FROM cause_examples WHERE app = ? AND dt = ?";
        transaction.prepare_cached(sql)?.execute([app, dt])?;
        for best in examples_of_day(transaction, app, dt)?.into_values() {
            insert_examples(transaction, best)?;
        }
    }
    let reading = tables::reading_of_examples(CauseExample::CAUSE_KEYS);
    let mut deletion =
        transaction.prepare_cached(&tables::deletion_of_examples(CauseExample::CAUSE_KEYS))?;
    for (key, mut best) in offered {
        let is_of = |day: &(String, String)| {
            key.iter().take(2).eq(&[Value::Text(day.0.clone()), Value::Text(day.1.clone())])
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
        insert_examples(transaction, best)?;
    }
    Ok(())
}

fn insert_examples(transaction: &Transaction<'_>, best: Vec<CauseExample>) -> Result<(), Error> {
    let (insertion, _) = tables::addition(&CAUSE_EXAMPLES);
    let mut insertion = transaction.prepare_cached(&insertion)?;
    for example in best {
        insertion.execute(params_from_iter(example.values()))?;
    }
    Ok(())
}

/// Makes the examples of an app's day from its rows.
fn examples_of_day(
    transaction: &Transaction<'_>,
    app: &str,
    dt: &str,
) -> Result<BTreeMap<Vec<Value>, Vec<CauseExample>>, Error> {
    let mut all = Changes::default();
    let sql = format!("SELECT {NUMBER} FROM captures_rows WHERE dt = ? AND app = ?");
    let mut captures = transaction.prepare_cached(&sql)?;
    let mut found = captures.query([dt, app])?;
    while let Some(row) = found.next()? {
        let number = [Value::Int(row.get(0)?)];
        let capture = read(transaction, &tables::reading(&CAPTURES), &number)?.pop();
        let frame_slices = read(transaction, &tables::reading(&FRAME_SLICES), &number)?;
        all.offer_examples(&Rows { capture, frame_slices, ..Rows::default() });
    }
    Ok(all.offered)
}
