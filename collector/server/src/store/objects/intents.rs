//! Intents: the work that `store forget`, `rebuild` and `backup` have begun, so that a killed command is completed or
//! undone.
//!
//! A command writes `intents/NAME` before its first effect, and removes it after its last one. It holds `rebuild.lock`
//! meanwhile: an intent whose lock is free is one of a command that was killed (`interrupted.rs`). While a device is
//! forgotten, the collector answers its uploads with 503.
//!
//! In a bucket an intent is an object, and the command writes it again every ten seconds; a collector continues what is
//! older than [`STALE`]. Collectors have copies of these objects (`tend.rs`). A device's intent stays for [`AFTERWARDS`],
//! because they may have rows of its captures that are not published, and what comes late is deleted when they find it.

use crate::store::objects::disk::remove_file;
use anyhow::{Context, Result};
use hmac_sha256::Hash;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

pub(crate) const DIRECTORY: &str = "intents";
/// Intents of a rebuild: tables are being made; they are being put in their place.
pub(crate) const MAKE_TABLES: &str = "intents/make-tables";
pub(crate) const PLACE_TABLES: &str = "intents/place-tables";
/// Intent in the directory of a copy.
pub(crate) const COPY: &str = "intents/copy";
/// Content of an intent that is not in force yet.
pub(crate) const UNFINISHED: &str = "intents/new";
/// Interval at which a command rewrites its intent in a bucket, and the age at which the command counts as dead.
pub(crate) const BEAT: Duration = Duration::from_secs(10);
pub(crate) const STALE: Duration = Duration::from_secs(30);
/// Time for which a bucket's intent stays in force after the last effect: an upload in progress takes some minutes, and
/// collectors compare everything with the bucket every ten minutes.
pub(crate) const AFTERWARDS: Duration = Duration::from_secs(40 * 60);
const FORGET: &str = "forget ";
const UNTIL: &str = "until ";

/// Returns the path of a device's intent below the store's root. It is a digest: no trace of the device is left.
pub(crate) fn of_device(device: &str) -> String {
    format!("{DIRECTORY}/{}", hex::encode(Hash::hash(device.as_bytes())))
}

/// Returns the content of a device's intent while the device is being forgotten.
pub(crate) fn forget_text(device: &str) -> String {
    format!("{FORGET}{device}")
}

/// Returns the content of a bucket's intent after the device was forgotten.
pub(crate) fn until_text() -> String {
    format!("{UNTIL}{}", seconds(SystemTime::now()) + AFTERWARDS.as_secs())
}

/// Returns the device whose intent has this content.
pub(crate) fn device_of(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()?.strip_prefix(FORGET)
}

/// Writes an intent to the disk.
pub(crate) fn begin(root: &Path, name: &str, text: &str) -> Result<()> {
    let write = || -> io::Result<()> {
        let (path, directory) = (root.join(name), root.join(DIRECTORY));
        fs::create_dir_all(&directory)?;
        let new = root.join(UNFINISHED);
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(directory)?.sync_all()?;
        File::open(root)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", root.join(name).display()))
}

/// Removes an intent.
pub(crate) fn end(root: &Path, name: &str) -> Result<()> {
    let path = root.join(name);
    remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
}

/// True if a device is being forgotten.
pub(crate) fn is_forgotten(root: &Path, device: Option<&str>) -> bool {
    device.is_some_and(|device| is_valid(&root.join(of_device(device))))
}

/// True if any device is being forgotten.
pub(crate) fn is_any(root: &Path) -> bool {
    is_any_that(root, is_valid)
}

/// True if a command deletes a device's data, and counts it.
pub(crate) fn is_command_at_work(root: &Path) -> bool {
    is_any_that(root, |path| fs::read(path).is_ok_and(|text| device_of(&text).is_some()))
}

fn is_any_that(root: &Path, is_it: fn(&Path) -> bool) -> bool {
    let intents = fs::read_dir(root.join(DIRECTORY)).into_iter().flatten().flatten();
    intents.into_iter().any(|intent| is_it(&intent.path()))
}

/// Brings the copies of a bucket's intents to the state of the bucket. `texts`: those that may have changed. Returns whether
/// one has.
pub(crate) fn mirror(root: &Path, listed: &[&str], texts: &[(&str, Vec<u8>)]) -> io::Result<bool> {
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

fn is_valid(path: &Path) -> bool {
    let Ok(text) = fs::read(path) else { return false };
    let until = std::str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(UNTIL));
    let until = until.and_then(|until| until.parse::<u64>().ok());
    device_of(&text).is_some() || until.is_some_and(|until| seconds(SystemTime::now()) < until)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
