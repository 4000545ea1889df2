//! Where a store is, as the command line says it.

use std::path::Path;

/// Location of a store.
#[derive(Debug, Clone, Copy)]
pub enum StoreLocation<'a> {
    /// A directory.
    Directory(&'a Path),
    /// URL of an object store.
    Objects(&'a str),
}

impl<'a> StoreLocation<'a> {
    /// Parses a directory, a `file://` URL or the URL of an object store.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        match text.strip_prefix("file://") {
            Some(path) => Self::Directory(Path::new(path)),
            None if text.contains("://") => Self::Objects(text),
            None => Self::Directory(Path::new(text)),
        }
    }

    /// Returns the directory; `None`: it is an object store's.
    #[must_use]
    pub const fn directory(self) -> Option<&'a Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Objects(_) => None,
        }
    }
}
