//! Upgrades the tables of an older version in place: adds what they lack, and makes the sums of their rows.
//!
//! It is one transaction: an upgrade that is interrupted has changed nothing. Rows stay as the older analysis made
//! them until the collector analyzes their captures again.

use super::changes::{read, rows_of};
use super::rollups::{Changes, apply};
use super::tables::{self, ANALYZED_BY, NUMBER};
use super::{Database, PATIENCE};
use crate::error::Error;
use crate::rows::Value;
use crate::schema::{CAPTURES, LOSSES, LossRow, TABLES, Text, VERSION};
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
        if version == 0 || version >= VERSION {
            return Ok(false);
        }
        add_columns(&transaction)?;
        transaction.execute_batch(&tables::tables())?;
        transaction.execute_batch(&tables::views_and_indexes())?;
        add_sums(&transaction)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
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

/// Makes the sums of all rows.
fn add_sums(transaction: &Transaction<'_>) -> Result<(), Error> {
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
            changes.sums.add_capture(&rows, 1);
            changes.offer_examples(&rows);
        }
        apply(transaction, changes)?;
    }
    let mut changes = Changes::default();
    let names: Vec<&str> = LOSSES.own_columns().map(|column| column.name).collect();
    let sql = format!("SELECT {} FROM losses_rows WHERE dt >= ?", names.join(","));
    for loss in read::<LossRow>(transaction, &sql, &[Value::Text(Text::default())])? {
        changes.sums.add_loss(&loss, 1);
    }
    apply(transaction, changes)
}
