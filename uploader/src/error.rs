//! The error type of the crate: the failed operation, its file, and the reason.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error of the spool or the uploader.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A capture is lost and will be in the loss report.
    NotKept {
        /// The reason, as in the loss report.
        reason: &'static str,
    },
    /// An argument was refused.
    Config {
        /// The argument.
        field: &'static str,
        /// The reason.
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
