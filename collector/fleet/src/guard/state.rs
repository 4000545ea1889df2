//! The guards' states in the collector's store: `guard.sqlite`, beside the tables.
//!
//! A file of its own, because the tables can be made anew from the captures and this state cannot: late captures, retention and
//! a rebuild do not change what devices have added. A look is one transaction: a guard that is killed has not looked, and the
//! next look gives the same answer. Devices are in it by a digest; `tracetee store forget` deletes that.

use super::fleet::{Fleet, digest};
use super::wealth::Wealth;
use super::{Digest, Evidence, Guard, Hypothesis, Part, Rejection, Series, Use};
use crate::error::Error;
use crate::table::Text;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the file's layout.
const VERSION: i64 = 1;
/// Time for which a guard waits for another one.
const PATIENCE: Duration = Duration::from_secs(30);

/// The layout, with the meaning of each column.
const LAYOUT: &str = "
CREATE TABLE guards ( -- Rollouts that are guarded.
  guard INTEGER PRIMARY KEY, -- Number of the guard in the other tables.
  app TEXT NOT NULL, -- Package name.
  from_ver TEXT NOT NULL, -- The earlier version.
  to_ver TEXT NOT NULL, -- The later version.
  segment TEXT NOT NULL, -- Devices that are looked at, as --segment says; empty for all.
  first INTEGER NOT NULL, -- Number of series at the first look.
  early INTEGER NOT NULL, -- First devices of the later version, compared as pairs only.
  UNIQUE (app, from_ver, to_ver, segment)
);
CREATE TABLE classes ( -- Classes of devices at the first look.
  guard INTEGER NOT NULL, class INTEGER NOT NULL, PRIMARY KEY (guard, class)
) WITHOUT ROWID;
CREATE TABLE series ( -- Causes on screens.
  guard INTEGER NOT NULL,
  series INTEGER NOT NULL, -- Place in the order of discovery.
  screen TEXT, -- Screen; NULL for all.
  cause TEXT NOT NULL, -- Cause; empty for all jank.
  cause_key TEXT NOT NULL, -- Key of the cause.
  PRIMARY KEY (guard, series)
) WITHOUT ROWID;
CREATE TABLE evidence ( -- Evidence against: the later version has not more of this.
  guard INTEGER NOT NULL,
  is_paired INTEGER NOT NULL, -- 1 for devices that sent both versions, 0 for devices with one like each.
  class INTEGER, -- Class of the devices; NULL for all.
  series INTEGER NOT NULL,
  log_wealth REAL NOT NULL, -- Natural logarithm of the wealth.
  bets INTEGER NOT NULL, sum REAL NOT NULL, squares REAL NOT NULL, -- Observations between 0 and 1.
  differences INTEGER NOT NULL, difference_squares REAL NOT NULL, -- Differences other than 0, clipped.
  devices INTEGER NOT NULL, rise REAL NOT NULL, earlier REAL NOT NULL, -- Sums over devices, ms in 1000 frames.
  rejected_day TEXT, rejected_devices INTEGER, rejected_rise REAL, rejected_squares REAL, -- When it was rejected; NULL if it was not.
  later_days INTEGER, last_day TEXT, -- Days with devices since.
  UNIQUE (guard, is_paired, class, series)
);
CREATE TABLE devices ( -- Devices that have been taken.
  guard INTEGER NOT NULL,
  use INTEGER NOT NULL, -- 0 as a pair, 1 as a stranger of the earlier version, 2 of the later one, 3 as one of its first.
  device BLOB NOT NULL, -- First 16 bytes of the SHA-256 of the install id.
  PRIMARY KEY (guard, use, device)
) WITHOUT ROWID;
CREATE INDEX device_of_guards ON devices (device);
";

const USES: [(Use, i64); 4] = [(Use::Pair, 0), (Use::Earlier, 1), (Use::Later, 2), (Use::Early, 3)];

/// Name of a rollout that is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollout<'a> {
    /// Package name.
    pub app: &'a str,
    /// The earlier version.
    pub from: &'a str,
    /// The later version.
    pub to: &'a str,
    /// The devices that are looked at; empty for all.
    pub segment: &'a str,
}

/// Returns the path of the file in a store.
#[must_use]
pub fn path(store: &Path) -> PathBuf {
    store.join("guard.sqlite")
}

fn open(path: &Path) -> Result<Connection, Error> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    // A forgotten device's digest is overwritten.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "synchronous", "full")?;
    Ok(connection)
}

/// Takes the devices that have come since the last look, and keeps the state. Returns it, and the fleet that was read while no
/// other guard looked.
///
/// # Errors
/// [`Error::Sqlite`], and those of `read`: nothing was taken.
pub fn look(
    path: &Path,
    rollout: Rollout<'_>,
    read: impl FnOnce() -> Result<Fleet, Error>,
) -> Result<(Guard, Fleet), Error> {
    let mut connection = open(path).map_err(Error::of_guards)?;
    let (transaction, (number, mut guard)) =
        begin(&mut connection, path, rollout).map_err(Error::of_guards)?;
    let fleet = read()?;
    let known = guard.series.len();
    guard.look(&fleet);
    save(&transaction, rollout, number, known, &guard).map_err(Error::of_guards)?;
    transaction.commit().map_err(|error| Error::from(error).of_guards())?;
    guard.changed = super::Changed::default();
    Ok((guard, fleet))
}

fn begin<'a>(
    connection: &'a mut Connection,
    path: &Path,
    rollout: Rollout<'_>,
) -> Result<(Transaction<'a>, (Option<i64>, Guard)), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match transaction.query_row("PRAGMA user_version", [], |row| row.get(0))? {
        0 => {
            transaction.execute_batch(LAYOUT)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        found => return Err(Error::Guard { path: path.to_owned(), found }),
    }
    let loaded = load(&transaction, rollout)?;
    Ok((transaction, loaded))
}

/// Checks that the file is not damaged.
///
/// # Errors
/// [`Error::GuardDamage`], and [`Error::Sqlite`] if the file cannot be read.
pub fn check(path: &Path) -> Result<(), Error> {
    let look = || -> Result<(), Error> {
        let found: String = open(path)?.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found == "ok" {
            return Ok(());
        }
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        Err(rusqlite::Error::SqliteFailure(code, Some(found)).into())
    };
    if path.exists() { look().map_err(Error::of_guards) } else { Ok(()) }
}

/// Deletes a device from all guards' states. What it has added to sums over devices stays.
///
/// # Errors
/// [`Error::Sqlite`].
pub fn forget(path: &Path, device: &str) -> Result<(), Error> {
    let sql = "DELETE FROM devices WHERE device = ?";
    let delete = || -> Result<(), Error> {
        open(path)?.execute(sql, [digest(device)])?;
        Ok(())
    };
    if path.exists() { delete().map_err(Error::of_guards) } else { Ok(()) }
}

fn load(transaction: &Transaction<'_>, of: Rollout<'_>) -> Result<(Option<i64>, Guard), Error> {
    let mut guard = Guard::default();
    let sql = "SELECT guard, first, early FROM guards WHERE app = ? AND from_ver = ? AND to_ver = ? AND segment = ?";
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let found = transaction.query_row(sql, [of.app, of.from, of.to, of.segment], row).optional()?;
    let Some((number, first, early)) = found else { return Ok((None, guard)) };
    (guard.first, guard.early) = (first.unsigned_abs(), early.unsigned_abs());
    let mut rows =
        transaction.prepare("SELECT class FROM classes WHERE guard = ? ORDER BY class")?;
    guard.classes = rows.query_map([number], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let sql = "SELECT screen, cause, cause_key FROM series WHERE guard = ? ORDER BY series";
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        let screen: Option<String> = row.get(0)?;
        guard.place(&Series {
            screen: screen.map(Text::from),
            cause: text(row, 1)?,
            key: text(row, 2)?,
        });
    }
    let sql = "SELECT is_paired, class, series, log_wealth, bets, sum, squares, differences, difference_squares, \
               devices, rise, earlier, rejected_day, rejected_devices, rejected_rise, rejected_squares, later_days, last_day \
               FROM evidence WHERE guard = ?";
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        let part = if row.get(0)? { Part::Pairs } else { Part::Strangers };
        let hypothesis = Hypothesis { part, class: row.get(1)?, series: row.get(2)? };
        guard.evidence.insert(hypothesis, evidence(row)?);
    }
    let mut statement = transaction.prepare("SELECT use, device FROM devices WHERE guard = ?")?;
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        let (use_number, device): (i64, Digest) = (row.get(0)?, row.get(1)?);
        let found = USES.iter().find(|of| of.1 == use_number).map(|of| (of.0, device));
        guard.used.extend(found);
    }
    Ok((Some(number), guard))
}

fn text(row: &Row<'_>, column: usize) -> Result<Text, Error> {
    Ok(row.get::<_, String>(column)?.into())
}

fn count(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    Ok(row.get::<_, i64>(column)?.unsigned_abs())
}

fn evidence(row: &Row<'_>) -> Result<Evidence, Error> {
    let rejection = match row.get::<_, Option<String>>(12)? {
        None => None,
        Some(day) => Some(Rejection {
            day: day.into(),
            devices: count(row, 13)?,
            sum: row.get(14)?,
            squares: row.get(15)?,
            later_days: count(row, 16)?,
            last_day: text(row, 17)?,
        }),
    };
    let wealth = Wealth {
        log: row.get(3)?,
        bets: count(row, 4)?,
        sum: row.get(5)?,
        squares: row.get(6)?,
        differences: count(row, 7)?,
        difference_squares: row.get(8)?,
    };
    let (devices, sum, earlier) = (count(row, 9)?, row.get(10)?, row.get(11)?);
    Ok(Evidence { wealth, devices, sum, earlier, rejection })
}

fn save(
    transaction: &Transaction<'_>,
    of: Rollout<'_>,
    number: Option<i64>,
    known: usize,
    guard: &Guard,
) -> Result<(), Error> {
    let integer = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let number = if let Some(number) = number {
        number
    } else {
        let sql = "INSERT INTO guards (app, from_ver, to_ver, segment, first, early) VALUES (?, ?, ?, ?, ?, 0)";
        let first = integer(guard.first);
        transaction.execute(sql, params![of.app, of.from, of.to, of.segment, first])?;
        let number = transaction.last_insert_rowid();
        for class in &guard.classes {
            transaction.execute("INSERT INTO classes VALUES (?, ?)", params![number, class])?;
        }
        number
    };
    let early = integer(guard.early);
    transaction.execute("UPDATE guards SET early = ? WHERE guard = ?", [early, number])?;
    let mut insertion = transaction.prepare("INSERT INTO series VALUES (?, ?, ?, ?, ?)")?;
    for (place, series) in guard.series.iter().enumerate().skip(known) {
        let Series { screen, cause, key } = series;
        let place = integer(place as u64);
        insertion.execute(params![
            number,
            place,
            screen.as_deref(),
            cause.as_str(),
            key.as_str()
        ])?;
    }
    // NULL is no key of a conflict: delete, then insert.
    let sql =
        "DELETE FROM evidence WHERE guard = ? AND is_paired = ? AND class IS ? AND series = ?";
    let mut deletion = transaction.prepare(sql)?;
    let sql =
        "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let mut insertion = transaction.prepare(sql)?;
    for hypothesis in &guard.changed.evidence {
        let Some(evidence) = guard.evidence.get(hypothesis) else { continue };
        let Hypothesis { part, class, series } = *hypothesis;
        let is_paired = part == Part::Pairs;
        let Evidence { wealth, devices, sum, earlier, rejection } = evidence;
        let rejection = rejection.as_ref();
        deletion.execute(params![number, is_paired, class, series])?;
        insertion.execute(params![
            number,
            is_paired,
            class,
            series,
            wealth.log,
            integer(wealth.bets),
            wealth.sum,
            wealth.squares,
            integer(wealth.differences),
            wealth.difference_squares,
            integer(*devices),
            sum,
            earlier,
            rejection.map(|of| of.day.as_str()),
            rejection.map(|of| integer(of.devices)),
            rejection.map(|of| of.sum),
            rejection.map(|of| of.squares),
            rejection.map(|of| integer(of.later_days)),
            rejection.map(|of| of.last_day.as_str()),
        ])?;
    }
    let mut insertion = transaction.prepare("INSERT INTO devices VALUES (?, ?, ?)")?;
    for &(mark, device) in &guard.changed.used {
        let place = USES.iter().find(|of| of.0 == mark).map_or(0, |of| of.1);
        insertion.execute(params![number, place, device])?;
    }
    Ok(())
}
