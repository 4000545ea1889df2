//! The objects of a store as a converter sees them: the files of a directory, or those of S3, GCS or Azure
//! (`cloud.rs`).
//!
//! Everything is written where there is nothing yet and never changed, so any number of collectors and
//! converters may work on one. What is known of a capture besides its text lies beside it in a directory, and is the
//! object's metadata elsewhere. Calls block.

use super::cloud::Cloud;
use super::local_store::{make_parent, sidecar_of, walk};
use super::location::StoreLocation;
use super::quarantined::Quarantined;
use anyhow::{Context, Result, bail};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tracetee_fleet::object_keys::RawKey;
use tracetee_protocol::CaptureMeta;

/// Bytes of one object that is read into memory: what a collector takes.
pub(super) const MAX_OBJECT_BYTES: u64 = 256 << 20;

/// Objects that are read at once.
const READS: usize = 16;

/// An object, as the store lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

/// The objects of a store.
#[derive(Debug, Clone)]
pub(crate) enum Objects {
    /// Files below a directory.
    Directory(PathBuf),
    /// Objects of a cloud's store.
    Cloud(Cloud),
}

impl Objects {
    /// Opens `s3://bucket/prefix`, `gs://…`, `az://…` (who one is: from the environment, as the providers'
    /// own tools have it), or a directory.
    pub(crate) fn open(address: &str) -> Result<Self> {
        match StoreLocation::parse(address) {
            StoreLocation::Directory(path) => {
                fs::create_dir_all(path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Ok(Self::Directory(path.to_owned()))
            }
            StoreLocation::Objects(address) => Cloud::open(address).map(Self::Cloud),
        }
    }

    /// Writes an object where there is none. `false`: there is one.
    pub(crate) fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<bool> {
        let written = match self {
            Self::Directory(root) => {
                file_at(root, path).and_then(|file| Ok(write_new(&file, &bytes)?))
            }
            Self::Cloud(cloud) => cloud.put_new(path, bytes, None),
        };
        written.with_context(|| format!("cannot write {path}"))
    }

    /// Sets aside what was no capture, with the reason.
    pub(crate) fn quarantine(&self, key: &RawKey, reason: &str, meta: &CaptureMeta) -> Result<()> {
        let about = Quarantined { reason: reason.to_owned(), meta: meta.clone(), raw_key: None };
        self.put_new(&format!("quarantine/{}.json", key.name()), about.to_json().into_bytes())?;
        Ok(())
    }

    /// An object's bytes, and what is known of it.
    pub(crate) fn get(&self, path: &str) -> Result<(Vec<u8>, CaptureMeta)> {
        match self {
            Self::Directory(root) => {
                let file = file_at(root, path)?;
                let found = file.metadata().and_then(|found| {
                    (found.len() <= MAX_OBJECT_BYTES).then(|| fs::read(&file)).transpose()
                });
                let found = found.with_context(|| format!("cannot read {path}"))?;
                let Some(bytes) = found else {
                    bail!("{path} has more than {MAX_OBJECT_BYTES} bytes");
                };
                let meta = fs::read(sidecar_of(&file)).ok();
                let meta = meta.and_then(|json| CaptureMeta::from_json(&json));
                Ok((bytes, meta.unwrap_or_default()))
            }
            Self::Cloud(cloud) => cloud.get(path),
        }
    }

    /// The paths of the objects below one.
    pub(crate) fn list(&self, below: &str) -> Result<Vec<String>> {
        match self {
            Self::Directory(root) => {
                let mut paths = Vec::new();
                let directory = root.join(below);
                if directory.exists() {
                    let walked = walk(&directory, &mut |file| {
                        let path = file.strip_prefix(root).ok().and_then(Path::to_str);
                        paths.extend(path.map(str::to_owned));
                    });
                    walked.with_context(|| format!("cannot list {}", directory.display()))?;
                }
                Ok(paths)
            }
            Self::Cloud(cloud) => cloud.list(below),
        }
    }
}

/// Calls `work` for each item, on several threads, until one fails.
pub(super) fn each<'a, T: Sync>(
    items: &'a [T],
    work: impl Fn(&'a T) -> Result<()> + Sync,
) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..READS.min(items.len()) {
            scope.spawn(|| {
                // ORDERING: Relaxed; a number that nobody else gets.
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

/// Returns an object's file; an error for a path that leads elsewhere.
fn file_at(root: &Path, path: &str) -> Result<PathBuf> {
    if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
        bail!("{path} is no path of an object");
    }
    Ok(root.join(path))
}

/// Writes a file where there is none, complete or not at all. `false`: there is one.
fn write_new(place: &Path, bytes: &[u8]) -> io::Result<bool> {
    let directory = make_parent(place)?;
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(place) {
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
        let objects = Objects::open(directory.path().to_str().unwrap()).unwrap();
        assert!(objects.put_new("raw/v1/a", b"1".to_vec()).unwrap());
        assert!(!objects.put_new("raw/v1/a", b"2".to_vec()).unwrap());
        assert_eq!(objects.get("raw/v1/a").unwrap().0, b"1");
        assert_eq!(objects.list("raw/v1").unwrap(), ["raw/v1/a"], "nothing is left beside it");
        assert!(objects.list("losses/v1").unwrap().is_empty());
        for path in ["../a", "/a", "raw/../../a"] {
            let refused = objects.put_new(path, Vec::new()).unwrap_err();
            assert!(format!("{refused:#}").contains("is no path of an object"), "{refused:#}");
            assert!(objects.get(path).is_err());
        }
    }
}
