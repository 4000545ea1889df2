//! Errors of tables and reports.

use crate::sums::schema::FILE_VERSION;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of SQLite.
    #[error("{}", of_sqlite(.0))]
    Sqlite(rusqlite::Error),
    /// Another version wrote the file.
    #[error("{}", of_version(path, *found))]
    Version {
        /// The database.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
    },
    /// Rows of this table cannot be read: they are damaged, or have values of other types than its columns.
    #[error(
        "the table {0} has damaged rows; run `tracetee store rebuild` to make the tables from the captures"
    )]
    Damaged(&'static str),
    /// A table whose digest differs, or a structure of the file, has changed since it was written.
    #[error(
        "the tables are damaged ({0} is not as it was written); stop the collector and run `tracetee store rebuild` to \
         make them from the captures"
    )]
    Checksum(String),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] tracetee_trace::Error),
    /// The process to analyze cannot be determined.
    #[error(transparent)]
    Jank(tracetee_jank::Error),
    /// A file cannot be read or written.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, std::io::Error),
    /// The build has no Parquet.
    #[error("this build writes no Parquet; use a release, or build with `--features cloud`")]
    NoParquet,
    /// A Parquet file cannot be written.
    #[error("Parquet: {0}")]
    Parquet(String),
    /// The requested file, app or version does not exist.
    #[error("{0}")]
    Missing(String),
    /// A question that is not answered, and the reason.
    #[error("{0}")]
    Refused(String),
    /// A stored report is not what its path says.
    #[error("not {0}")]
    Report(&'static str),
    /// The tables are in use all the time.
    #[error("the tables are in use; try again")]
    Busy,
    /// A report takes longer than this.
    #[error("the report takes longer than its limit of {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The analysis was stopped.
    #[error(transparent)]
    Stopped(#[from] tracetee_jank::Stopped),
    /// The capture exceeds a limit, which the text names.
    #[error("{0}")]
    TooMuch(String),
}

fn of_sqlite(error: &rusqlite::Error) -> String {
    if is_damage(error) {
        format!(
            "the tables are damaged ({error}); stop the collector and run `tracetee store rebuild` to make them from the captures"
        )
    } else {
        format!("the tables: {error}")
    }
}

fn of_version(path: &Path, found: i64) -> String {
    let shown = path.display();
    if found > FILE_VERSION {
        return format!(
            "{shown} was written by a newer tracetee: it has tables of version {found}, and this program knows versions \
             up to {FILE_VERSION}. Use the newer program; nothing was changed. If none has run here, the file is damaged: \
             delete it and run `tracetee store rebuild`"
        );
    }
    format!(
        "{shown} has tables of version {found}, and this program needs version {FILE_VERSION}; run `tracetee store \
         rebuild --store {}` to make them from the captures",
        path.parent().unwrap_or(path).display()
    )
}

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
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

impl From<serde_rusqlite::Error> for Error {
    fn from(error: serde_rusqlite::Error) -> Self {
        match error {
            serde_rusqlite::Error::Rusqlite(error) => Self::Sqlite(error),
            other => Self::Sqlite(rusqlite::Error::ToSqlConversionFailure(other.into())),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
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
