//! The one error type of this crate, each with the path or rule that it is about.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A trace could not be written, or a recorder file not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A redaction rule was refused.
    Rule {
        /// Index of the rule in [`crate::TextOptions::redaction`].
        index: usize,
        /// The reason.
        reason: String,
    },
    /// A file operation failed.
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A recorder file cannot be read.
    Recorder(tracetee_recorder::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { index, reason } => {
                write!(f, "configuration: text.redaction: rule {index}: {reason}")
            }
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
            Self::Recorder(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Recorder(error) => Some(error),
            Self::Rule { .. } => None,
        }
    }
}

impl From<tracetee_recorder::Error> for Error {
    fn from(error: tracetee_recorder::Error) -> Self {
        Self::Recorder(error)
    }
}
