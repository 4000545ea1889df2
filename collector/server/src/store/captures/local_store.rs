//! The directory in which captures are stored, each exactly once.
//!
//! A capture lies where [`RawKey`] says, with `ID.json`, its metadata, beside it; loss reports in
//! `losses/v1/dt=DAY/ID.APP.json`, parts of ledgers in `ledgers/v1/dt=DAY/ID.APP.ledger`; `quarantine/` holds what was not a
//! capture, or could not be analyzed, each with its reason; `incoming/` what is on its way. `ids/XX/ID.APP` leads to the
//! app's capture of an id, so that an id is one capture of an app whatever version it comes with again; a link that leads
//! nowhere is none. A file gets its place by a link that fails if there is one, so that two that come at once are one. The
//! time of its content is that of its arrival, by which retention goes. One collector has the directory at a time (`lock`).

use crate::store::captures::days::day;
use crate::store::captures::id_index;
use crate::store::captures::quarantined::{Bodies, Quarantined};
use crate::store::objects::disk::{
    lock_file, make_directory, make_parent, note, remove, sidecar_of, walk,
};
use crate::store::objects::intents;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tracetee_fleet::object_keys::{RawKey, ReportKey, ReportKind};
use tracetee_fleet::rows::{About, UNKNOWN, version_of};
use tracetee_protocol::{CaptureMeta, notes};
use uuid::Uuid;

/// The directory.
#[derive(Debug)]
pub(crate) struct LocalStore {
    root: PathBuf,
    next: AtomicU64,
    pub(crate) quarantined: Bodies,
    /// True if an object store has all data: the directory need not survive a power loss.
    is_copy: bool,
    /// One lock per digit of the id: held while a capture is put in place.
    placing: [Mutex<()>; 64],
    /// Held as long as this is.
    lock: File,
}

/// A file in transit; deleted if this is dropped before the file is in place.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) path: PathBuf,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl LocalStore {
    /// Opens it, and creates it if necessary. Deletes files in transit left by the last process.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let reports = ReportKind::ALL.map(ReportKind::directory);
        for directory in ["raw/v1", "quarantine", "incoming"].into_iter().chain(reports) {
            let path = root.join(directory);
            make_directory(&path).with_context(|| format!("cannot create {}", path.display()))?;
        }
        let lock = lock(root)?;
        id_index::build(root)?;
        for entry in fs::read_dir(root.join("incoming"))?.flatten() {
            // A directory is a copy for a page.
            let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
        }
        Ok(Self {
            root: root.to_owned(),
            next: AtomicU64::new(0),
            quarantined: Bodies::new(root),
            is_copy: false,
            placing: std::array::from_fn(|_| Mutex::new(())),
            lock,
        })
    }

    /// The same, of captures that an object store has.
    pub(crate) fn open_copy(root: &Path) -> Result<Self> {
        Ok(Self { is_copy: true, ..Self::open(root)? })
    }

    /// Checks that the directory is still the one that was opened, and accepts writes.
    pub(crate) fn probe(&self) -> io::Result<()> {
        /// More than a file system stores for a file besides its content.
        const BYTES: usize = 64 * 1024;
        self.check_lock()?;
        let incoming = self.incoming();
        fs::write(&incoming.path, vec![0; BYTES])
    }

    /// Returns the bytes that its file system has left for this process.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.root).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// If the store was deleted, or another process moved and recreated it, nothing is stored.
    fn check_lock(&self) -> io::Result<()> {
        let there = fs::metadata(self.root.join("lock"))?;
        let ours = self.lock.metadata()?;
        if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) {
            return Ok(());
        }
        Err(io::Error::other("the store was deleted or replaced; restart the collector"))
    }

    /// A name for a file in transit.
    pub(crate) fn incoming(&self) -> Incoming {
        // ORDERING: Relaxed; only a unique number.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        Incoming { path: self.root.join("incoming").join(name) }
    }

    /// True if the app has a capture with this id, of any version, in the store or in quarantine.
    pub(crate) fn has(&self, key: &RawKey) -> bool {
        self.root.join(key.path()).exists()
            || id_index::path(&self.root, key).exists()
            || self.was_set_aside(key)
    }

    /// True if a device is being forgotten.
    pub(crate) fn forgets(&self, device: Option<&str>) -> bool {
        intents::is_forgotten(&self.root, device)
    }

    /// True if a capture's device is being forgotten, by its metadata or its header.
    pub(crate) fn forgets_capture(&self, meta: &CaptureMeta, path: &Path) -> bool {
        let is_forgotten = |about: &CaptureMeta| self.forgets(about.install_id.as_deref());
        intents::is_any(&self.root) && (is_forgotten(meta) || header_has(path, &is_forgotten))
    }

    /// Deletes a capture that was just kept.
    pub(crate) fn drop_kept(&self, key: &RawKey) -> io::Result<()> {
        remove(&self.root.join(key.path()))?;
        id_index::leave(&self.root, key);
        Ok(())
    }

    fn was_set_aside(&self, key: &RawKey) -> bool {
        // Usually there is no such file. One without a key was never stored, and may be sent again.
        let about = fs::read(note(&self.root, key));
        let about = about.ok().and_then(|json| Quarantined::from_json(&json));
        about.is_some_and(|about| about.raw_key.is_some())
    }

    /// Puts a complete capture in place. `None`: another one is already there.
    pub(crate) fn keep(
        &self,
        key: &RawKey,
        incoming: &Incoming,
        meta: &CaptureMeta,
    ) -> io::Result<Option<PathBuf>> {
        self.check_lock()?;
        let digit = key.id.bytes().fold(0_usize, |sum, byte| sum.wrapping_add(byte.into()));
        let lock = self.placing.get(digit % self.placing.len());
        let _placing = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        if self.has(key) {
            return Ok(None);
        }
        let path = self.root.join(key.path());
        let sidecar = self.incoming();
        fs::write(&sidecar.path, meta.to_json())?;
        let directory = make_parent(&path)?;
        // The link of its id is dangling until the capture is in place, and its metadata is written first: if this is
        // interrupted, the capture can be sent again.
        id_index::enter(&self.root, key)?;
        self.link(&sidecar.path, &sidecar_of(&path))?;
        let kept = self.link(&incoming.path, &path)?;
        self.sync(directory)?;
        Ok(kept.then_some(path))
    }

    /// Stores a report. `None`: it is already stored.
    pub(crate) fn keep_report(
        &self,
        path: &str,
        incoming: &Incoming,
    ) -> io::Result<Option<PathBuf>> {
        let file = self.root.join(path);
        let directory = make_parent(&file)?;
        let kept = self.link(&incoming.path, &file)?;
        self.sync(directory)?;
        Ok(kept.then_some(file))
    }

    /// Links a file to its place. Returns false if another file is there.
    fn link(&self, from: &Path, to: &Path) -> io::Result<bool> {
        self.sync(from)?;
        match fs::hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until a file or a directory is on the disk.
    fn sync(&self, path: &Path) -> io::Result<()> {
        if self.is_copy { Ok(()) } else { File::open(path)?.sync_all() }
    }

    /// Quarantines a body that is not a capture, with the reason. The last one of an id is enough for diagnosis.
    pub(crate) fn quarantine(
        &self,
        key: &RawKey,
        incoming: &Incoming,
        reason: &str,
        meta: &CaptureMeta,
    ) {
        let about = Quarantined { reason: reason.to_owned(), meta: meta.clone(), raw_key: None };
        let about = about.to_json();
        let bytes = incoming.path.metadata().map_or(0, |body| body.len()) + about.len() as u64;
        // Before it is in place, so the total never exceeds the limit.
        if !self.quarantined.count(key, bytes) {
            return;
        }
        let note = note(&self.root, key);
        let _ = fs::rename(&incoming.path, note.with_extension("body"));
        let _ = fs::write(&note, about);
        if self.forgets_capture(meta, &note.with_extension("body")) {
            let _ = remove(&note);
        }
    }
}

/// Quarantines a capture from which no rows can be made, with the reason.
pub(crate) fn set_aside(root: &Path, key: &RawKey, reason: &str) -> io::Result<()> {
    let capture = root.join(key.path());
    let meta = about(root, key)?.meta;
    let about = Quarantined { reason: reason.to_owned(), meta, raw_key: Some(key.path()) };
    // The reason first: a body without one would have no owner.
    let note = note(root, key);
    fs::write(&note, about.to_json())?;
    if let Err(error) = fs::rename(&capture, note.with_extension("body")) {
        // It was deleted meanwhile.
        fs::remove_file(&note)?;
        return Err(error);
    }
    let _ = fs::remove_file(sidecar_of(&capture));
    id_index::leave(root, key);
    Ok(())
}

/// Puts captures back in place that were quarantined because no rows could be made from them: another version of this
/// program may succeed.
pub(crate) fn readmit(root: &Path) -> io::Result<u64> {
    let mut count = 0;
    let quarantine = root.join("quarantine");
    if !quarantine.exists() {
        return Ok(0);
    }
    walk(&quarantine, &mut |path| {
        let about = fs::read(path).ok();
        let about = about.and_then(|json| Quarantined::from_json(&json));
        let Some(about) = about else { return };
        let key = about.raw_key.as_deref().and_then(RawKey::parse);
        let (Some(key), meta) = (key, about.meta) else { return };
        let capture = root.join(key.path());
        let put_back = || -> io::Result<()> {
            make_parent(&capture)?;
            id_index::enter(root, &key)?;
            fs::write(sidecar_of(&capture), meta.to_json())?;
            fs::rename(path.with_extension("body"), &capture)?;
            fs::remove_file(path)
        };
        count += u64::from(put_back().is_ok());
    })?;
    Ok(count)
}

/// Locks the store for this process.
pub(crate) fn lock(root: &Path) -> Result<File> {
    let busy = format!("the store {} is in use by a collector; stop it first", root.display());
    lock_file(&root.join("lock"), busy)
}

/// Returns the key of an app's loss report that arrives today.
pub(crate) fn losses_key(id: Uuid, app: Option<&str>, today: i64) -> ReportKey {
    ReportKey::new(ReportKind::Losses, day_of(id, today), &id.to_string(), app)
}

/// Returns the key of a capture that arrives today by its id and metadata.
pub(crate) fn key_of(id: Uuid, meta: &CaptureMeta, today: i64) -> RawKey {
    let app = meta.app.as_deref().filter(|app| !app.is_empty());
    RawKey {
        app: app.unwrap_or(UNKNOWN).to_owned(),
        day: day_of(id, today),
        ver: version_of(meta),
        id: id.to_string(),
    }
}

/// Returns a capture's properties besides its text: key, size, and metadata.
pub(crate) fn about(root: &Path, key: &RawKey) -> io::Result<About> {
    let meta = meta_of(root, key);
    // Checked last, because a capture is removed before its metadata.
    let bytes = root.join(key.path()).metadata()?.len();
    Ok(about_with(key, meta, bytes))
}

/// Returns the metadata beside a capture; empty if there is none.
pub(crate) fn meta_of(root: &Path, key: &RawKey) -> CaptureMeta {
    let meta = fs::read(sidecar_of(&root.join(key.path()))).ok();
    meta.and_then(|json| CaptureMeta::from_json(&json)).unwrap_or_default()
}

/// Returns a capture's properties by its key, metadata and size.
pub(crate) fn about_with(key: &RawKey, meta: CaptureMeta, bytes: u64) -> About {
    let known = (key.app != UNKNOWN).then(|| key.app.clone());
    let capture_id = key.id.clone();
    let day = key.day.clone();
    About { capture_id, app: known, day, meta, bytes, raw_key: key.path(), dump: None }
}

/// Bytes of a capture's text in which its header is.
const HEAD_BYTES: u64 = 64 * 1024;

/// True if the readable part of a capture's header has such metadata.
pub(crate) fn header_has(path: &Path, has: &dyn Fn(&CaptureMeta) -> bool) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(text) = tracetee_trace::decompress(file) else { return false };
    let mut text = text.take(HEAD_BYTES);
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) && line.starts_with(b"#") {
        if let Some(json) = line.strip_prefix(notes::COMMENT.as_bytes())
            && CaptureMeta::from_json(json).is_some_and(|about| has(&about))
        {
            return true;
        }
        line.clear();
    }
    false
}

/// Number of days before and after its arrival for which a capture's date is trusted, because clocks differ.
const MAX_DAYS_LATE: i64 = 30;
const MAX_DAYS_EARLY: i64 = 1;

/// True if an object that arrives today may be from a given day.
pub(crate) fn is_believed(day: i64, today: i64) -> bool {
    (-MAX_DAYS_EARLY..=MAX_DAYS_LATE).contains(&(today - day))
}

/// The day in an id of version 7, UTC. An id of a wrong clock, or without a time, has the day of its arrival.
fn day_of(id: Uuid, today: i64) -> String {
    let made = id.get_timestamp().and_then(|at| i64::try_from(at.to_unix().0 / 86_400).ok());
    day(made.filter(|&day| is_believed(day, today)).unwrap_or(today))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;
    use serde_json::json;

    #[test]
    fn an_id_has_the_day_that_it_was_made_on_unless_its_clock_is_wrong() {
        let id = |ms| uuid::Builder::from_unix_timestamp_millis(ms, &[7; 10]).into_uuid();
        for (ms, today, day) in [
            (0, 0, "1970-01-01"),
            (951_782_399_999, 11_015, "2000-02-28"),
            (951_782_400_000, 11_015, "2000-02-29"),
            (1_735_689_599_999, 20_088, "2024-12-31"),
            (1_795_252_596_629, 20_778, "2026-11-21"),
            // Thirty days late, one early; and beyond.
            (1_795_252_596_629, 20_808, "2026-11-21"),
            (1_795_252_596_629, 20_809, "2026-12-22"),
            (1_795_252_596_629, 20_777, "2026-11-21"),
            (1_795_252_596_629, 20_776, "2026-11-19"),
            (0, 20_778, "2026-11-21"),
            (253_402_300_799_000, 20_778, "2026-11-21"),
            ((1 << 48) - 1, 20_778, "2026-11-21"),
        ] {
            assert_eq!(day_of(id(ms), today), day);
        }
        assert_eq!(day_of(Uuid::nil(), 20_778), "2026-11-21");
    }

    #[test]
    fn a_capture_is_kept_once_and_its_metadata_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path()).unwrap();
        let meta = test_store::meta(&json!({"app": "com.example", "version_name": "1.2/3"}));
        let key = key_of(Uuid::nil(), &meta, 0);
        assert_eq!(
            key.path(),
            format!("raw/v1/app=com.example/dt=1970-01-01/ver=1.2!2F3/{}.ftrace.zst", Uuid::nil())
        );
        let keep = |text: &str| {
            let incoming = store.incoming();
            fs::write(&incoming.path, text).unwrap();
            store.keep(&key, &incoming, &test_store::meta(&json!({"of": text}))).unwrap()
        };
        assert!(!store.has(&key));
        let path = keep("first").unwrap();
        assert_eq!(keep("second"), None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::read_to_string(sidecar_of(&path)).unwrap(), "{\"of\":\"first\"}");
        assert_eq!(fs::read_dir(directory.path().join("incoming")).unwrap().count(), 0);
        assert!(store.has(&key));
        let about = about(directory.path(), &key).unwrap();
        assert_eq!((about.bytes, about.meta.other["of"].as_str()), (5, "\"first\""));
    }

    #[test]
    fn two_collectors_do_not_share_a_store() {
        let directory = tempfile::tempdir().unwrap();
        let _first = LocalStore::open(directory.path()).unwrap();
        let error = LocalStore::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("is in use by a collector"), "{error}");
    }
}
