//! Rebuilds the tables of a local store from its captures, for `tracetee store rebuild`.

use super::indexer::Indexer;
use super::local_store::{self, readmit};
use super::{mappings, tables_of};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;
use tracetee_fleet::sums::schema::FILE_VERSION;

/// Result of [`rebuild`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Captures and loss reports in the tables now.
    pub indexed: u64,
    /// Captures of quarantine that were tried again.
    pub retried: u64,
}

/// Rebuilds the tables of a local store from its captures.
///
/// # Errors
/// When a collector uses the store, a newer version wrote the tables, or they cannot be written.
pub fn rebuild(root: &Path) -> Result<Rebuilt> {
    let _lock = local_store::lock(root)?;
    let _alone = lock_against(root)?;
    let tables = tables_of(root);
    // Tables of a newer version are not replaced with older ones.
    if tables.exists()
        && let Err(error @ Error::Version { found, .. }) = Database::read(&tables)
        && found > FILE_VERSION
    {
        return Err(error.into());
    }
    let retried = readmit(root)?;
    // The new ones beside the old ones, which they then replace.
    let building =
        tempfile::tempdir_in(root).context("cannot create a directory for the new tables")?;
    let new = tables_of(building.path());
    let indexed = Indexer::rebuild(root, &new)?;
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", tables.display()));
    }
    fs::rename(&new, &tables)?;
    mappings::settle(root)?;
    Ok(Rebuilt { indexed, retried })
}

/// Keeps rebuilds, and whoever must not work beside one, out of each other's way.
///
/// # Errors
/// When another one is at work.
pub(super) fn lock_against(root: &Path) -> Result<File> {
    let who = root.display();
    let busy = format!("{who} is being rebuilt or copied, or a device forgotten; try again later");
    local_store::lock_file(&root.join("rebuild.lock"), busy)
}
