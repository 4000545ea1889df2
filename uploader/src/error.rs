//! The one error type of the crate: what was tried, with which file, and why it failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    Io {
        /// What was tried, a verb.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A capture is lost; the loss report will say so.
    NotKept {
        /// The reason, as in the loss report.
        reason: &'static str,
    },
    /// An argument was refused.
    Config {
        /// Which.
        field: &'static str,
        /// Why.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
            Self::NotKept { reason } => write!(f, "not kept: {reason}"),
            Self::Config { field, reason } => write!(f, "{field}: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotKept { .. } | Self::Config { .. } => None,
        }
    }
}
