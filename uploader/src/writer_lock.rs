//! A locked file for each process that writes captures, by which other processes notice its death.
//!
//! The kernel releases the lock when the process ends in any way. A frozen process still holds it.

use crate::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracetee_os::Owned;

/// Maximum time between creating and locking a file; only a frozen process takes longer.
const BEING_MADE: Duration = Duration::from_secs(3600);

/// The lock of this process, held until it is dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    path: PathBuf,
    /// `None` if the lock belongs to another process.
    lock: Option<Owned<File>>,
}

impl WriterLock {
    /// Creates a lock under an unused name.
    pub(crate) fn new(directory: &Path, random: u64) -> Result<Self, Error> {
        let name = format!("{:x}-{random:x}", std::process::id());
        let path = directory.join(name);
        // Locked before it gets its name, so it is never visible unlocked.
        let new = path.with_extension("new");
        let lock = tracetee_os::create(&new).map_err(Error::io("create", &new))?;
        let is_ours = tracetee_os::try_lock(&lock).map_err(Error::io("lock", &new))?;
        if !is_ours {
            return Err(Error::io("lock", &new)(std::io::ErrorKind::WouldBlock.into()));
        }
        fs::rename(&new, &path).map_err(Error::io("create", &path))?;
        Ok(Self { path, lock: Some(Owned::new(lock)) })
    }

    /// Drops the lock in a forked child without releasing it: the parent keeps it.
    pub(crate) fn leave(mut self) {
        self.lock = None;
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// True if the process with this lock name has ended.
pub(crate) fn is_dead(directory: &Path, name: &str) -> bool {
    match tracetee_os::open(directory.join(name)) {
        Ok(lock) => matches!(tracetee_os::try_lock(&lock), Ok(true)),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Removes the lock files of dead processes.
pub(crate) fn remove_dead(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file that is being made is not locked yet; a process that was killed at that time leaves it.
        let age = entry.metadata().and_then(|file| file.modified()).map(|time| time.elapsed());
        let is_new = name.ends_with(".new") && !matches!(age, Ok(Ok(age)) if age > BEING_MADE);
        if !is_new && is_dead(directory, &name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_dead_when_its_lock_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let owner = WriterLock::new(directory.path(), 5).unwrap();
        let name = owner.name();
        assert!(!is_dead(directory.path(), &name));
        remove_dead(directory.path());
        assert!(directory.path().join(&name).exists());
        // A child that was forked with it has a copy of the descriptor.
        let copy = owner.lock.as_ref().unwrap().get().unwrap().try_clone().unwrap();
        WriterLock { path: owner.path.clone(), lock: Some(Owned::new(copy)) }.leave();
        assert!(!is_dead(directory.path(), &name));
        drop(owner);
        assert!(is_dead(directory.path(), &name));
        // As a killed process leaves it.
        File::create(directory.path().join("77-1")).unwrap();
        assert!(is_dead(directory.path(), "77-1"));
        // Killed before it was locked: long ago, and right now.
        let old = File::create(directory.path().join("78-1.new")).unwrap();
        old.set_modified(std::time::SystemTime::now() - 2 * BEING_MADE).unwrap();
        File::create(directory.path().join("79-1.new")).unwrap();
        remove_dead(directory.path());
        let left = fs::read_dir(directory.path()).unwrap().map(|one| one.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["79-1.new"]);
    }
}
