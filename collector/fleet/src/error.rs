//! What can go wrong with tables.

use std::fmt;
use std::path::PathBuf;

/// Why.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The database said so.
    Sqlite(rusqlite::Error),
    /// The file was written by another version: it is to be rebuilt.
    Version {
        /// The database.
        path: PathBuf,
        /// What it says.
        found: i64,
    },
    /// The trace cannot be read.
    Trace(tracetee_trace::Error),
    /// It cannot be told whose frames to look at.
    Jank(tracetee_jank::Error),
    /// A file cannot be read or written.
    Io(PathBuf, std::io::Error),
    /// A Parquet file cannot be written.
    Parquet(String),
    /// What was asked for is not there.
    Missing(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(error) => write!(f, "the tables: {error}"),
            Self::Version { path, found } => write!(
                f,
                "{} has tables of version {found}, this program makes version {}: `tracetee rebuild` \
                 makes them anew from the captures",
                path.display(),
                crate::schema::VERSION
            ),
            Self::Trace(error) => write!(f, "{error}"),
            Self::Jank(error) => write!(f, "{error}"),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Parquet(error) => write!(f, "Parquet: {error}"),
            Self::Missing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

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
        Self::Jank(error)
    }
}
