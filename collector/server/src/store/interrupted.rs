//! Ends or undoes what a command has begun in a directory and was killed in: its intent (`intents.rs`) says what that was.
//!
//! A `forget` is repeated, whose steps may be repeated. Finished tables of a `rebuild` are put in their place, unfinished ones deleted. An
//! unfinished copy of a `backup` becomes a store of what has been copied. A running collector does so every ten seconds, a command
//! before its own work.

use crate::store::backup;
use crate::store::captures::local_store;
use crate::store::forget::{Forgotten, erase};
use crate::store::index::rebuild;
use crate::store::index::rebuild::lock_against;
use crate::store::objects::Directory;
use crate::store::objects::intents::{
    self, COPY, DIRECTORY, MAKE_TABLES, PLACE_TABLES, UNFINISHED, device_of,
};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Deletes everything that a device has sent to a store in a directory, and then its intent. The caller holds
/// `rebuild.lock`.
pub(super) fn forget_here(root: &Path, device: &str) -> Result<Forgotten> {
    let (forgotten, _) = erase(&Directory(root.to_owned()), root, device)?;
    intents::end(root, &intents::of_device(device))?;
    Ok(forgotten)
}

/// Completes or undoes the work of a killed command in a directory. Returns the work done; nothing while a command is
/// running.
///
/// # Errors
/// When a file cannot be written or deleted, or the tables are damaged.
pub fn go_on(root: &Path) -> Result<Option<&'static str>> {
    if fs::read_dir(root.join(DIRECTORY)).map_or(true, |mut all| all.next().is_none()) {
        return Ok(None);
    }
    // Errors other than that of a running command are reported by the next user of the lock.
    let Ok(_alone) = lock_against(root) else { return Ok(None) };
    go_on_alone(root)
}

/// Does the work of [`go_on`]. The caller holds `rebuild.lock`.
pub(super) fn go_on_alone(root: &Path) -> Result<Option<&'static str>> {
    intents::end(root, UNFINISHED)?;
    // A collector that has the store has done this when it started.
    let settled = match local_store::lock(root) {
        Ok(_lock) => settle(root)?,
        Err(_) => None,
    };
    Ok(forget_devices(root)?.or(settled))
}

/// Repeats each `forget` that was killed. The caller holds `rebuild.lock`.
pub(super) fn forget_devices(root: &Path) -> Result<Option<&'static str>> {
    let mut done = None;
    for intent in fs::read_dir(root.join(DIRECTORY)).into_iter().flatten().flatten() {
        if let Some(device) = device_of(&fs::read(intent.path())?) {
            forget_here(root, device).context("a `store forget` was interrupted")?;
            done = Some("ended a `store forget` that was interrupted");
        }
    }
    Ok(done)
}

/// Ends or undoes a rebuild, or a backup into this directory. The caller holds the store's lock.
pub(super) fn settle(root: &Path) -> Result<Option<&'static str>> {
    let mut done = None;
    if root.join(PLACE_TABLES).exists() {
        rebuild::place_tables(root)?;
        done = Some("ended a `store rebuild` that was interrupted");
    }
    if root.join(MAKE_TABLES).exists() {
        rebuild::discard(root)?;
        intents::end(root, MAKE_TABLES)?;
        done = Some("undid a `store rebuild` that was interrupted; run it again");
    }
    if root.join(COPY).exists() {
        backup::make_whole(root)?;
        intents::end(root, COPY)?;
        done = Some(
            "a `store backup` into this directory was interrupted: it has the files copied so far; run it again",
        );
    }
    Ok(done)
}
