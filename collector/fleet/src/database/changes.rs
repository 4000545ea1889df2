//! Inserts and deletes captures and reports, with what they add to the sums, in one transaction each.

use super::digests;
use super::name_limits::Names;
use super::rollups::{Changes, apply};
use super::tables::{self, ANALYZED_BY, CONTRIBUTIONS, LEDGER_CONTENTS, LEDGER_NUMBER, NUMBER};
use super::{Database, all, value};
use crate::error::Error;
use crate::object_keys::{ReportKey, ReportKind};
use crate::rows::Ledger;
use crate::rows::{Rows, Value};
use crate::schema::{
    ANALYSIS, CAPTURES, CaptureRow, LEDGER_DAYS, LOSSES, LedgerDayRow, LossRow, Text,
};
use crate::sums::{Contribution, Days, Sums};
use crate::table::TableRow;
use rusqlite::{
    Connection, OptionalExtension, Transaction, TransactionBehavior, params, params_from_iter,
};
use std::collections::BTreeSet;

impl Database {
    /// Does something in a transaction that writes, so that nobody else writes between its reads and its writes.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Names, &mut Changes) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Self { connection, names, changed, .. } = self;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut changes = Changes::default();
        let written = work(&transaction, names, &mut changes)
            .and_then(|done| apply(&transaction, changes).map(|()| done))
            .and_then(|done| digests::flush(&transaction, changed).map(|()| done))
            .and_then(|done| Ok(transaction.commit().map(|()| done)?));
        if written.is_err() {
            changed.clear();
            // The table does not have those that were added.
            *names = Names::default();
        }
        written
    }

    /// Inserts captures and reports in one transaction. Skips those that are already there, but replaces what an older
    /// version of the analysis made.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was inserted.
    pub fn insert(&mut self, all: &[Rows]) -> Result<(), Error> {
        let all: Vec<Contribution> = all.iter().map(Contribution::from).collect();
        self.insert_stored(&all, &|_| true).map(drop)
    }

    /// As [`Database::insert`], but skips what `is_stored` denies. It is asked within the transaction: who deletes a
    /// file and then its rows leaves no rows. Returns for each whether it was inserted: not if it was there already.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was inserted.
    pub fn insert_stored(
        &mut self,
        all: &[Contribution],
        is_stored: &dyn Fn(&Contribution) -> bool,
    ) -> Result<Vec<bool>, Error> {
        self.write(|transaction, names, changes| {
            let inserted = all.iter().map(|new| {
                Ok(is_stored(new) && insert_contribution(transaction, names, new, changes)?)
            });
            inserted.collect()
        })
    }

    /// Replaces captures in one transaction, and skips those that are not there.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was replaced.
    pub fn replace(&mut self, all: &[Contribution]) -> Result<(), Error> {
        self.write(|transaction, names, changes| {
            for contribution in all {
                let Some(capture) = &contribution.capture else { continue };
                for number in numbers(transaction, "raw_key", &capture.raw_key)? {
                    delete_capture(transaction, number, changes)?;
                    let contribution = names.limit(transaction, contribution)?;
                    insert_capture(transaction, &contribution, changes)?;
                }
            }
            Ok(())
        })
    }

    /// Deletes captures by their raw keys.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing was deleted.
    pub fn delete(&mut self, raw_keys: &[String]) -> Result<(), Error> {
        self.write(|transaction, names, changes| {
            let mut days = BTreeSet::new();
            for key in raw_keys {
                for number in numbers(transaction, "raw_key", key)? {
                    let deleted = delete_capture(transaction, number, changes)?;
                    days.extend(deleted.map(|capture| (capture.app, capture.dt)));
                }
            }
            names.remove(transaction, &days)
        })
    }

    /// Deletes reports.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing was deleted.
    pub fn delete_reports(&mut self, keys: &[ReportKey]) -> Result<(), Error> {
        self.write(|transaction, names, changes| {
            let mut days = BTreeSet::new();
            for key in keys {
                let (_, column) = tables::of_reports(key.kind);
                match key.kind {
                    ReportKind::Losses => delete_losses(transaction, column, &key.name, changes)?,
                    ReportKind::Ledger => {
                        days.extend(delete_ledgers(transaction, column, &key.name, changes)?);
                    }
                }
            }
            names.remove(transaction, &days)
        })
    }

    /// Deletes the reports of a device.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn delete_reports_of(&mut self, device: &str) -> Result<(), Error> {
        self.write(|transaction, _, changes| {
            delete_losses(transaction, "device", device, changes)?;
            delete_ledgers(transaction, "device", device, changes).map(drop)
        })
    }
}

/// The numbers of the captures with this value in a column.
fn numbers(transaction: &Transaction<'_>, column: &str, value: &str) -> Result<Vec<i64>, Error> {
    let sql = format!("SELECT {NUMBER} FROM captures WHERE {column} = ?");
    all(transaction, &sql, [value], |row| row.get(0))
}

fn delete_losses(
    transaction: &Transaction<'_>,
    column: &str,
    value: &str,
    changes: &mut Changes,
) -> Result<(), Error> {
    let reading = tables::reading(&LOSSES, column);
    for loss in read::<LossRow>(transaction, &reading, &[Value::Text(value.into())])? {
        changes.sums.add_loss(&loss, -1);
    }
    let sql = format!("DELETE FROM losses WHERE {column} = ?");
    transaction.prepare_cached(&sql)?.execute([value])?;
    Ok(())
}

/// Deletes the parts of ledgers with this value in a column. Returns their apps and days.
fn delete_ledgers(
    transaction: &Transaction<'_>,
    column: &str,
    value: &str,
    changes: &mut Changes,
) -> Result<BTreeSet<(Text, Text)>, Error> {
    let mut days = BTreeSet::new();
    let sql = format!("SELECT {LEDGER_NUMBER} FROM ledger_days WHERE {column} = ?");
    for number in all::<i64, Vec<_>>(transaction, &sql, [value], |row| row.get(0))? {
        let Some(ledger) = ledger(transaction, number)? else { continue };
        changes.add_ledger(&ledger, days_of(transaction, number, &ledger.day)?, -1);
        for table in ["ledger_days", LEDGER_CONTENTS] {
            let sql = format!("DELETE FROM {table} WHERE {LEDGER_NUMBER} = ?");
            transaction.prepare_cached(&sql)?.execute([number])?;
        }
        days.insert((ledger.day.app, ledger.day.dt));
    }
    Ok(days)
}

/// Reads a part of a ledger.
pub(super) fn ledger(transaction: &Connection, number: i64) -> Result<Option<Ledger>, Error> {
    let reading = tables::reading(&LEDGER_DAYS, LEDGER_NUMBER);
    let Some(day) = read(transaction, &reading, &[Value::Int(number)])?.pop() else {
        return Ok(None);
    };
    let sql = format!("SELECT content FROM {LEDGER_CONTENTS} WHERE {LEDGER_NUMBER} = ?");
    let mut statement = transaction.prepare_cached(&sql)?;
    let packed: Option<Vec<u8>> = statement.query_row([number], |row| row.get(0)).optional()?;
    let ledger = packed.and_then(|packed| Ledger::unpack(day, &packed));
    ledger.map(Some).ok_or(Error::Damaged(LEDGER_CONTENTS))
}

/// Returns the days of devices that a part adds to those of the others that are there.
fn days_of(transaction: &Connection, number: i64, row: &LedgerDayRow) -> Result<Days, Error> {
    let sql = format!(
        "SELECT count(*) = 0, ifnull(max(user_anrs), 0) = 0 FROM ledger_days \
         WHERE app = ? AND dt = ? AND ver = ? AND device = ? AND {LEDGER_NUMBER} <> ?"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let LedgerDayRow { app, dt, ver, device, user_anrs, .. } = row;
    let key = params![app.as_str(), dt.as_str(), ver.as_str(), device.as_str(), number];
    Ok(statement.query_row(key, |found| Ok([found.get(0)?, *user_anrs > 0 && found.get(1)?]))?)
}

/// Inserts a part of a ledger. Returns false if it was there already.
fn insert_ledger(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    changes: &mut Changes,
) -> Result<bool, Error> {
    if !insert(transaction, &ledger.day)? {
        return Ok(false);
    }
    let number = transaction.last_insert_rowid();
    let sql = format!("INSERT INTO {LEDGER_CONTENTS} VALUES (?, ?)");
    transaction.prepare_cached(&sql)?.execute((number, ledger.pack()))?;
    changes.add_ledger(ledger, days_of(transaction, number, &ledger.day)?, 1);
    Ok(true)
}

/// Inserts a capture or a report. Returns false if it was there already.
fn insert_contribution(
    transaction: &Transaction<'_>,
    names: &mut Names,
    contribution: &Contribution,
    changes: &mut Changes,
) -> Result<bool, Error> {
    let mut is_new = false;
    if contribution.capture.is_some() {
        let contribution = names.limit(transaction, contribution)?;
        is_new = insert_capture(transaction, &contribution, changes)?;
    }
    for loss in &contribution.losses {
        let loss = names.limit_loss(transaction, loss)?;
        if insert(transaction, &*loss)? {
            changes.sums.add_loss(&loss, 1);
            is_new = true;
        }
    }
    if let Some(ledger) = &contribution.ledger {
        let ledger = names.limit_ledger(transaction, ledger)?;
        is_new |= insert_ledger(transaction, &ledger, changes)?;
    }
    Ok(is_new)
}

fn insert_capture(
    transaction: &Transaction<'_>,
    contribution: &Contribution,
    changes: &mut Changes,
) -> Result<bool, Error> {
    let Some(capture) = &contribution.capture else { return Ok(false) };
    if !insert(transaction, capture)? {
        let sql = format!(
            "SELECT {NUMBER} FROM captures WHERE capture_id = ?1 AND {ANALYZED_BY} < {ANALYSIS} \
             AND substr(raw_key, 1, instr(raw_key, '/dt=')) = substr(?2, 1, instr(?2, '/dt='))"
        );
        let mut statement = transaction.prepare_cached(&sql)?;
        let outdated: Option<i64> = statement
            .query_row([&*capture.capture_id, &*capture.raw_key], |row| row.get(0))
            .optional()?;
        let Some(number) = outdated else { return Ok(false) };
        delete_capture(transaction, number, changes)?;
        insert(transaction, capture)?;
    }
    let number = transaction.last_insert_rowid();
    let sql = format!("INSERT INTO {CONTRIBUTIONS} VALUES (?, ?)");
    transaction.prepare_cached(&sql)?.execute((number, contribution.sums.pack()))?;
    if let Some(other) = &contribution.other_device {
        let sql = "INSERT INTO other_devices VALUES (?, ?)";
        transaction.prepare_cached(sql)?.execute((number, other.as_str()))?;
    }
    changes.sums.merge(&contribution.sums, 1);
    changes.offer_examples(capture, &contribution.sums);
    Ok(true)
}

/// Inserts a row of `captures` or of reports, unless it is there. Returns true if it was inserted.
fn insert<R: TableRow>(transaction: &Transaction<'_>, row: &R) -> Result<bool, Error> {
    let mut statement = transaction.prepare_cached(tables::insertion(&R::TABLE))?;
    Ok(statement.execute(params_from_iter(row.values()))? == 1)
}

fn delete_capture(
    transaction: &Transaction<'_>,
    number: i64,
    changes: &mut Changes,
) -> Result<Option<CaptureRow>, Error> {
    let Some((capture, sums)) = contribution(transaction, number)? else { return Ok(None) };
    changes.sums.merge(&sums, -1);
    changes.withdraw_examples(&capture);
    for table in ["captures", CONTRIBUTIONS, "other_devices"] {
        let sql = format!("DELETE FROM {table} WHERE {NUMBER} = ?");
        transaction.prepare_cached(&sql)?.execute([number])?;
    }
    Ok(Some(capture))
}

/// Reads a capture and what it has added to the sums.
pub(super) fn contribution(
    transaction: &Connection,
    number: i64,
) -> Result<Option<(CaptureRow, Sums)>, Error> {
    let reading = tables::reading(&CAPTURES, NUMBER);
    let Some(capture) = read(transaction, &reading, &[Value::Int(number)])?.pop() else {
        return Ok(None);
    };
    let sql = format!("SELECT sums FROM {CONTRIBUTIONS} WHERE {NUMBER} = ?");
    let mut statement = transaction.prepare_cached(&sql)?;
    let packed: Option<Vec<u8>> = statement.query_row([number], |row| row.get(0)).optional()?;
    let sums = packed.and_then(|packed| Sums::unpack(&packed));
    Ok(Some((capture, sums.ok_or(Error::Damaged(CONTRIBUTIONS))?)))
}

/// Reads all rows that a statement gives for these values.
pub(super) fn read<R: TableRow>(
    transaction: &Connection,
    sql: &str,
    parameters: &[Value],
) -> Result<Vec<R>, Error> {
    let rows: Vec<Option<R>> = all(transaction, sql, params_from_iter(parameters), |row| {
        let width = row.as_ref().column_count();
        let values = (0..width).map(|index| row.get_ref(index).map(value));
        Ok(R::from_values(values.collect::<rusqlite::Result<_>>()?))
    })?;
    rows.into_iter().collect::<Option<_>>().ok_or(Error::Damaged(R::TABLE.name))
}

#[cfg(test)]
mod tests {
    use super::super::Database;
    use super::super::tables::ANALYZED_BY;
    use crate::error::Error;

    impl Database {
        /// Marks an app's captures of a version, as if an earlier version of this program had analyzed them.
        pub(crate) fn outdate(&mut self, app: &str, ver: &str) -> Result<(), Error> {
            let sql = format!("UPDATE captures SET {ANALYZED_BY} = 0 WHERE app = ? AND ver = ?");
            self.write(|transaction, _, _| {
                transaction.execute(&sql, [app, ver])?;
                Ok(())
            })
        }
    }
}
