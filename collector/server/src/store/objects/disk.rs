//! Finds, deletes and locks the files of a store, with their companion files.

use anyhow::{Context, Result, bail};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracetee_fleet::object_keys::RawKey;

/// Path of the tables of a local store.
#[must_use]
pub fn tables_of(store: &Path) -> PathBuf {
    store.join("tables.sqlite")
}

/// Returns the place of the note of a capture that was quarantined. The body has the same name with the extension `body`.
pub(crate) fn note(root: &Path, key: &RawKey) -> PathBuf {
    root.join("quarantine").join(format!("{}.json", key.name()))
}

/// `ID.json` beside `ID.ftrace.zst`.
pub(crate) fn sidecar_of(path: &Path) -> PathBuf {
    path.with_extension("").with_extension("json")
}

/// The files below a directory, in the order of their paths.
pub(crate) fn walk(directory: &Path, each: &mut dyn FnMut(&Path)) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), each)?;
        } else {
            each(&entry.path());
        }
    }
    Ok(())
}

/// Locks a file until the result is dropped. `busy`: the error if another process holds it.
pub(crate) fn lock_file(path: &Path, busy: String) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(busy),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Makes the directory of a file, as [`make_directory`] does.
pub(crate) fn make_parent(path: &Path) -> io::Result<&Path> {
    let directory = path.parent().unwrap_or(path);
    make_directory(directory)?;
    Ok(directory)
}

/// Makes a directory and those above it. Their names are on the disk when it returns: a loss of power takes a file whose own
/// directory was synced with the name of one above it that was not.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    // Held until a name is synced, so that the directory is not found before.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<_> = directory.ancestors().take_while(|above| !above.is_dir()).collect();
    for new in missing.into_iter().rev().filter(|new| !new.as_os_str().is_empty()) {
        match fs::create_dir(new) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let above = new.parent().filter(|above| !above.as_os_str().is_empty());
        File::open(above.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Deletes a capture, a loss report, or a note in quarantine, with its companion files.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    // A body in quarantine is deleted before its note, without which it would have no owner.
    for file in [&path.with_extension("body"), path, &sidecar_of(path)] {
        remove_file(file).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot delete {}: {error}", file.display()))
        })?;
    }
    Ok(())
}

/// Deletes a file, if there is one.
pub(crate) fn remove_file(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Deletes SQLite's log files of the tables.
pub(crate) fn remove_logs(tables: &Path) -> io::Result<()> {
    remove_file(&tables.with_extension("sqlite-wal"))?;
    remove_file(&tables.with_extension("sqlite-shm"))
}
