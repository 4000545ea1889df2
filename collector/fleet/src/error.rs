//! Errors of tables and reports.

use crate::sums::schema::FILE_VERSION;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// An error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// Another version wrote the file.
    Version {
        /// The database.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
    },
    /// Another version wrote the guards' state.
    Guard {
        /// The file.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
    },
    /// Rows of this table cannot be read: they are damaged, or have values of other types than its columns.
    Damaged(&'static str),
    /// A table whose digest differs, or a structure of the file, is not as it was written.
    Checksum(String),
    /// The trace cannot be read.
    Trace(tracetee_trace::Error),
    /// The process to analyze cannot be determined.
    Jank(tracetee_jank::Error),
    /// A file cannot be read or written.
    Io(PathBuf, std::io::Error),
    /// A Parquet file cannot be written.
    Parquet(String),
    /// The requested file, app or version does not exist.
    Missing(String),
    /// The tables are in use all the time.
    Busy,
    /// A report takes longer than this.
    TooSlow(Duration),
    /// The analysis was stopped.
    Stopped(tracetee_jank::Stopped),
    /// The capture exceeds a limit, which the text names.
    TooMuch(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(error) if is_damage(error) => write!(
                f,
                "the tables are damaged ({error}); stop the collector and run `tracetee store rebuild` to make them from the captures"
            ),
            Self::Sqlite(error) => write!(f, "the tables: {error}"),
            Self::Version { path, found } if *found > FILE_VERSION => write!(
                f,
                "{} was written by a newer tracetee: it has tables of version {found}, and this program knows versions \
                 up to {FILE_VERSION}. Use the newer program; nothing was changed. If none has run here, the file is damaged: \
                 delete it and run `tracetee store rebuild`",
                path.display(),
            ),
            Self::Version { path, found } => write!(
                f,
                "{} has tables of version {found}, and this program needs version {FILE_VERSION}; run `tracetee store \
                 rebuild --store {}` to make them from the captures",
                path.display(),
                path.parent().unwrap_or(path).display(),
            ),
            Self::Guard { path, found } => write!(
                f,
                "{} was written by another tracetee: its layout is {found}, which this program does not know; use that program, \
                 or move the file away to guard all rollouts from their beginning",
                path.display(),
            ),
            Self::Damaged(table) => write!(
                f,
                "the table {table} has damaged rows; run `tracetee store rebuild` to make the tables from the captures"
            ),
            Self::Checksum(what) => write!(
                f,
                "the tables are damaged ({what} is not as it was written); stop the collector and run `tracetee store rebuild` to \
                 make them from the captures"
            ),
            Self::Trace(error) => write!(f, "{error}"),
            Self::Jank(error) => write!(f, "{error}"),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Parquet(error) => write!(f, "Parquet: {error}"),
            Self::Missing(what) | Self::TooMuch(what) => f.write_str(what),
            Self::TooSlow(limit) => {
                write!(f, "the report takes longer than its limit of {} s", limit.as_secs())
            }
            Self::Busy => f.write_str("the tables are in use; try again"),
            Self::Stopped(stopped) => write!(f, "{stopped}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// True if the tables are damaged: `tracetee store rebuild` makes them again.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => is_damage(error),
            Self::Damaged(_) | Self::Checksum(_) => true,
            _ => false,
        }
    }
}

/// True if the file cannot be what SQLite has written.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<tracetee_trace::Error> for Error {
    fn from(error: tracetee_trace::Error) -> Self {
        Self::Trace(error)
    }
}

impl From<tracetee_jank::Error> for Error {
    fn from(error: tracetee_jank::Error) -> Self {
        match error {
            tracetee_jank::Error::Stopped(stopped) => Self::Stopped(stopped),
            error => Self::Jank(error),
        }
    }
}

impl From<tracetee_jank::Stopped> for Error {
    fn from(stopped: tracetee_jank::Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

#[cfg(test)]
mod tests {
    use crate::database::Database;

    #[test]
    fn a_damaged_file_is_reported_with_the_command_that_mends_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tables.sqlite");
        drop(Database::open(&path).unwrap());
        for (length, text) in [(100, &b"not a database"[..]), (5_000, b"SQLite format 3\0")] {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.truncate(length);
            bytes[..text.len()].copy_from_slice(text);
            let damaged = directory.path().join(length.to_string());
            std::fs::write(&damaged, bytes).unwrap();
            let error = Database::read(&damaged).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("run `tracetee store rebuild`"), "{error}");
        }
    }
}
