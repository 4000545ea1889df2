//! The objects of a store: files of a directory, or objects of S3, GCS or Azure (`cloud.rs`).
//!
//! Backup, `forget`, retention and the converter, which read or delete a whole store, work on this trait, and so does the
//! replica of an object store. The metadata of a capture is a companion file in a directory, and object metadata elsewhere.
//! `object_store::local` is not suitable for a directory: it supports neither metadata nor conditional replacement, and does
//! not keep times, which retention needs. Calls block.

#[cfg(feature = "cloud")]
mod cloud;
#[cfg(feature = "cloud")]
mod cloud_client;
pub(crate) mod disk;
pub(crate) mod intents;
pub(crate) mod location;

use crate::store::objects::disk::{make_parent, remove, sidecar_of, walk};
use anyhow::{Context, Result, bail};
use std::fmt::Debug;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tracetee_fleet::object_keys::RawKey;
use tracetee_protocol::CaptureMeta;

/// Maximum bytes of an object that is read into memory: the limit of a collector.
pub(crate) const MAX_OBJECT_BYTES: u64 = 256 << 20;

/// The findings of the collectors' guard.
pub(crate) const FINDINGS: &str = "findings.json";

/// Objects that are read at once.
const READS: usize = 16;

/// An object, as the store lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
}

/// An object's bytes, and its metadata.
pub(crate) type Content = (Vec<u8>, CaptureMeta);

/// The objects of a store.
pub(crate) trait Objects: Debug + Send + Sync {
    /// Writes an object if it does not exist. `false`: it exists.
    fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<bool>;

    /// Reads an object; `None`: it does not exist.
    fn find(&self, path: &str) -> Result<Option<Content>>;

    /// Deletes objects. A missing object is not an error.
    fn delete(&self, paths: &[String]) -> Result<()>;

    /// Calls `each` for the objects below a path, those of one directory in the order of their names.
    fn walk(&self, below: &str, each: &mut dyn FnMut(Listed)) -> Result<()>;

    /// Returns an object's file, with its metadata in a companion file: its own, or a copy in the directory `copies`.
    /// `None`: it does not exist.
    fn file(&self, path: &str, copies: &Path) -> Result<Option<PathBuf>> {
        let Some((bytes, meta)) = self.find(path)? else { return Ok(None) };
        let file = copies.join(path);
        make_parent(&file)?;
        // Whole, or not there.
        let write = |to: &Path, content: &[u8]| {
            let making = to.with_added_extension("fetching");
            fs::write(&making, content)?;
            fs::rename(making, to)
        };
        if RawKey::parse(path).is_some() {
            write(&sidecar_of(&file), meta.to_json().as_bytes())?;
        }
        write(&file, &bytes)?;
        Ok(Some(file))
    }

    /// Like [`Self::find`]; an error if the object does not exist.
    fn get(&self, path: &str) -> Result<Content> {
        self.find(path)?.with_context(|| format!("cannot read {path}: it does not exist"))
    }

    /// The objects below a path, sorted by their paths.
    fn list_all(&self, below: &str) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        self.walk(below, &mut |listed| all.push(listed))?;
        all.sort_unstable();
        Ok(all)
    }

    /// The paths below one, sorted.
    fn list(&self, below: &str) -> Result<Vec<String>> {
        Ok(self.list_all(below)?.into_iter().map(|listed| listed.path).collect())
    }
}

/// The objects of a store that collectors share.
pub(crate) trait Shared: Objects {
    /// Writes a capture with its metadata, if it does not exist. `false`: it exists.
    fn put_capture(&self, path: &str, bytes: Vec<u8>, meta: &CaptureMeta) -> Result<bool>;

    /// Writes an object, replacing an existing one.
    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()>;

    /// Replaces an object by the result of `work` on it, or on `None`; calls `work` again if another process has replaced it
    /// meanwhile.
    fn update(
        &self,
        path: &str,
        work: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
    ) -> Result<()>;

    /// Checks that the store responds; does not need the permission to list it.
    fn probe(&self) -> Result<()>;

    /// Returns why nothing can be written: the last write failed a moment ago. After that moment another one may try.
    fn why_away(&self) -> Option<&'static str>;

    /// Aborts calls that do not end soon, and all later calls, because the collector stops.
    fn end(&self);
}

/// Files below a directory.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// Returns an object's file; an error for a path that leads elsewhere.
    fn resolve(&self, path: &str) -> Result<PathBuf> {
        if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
            bail!("{path} is not the path of an object");
        }
        Ok(self.0.join(path))
    }
}

impl Objects for Directory {
    fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<bool> {
        write_new(&self.resolve(path)?, &bytes).with_context(|| format!("cannot write {path}"))
    }

    fn find(&self, path: &str) -> Result<Option<Content>> {
        let file = self.resolve(path)?;
        let read = file.metadata().and_then(|found| {
            (found.len() <= MAX_OBJECT_BYTES).then(|| fs::read(&file)).transpose()
        });
        let bytes = match read {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("cannot read {path}"))?,
        };
        let bytes =
            bytes.with_context(|| format!("{path} has more than {MAX_OBJECT_BYTES} bytes"))?;
        let meta = fs::read(sidecar_of(&file)).ok();
        let meta = meta.and_then(|json| CaptureMeta::from_json(&json));
        Ok(Some((bytes, meta.unwrap_or_default())))
    }

    fn delete(&self, paths: &[String]) -> Result<()> {
        paths.iter().try_for_each(|path| Ok(remove(&self.resolve(path)?)?))
    }

    fn walk(&self, below: &str, each: &mut dyn FnMut(Listed)) -> Result<()> {
        let directory = self.resolve(below)?;
        if !directory.exists() {
            return Ok(());
        }
        let walked = walk(&directory, &mut |file| {
            let path = file.strip_prefix(&self.0).ok().and_then(Path::to_str);
            // It may have been deleted meanwhile.
            let (Some(path), Ok(found)) = (path, file.metadata()) else { return };
            let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            each(Listed { path: path.to_owned(), bytes: found.len(), modified });
        });
        walked.with_context(|| format!("cannot list {}", directory.display()))
    }

    fn file(&self, path: &str, _: &Path) -> Result<Option<PathBuf>> {
        let file = self.resolve(path)?;
        Ok(file.exists().then_some(file))
    }
}

/// An error of an object store with all its causes.
pub(crate) fn described(error: anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

/// Calls `work`, which reads an object, for each item, until one fails.
pub(crate) fn each<'a, T: Sync>(
    items: &'a [T],
    work: impl Fn(&'a T) -> Result<()> + Sync,
) -> Result<()> {
    on_threads(READS, items, work)
}

/// Calls `work` for each item, on several threads, until one fails.
pub(crate) fn on_threads<'a, T: Sync>(
    count: usize,
    items: &'a [T],
    work: impl Fn(&'a T) -> Result<()> + Sync,
) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..count.min(items.len()) {
            scope.spawn(|| {
                // ORDERING: Relaxed; only a unique number.
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = work(item) {
                        next.store(items.len(), Ordering::Relaxed);
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Writes a file if it does not exist, completely or not at all. `false`: it exists.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let directory = make_parent(path)?;
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => File::open(directory)?.sync_all().map(|()| true),
        Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(refused) => Err(refused.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_directory_are_written_once_and_stay_within_it() {
        let directory = tempfile::tempdir().unwrap();
        let objects = Directory(directory.path().to_owned());
        assert!(objects.put_new("raw/v1/a", b"1".to_vec()).unwrap());
        assert!(!objects.put_new("raw/v1/a", b"2".to_vec()).unwrap());
        assert_eq!(objects.get("raw/v1/a").unwrap().0, b"1");
        assert_eq!(objects.list("raw/v1").unwrap(), ["raw/v1/a"], "nothing is left beside it");
        assert!(objects.list("losses/v1").unwrap().is_empty());
        for path in ["../a", "/a", "raw/../../a"] {
            let refused = objects.put_new(path, Vec::new()).unwrap_err();
            assert!(format!("{refused:#}").contains("is not the path of an object"), "{refused:#}");
            assert!(objects.get(path).is_err());
        }
    }
}
