//! The error type of the crate.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a trace cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file, its compression or the disk: what the reader said.
    Io(std::io::Error),
    /// It cannot be unpacked from its beginning on: after so many bytes of what it unpacks to.
    Broken {
        /// Bytes.
        at: u64,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A method trace is wrong: at which byte, and how.
    At {
        /// Offset in the file, unpacked.
        offset: u64,
        /// The reason.
        why: String,
    },
    /// It is no trace: why.
    NoTrace(String),
    /// An error in this file.
    File(PathBuf, Box<Error>),
}

impl Error {
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::File(path.to_owned(), Box::new(self))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Broken { at, error } => {
                write!(f, "cannot be unpacked behind byte {at} of what is in it: {error}")
            }
            Self::At { offset, why } => write!(f, "is wrong at byte {offset}: {why}"),
            Self::NoTrace(why) => write!(f, "is no trace: {why}"),
            Self::File(path, error) => write!(f, "{} {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
