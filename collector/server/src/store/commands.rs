//! The commands on a store, in a directory or in an object store: `tracetee store backup`, `forget` and `rebuild`.

use crate::store::backup::{self, BackedUp};
use crate::store::captures::local_store::lock;
use crate::store::forget::{Forgotten, erase};
use crate::store::index::rebuild::{self, Rebuilt, lock_against};
use crate::store::interrupted::{forget_devices, forget_here, go_on_alone, settle};
use crate::store::objects::Directory;
use crate::store::objects::disk::tables_of;
use crate::store::objects::intents::{self, BEAT};
use crate::store::objects::location::{StoreLocation, open_shared};
use crate::store::share::reader::Reader;
use crate::store::share::replica::LOOK_EVERY;
use anyhow::{Result, bail};
use crossbeam_channel::{RecvTimeoutError, bounded};
use std::fs;
use std::path::Path;

/// Copies a store to a directory, which is a copy of it already, or empty, or does not exist. `cache`: of an object store's
/// tables.
///
/// # Errors
/// When the store is none, the directory is something else, or something cannot be read or written.
pub fn backup(store: StoreLocation<'_>, cache: Option<&Path>, to: &Path) -> Result<BackedUp> {
    if let Some(root) = store.directory().filter(|root| !root.join("raw").is_dir()) {
        bail!("{} is not the store of a collector: it has no directory raw", root.display());
    }
    backup::prepare(to, store.directory())?;
    let _copy = lock(to)?;
    settle(to)?;
    backup::begin(to)?;
    match store {
        StoreLocation::Directory(root) => {
            let _alone = lock_against(root)?;
            go_on_alone(root)?;
            backup::copy(&Directory(root.to_owned()), &tables_of(root), true, to)
        }
        StoreLocation::Objects(address) => {
            let reader = Reader::open(address, cache)?;
            backup::copy(&*reader.objects, &reader.tables(), false, to)
        }
    }
}

/// Rebuilds the tables of a store from its captures.
///
/// # Errors
/// When a collector uses the directory, a newer version wrote its tables, or they cannot be written.
pub fn rebuild(store: StoreLocation<'_>) -> Result<Rebuilt> {
    match store {
        StoreLocation::Directory(root) => {
            let _lock = lock(root)?;
            let _alone = lock_against(root)?;
            settle(root)?;
            let rebuilt = rebuild::rebuild(root)?;
            forget_devices(root)?;
            Ok(rebuilt)
        }
        StoreLocation::Objects(address) => Reader::rebuild(address),
    }
}

/// Deletes everything that a device has sent to a store. `cache`: of an object store's tables.
///
/// # Errors
/// When the directory is not a store, or something cannot be read or deleted.
pub fn forget(store: StoreLocation<'_>, cache: Option<&Path>, device: &str) -> Result<Forgotten> {
    match store {
        StoreLocation::Directory(root) => {
            if !tables_of(root).exists() {
                let root = root.display();
                bail!("{root} is not a collector's store: tables.sqlite is missing");
            }
            // A rebuild would put rows into tables that this does not know.
            let _no_rebuild = lock_against(root)?;
            go_on_alone(root)?;
            intents::begin(root, &intents::of_device(device), &intents::forget_text(device))?;
            forget_here(root, device)
        }
        StoreLocation::Objects(address) => forget_objects(address, cache, device),
    }
}

/// Like [`forget`], in an object store, whose collectors read the intent every five seconds. The search finds objects that
/// they stored before they read it; after that they defer the device's uploads. Parts that have rows of the device are
/// rewritten without them.
pub(super) fn forget_objects(
    address: &str,
    cache: Option<&Path>,
    device: &str,
) -> Result<Forgotten> {
    let objects = open_shared(address)?;
    let (intent, text) = (intents::of_device(device), intents::forget_text(device));
    objects.put(&intent, text.clone().into_bytes())?;
    let (end, ended) = bounded::<()>(0);
    let forgotten = std::thread::scope(|scope| {
        scope.spawn(|| {
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                // Without it, a collector continues too.
                let _ = objects.put(&intent, text.clone().into_bytes());
            }
        });
        std::thread::sleep(2 * LOOK_EVERY);
        let forgotten = erase_with_parts(address, cache, device);
        drop(end);
        forgotten
    })?;
    objects.put(&intent, intents::until_text().into_bytes())?;
    Ok(forgotten)
}

fn erase_with_parts(address: &str, cache: Option<&Path>, device: &str) -> Result<Forgotten> {
    let reader = Reader::open_checked(address, cache)?;
    let (forgotten, paths) = erase(&*reader.objects, reader.root(), device)?;
    // Notes of captures that could not be analyzed here name their devices, too. The next analysis recreates them.
    fs::remove_dir_all(reader.root().join("quarantine"))?;
    reader.leave_out(device, &paths)?;
    Ok(forgotten)
}
