//! Devices that are being forgotten: notes in the store by which `tracetee store forget` tells a running collector what not to
//! keep.
//!
//! `forgetting/DIGEST` has the time at which the note ends, in seconds of Unix time. It comes before the search for the
//! device's files, and stays for a minute after it, because an upload may have begun before. The collector's threads
//! look for it after they have stored a file; mostly there is no such directory.

use hmac_sha256::Hash;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Time of a note whose search does not end: it was killed.
const SEARCH: Duration = Duration::from_secs(600);
/// Time for which uploads that had begun may go on.
const UPLOADS: Duration = Duration::from_secs(60);

/// A note; it ends a minute after this is dropped.
pub(super) struct Forgetting(PathBuf);

impl Forgetting {
    /// Writes the note of a device.
    pub(super) fn begin(root: &Path, device: &str) -> io::Result<Self> {
        let path = path(root, device);
        fs::create_dir_all(root.join("forgetting"))?;
        note(&path, SEARCH)?;
        Ok(Self(path))
    }
}

impl Drop for Forgetting {
    fn drop(&mut self) {
        // Otherwise it ends later.
        let _ = note(&self.0, UPLOADS);
    }
}

/// True if a device is being forgotten.
pub(super) fn is_forgotten(root: &Path, device: Option<&str>) -> bool {
    device.is_some_and(|device| is_valid(&path(root, device)))
}

/// True if any device is being forgotten. Deletes the notes of those that were.
pub(super) fn is_any(root: &Path) -> bool {
    let Ok(notes) = fs::read_dir(root.join("forgetting")) else { return false };
    let mut is_any = false;
    for note in notes.flatten() {
        if is_valid(&note.path()) {
            is_any = true;
        } else {
            let _ = fs::remove_file(note.path());
        }
    }
    is_any
}

/// The file's name is a digest, so that no trace of the device is left.
fn path(root: &Path, device: &str) -> PathBuf {
    root.join(key(device))
}

/// Returns the path of a device's note below the store's root, in a directory and in a bucket.
pub(super) fn key(device: &str) -> String {
    format!("forgetting/{}", hex::encode(Hash::hash(device.as_bytes())))
}

fn note(path: &Path, valid: Duration) -> io::Result<()> {
    let making = path.with_extension("new");
    fs::write(&making, text(valid))?;
    fs::rename(making, path)
}

/// Returns the content of a note that is valid for a time.
fn text(valid: Duration) -> String {
    (seconds(SystemTime::now()) + valid.as_secs()).to_string()
}

/// Returns the content of a note during a search, and after it.
pub(super) fn texts() -> [String; 2] {
    [text(SEARCH), text(UPLOADS)]
}

/// Writes a note that a bucket has.
pub(super) fn mirror(root: &Path, key: &str, text: &[u8]) -> io::Result<()> {
    fs::create_dir_all(root.join("forgetting"))?;
    fs::write(root.join(key), text)
}

fn is_valid(path: &Path) -> bool {
    let until = fs::read_to_string(path).ok().and_then(|text| text.parse::<u64>().ok());
    until.is_some_and(|until| seconds(SystemTime::now()) < until)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
