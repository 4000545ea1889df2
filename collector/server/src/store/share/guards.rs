//! The findings of an object store's guard.
//!
//! They are replaced with `If-Match`: of two collectors that change them at once, the later one reads them again and repeats its
//! change. A guard reads the tables of its collector's replica.

use crate::store::objects::FINDINGS;
use crate::store::share::replica::Replica;
use anyhow::Result;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

impl Replica {
    /// Returns the path of the tables; `None` until they contain the bucket's content at the collector's start.
    #[must_use]
    pub fn complete_tables(&self) -> Option<PathBuf> {
        // ORDERING: Relaxed; a flag that publishes nothing.
        self.complete.load(Ordering::Relaxed).then(|| self.tables())
    }

    /// Returns the findings; `None`: there are none yet.
    ///
    /// # Errors
    /// When the object store cannot be read.
    pub fn findings(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.objects.find(FINDINGS)?.map(|(bytes, _)| bytes))
    }

    /// Replaces the findings by the result of `work` on them. Repeats it if another collector has changed them.
    ///
    /// # Errors
    /// Those of `work`, and when the object store cannot be read or written.
    pub fn change_findings(
        &self,
        work: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        self.objects.update(FINDINGS, work)
    }
}
