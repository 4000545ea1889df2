//! Copies a local store while a collector works on it, for `tracetee store backup`.
//!
//! Mappings come first, then the tables, as they are in one transaction of SQLite, then the other files that the copy lacks. What comes
//! meanwhile has no rows yet, and a collector makes them when it starts on the copy; rows of files that retention deletes
//! meanwhile go from the copy. `forget` and `rebuild` are refused meanwhile. Stored files do not change: a second backup into the same directory
//! copies only what came since. What the store has no longer goes from the copy. Files keep their times, by which retention goes.

use super::id_index;
use super::intents::{self, COPY};
use super::local_store::{self, walk};
use super::rebuild::lock_against;
use super::tables_of;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;
use tracetee_fleet::Error;
use tracetee_fleet::database::{Database, copy_database};
use tracetee_fleet::guard::state;

/// Directories of a store that have something of their own; the others are made of them. Mappings come before the tables: a late one
/// would have no captures that wait for it.
pub(super) const BEFORE_TABLES: [&str; 1] = ["mappings"];
const AFTER_TABLES: [&str; 3] = ["raw", "losses", "quarantine"];
/// File by which a directory is known as a copy: nothing is deleted in another one.
const MARK: &str = "made-by-tracetee-store-backup";
/// Extension of a file that is not whole.
const PART: &str = "part";

/// Result of [`backup`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackedUp {
    /// Files that were copied.
    pub copied: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Files that the copy had already.
    pub kept: u64,
    /// Files that the store has no longer, deleted in the copy.
    pub deleted: u64,
}

/// Copies a store to a directory, which is a copy of it already, or empty, or does not exist.
///
/// # Errors
/// When the store is none, the directory is something else, or a file cannot be read or written.
pub fn backup(root: &Path, to: &Path) -> Result<BackedUp> {
    if !root.join("raw").is_dir() {
        bail!("{} is not the store of a collector: it has no directory raw", root.display());
    }
    let _copy = prepare(to, Some(root))?;
    let _alone = lock_against(root)?;
    intents::go_on_alone(root)?;
    let mut done = BackedUp::default();
    copy_directories(root, to, &BEFORE_TABLES, &mut done)?;
    copy_tables(&tables_of(root), &tables_of(to))?;
    copy_tables(&state::path(root), &state::path(to))?;
    let findings = root.join("findings.json");
    if findings.exists() {
        copy(&findings, &to.join("findings.json")).context("cannot copy findings.json")?;
    }
    copy_directories(root, to, &AFTER_TABLES, &mut done)?;
    delete_rows(to)?;
    intents::end(to, COPY)?;
    Ok(done)
}

/// Makes an unfinished copy a store of what has been copied, with all that the copy had before and that the store still has. May be
/// repeated.
pub(super) fn make_whole(to: &Path) -> Result<()> {
    let mut parts = Vec::new();
    walk(to, &mut |path| {
        parts.extend(path.extension().is_some_and(|of| of == PART).then(|| path.to_owned()));
    })?;
    parts.iter().try_for_each(|part| remove(part))?;
    match delete_rows(to) {
        // Tables that were just being replaced are made anew, of the captures.
        Err(error) if error.downcast_ref().is_some_and(Error::is_damage) => {
            let tables = tables_of(to);
            remove(&tables)?;
            remove_logs(&tables)
        }
        done => done,
    }
}

/// Makes the directory of a copy, outside of the directory `root`, and locks it until the result is dropped.
pub(super) fn prepare(to: &Path, root: Option<&Path>) -> Result<File> {
    let is_empty = fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !to.join(MARK).exists() {
        bail!("{} is not empty, and no backup; choose another directory", to.display());
    }
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    if let Some(root) = root
        && to.canonicalize()?.starts_with(root.canonicalize()?)
    {
        bail!("{} is inside the store; choose another directory", to.display());
    }
    fs::write(to.join(MARK), "tracetee store backup deletes here what the store has no longer.\n")?;
    let lock = local_store::lock(to)?;
    // A collector that has worked on the copy has made it; the next one makes it anew.
    id_index::discard(to)?;
    intents::settle(to)?;
    intents::begin(to, COPY, "")?;
    Ok(lock)
}

pub(super) fn copy_directories(
    root: &Path,
    to: &Path,
    names: &[&str],
    done: &mut BackedUp,
) -> Result<()> {
    for name in names {
        let (from, to) = (root.join(name), to.join(name));
        if from.is_dir() {
            copy_files(&from, &to, done)?;
        }
        if to.is_dir() {
            delete_others(&from, &to, done)?;
        }
    }
    Ok(())
}

pub(super) fn copy_tables(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let part = to.with_added_extension(PART);
    remove(&part)?;
    copy_database(from, &part).with_context(|| format!("cannot copy {}", from.display()))?;
    // Of the tables that are replaced.
    remove_logs(to)?;
    File::open(&part)?.sync_all()?;
    fs::rename(&part, to).with_context(|| format!("cannot write {}", to.display()))
}

fn remove_logs(tables: &Path) -> Result<()> {
    for log in ["sqlite-wal", "sqlite-shm"] {
        remove(&tables.with_extension(log))?;
    }
    Ok(())
}

/// Deletes the rows of captures and loss reports that the copy lacks.
pub(super) fn delete_rows(root: &Path) -> Result<()> {
    let tables = tables_of(root);
    if !tables.exists() {
        return Ok(());
    }
    let mut copied = Database::open(&tables)?;
    let keys = copied.by_age()?.into_iter().map(|(key, ..)| key);
    let keys: Vec<String> = keys.filter(|key| !root.join(key).exists()).collect();
    let reports = copied.loss_reports()?.into_iter();
    let is_lacking =
        |(dt, id): &(String, String)| !root.join(format!("losses/v1/dt={dt}/{id}.json")).exists();
    let reports: Vec<String> = reports.filter(is_lacking).map(|(_, id)| id).collect();
    if !keys.is_empty() || !reports.is_empty() {
        copied.delete(&keys)?;
        copied.delete_loss_reports(&reports)?;
        copied.forget_deleted()?;
    }
    Ok(())
}

fn copy_files(from: &Path, to: &Path, done: &mut BackedUp) -> Result<()> {
    let mut failed = None;
    walk(from, &mut |path| {
        if failed.is_some() {
            return;
        }
        let Ok(below) = path.strip_prefix(from) else { return };
        match copy(path, &to.join(below)) {
            Ok(Some(bytes)) => {
                done.copied += 1;
                done.bytes += bytes;
            }
            Ok(None) => done.kept += 1,
            // It was deleted meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.exists() => {}
            Err(error) => failed = Some((path.to_owned(), error)),
        }
    })?;
    match failed {
        None => Ok(()),
        Some((path, error)) => {
            Err(error).with_context(|| format!("cannot copy {}", path.display()))
        }
    }
}

/// Copies a file with its time. `None`: the copy has it.
fn copy(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    let found = fs::metadata(from)?;
    if has(to, found.len(), found.modified()?) {
        return Ok(None);
    }
    write(to, found.modified()?, |part| fs::copy(from, part)).map(Some)
}

/// True if a copy has a file of this size and time.
pub(super) fn has(to: &Path, bytes: u64, modified: SystemTime) -> bool {
    fs::metadata(to)
        .is_ok_and(|copied| copied.len() == bytes && copied.modified().ok() == Some(modified))
}

/// Writes a file of a copy, whole or not at all, with its time. Returns what `fill` returns.
pub(super) fn write<T>(
    to: &Path,
    modified: SystemTime,
    fill: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    let part = to.with_added_extension(PART);
    let filled = fill(&part)?;
    let file = File::options().write(true).open(&part)?;
    file.set_modified(modified)?;
    file.sync_all()?;
    fs::rename(&part, to)?;
    Ok(filled)
}

/// Deletes what the store has no longer, and what is not whole.
fn delete_others(from: &Path, to: &Path, done: &mut BackedUp) -> Result<()> {
    let mut others = Vec::new();
    walk(to, &mut |path| {
        if path.strip_prefix(to).is_ok_and(|below| !from.join(below).exists()) {
            others.push(path.to_owned());
        }
    })?;
    for path in others {
        remove(&path).with_context(|| format!("cannot delete {}", path.display()))?;
        done.deleted += 1;
    }
    Ok(())
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
