//! The error type of the crate.

use std::path::{Path, PathBuf};

/// Reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file, its compression or the disk cannot be read.
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
    /// Decompression fails before anything was read.
    #[error("cannot be decompressed after byte {at} of its content: {error}")]
    Broken {
        /// Offset in the decompressed content.
        at: u64,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The content is invalid.
    #[error("is invalid at byte {offset}: {why}")]
    At {
        /// Offset in the decompressed content.
        offset: u64,
        /// The reason.
        why: String,
    },
    /// The file is not a trace, for this reason.
    #[error("is not a trace: {0}")]
    NoTrace(String),
    /// An error in this file.
    #[error("{} {}", .0.display(), .1)]
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
