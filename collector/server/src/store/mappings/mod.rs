//! Mappings of a local store: R8's names and the instrumenter's method ids, by app and version.
//!
//! `mappings/v1/app=A/ver=V/` has up to two files, `classes.txt.zst` (R8) and `methods.txt.zst` (method ids), and, while
//! captures from before a mapping must still be reanalyzed, a file `pending` (`reanalysis.rs`). What is stored was
//! validated. Beside each file lies the same as sorted tables (`classes.txt.packed`), made at the upload, which are mapped
//! into memory: opening them costs nothing, and the kernel drops their pages when it needs the memory.

pub(crate) mod files;

pub(crate) use files::Refused;

use crate::budget::Budget;
use crate::store::captures::local_store::Incoming;
use crate::store::mappings::files::{
    CLASSES, METHODS, discard_packed, open_packed, pack, read, text_of, validate,
};
use crate::store::objects::disk::{make_parent, walk};
use anyhow::Result;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tracetee_fleet::object_keys::{RawKey, encode};
use tracetee_trace::Mapping;

/// Limits of a store: number of mappings, and their total compressed bytes.
const MAX_MAPPINGS: u64 = 10_000;
const MAX_STORED_BYTES: u64 = 32 << 30;
/// Number of versions whose mappings stay open; most versions have none.
const MAX_CACHED: u64 = 1000;
/// The file that says which captures are still to be analyzed again.
const PENDING: &str = "pending";

/// A version of an app.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) app: String,
    pub(crate) ver: String,
}

impl Version {
    pub(crate) fn new(app: &str, ver: &str) -> Self {
        Self { app: app.to_owned(), ver: ver.to_owned() }
    }

    fn of(key: &RawKey) -> Self {
        Self::new(&key.app, &key.ver)
    }

    /// The two parts of a path that name it.
    pub(crate) fn parts(&self) -> [String; 2] {
        [format!("app={}", encode(&self.app)), format!("ver={}", encode(&self.ver))]
    }

    fn directory(&self, root: &Path) -> PathBuf {
        let [app, ver] = self.parts();
        root.join("mappings/v1").join(app).join(ver)
    }
}

/// Result of [`Mappings::put`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// The version had no such mapping.
    New,
    /// It replaced another one.
    Replaced,
    /// The same as before.
    Unchanged,
}

/// Mappings of a store; the last used ones are in memory.
#[derive(Debug)]
pub(crate) struct Mappings {
    root: PathBuf,
    /// Held while a mapping, or a note of pending work, is put in place.
    placing: Mutex<()>,
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    /// By app and version; most versions have none.
    known: Budget<String, String, Option<Arc<Mapping>>>,
    /// Held by each analysis that began since the last mapping arrived; and the tokens of earlier, running analyses.
    current: Arc<()>,
    earlier: Vec<Weak<()>>,
}

/// Held by an analysis from before it looks for its mapping until its rows are written.
pub(crate) type Token = Arc<()>;

impl Mappings {
    pub(crate) fn new(root: &Path) -> Self {
        let known = Budget::new(MAX_CACHED, MAX_CACHED);
        let cache = Mutex::new(Cache { known, current: Arc::default(), earlier: Vec::new() });
        Self { root: root.to_owned(), placing: Mutex::default(), cache }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mapping of a capture's version, and a token to hold until its rows are written.
    pub(crate) fn find(&self, key: &RawKey) -> (Option<Arc<Mapping>>, Token) {
        let version = Version::of(key);
        let mut cache = self.cache();
        let token = Arc::clone(&cache.current);
        if let Some(mapping) = cache.known.remove(&version.app, &version.ver) {
            // Marks it as the last one used.
            cache.known.put(version.app, version.ver, 1, mapping.clone());
            return (mapping, token);
        }
        drop(cache);
        let mapping = self.load(&version).unwrap_or_else(|error| {
            tracing::error!("cannot read a mapping; its names stay as they are: {error:#}");
            None
        });
        let mapping = mapping.map(Arc::new);
        let mut cache = self.cache();
        // Otherwise another one may have arrived meanwhile.
        if Arc::ptr_eq(&token, &cache.current) {
            cache.known.put(version.app, version.ver, 1, mapping.clone());
        }
        drop(cache);
        (mapping, token)
    }

    /// Loads the mapping of a version; `None`: there is none. Makes its tables if they are not there.
    fn load(&self, version: &Version) -> Result<Option<Mapping>> {
        for name in [CLASSES, METHODS] {
            let path = version.directory(&self.root).join(name);
            if !path.exists() || open_packed(&path).is_some() {
                continue;
            }
            // One at a time writes them; another one may have done so.
            let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
            if open_packed(&path).is_some() {
                continue;
            }
            let made = text_of(&path).and_then(|mapping| Ok(pack(&path, &mapping)?));
            if let Err(error) = made {
                tracing::error!("cannot make the tables of {}: {error:#}", path.display());
            }
        }
        read(&version.directory(&self.root))
    }

    /// True if an analysis is in progress that began before the last mapping arrived.
    pub(crate) fn has_earlier(&self) -> bool {
        let mut cache = self.cache();
        cache.earlier.retain(|token| token.strong_count() > 0);
        !cache.earlier.is_empty()
    }

    /// Validates an upload and stores it. `body` and `incoming` are files in transit. Blocks.
    pub(crate) fn put(
        &self,
        version: &Version,
        body: &Path,
        incoming: &Incoming,
    ) -> Result<Put, Refused> {
        let (name, mapping) = validate(body, &incoming.path)?;
        let directory = version.directory(&self.root);
        let path = directory.join(name);
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match fs::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        if before
            .as_ref()
            .is_some_and(|before| fs::read(&incoming.path).ok().as_ref() == Some(before))
        {
            return Ok(Put::Unchanged);
        }
        if before.is_none() && self.is_full(version)? {
            return Err(Refused::Full);
        }
        make_parent(&path)?;
        // The note first, so that after an interruption no capture keeps its old names.
        note(&directory, "")?;
        discard_packed(&path)?;
        fs::rename(&incoming.path, &path)?;
        if let Err(error) = pack(&path, &mapping) {
            tracing::error!("cannot write the tables of {}: {error}", path.display());
        }
        File::open(&directory)?.sync_all()?;
        self.forget_cached(version);
        Ok(if before.is_some() { Put::Replaced } else { Put::New })
    }

    /// Later analyses read the mapping of this version again.
    fn forget_cached(&self, version: &Version) {
        let mut cache = self.cache();
        cache.known.remove(&version.app, &version.ver);
        let before_it = std::mem::take(&mut cache.current);
        cache.earlier.push(Arc::downgrade(&before_it));
    }

    /// Writes a mapping from a bucket, if it is missing here or differs.
    pub(crate) fn mirror(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let is_one = [CLASSES, METHODS].iter().any(|name| path.ends_with(&format!("/{name}")));
        let file = self.root.join(path);
        let Some(version) = file.parent().and_then(version_of).filter(|_| is_one) else {
            return Ok(());
        };
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::read(&file).is_ok_and(|before| before == bytes) {
            return Ok(());
        }
        make_parent(&file)?;
        discard_packed(&file)?;
        let making = file.with_extension("mirroring");
        fs::write(&making, bytes)?;
        fs::rename(making, file)?;
        self.forget_cached(&version);
        Ok(())
    }

    /// Returns the files of a version, as paths below the root, and the path of the note of pending work.
    pub(crate) fn paths(version: &Version) -> ([String; 2], String) {
        let [app, ver] = version.parts();
        let path = |name| format!("mappings/v1/{app}/{ver}/{name}");
        ([path(CLASSES), path(METHODS)], path(PENDING))
    }

    /// Notes that a version's captures are to be analyzed again; `note`: the path of the note.
    pub(crate) fn resume(&self, note_path: &str) -> io::Result<()> {
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.root.join(note_path).parent() {
            Some(directory) if directory.exists() && !directory.join(PENDING).exists() => {
                note(directory, "")
            }
            _ => Ok(()),
        }
    }

    fn each_file(&self, each: &mut dyn FnMut(&Path)) -> io::Result<()> {
        let below = self.root.join("mappings/v1");
        if below.exists() { walk(&below, each) } else { Ok(()) }
    }

    /// True if there is no room for another mapping of an app, by number or by size.
    fn is_full(&self, new: &Version) -> io::Result<bool> {
        let mut bytes = Budget::new(MAX_STORED_BYTES, u64::MAX);
        let mut counts = Budget::new(MAX_MAPPINGS, u64::MAX);
        self.each_file(&mut |path| {
            let version = path.parent().and_then(version_of);
            let Some(version) = version.filter(|_| !path.ends_with(PENDING)) else { return };
            let size = path.metadata().map_or(0, |metadata| metadata.len());
            if path.extension().is_some_and(|extension| extension == "zst") {
                counts.put(version.app.clone(), path.to_owned(), 1, ());
            }
            bytes.put(version.app, path.to_owned(), size, ());
        })?;
        Ok(!counts.admits(&new.app, 1) || !bytes.admits(&new.app, 1))
    }

    /// Returns the versions whose captures are to be analyzed again.
    pub(crate) fn pending(&self) -> io::Result<Vec<Version>> {
        let mut found = Vec::new();
        self.each_file(&mut |path| {
            if path.file_name().is_some_and(|name| name == PENDING) {
                found.extend(path.parent().and_then(version_of));
            }
        })?;
        Ok(found)
    }

    /// Returns the key of the last reanalyzed capture; empty at the beginning, `None` at the end. Also returns the state for
    /// [`Self::advance`].
    pub(crate) fn progress(&self, version: &Version) -> (Option<String>, Token) {
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let note = fs::read_to_string(version.directory(&self.root).join(PENDING)).ok();
        (note, Arc::clone(&self.cache().current))
    }

    /// Records the progress of the work, or with `None` its end, unless a mapping has arrived since `state`.
    pub(crate) fn advance(
        &self,
        version: &Version,
        state: &Token,
        to: Option<&str>,
    ) -> io::Result<()> {
        let _placing = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(state, &self.cache().current) {
            return Ok(());
        }
        let directory = version.directory(&self.root);
        match to {
            Some(key) => note(&directory, key),
            None => fs::remove_file(directory.join(PENDING)),
        }
    }
}

/// Writes the note of pending work atomically.
fn note(directory: &Path, key: &str) -> io::Result<()> {
    let making = directory.join(".pending");
    let mut file = File::create(&making)?;
    file.write_all(key.as_bytes())?;
    file.sync_data()?;
    fs::rename(&making, directory.join(PENDING))
}

/// Clears the pending work, because all tables were rebuilt.
pub(crate) fn settle(root: &Path) -> io::Result<()> {
    for version in Mappings::new(root).pending()? {
        fs::remove_file(version.directory(root).join(PENDING))?;
    }
    Ok(())
}

fn version_of(directory: &Path) -> Option<Version> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let (ver, app) = (name(directory)?, name(directory.parent()?)?);
    // The same form as in the key of a capture.
    let id = "0";
    let key = RawKey::parse(&format!("raw/v1/{app}/dt=1970-01-01/{ver}/{id}.ftrace.zst"))?;
    Some(Version::of(&key))
}

/// Reads the mapping that a collector keeps for a stored capture; `None` if the file is not in a collector's store, or
/// the store has no mapping of its version.
///
/// # Errors
/// When the mapping cannot be read.
pub fn mapping_of_stored(capture: &Path) -> Result<Option<Mapping>> {
    // The file's own place: the path may be relative, or a link.
    let Ok(capture) = fs::canonicalize(capture) else { return Ok(None) };
    let path = capture.to_str().unwrap_or_default();
    let Some(key) = RawKey::parse(path) else { return Ok(None) };
    match path.strip_suffix(&key.path()) {
        Some(root) => read(&Version::of(&key).directory(Path::new(root))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::captures::local_store::LocalStore;
    use crate::store::mappings::files::PACKED;

    #[test]
    fn an_app_has_half_of_all_mappings_and_another_one_has_room() {
        let directory = tempfile::tempdir().unwrap();
        let mappings = Mappings::new(directory.path());
        let full = Version::new("a", "1").directory(directory.path());
        fs::create_dir_all(&full).unwrap();
        let is_full = |app| mappings.is_full(&Version::new(app, "2")).unwrap();
        let write = |number: u32| File::create(full.join(format!("{number}.txt.zst"))).unwrap();
        (1..4_999).for_each(|number| drop(write(number)));
        let last = write(4_999);
        assert!(!is_full("a"));
        // Nor may they have 16 GiB; an empty one counts as a byte.
        last.set_len((16 << 30) - 4_999).unwrap();
        assert!(!is_full("a"));
        last.set_len((16 << 30) - 4_998).unwrap();
        assert_eq!([is_full("a"), is_full("b")], [true, false]);
        last.set_len(0).unwrap();
        write(5_000);
        assert_eq!([is_full("a"), is_full("b")], [true, false]);
    }

    fn key(ver: &str) -> RawKey {
        RawKey::parse(&format!("raw/v1/app=a/dt=2026-11-23/ver={ver}/0.ftrace.zst")).unwrap()
    }

    #[test]
    fn versions_that_alternate_are_read_from_their_tables_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        let mappings = Mappings::new(root);
        let upload = |ver: &str, text: &str| {
            let (body, incoming) = (store.incoming(), store.incoming());
            fs::write(&body.path, text).unwrap();
            mappings.put(&Version::new("a", ver), &body.path, &incoming).unwrap()
        };
        let name = |ver: &str| mappings.find(&key(ver)).0.unwrap().apply("a.a").into_owned();
        assert_eq!(upload("1", "First -> a.a:\n"), Put::New);
        assert_eq!(upload("2", "Second -> a.a:\n"), Put::New);
        let path = |ver: &str| Version::new("a", ver).directory(root).join(CLASSES);
        // The texts are not read again: what stands in their places now is none.
        let texts = ["1", "2"].map(|ver| fs::read(path(ver)).unwrap());
        ["1", "2"].iter().for_each(|ver| fs::write(path(ver), "no mapping").unwrap());
        let first = mappings.find(&key("1")).0.unwrap();
        for _ in 0..10 {
            assert_eq!([name("1"), name("2")], ["First", "Second"]);
        }
        assert!(Arc::ptr_eq(&first, &mappings.find(&key("1")).0.unwrap()));
        // Tables that are gone, or of another version of the program, are rebuilt of the text.
        ["1", "2"]
            .into_iter()
            .zip(&texts)
            .for_each(|(ver, text)| fs::write(path(ver), text).unwrap());
        for ver in ["1", "2"] {
            fs::remove_file(path(ver).with_extension(PACKED)).unwrap();
        }
        fs::write(path("2").with_extension(PACKED), "old tables").unwrap();
        let again = Mappings::new(root);
        for (ver, name) in [("1", "First"), ("2", "Second")] {
            assert_eq!(again.find(&key(ver)).0.unwrap().apply("a.a"), name);
            assert!(open_packed(&path(ver)).is_some());
        }
        // Another mapping replaces both.
        assert_eq!(upload("1", "Third -> a.a:\n"), Put::Replaced);
        assert_eq!([name("1"), name("2")], ["Third", "Second"]);
        assert_eq!(first.apply("a.a"), "First", "an analysis under way keeps its own");
        // Only a limited number stays open: those that were used last.
        let third = mappings.find(&key("1")).0.unwrap();
        let is_open_after = |others: std::ops::Range<u32>| {
            others.for_each(|number| drop(mappings.find(&key(&format!("other {number}")))));
            Arc::ptr_eq(&third, &mappings.find(&key("1")).0.unwrap())
        };
        assert_eq!([0..900, 1_000..2_100].map(is_open_after), [true, false]);
    }
}
