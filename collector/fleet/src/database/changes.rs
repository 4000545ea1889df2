//! Inserts and deletes captures and loss reports, with what they add to the sums, in one transaction each.

use super::digests;
use super::name_limits::Names;
use super::packed::{pack, unpack};
use super::rollups::{Changes, apply};
use super::tables::{self, ANALYZED_BY, NUMBER};
use super::{Database, value};
use crate::error::Error;
use crate::rows::{Rows, Value};
use crate::schema::{ANALYSIS, CAPTURES, CaptureRow, LOSSES, LossRow};
use crate::table::TableRow;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params_from_iter};
use std::collections::BTreeSet;

impl Database {
    /// Does something in a transaction that writes, so that nobody else writes between its reads and its writes.
    fn write(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Names) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { connection, names, changed, .. } = self;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = work(&transaction, names)
            .and_then(|()| digests::flush(&transaction, changed))
            .and_then(|()| Ok(transaction.commit()?));
        if written.is_err() {
            changed.clear();
            // The table does not have those that were added.
            *names = Names::default();
        }
        written
    }

    /// Inserts captures and loss reports in one transaction. Skips those that are already there, but replaces rows
    /// that an older version of the analysis made.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was inserted.
    pub fn insert(&mut self, all: &[Rows]) -> Result<(), Error> {
        self.insert_stored(all, &|_| true)
    }

    /// As [`Database::insert`], but skips what `is_stored` denies. It is asked within the transaction: who deletes a
    /// file and then its rows leaves no rows.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was inserted.
    pub fn insert_stored(
        &mut self,
        all: &[Rows],
        is_stored: &dyn Fn(&Rows) -> bool,
    ) -> Result<(), Error> {
        self.write(|transaction, names| {
            let mut changes = Changes::default();
            for rows in all.iter().filter(|rows| is_stored(rows)) {
                if rows.capture.is_some() {
                    let rows = names.limit(transaction, rows)?;
                    insert_capture(transaction, &rows, &mut changes)?;
                }
                for loss in &rows.losses {
                    let loss = names.limit_loss(transaction, loss)?;
                    if insert(transaction, &*loss)? {
                        changes.sums.add_loss(&loss, 1);
                    }
                }
            }
            apply(transaction, changes)
        })
    }

    /// Replaces captures in one transaction, and skips those that are not there.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was replaced.
    pub fn replace(&mut self, all: &[Rows]) -> Result<(), Error> {
        self.write(|transaction, names| {
            let mut changes = Changes::default();
            for rows in all {
                let Some(capture) = &rows.capture else { continue };
                for number in numbers(transaction, "raw_key", &capture.raw_key)? {
                    delete_capture(transaction, number, &mut changes)?;
                    let rows = names.limit(transaction, rows)?;
                    insert_capture(transaction, &rows, &mut changes)?;
                }
            }
            apply(transaction, changes)
        })
    }

    /// Deletes captures by their raw keys.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing was deleted.
    pub fn delete(&mut self, raw_keys: &[String]) -> Result<(), Error> {
        self.write(|transaction, names| {
            let mut changes = Changes::default();
            let mut days = BTreeSet::new();
            for key in raw_keys {
                for number in numbers(transaction, "raw_key", key)? {
                    let deleted = delete_capture(transaction, number, &mut changes)?;
                    days.extend(deleted.map(|capture| (capture.app, capture.dt)));
                }
            }
            for (app, dt) in &days {
                names.remove(transaction, app, dt)?;
            }
            apply(transaction, changes)
        })
    }

    /// Deletes loss reports by their ids.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing was deleted.
    pub fn delete_loss_reports(&mut self, ids: &[String]) -> Result<(), Error> {
        self.write(|transaction, _| {
            let mut changes = Changes::default();
            for id in ids {
                delete_losses(transaction, "report_id = ?", id, &mut changes)?;
            }
            apply(transaction, changes)
        })
    }

    /// Deletes the loss reports of a device.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn delete_losses_of(&mut self, device: &str) -> Result<(), Error> {
        self.write(|transaction, _| {
            let mut changes = Changes::default();
            delete_losses(transaction, "device = ?", device, &mut changes)?;
            apply(transaction, changes)
        })
    }

    /// Marks an app's captures of a version: the collector analyzes them again.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn outdate(&mut self, app: &str, ver: &str) -> Result<(), Error> {
        let sql = format!("UPDATE captures_rows SET {ANALYZED_BY} = 0 WHERE app = ? AND ver = ?");
        self.write(|transaction, _| {
            transaction.execute(&sql, [app, ver])?;
            Ok(())
        })
    }
}

/// The numbers of the captures with this value in a column.
fn numbers(transaction: &Transaction<'_>, column: &str, of: &str) -> Result<Vec<i64>, Error> {
    let sql = format!("SELECT {NUMBER} FROM captures_rows WHERE {column} = ?");
    let mut statement = transaction.prepare_cached(&sql)?;
    let rows = statement.query_map([of], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn delete_losses(
    transaction: &Transaction<'_>,
    condition: &str,
    of: &str,
    changes: &mut Changes,
) -> Result<(), Error> {
    let names: Vec<&str> = LOSSES.own_columns().map(|column| column.name).collect();
    let sql = format!("SELECT {} FROM losses_rows WHERE {condition}", names.join(","));
    for loss in read::<LossRow>(transaction, &sql, &[Value::Text(of.into())])? {
        changes.sums.add_loss(&loss, -1);
    }
    let sql = format!("DELETE FROM losses_rows WHERE {condition}");
    transaction.prepare_cached(&sql)?.execute([of])?;
    Ok(())
}

fn insert_capture(
    transaction: &Transaction<'_>,
    rows: &Rows,
    changes: &mut Changes,
) -> Result<(), Error> {
    let Some(capture) = &rows.capture else { return Ok(()) };
    if !insert(transaction, capture)? {
        let sql = format!(
            "SELECT {NUMBER} FROM captures_rows WHERE capture_id = ? AND {ANALYZED_BY} < {ANALYSIS}"
        );
        let mut statement = transaction.prepare_cached(&sql)?;
        let outdated: Option<i64> =
            statement.query_row([capture.capture_id.as_str()], |row| row.get(0)).optional()?;
        let Some(number) = outdated else { return Ok(()) };
        delete_capture(transaction, number, changes)?;
        insert(transaction, capture)?;
    }
    let number = transaction.last_insert_rowid();
    insert_packed(transaction, number, rows)?;
    if let Some(other) = &rows.other_device {
        let sql = "INSERT INTO other_devices VALUES (?, ?)";
        transaction.prepare_cached(sql)?.execute((number, other.as_str()))?;
    }
    changes.sums.add_capture(rows, 1);
    changes.offer_examples(rows);
    Ok(())
}

/// Inserts a row of `captures` or `losses`, unless it is there. Returns true if it was inserted.
fn insert<R: TableRow>(transaction: &Transaction<'_>, row: &R) -> Result<bool, Error> {
    let mut statement = transaction.prepare_cached(&tables::insertion(&R::TABLE))?;
    Ok(statement.execute(params_from_iter(row.values()))? == 1)
}

/// Inserts the other rows of the capture with this number.
pub(super) fn insert_packed(
    transaction: &Transaction<'_>,
    number: i64,
    rows: &Rows,
) -> Result<(), Error> {
    fn insert<R: TableRow>(
        transaction: &Transaction<'_>,
        number: i64,
        rows: &[R],
    ) -> Result<(), Error> {
        if !rows.is_empty() {
            let sql = format!("INSERT INTO {} VALUES (?, ?)", tables::packed_name(&R::TABLE));
            transaction.prepare_cached(&sql)?.execute((number, pack(rows)))?;
        }
        Ok(())
    }
    insert(transaction, number, &rows.frames)?;
    insert(transaction, number, &rows.frame_slices)?;
    insert(transaction, number, &rows.stacks)
}

fn delete_capture(
    transaction: &Transaction<'_>,
    number: i64,
    changes: &mut Changes,
) -> Result<Option<CaptureRow>, Error> {
    let rows = rows_of(transaction, number)?;
    changes.sums.add_capture(&rows, -1);
    changes.withdraw_examples(&rows);
    for table in tables::packed_tables() {
        let sql = format!("DELETE FROM {} WHERE {NUMBER} = ?", tables::packed_name(table));
        transaction.prepare_cached(&sql)?.execute([number])?;
    }
    for table in ["captures_rows", "other_devices"] {
        let sql = format!("DELETE FROM {table} WHERE {NUMBER} = ?");
        transaction.prepare_cached(&sql)?.execute([number])?;
    }
    Ok(rows.capture)
}

/// Reads the rows of a capture.
fn rows_of(transaction: &Transaction<'_>, number: i64) -> Result<Rows, Error> {
    Ok(Rows {
        capture: capture_of(transaction, number)?,
        frames: unpacked(transaction, number)?,
        frame_slices: unpacked(transaction, number)?,
        stacks: unpacked(transaction, number)?,
        ..Rows::default()
    })
}

/// Reads the own row of a capture.
pub(super) fn capture_of(
    transaction: &Transaction<'_>,
    number: i64,
) -> Result<Option<CaptureRow>, Error> {
    Ok(read(transaction, &tables::reading(&CAPTURES), &[Value::Int(number)])?.pop())
}

/// Reads the rows that a capture has in a table.
pub(super) fn unpacked<R: TableRow>(
    transaction: &Transaction<'_>,
    number: i64,
) -> Result<Vec<R>, Error> {
    let sql = format!("SELECT packed FROM {} WHERE {NUMBER} = ?", tables::packed_name(&R::TABLE));
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut found = statement.query([number])?;
    let Some(row) = found.next()? else { return Ok(Vec::new()) };
    let packed = row.get_ref(0)?.as_blob().map_err(|_| Error::Damaged(R::TABLE.name))?;
    unpack(packed).ok_or(Error::Damaged(R::TABLE.name))
}

/// Reads all rows that a statement gives for these values.
pub(super) fn read<R: TableRow>(
    transaction: &Transaction<'_>,
    sql: &str,
    of: &[Value],
) -> Result<Vec<R>, Error> {
    let mut statement = transaction.prepare_cached(sql)?;
    let width = statement.column_count();
    let mut found = statement.query(params_from_iter(of))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let mut values = Vec::with_capacity(width);
        for place in 0..width {
            values.push(value(row.get_ref(place)?));
        }
        rows.push(R::of(values).ok_or(Error::Damaged(R::TABLE.name))?);
    }
    Ok(rows)
}
