//! The error type of the crate: the failed operation, its file, and the reason.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the spool or the uploader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A capture is lost and will be in the loss report.
    #[error("not kept: {reason}")]
    NotKept {
        /// The reason, as in the loss report.
        reason: &'static str,
    },
    /// An argument was refused.
    #[error("{field}: {reason}")]
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
