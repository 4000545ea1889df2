//! The error type of the crate.

use std::fmt;
use std::path::{Path, PathBuf};

/// Reason why a trace cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file, its compression or the disk cannot be read.
    Io(std::io::Error),
    /// Decompression fails before anything was read.
    Broken {
        /// Offset in the decompressed content.
        at: u64,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The content is invalid.
    At {
        /// Offset in the decompressed content.
        offset: u64,
        /// The reason.
        why: String,
    },
    /// The file is not a trace, for this reason.
    NoTrace(String),
    /// An error in this file.
    File(PathBuf, Box<Error>),
}

impl Error {
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::File(path.to_owned(), Box::new(self))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Broken { at, error } => {
                write!(f, "cannot be decompressed after byte {at} of its content: {error}")
            }
            Self::At { offset, why } => write!(f, "is invalid at byte {offset}: {why}"),
            Self::NoTrace(why) => write!(f, "is not a trace: {why}"),
            Self::File(path, error) => write!(f, "{} {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
