//! A capture in the spool: while it is written, and while it waits for its upload.

use crate::spool_name::{CaptureName, RecordingName};
use std::path::{Path, PathBuf};

/// A capture that is being written to [`Recording::path`].
#[derive(Debug)]
pub struct Recording {
    pub(super) name: RecordingName,
    pub(super) path: PathBuf,
}

impl Recording {
    /// Returns the path to write the capture to. Writers may append to its name until it is complete.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the capture's id, a UUIDv7 as text.
    #[must_use]
    pub fn id(&self) -> String {
        self.name.id.to_string()
    }
}

/// A capture that waits for its upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The file.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    pub(crate) name: CaptureName,
}

impl Waiting {
    /// Returns the capture's id, a UUIDv7 as text.
    #[must_use]
    pub fn id(&self) -> String {
        self.name.id.to_string()
    }

    /// Returns the window of the capture.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.name.label
    }
}
