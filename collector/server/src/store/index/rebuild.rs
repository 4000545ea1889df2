//! Rebuilds the tables of a local store from its captures, for `tracetee store rebuild`.

use crate::store::captures::local_store::readmit;
use crate::store::index::indexer::Indexer;
use crate::store::mappings;
use crate::store::objects::disk::{lock_file, remove_logs, tables_of};
use crate::store::objects::intents::{self, MAKE_TABLES, PLACE_TABLES};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;
use tracetee_fleet::sums::schema::FILE_VERSION;

/// Directory in which new tables are made.
const NEW: &str = "rebuilding";

/// Result of [`rebuild`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Captures and loss reports in the tables now.
    pub indexed: u64,
    /// Captures of quarantine that were tried again.
    pub retried: u64,
}

/// Rebuilds the tables of a local store from its captures. The caller holds both of its locks.
pub(crate) fn rebuild(root: &Path) -> Result<Rebuilt> {
    let tables = tables_of(root);
    // Tables of a newer version are not replaced with older ones.
    if tables.exists()
        && let Err(error @ Error::Version { found, .. }) = Database::read(&tables)
        && found > FILE_VERSION
    {
        return Err(error.into());
    }
    intents::begin(root, MAKE_TABLES, "")?;
    let retried = readmit(root)?;
    // The new tables are built next to the old ones, which they then replace.
    discard(root)?;
    let new = tables_of(&root.join(NEW));
    fs::create_dir(root.join(NEW)).context("cannot create a directory for the new tables")?;
    let indexed = match Indexer::rebuild(root, &new) {
        Ok(indexed) => indexed,
        Err(error) => {
            // Nothing was changed.
            discard(root)?;
            intents::end(root, MAKE_TABLES)?;
            return Err(error);
        }
    };
    File::open(&new)?.sync_all()?;
    intents::begin(root, PLACE_TABLES, "")?;
    intents::end(root, MAKE_TABLES)?;
    place_tables(root)?;
    Ok(Rebuilt { indexed, retried })
}

/// Replaces the tables by the new ones. May be repeated.
pub(crate) fn place_tables(root: &Path) -> Result<()> {
    let (new, tables) = (tables_of(&root.join(NEW)), tables_of(root));
    if new.exists() {
        remove_logs(&tables)?;
        fs::rename(&new, &tables)?;
    }
    mappings::settle(root)?;
    discard(root)?;
    intents::end(root, PLACE_TABLES)
}

/// Deletes new tables.
pub(crate) fn discard(root: &Path) -> Result<()> {
    let new = root.join(NEW);
    if new.exists() {
        fs::remove_dir_all(&new).with_context(|| format!("cannot delete {}", new.display()))?;
    }
    Ok(())
}

/// Excludes rebuilds and other exclusive work from each other.
pub(crate) fn lock_against(root: &Path) -> Result<File> {
    let who = root.display();
    let busy = format!("{who} is being rebuilt or copied, or a device forgotten; try again later");
    lock_file(&root.join("rebuild.lock"), busy)
}
