//! Objects for the guards of an object store's collectors: the guards' states, and the alerts.
//!
//! Each is replaced with `If-Match`: of two collectors that change it at once, the later one reads it again and repeats its change.
//! A guard reads the tables of its collector's replica.

use super::replica::{ALERTS, Replica};
use super::tables_of;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The shared objects of an object store.
#[derive(Debug, Clone)]
pub struct Shared {
    replica: Arc<Replica>,
}

impl Shared {
    pub(crate) const fn new(replica: Arc<Replica>) -> Self {
        Self { replica }
    }

    /// Returns the path of the tables; `None` until they have what the bucket had when the collector started.
    #[must_use]
    pub fn tables(&self) -> Option<PathBuf> {
        self.replica.is_complete().then(|| tables_of(&self.replica.root))
    }

    /// Returns the directory of the collector's replica, which has the mappings.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.replica.root
    }

    /// Copies a capture from the bucket below a directory, with its metadata. Returns false if there is none.
    ///
    /// # Errors
    /// When the object store cannot be read.
    pub fn copy(&self, raw_key: &str, to: &Path) -> Result<bool> {
        self.replica.copy(raw_key, to)
    }

    /// Works on the guards' states: a file that is written back. Works again if another process has changed them.
    ///
    /// # Errors
    /// Those of `work`, and when the object store cannot be read or written.
    pub fn with_guards<T>(&self, work: &mut dyn FnMut(&Path) -> Result<T>) -> Result<T> {
        self.replica.with_guards(work)
    }

    /// Returns the alerts; `None`: there are none yet.
    ///
    /// # Errors
    /// When the object store cannot be read.
    pub fn alerts(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.replica.cloud.find(ALERTS)?.map(|(bytes, _)| bytes))
    }

    /// Replaces the alerts by what `work` makes of them. Works again if another collector has changed them.
    ///
    /// # Errors
    /// Those of `work`, and when the object store cannot be read or written.
    pub fn change_alerts(
        &self,
        work: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        self.replica.cloud.update(ALERTS, |bytes| Ok((work(bytes)?, ())))
    }
}
