//! Objects for the guards of an object store's collectors: the guards' states, and the alerts.
//!
//! Each is replaced with `If-Match`: of two collectors that change it at once, the later one reads it again and repeats its change.
//! A guard reads the tables of its collector's replica.

use super::replica::{ALERTS, Replica};
use anyhow::Result;
use std::path::PathBuf;

impl Replica {
    /// Returns the path of the tables; `None` until they have what the bucket had when the collector started.
    #[must_use]
    pub fn complete_tables(&self) -> Option<PathBuf> {
        self.is_complete().then(|| self.tables())
    }

    /// Returns the alerts; `None`: there are none yet.
    ///
    /// # Errors
    /// When the object store cannot be read.
    pub fn alerts(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.cloud.find(ALERTS)?.map(|(bytes, _)| bytes))
    }

    /// Replaces the alerts by what `work` makes of them. Works again if another collector has changed them.
    ///
    /// # Errors
    /// Those of `work`, and when the object store cannot be read or written.
    pub fn change_alerts(
        &self,
        work: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        self.cloud.update(ALERTS, |bytes| Ok((work(bytes)?, ())))
    }
}
