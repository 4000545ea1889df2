//! Copies a store to a directory while collectors work on it, for `tracetee store backup`: a store on which a collector can
//! be started.
//!
//! Mappings come first, then the tables, as they are in one transaction of SQLite, then the other objects that the copy
//! lacks. What comes meanwhile has no rows yet, and a collector makes them when it starts on the copy; rows of what is
//! deleted meanwhile go from the copy. Stored objects do not change: a second backup into the same directory copies only
//! what came since. What the store has no longer goes from the copy. Files have the times of the objects, by which retention
//! goes. Nothing is written into the store.

use crate::store::captures::id_index;
use crate::store::objects::disk::{remove_file, remove_logs, sidecar_of, tables_of, walk};
use crate::store::objects::intents::{self, COPY};
use crate::store::objects::{FINDINGS, Listed, Objects, each};
use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use tempfile::TempDir;
use tracetee_fleet::Error;
use tracetee_fleet::database::{Database, copy_database};

/// Mappings, which come before the tables: a mapping copied later would have no captures marked for it.
const MAPPINGS: &str = "mappings/v1";
/// Objects that come after the tables. Notes of an object store's quarantine are left out: their captures are in `raw/`, and
/// a collector on the copy tries them again.
const AFTER_TABLES: [&str; 4] = ["raw/v1", "losses/v1", "ledgers/v1", "quarantine"];
/// File that marks a directory as a copy: nothing is deleted in other directories.
const MARK: &str = "made-by-tracetee-store-backup";
/// Extension of a file that is not whole.
const PART: &str = "part";

/// Result of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackedUp {
    /// Files that were copied.
    pub copied: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Files that the copy had already.
    pub kept: u64,
    /// Number of files that the store no longer has, deleted in the copy.
    pub deleted: u64,
}

/// Copies a store with its tables to a directory that [`prepare`] has made one for copies.
pub(super) fn copy(
    objects: &dyn Objects,
    tables: &Path,
    has_bodies: bool,
    to: &Path,
) -> Result<BackedUp> {
    let mut copy = Copy { objects, to, copies: tempfile::tempdir()?, done: BackedUp::default() };
    copy.below(MAPPINGS, true)?;
    copy_tables(tables, &tables_of(to))?;
    let now = SystemTime::now();
    let findings = Listed { path: FINDINGS.to_owned(), bytes: 0, modified: now };
    if !copy.object(&findings)? {
        remove_file(&to.join(FINDINGS))?;
    }
    for below in AFTER_TABLES {
        copy.below(below, has_bodies || below != "quarantine")?;
    }
    delete_rows(to)?;
    intents::end(to, COPY)?;
    Ok(copy.done)
}

/// A copy of a store that is being made.
struct Copy<'a> {
    objects: &'a dyn Objects,
    to: &'a Path,
    /// For objects being copied.
    copies: TempDir,
    done: BackedUp,
}

impl Copy<'_> {
    /// Copies the objects below a path that the copy lacks, if they are wanted, and deletes the others.
    fn below(&mut self, below: &str, is_wanted: bool) -> Result<()> {
        let all = if is_wanted { self.objects.list_all(below)? } else { Vec::new() };
        let is_new =
            |listed: &&Listed| !has(&self.to.join(&listed.path), listed.bytes, listed.modified);
        let new: Vec<&Listed> = all.iter().filter(is_new).collect();
        let (copied, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        // ORDERING: Relaxed; counts, which are read when all threads have ended.
        each(&new, |listed| {
            if self.object(listed)? {
                copied.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(listed.bytes, Ordering::Relaxed);
            }
            Ok(())
        })?;
        self.done.copied += copied.into_inner();
        self.done.bytes += bytes.into_inner();
        self.done.kept += (all.len() - new.len()) as u64;
        let directory = self.to.join(below);
        if !directory.is_dir() {
            return Ok(());
        }
        let known: HashSet<&str> = all.iter().map(|listed| &*listed.path).collect();
        let mut others = Vec::new();
        walk(&directory, &mut |path| {
            let of_capture = path.with_extension("ftrace.zst");
            let mut paths = [path, &of_capture].into_iter();
            let is_known = paths.any(|path| {
                let path = path.strip_prefix(self.to).ok().and_then(Path::to_str);
                path.is_some_and(|path| known.contains(path))
            });
            others.extend((!is_known).then(|| path.to_owned()));
        })?;
        for path in others {
            remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))?;
            self.done.deleted += 1;
        }
        Ok(())
    }

    /// Copies an object with its time and its metadata in an object store. Returns false if it was deleted meanwhile.
    fn object(&self, listed: &Listed) -> Result<bool> {
        let Some(file) = self.objects.file(&listed.path, self.copies.path())? else {
            return Ok(false);
        };
        let target = self.to.join(&listed.path);
        let is_copy = file.starts_with(self.copies.path());
        let beside = (sidecar_of(&file), sidecar_of(&target));
        let beside = Some(beside).filter(|(from, _)| is_copy && from.exists());
        for (from, to) in beside.into_iter().chain([(file, target)]) {
            match write(&to, listed.modified, |part| fs::copy(&from, part)) {
                Err(error) if error.kind() == ErrorKind::NotFound && !from.exists() => {
                    return Ok(false);
                }
                written => written.with_context(|| format!("cannot write {}", to.display()))?,
            };
            if is_copy {
                remove_file(&from)?;
            }
        }
        Ok(true)
    }
}

/// Turns an unfinished copy into a valid store of the copied files, including earlier copies of files that the store still
/// has. May be repeated.
pub(super) fn make_whole(to: &Path) -> Result<()> {
    let mut parts = Vec::new();
    walk(to, &mut |path| {
        parts.extend(path.extension().is_some_and(|end| end == PART).then(|| path.to_owned()));
    })?;
    parts.iter().try_for_each(|part| remove_file(part))?;
    match delete_rows(to) {
        // Tables that were just being replaced are rebuilt from the captures.
        Err(error) if error.downcast_ref().is_some_and(Error::is_damage) => {
            let tables = tables_of(to);
            remove_file(&tables)?;
            Ok(remove_logs(&tables)?)
        }
        done => done,
    }
}

/// Checks that a directory is a copy, or may become one, outside the directory `root`.
pub(super) fn prepare(to: &Path, root: Option<&Path>) -> Result<()> {
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
    Ok(fs::write(
        to.join(MARK),
        "tracetee store backup deletes files here that the store no longer has.\n",
    )?)
}

/// Begins a copy in a directory without other users. Completes an interrupted earlier copy.
pub(super) fn begin(to: &Path) -> Result<()> {
    // Made by a collector that worked on the copy; the next one recreates it.
    id_index::discard(to)?;
    intents::begin(to, COPY, "")
}

fn copy_tables(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    let part = to.with_added_extension(PART);
    remove_file(&part)?;
    copy_database(from, &part).with_context(|| format!("cannot copy {}", from.display()))?;
    // Belonging to the replaced tables.
    remove_logs(to)?;
    File::open(&part)?.sync_all()?;
    fs::rename(&part, to).with_context(|| format!("cannot write {}", to.display()))
}

/// Deletes the rows of captures and reports that the copy lacks.
fn delete_rows(root: &Path) -> Result<()> {
    let tables = tables_of(root);
    if !tables.exists() {
        return Ok(());
    }
    let mut copied = Database::open(&tables)?;
    let keys = copied.by_age()?.into_iter().map(|(key, ..)| key);
    let keys: Vec<String> = keys.filter(|key| !root.join(key).exists()).collect();
    let mut reports = copied.reports(None)?;
    reports.retain(|key| !root.join(key.path()).exists());
    if !keys.is_empty() || !reports.is_empty() {
        copied.delete(&keys)?;
        copied.delete_reports(&reports)?;
        copied.forget_deleted()?;
    }
    Ok(())
}

/// True if a copy has a file of this size and time.
fn has(to: &Path, bytes: u64, modified: SystemTime) -> bool {
    fs::metadata(to)
        .is_ok_and(|copied| copied.len() == bytes && copied.modified().ok() == Some(modified))
}

/// Writes a file of a copy, whole or not at all, with its time. Returns what `fill` returns.
fn write<T>(
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
