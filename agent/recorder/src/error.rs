//! The one error type of the recorder. A full recorder is not an error: its records are counted.

use std::io;
use std::path::PathBuf;

/// A recorder could not be created, or a recorder file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The capacity is larger than the address space.
    #[error("configuration: recorder.capacity_kb: larger than the address space")]
    Capacity,
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
    /// A recorder file is damaged, or of another version.
    #[error("recorder file {}: {reason}", path.display())]
    Pool {
        /// The file.
        path: PathBuf,
        /// The first thing that is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Makes an error of the last libc call's errno.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> Self {
        Self::Io { what, path: path.into(), source: io::Error::last_os_error() }
    }
}
