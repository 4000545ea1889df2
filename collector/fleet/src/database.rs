//! The tables in one SQLite file, beside the captures that they are made of.
//!
//! The collector writes; reports read at the same time (write-ahead log). The file can be rebuilt from the captures.
//! It has captures, loss reports, sums and examples, which any program that knows SQLite can read; and, for each capture, an
//! opaque value of what it has added to the sums ([`crate::sums::Sums::pack`]), which is read to subtract it.

use crate::error::Error;
use crate::object_keys::{RawKey, ReportKey, ReportKind};
use crate::rows::Value;
use crate::schema::{ANALYSIS, Table, Text};
use crate::sums::schema::FILE_VERSION;
use rusqlite::types::ValueRef;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Params, Row, Transaction, TransactionBehavior,
    params_from_iter,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tables::ANALYZED_BY;
use tracetee_jank::Stopped;

mod changes;
mod digests;
mod examples;
mod name_limits;
mod nearest_rank;
mod observations;
pub mod question;
mod reached;
mod rollups;
mod selection;
mod tables;

pub use name_limits::{Exceeded, OTHER};
pub use reached::Reached;
pub use selection::{late_of_ledgers, scheduled};

/// Time for which a reader or a writer waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);
/// Attempts to empty the log, 100 ms apart; each waits for [`PATIENCE`].
const LOG_TRIES: u32 = 10;
/// Pages of the log after which they are written into the database: some transactions of 200 captures, which change the
/// same sums. 64 MB.
const LOG_PAGES: u32 = 16_384;
/// Steps of SQLite's machine between two looks at the clock: less than a millisecond.
const STEPS_OF_A_LOOK: i32 = 10_000;
/// Prepared statements that a connection keeps: some for each table.
const STATEMENTS: usize = 100;

/// The tables in an open SQLite file.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    names: name_limits::Names,
    /// Changes of the digests by a connection that writes.
    changed: digests::Changed,
    end: SharedEnd,
}

/// The end of the queries that run.
#[derive(Debug, Clone, Default)]
struct End {
    until: Option<Instant>,
    is_unwanted: Option<Arc<AtomicBool>>,
}

/// [`End`], shared with the handler that SQLite calls.
#[derive(Debug, Clone, Default)]
struct SharedEnd(Arc<Mutex<End>>);

impl SharedEnd {
    fn set(&self, end: End) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn is_reached(&self) -> bool {
        let end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed; a wish.
        end.is_unwanted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
            || end.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Ends work between queries as SQLite ends a query.
    fn check(&self) -> Result<(), Error> {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
        if self.is_reached() {
            Err(rusqlite::Error::SqliteFailure(code, None).into())
        } else {
            Ok(())
        }
    }
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
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        // Deleted rows are overwritten, so that no free page contains a forgotten device.
        connection.pragma_update(None, "secure_delete", true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let mut database = Self::new(connection, SharedEnd::default())?;
        match database.version()? {
            0 => {
                let immediate = TransactionBehavior::Immediate;
                let transaction = database.connection.transaction_with_behavior(immediate)?;
                transaction.execute_batch(&tables::definitions())?;
                digests::remake(&transaction)?;
                transaction.pragma_update(None, "user_version", FILE_VERSION)?;
                transaction.commit()?;
            }
            FILE_VERSION => {}
            found => return Err(Error::Version { path: path.to_owned(), found }),
        }
        database.changed = digests::watch(&database.connection)?;
        Ok(database)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`Database::open`]; [`Error::Missing`] if it does not exist.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::reading(path, SharedEnd::default())
    }

    fn reading(path: &Path, end: SharedEnd) -> Result<Self, Error> {
        if !path.exists() {
            let message = format!(
                "{} does not exist; run `tracetee collect` or `tracetee store rebuild` first",
                path.display()
            );
            return Err(Error::Missing(message));
        }
        // Not read-only: the log's index may have to be written. No mutex: a `Connection` is never used by two threads.
        let open =
            |flags| Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let connection = open(OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| open(OpenFlags::SQLITE_OPEN_READ_ONLY))?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "temp_store", "file")?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let database = Self::new(connection, end)?;
        match database.version()? {
            FILE_VERSION => Ok(database),
            found => Err(Error::Version { path: path.to_owned(), found }),
        }
    }

    fn new(mut connection: Connection, end: SharedEnd) -> Result<Self, Error> {
        let handle = end.clone();
        connection.progress_handler(STEPS_OF_A_LOOK, Some(move || handle.is_reached()))?;
        nearest_rank::create(&connection)?;
        let (names, changed) = (name_limits::Names::default(), digests::Changed::default());
        Ok(Self { connection, names, changed, end })
    }

    /// Runs queries that must end within a time, and when `is_unwanted` is set; `None` is no limit.
    ///
    /// # Errors
    /// [`Error::TooSlow`] and [`Error::Stopped`] if they do not; and those of `queries`.
    pub fn within<T>(
        &self,
        limit: Option<Duration>,
        is_unwanted: Option<&Arc<AtomicBool>>,
        queries: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let until = limit.map(|limit| Instant::now() + limit);
        self.end.set(End { until, is_unwanted: is_unwanted.cloned() });
        let made = queries();
        self.end.set(End::default());
        match made {
            Err(Error::Sqlite(error))
                if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) =>
            {
                match limit.zip(until).filter(|(_, until)| Instant::now() >= *until) {
                    Some((limit, _)) => Err(Error::TooSlow(limit)),
                    None => Err(Error::Stopped(Stopped::Asked)),
                }
            }
            made => made,
        }
    }

    fn version(&self) -> Result<i64, Error> {
        Ok(self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
    }

    /// True if the rows of the capture are in the tables, and the present analysis made them.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn has_current(&self, key: &RawKey) -> Result<bool, Error> {
        let sql = format!(
            "SELECT 1 FROM captures WHERE capture_id = ? AND substr(raw_key, 1, instr(raw_key, '/dt=')) = ? \
             AND {ANALYZED_BY} >= {ANALYSIS}"
        );
        Ok(self.connection.prepare_cached(&sql)?.exists([&key.id, &key.below_app()])?)
    }

    /// Returns raw key, day and size in bytes of all captures, the oldest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn by_age(&self) -> Result<Vec<(String, String, u64)>, Error> {
        let sql = "SELECT raw_key, dt, bytes FROM captures ORDER BY dt, capture_id";
        all(&self.connection, sql, [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?.unsigned_abs()))
        })
    }

    /// Returns the raw keys of all captures, and whether the present analysis made their rows.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn analyzed_captures(&self) -> Result<Vec<(String, bool)>, Error> {
        let sql = format!("SELECT raw_key, {ANALYZED_BY} >= {ANALYSIS} FROM captures");
        all(&self.connection, &sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the raw keys of a device's captures, by their texts or by the metadata that came with them.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn raw_keys_for_device(&self, device: &str) -> Result<Vec<String>, Error> {
        let sql = "SELECT raw_key FROM captures WHERE device = ?1 UNION \
                   SELECT raw_key FROM other_devices NATURAL JOIN captures WHERE other = ?1";
        all(&self.connection, sql, [device], |row| row.get(0))
    }

    /// Returns the keys of all reports, or of a device's.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn reports(&self, device: Option<&str>) -> Result<Vec<ReportKey>, Error> {
        let mut found = Vec::new();
        let of_device = device.map_or("", |_| " WHERE device = ?");
        for kind in ReportKind::ALL {
            let (table, column) = tables::of_reports(kind);
            let sql = format!("SELECT DISTINCT dt, {column} FROM {}{of_device}", table.name);
            let keys: Vec<_> = all(&self.connection, &sql, params_from_iter(device), |row| {
                Ok(ReportKey { kind, day: row.get(0)?, name: row.get(1)? })
            })?;
            found.extend(keys);
        }
        Ok(found)
    }

    /// True if a report is in the tables.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn has_report(&self, key: &ReportKey) -> Result<bool, Error> {
        let (table, column) = tables::of_reports(key.kind);
        self.has_row(&table, column, &key.name)
    }

    /// True if a row of captures or losses has this value in a column.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn has_row(&self, table: &Table, column: &str, value: &str) -> Result<bool, Error> {
        let sql = format!("SELECT 1 FROM {} WHERE {column} = ? LIMIT 1", table.name);
        Ok(self.connection.prepare_cached(&sql)?.exists([value])?)
    }

    /// Returns the key of the capture with this id whose app `may_read` admits.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn raw_key(
        &self,
        capture_id: &str,
        may_read: impl Fn(&str) -> bool,
    ) -> Result<Option<RawKey>, Error> {
        let sql = "SELECT raw_key FROM captures WHERE capture_id = ? ORDER BY raw_key";
        let keys: Vec<String> = all(&self.connection, sql, [capture_id], |row| row.get(0))?;
        let mut keys = keys.iter().filter_map(|key| RawKey::parse(key));
        Ok(keys.find(|key| may_read(&key.app)))
    }

    /// Returns a number for each app, which changes when rows of the app change.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn changes(&self) -> Result<BTreeMap<String, i64>, Error> {
        let sql = "SELECT app, number FROM changes";
        all(&self.connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns a number that changes when another connection writes.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn data_version(&self) -> Result<i64, Error> {
        Ok(self.connection.query_row("PRAGMA data_version", [], |row| row.get(0))?)
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

    /// Reads one state of the tables, whatever others write, until the snapshot is dropped. Temporary relations that are
    /// made meanwhile end with it.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Error> {
        Ok(Snapshot { _transaction: self.connection.unchecked_transaction()? })
    }

    /// Runs a query and returns its rows: a field of a struct, or the key of a map, is the column of that name.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn rows<T: DeserializeOwned>(&self, sql: &str) -> Result<Vec<T>, Error> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = serde_rusqlite::from_rows(statement.query([])?);
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Runs statements that have no answer.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.connection.execute_batch(sql)?)
    }
}

/// Copies a SQLite file, as it is in one transaction, to a file that does not exist. Others may read and write meanwhile.
///
/// # Errors
/// [`Error::Sqlite`].
pub fn copy_database(from: &Path, to: &Path) -> Result<(), Error> {
    let connection = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute("VACUUM INTO ?", [to.to_string_lossy()])?;
    Ok(())
}

/// Runs a query and returns all its rows.
fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns a text as a literal of SQL.
pub(crate) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

fn value(stored: ValueRef<'_>) -> Value {
    match stored {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => Value::Text(Text::from(String::from_utf8_lossy(text))),
    }
}

/// One state of the tables: [`Database::snapshot`].
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// Rolled back when it is dropped.
    _transaction: Transaction<'a>,
}
