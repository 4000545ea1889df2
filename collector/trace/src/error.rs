//! What can be wrong with a trace as a whole.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a trace cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file, its compression or the disk: what the reader said.
    Io(std::io::Error),
    /// It is no trace: why.
    NoTrace(String),
    /// Of this file.
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
            Self::NoTrace(why) => write!(f, "is no trace: {why}"),
            Self::File(path, error) => write!(f, "{} {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
