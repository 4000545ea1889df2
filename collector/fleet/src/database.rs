//! The tables in one SQLite file, beside the captures that they are made of.
//!
//! The collector writes; reports read at the same time (write-ahead log). The file can be rebuilt from the captures.
//! Inside, rows refer to their capture by number (`captures_rows` …); queries see views that have the columns of
//! [`crate::schema`].

use crate::error::Error;
use crate::rows::{Rows, Value};
use crate::schema::{CAPTURES, TABLES, Table, TableRow, VERSION};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction};
use std::path::Path;
use std::time::Duration;
use tables::NUMBER;

mod answer;
mod tables;

pub use answer::{Answer, Row};

/// Time for which a reader or a writer waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);
/// Attempts to empty the log, 100 ms apart; each waits for [`PATIENCE`].
const LOG_TRIES: u32 = 10;

/// The tables in an open SQLite file.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
}

impl Database {
    /// Opens a file for writing; creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Version`] if another version of this program created it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Rows lost in a power failure are made again from the captures.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        // Deleted rows are overwritten, so that no free page contains a forgotten device.
        connection.pragma_update(None, "secure_delete", true)?;
        let database = Self { connection };
        match database.version()? {
            0 => database.connection.execute_batch(&format!(
                "BEGIN IMMEDIATE;{}PRAGMA user_version={VERSION};COMMIT;",
                tables::definitions()
            ))?,
            VERSION => {}
            found => return Err(Error::Version { path: path.to_owned(), found }),
        }
        Ok(database)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`Database::open`]; [`Error::Missing`] if it does not exist.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if !path.exists() {
            let what = format!(
                "{} does not exist; run `tracetee collect` or `tracetee rebuild` first",
                path.display()
            );
            return Err(Error::Missing(what));
        }
        // Not read-only: the log's index may have to be written.
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        // Sorts of a big fleet's frames.
        connection.pragma_update(None, "temp_store", "file")?;
        let database = Self { connection };
        match database.version()? {
            VERSION => Ok(database),
            found => Err(Error::Version { path: path.to_owned(), found }),
        }
    }

    fn version(&self) -> Result<i64, Error> {
        Ok(self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
    }

    /// Inserts captures and loss reports in one transaction, and skips those that are already there.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing of it was inserted.
    pub fn insert(&mut self, all: &[Rows]) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        for rows in all {
            let mut number = None;
            if let Some(capture) = &rows.capture {
                if insert(&transaction, None, std::slice::from_ref(capture))? == 0 {
                    continue;
                }
                number = Some(transaction.last_insert_rowid());
            }
            insert(&transaction, number, &rows.frames)?;
            insert(&transaction, number, &rows.frame_slices)?;
            insert(&transaction, number, &rows.stacks)?;
            insert(&transaction, None, &rows.losses)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// True if the capture, or the loss report, is in the tables.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn has(&self, table: &Table, id: &str) -> Result<bool, Error> {
        let sql = if table.name == CAPTURES.name {
            "SELECT 1 FROM captures_rows WHERE capture_id = ?"
        } else {
            "SELECT 1 FROM losses WHERE report_id = ? LIMIT 1"
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row([id], |_| Ok(())).optional()?.is_some())
    }

    /// Returns raw key, day and size in bytes of all captures, the oldest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn by_age(&self) -> Result<Vec<(String, String, u64)>, Error> {
        let sql = "SELECT raw_key, dt, bytes FROM captures_rows ORDER BY dt, capture_id";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?.unsigned_abs()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the raw keys of a device's captures.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn raw_keys_for_device(&self, device: &str) -> Result<Vec<String>, Error> {
        let mut statement =
            self.connection.prepare("SELECT raw_key FROM captures_rows WHERE device = ?")?;
        let rows = statement.query_map([device], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Deletes captures by their raw keys.
    ///
    /// # Errors
    /// [`Error::Sqlite`]: nothing was deleted.
    pub fn delete(&mut self, raw_keys: &[String]) -> Result<(), Error> {
        let transaction = self.connection.transaction()?;
        for key in raw_keys {
            for table in TABLES.iter().filter(|table| table.belongs_to_captures()) {
                let sql = format!(
                    "DELETE FROM {} WHERE {NUMBER} = (SELECT {NUMBER} FROM captures_rows WHERE raw_key = ?)",
                    tables::rows_name(table)
                );
                transaction.prepare_cached(&sql)?.execute([key])?;
            }
            transaction
                .prepare_cached("DELETE FROM captures_rows WHERE raw_key = ?")?
                .execute([key])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Returns the ids of a device's loss reports.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn loss_reports_for_device(&self, device: &str) -> Result<Vec<String>, Error> {
        let sql = "SELECT DISTINCT report_id FROM losses_rows WHERE device = ?";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([device], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Deletes loss reports of earlier days.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn delete_losses_before(&self, day: &str) -> Result<(), Error> {
        self.connection.execute("DELETE FROM losses_rows WHERE dt < ?", [day])?;
        Ok(())
    }

    /// Returns the raw key of a capture.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn raw_key(&self, capture_id: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT raw_key FROM captures_rows WHERE capture_id = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row([capture_id], |row| row.get(0)).optional()?)
    }

    /// Returns a number that changes when another connection writes.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn data_version(&self) -> Result<i64, Error> {
        Ok(self.connection.query_row("PRAGMA data_version", [], |row| row.get(0))?)
    }

    /// Deletes the loss reports of a device.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn delete_losses_of(&mut self, device: &str) -> Result<(), Error> {
        self.connection.execute("DELETE FROM losses_rows WHERE device = ?", [device])?;
        Ok(())
    }

    /// Writes the log's pages into the database and empties the log, so that neither contains deleted rows. Rows that
    /// were deleted by a version that did not overwrite them stay in free pages until the tables are rebuilt.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Busy`] if the tables are in use all the time.
    pub fn forget_deleted(&self) -> Result<(), Error> {
        for _ in 0..LOG_TRIES {
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            let busy: i64 = self.connection.query_row(checkpoint, [], |row| row.get(0))?;
            if busy == 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(Error::Busy)
    }

    /// Returns a handle that ends this connection's query from another thread.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.connection.get_interrupt_handle())
    }

    /// Runs a query and returns its answer.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn query(&self, sql: &str) -> Result<Answer, Error> {
        let mut statement = self.connection.prepare(sql)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let width = columns.len();
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let mut values = Vec::with_capacity(width);
            for place in 0..width {
                values.push(match row.get_ref(place)? {
                    ValueRef::Null | ValueRef::Blob(_) => Value::Null,
                    ValueRef::Integer(value) => Value::Int(value),
                    ValueRef::Real(value) => Value::Real(value),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                });
            }
            rows.push(values);
        }
        Ok(Answer { columns, rows })
    }

    /// Runs statements that have no answer.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.connection.execute_batch(sql)?)
    }
}

/// Handle that ends the query of a [`Database`] in another thread.
pub struct Interrupter(rusqlite::InterruptHandle);

impl Interrupter {
    /// Ends the running query, if there is one.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

impl std::fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupter")
    }
}

/// Inserts rows, those of a capture with its number. Returns the number of inserted rows.
fn insert<R: TableRow>(
    transaction: &Transaction<'_>,
    capture: Option<i64>,
    rows: &[R],
) -> Result<usize, Error> {
    let mut statement = transaction.prepare_cached(&tables::insertion(&R::TABLE))?;
    let mut inserted = 0;
    for row in rows {
        let number = capture.map(Value::Int);
        inserted += statement
            .execute(rusqlite::params_from_iter(number.into_iter().chain(row.values())))?;
    }
    Ok(inserted)
}
