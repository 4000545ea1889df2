//! Intents: what `store forget`, `rebuild` and `backup` have begun, so that a killed one is ended or undone.
//!
//! A command writes `intents/NAME` before its first effect, and removes it after its last one. It holds `rebuild.lock` meanwhile: an
//! intent whose lock is free is one of a command that was killed. [`go_on`] then repeats a `forget`, whose steps may be repeated. It
//! puts finished tables of a `rebuild` in their place, and deletes unfinished ones. It makes an unfinished copy of a `backup` a store of
//! what has been copied. A running collector does so every ten seconds, a command before its own work. While a device is forgotten, the
//! collector answers its uploads with 503.
//!
//! In a bucket an intent is an object, and the command writes it again every ten seconds; a collector continues what is older than
//! [`STALE`]. Collectors have copies of these objects (`tend.rs`). A device's intent stays for a minute after the last effect, because
//! they may have rows of its captures that are not published.

use super::rebuild::lock_against;
use super::{backup, forget, local_store, rebuild};
use anyhow::{Context, Result};
use hmac_sha256::Hash;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

const DIRECTORY: &str = "intents";
/// Intents of a rebuild: tables are being made; they are being put in their place.
pub(super) const MAKE_TABLES: &str = "intents/make-tables";
pub(super) const PLACE_TABLES: &str = "intents/place-tables";
/// Intent in the directory of a copy.
pub(super) const COPY: &str = "intents/copy";
/// Content of an intent that is not in force yet.
const UNFINISHED: &str = "intents/new";
/// Interval at which a command writes its intent in a bucket again, and the age at which nobody does.
pub(super) const BEAT: Duration = Duration::from_secs(10);
pub(super) const STALE: Duration = Duration::from_secs(30);
/// Time for which a bucket's intent stays in force after the last effect.
const AFTERWARDS: Duration = Duration::from_secs(60);
const FORGET: &str = "forget ";
const UNTIL: &str = "until ";

/// Returns the path of a device's intent below the store's root. It is a digest: no trace of the device is left.
pub(super) fn of_device(device: &str) -> String {
    format!("{DIRECTORY}/{}", hex::encode(Hash::hash(device.as_bytes())))
}

/// Returns the content of a device's intent while the device is being forgotten.
pub(super) fn forget_text(device: &str) -> String {
    format!("{FORGET}{device}")
}

/// Returns the content of a bucket's intent after the device was forgotten.
pub(super) fn until_text() -> String {
    format!("{UNTIL}{}", seconds(SystemTime::now()) + AFTERWARDS.as_secs())
}

/// Returns the device whose intent has this content.
pub(super) fn device_of(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()?.strip_prefix(FORGET)
}

/// Writes an intent to the disk.
pub(super) fn begin(root: &Path, name: &str, text: &str) -> Result<()> {
    let write = || -> io::Result<()> {
        let (place, directory) = (root.join(name), root.join(DIRECTORY));
        fs::create_dir_all(&directory)?;
        let new = root.join(UNFINISHED);
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, place)?;
        File::open(directory)?.sync_all()?;
        File::open(root)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", root.join(name).display()))
}

/// Removes an intent.
pub(super) fn end(root: &Path, name: &str) -> Result<()> {
    match fs::remove_file(root.join(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", root.join(name).display()))
        }
        _ => Ok(()),
    }
}

/// True if a device is being forgotten.
pub(super) fn is_forgotten(root: &Path, device: Option<&str>) -> bool {
    device.is_some_and(|device| is_valid(&root.join(of_device(device))))
}

/// True if any device is being forgotten.
pub(super) fn is_any(root: &Path) -> bool {
    let intents = fs::read_dir(root.join(DIRECTORY)).into_iter().flatten().flatten();
    intents.into_iter().any(|intent| is_valid(&intent.path()))
}

/// Brings the copies of a bucket's intents to the state of the bucket. `texts`: those that may have changed. Returns whether one has.
pub(super) fn mirror(root: &Path, listed: &[&str], texts: &[(&str, Vec<u8>)]) -> io::Result<bool> {
    fs::create_dir_all(root.join(DIRECTORY))?;
    let mut has_changed = false;
    for (name, text) in texts {
        has_changed |= fs::read(root.join(name)).ok().as_ref() != Some(text);
        fs::write(root.join(name), text)?;
    }
    for copy in fs::read_dir(root.join(DIRECTORY))?.flatten() {
        let path = copy.path();
        if !listed.iter().any(|name| root.join(name) == path) {
            fs::remove_file(path)?;
        }
    }
    Ok(has_changed)
}

/// Ends or undoes what a command has begun in a directory and was killed in. Returns what it did; nothing while a command is at work.
///
/// # Errors
/// When a file cannot be written or deleted, or the tables are damaged.
pub fn go_on(root: &Path) -> Result<Option<&'static str>> {
    if fs::read_dir(root.join(DIRECTORY)).map_or(true, |mut all| all.next().is_none()) {
        return Ok(None);
    }
    // Another error than that of a command at work is reported by whoever needs the lock.
    let Ok(_alone) = lock_against(root) else { return Ok(None) };
    go_on_alone(root)
}

/// Does the work of [`go_on`]. The caller holds `rebuild.lock`.
pub(super) fn go_on_alone(root: &Path) -> Result<Option<&'static str>> {
    end(root, UNFINISHED)?;
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
            forget::erase(root, device).context("a `store forget` was interrupted")?;
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
        end(root, MAKE_TABLES)?;
        done = Some("undid a `store rebuild` that was interrupted; run it again");
    }
    if root.join(COPY).exists() {
        backup::make_whole(root)?;
        end(root, COPY)?;
        done = Some(
            "a `store backup` into this directory was interrupted: it has what was copied until then; run it again",
        );
    }
    Ok(done)
}

fn is_valid(path: &Path) -> bool {
    let Ok(text) = fs::read(path) else { return false };
    let until = std::str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(UNTIL));
    let until = until.and_then(|until| until.parse::<u64>().ok());
    device_of(&text).is_some() || until.is_some_and(|until| seconds(SystemTime::now()) < until)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
