//! Upgrades the file of an older version in place: adds what its tables lack, packs the rows, and makes their sums.
//!
//! Version 1 has no sums, and lacks columns; version 2 has a row of SQLite for each of a capture's rows; version 3 has no
//! limits of names; version 4 has no digests.
//!
//! It is one transaction: an upgrade that is interrupted has changed nothing. Rows stay as the older analysis made
//! them until the collector analyzes their captures again.

use super::changes::{capture_of, insert_packed, read};
use super::rollups::{Changes, apply};
use super::tables::{self, ANALYZED_BY, NUMBER};
use super::{Database, PATIENCE, digests};
use crate::error::Error;
use crate::rows::{Rows, Value};
use crate::schema::{CAPTURES, FILE_VERSION, LOSSES, LossRow, TABLES, Text};
use crate::table::TableRow;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::BTreeSet;
use std::path::Path;

/// Captures whose sums are added at once.
const BATCH: usize = 1000;

impl Database {
    /// Upgrades a file that an older version wrote; does nothing if there is none. Nobody else may use the file.
    /// Returns true if something was upgraded.
    ///
    /// # Errors
    /// [`Error::Sqlite`] and [`Error::Damaged`]: the file is as it was.
    pub fn upgrade(path: &Path) -> Result<bool, Error> {
        if !path.exists() {
            return Ok(false);
        }
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "secure_delete", true)?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 || version >= FILE_VERSION {
            return Ok(false);
        }
        add_columns(&transaction)?;
        transaction.execute_batch(&tables::tables())?;
        let lacks_sums = version < 2;
        if version < 3 {
            take_captures(&transaction, lacks_sums)?;
            for table in tables::packed_tables() {
                let (view, rows) = (table.name, tables::rows_name(table));
                transaction.execute_batch(&format!("DROP VIEW {view}; DROP TABLE {rows};"))?;
            }
        }
        if lacks_sums {
            add_losses(&transaction)?;
        }
        transaction.execute_batch(&tables::views_and_indexes())?;
        digests::remake(&transaction)?;
        transaction.pragma_update(None, "user_version", FILE_VERSION)?;
        transaction.commit()?;
        Ok(true)
    }
}

fn add_columns(transaction: &Transaction<'_>) -> Result<(), Error> {
    for table in TABLES {
        let rows = tables::rows_name(table);
        let mut statement = transaction.prepare("SELECT name FROM pragma_table_info(?)")?;
        let names = statement.query_map([&rows], |row| row.get(0))?;
        let names = names.collect::<Result<BTreeSet<String>, _>>()?;
        let mut missing: Vec<String> = table
            .own_columns()
            .filter(|column| !names.contains(column.name))
            .map(tables::column)
            .collect();
        if table.name == CAPTURES.name && !names.contains(ANALYZED_BY) {
            missing.push(format!("{ANALYZED_BY} INTEGER NOT NULL DEFAULT 0"));
        }
        for column in missing.iter().filter(|_| !names.is_empty()) {
            transaction.execute_batch(&format!("ALTER TABLE {rows} ADD COLUMN {column}"))?;
        }
    }
    Ok(())
}

/// Packs the rows of all captures, and makes their sums if there are none.
fn take_captures(transaction: &Transaction<'_>, lacks_sums: bool) -> Result<(), Error> {
    let sql =
        format!("SELECT {NUMBER} FROM captures_rows WHERE {NUMBER} > ? ORDER BY 1 LIMIT {BATCH}");
    let mut statement = transaction.prepare(&sql)?;
    let mut last = -1;
    loop {
        let numbers = statement.query_map([last], |row| row.get(0))?;
        let numbers = numbers.collect::<Result<Vec<i64>, _>>()?;
        let Some(&end) = numbers.last() else { break };
        last = end;
        let mut changes = Changes::default();
        for number in numbers {
            let rows = rows_of(transaction, number)?;
            insert_packed(transaction, number, &rows)?;
            if lacks_sums {
                changes.sums.add_capture(&rows, 1);
                changes.offer_examples(&rows);
            }
        }
        apply(transaction, changes)?;
    }
    Ok(())
}

/// Reads the rows of a capture that are not packed yet.
fn rows_of(transaction: &Transaction<'_>, number: i64) -> Result<Rows, Error> {
    fn all<R: TableRow>(transaction: &Transaction<'_>, number: i64) -> Result<Vec<R>, Error> {
        read(transaction, &tables::reading(&R::TABLE), &[Value::Int(number)])
    }
    Ok(Rows {
        capture: capture_of(transaction, number)?,
        frames: all(transaction, number)?,
        frame_slices: all(transaction, number)?,
        stacks: all(transaction, number)?,
        ..Rows::default()
    })
}

/// Makes the sums of all loss reports.
fn add_losses(transaction: &Transaction<'_>) -> Result<(), Error> {
    let mut changes = Changes::default();
    let names: Vec<&str> = LOSSES.own_columns().map(|column| column.name).collect();
    let sql = format!("SELECT {} FROM losses_rows WHERE dt >= ?", names.join(","));
    for loss in read::<LossRow>(transaction, &sql, &[Value::Text(Text::default())])? {
        changes.sums.add_loss(&loss, 1);
    }
    apply(transaction, changes)
}
