//! The one error type of this crate, each with the path or rule that it is about.

use std::io;
use std::path::{Path, PathBuf};

/// A trace could not be written, or a recorder file not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A redaction rule was refused.
    #[error("configuration: text.redaction: rule {index}: {reason}")]
    Rule {
        /// Index of the rule in [`crate::TextOptions::redaction`].
        index: usize,
        /// The reason.
        reason: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A recorder file cannot be read.
    #[error("{0}")]
    Recorder(#[from] tracetee_recorder::Error),
}

impl Error {
    /// Makes an error of the reason why `what` cannot be done with the file.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }
}
