//! Objects for the guards of an object store's collectors: the guards' states, and their findings.
//!
//! Each is replaced with `If-Match`: of two collectors that change it at once, the later one reads it again and repeats its change.
//! A guard reads the tables of its collector's replica.

use crate::store::objects::disk::remove;
use crate::store::objects::{FINDINGS, GUARDS};
use crate::store::share::replica::Replica;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use tracetee_fleet::guard::state;

impl Replica {
    /// Returns the path of the tables; `None` until they have what the bucket had when the collector started.
    #[must_use]
    pub fn complete_tables(&self) -> Option<PathBuf> {
        self.is_complete().then(|| self.tables())
    }

    /// Works on the guards' states, a SQLite file that the bucket has and that is copied here meanwhile. Works again if another process
    /// has changed them.
    ///
    /// # Errors
    /// Those of `work`, and when the object store cannot be read or written.
    pub fn with_guards<T>(&self, work: &mut dyn FnMut(&Path) -> Result<T>) -> Result<T> {
        let copy = tempfile::tempdir_in(&self.root)?;
        let file = state::path(copy.path());
        let mut done = None;
        self.objects.update(GUARDS, &mut |bytes| {
            match bytes {
                Some(bytes) => fs::write(&file, bytes)?,
                None => remove(&file)?,
            }
            done = Some(work(&file)?);
            Ok(fs::read(&file)?)
        })?;
        done.context("nothing was done")
    }

    /// Returns the findings; `None`: there are none yet.
    ///
    /// # Errors
    /// When the object store cannot be read.
    pub fn findings(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.objects.find(FINDINGS)?.map(|(bytes, _)| bytes))
    }

    /// Replaces the findings by what `work` makes of them. Works again if another collector has changed them.
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
