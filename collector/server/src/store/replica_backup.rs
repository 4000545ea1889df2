//! Copies an object store to a directory, for `tracetee store backup`: a store on which a collector can be started.
//!
//! The tables of a command's replica come first, then the objects that the copy lacks. What comes meanwhile has no rows yet, and a
//! collector makes them when it starts on the copy; rows of what is deleted meanwhile go from the copy. Objects do not change: a second
//! backup into the same directory reads only what came since. What the store has no longer goes from the copy. Files have the times of the
//! objects, by which retention goes. Nothing is written into the object store, and its collectors go on.

use super::backup::{
    BEFORE_TABLES, BackedUp, copy_directories, copy_tables, delete_rows, has, prepare, remove,
    write,
};
use super::files::Kind;
use super::intents::{self, COPY};
use super::local_store::{sidecar_of, walk};
use super::objects::{Listed, each};
use super::reader::Reader;
use super::replica::Replica;
use super::replica_guards::{FINDINGS, GUARDS};
use super::tables_of;
use anyhow::{Context, Result};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Copies an object store. Notes of its quarantine are left out: their captures are in `raw/`, and a collector on the copy tries them again.
pub(super) fn backup(address: &str, cache: Option<&Path>, to: &Path) -> Result<BackedUp> {
    let _copy = prepare(to, None)?;
    let reader = Reader::open(address, cache)?;
    let replica = &reader.replica;
    let mut done = BackedUp::default();
    copy_directories(&replica.root, to, &BEFORE_TABLES, &mut done)?;
    replica.copy_notes_of_mappings(to)?;
    copy_tables(&reader.tables(), &tables_of(to))?;
    for name in [GUARDS, FINDINGS] {
        let place = to.join(name);
        match replica.cloud.find(name)? {
            Some((bytes, _)) => write(&place, SystemTime::now(), |part| fs::write(part, bytes))?,
            None => remove(&place)?,
        }
    }
    replica.copy_objects(to, &mut done)?;
    delete_rows(to)?;
    intents::end(to, COPY)?;
    Ok(done)
}

impl Replica {
    /// Notes the versions whose captures are to be analyzed again: all of each.
    fn copy_notes_of_mappings(&self, to: &Path) -> Result<()> {
        for listed in self.cloud.list_all("mappings/v1")? {
            if listed.path.ends_with("/pending") {
                write(&to.join(&listed.path), listed.modified, |part| fs::write(part, ""))?;
            }
        }
        Ok(())
    }

    fn copy_objects(&self, to: &Path, done: &mut BackedUp) -> Result<()> {
        let listing = self.list()?;
        let is_stored = |(kind, listed)| (!matches!(kind, Kind::Quarantined(_))).then_some(listed);
        let objects: Vec<&Listed> = listing.entries().filter_map(is_stored).collect();
        let is_new = |listed: &&Listed| !has(&to.join(&listed.path), listed.bytes, listed.modified);
        let new: Vec<&Listed> = objects.iter().copied().filter(is_new).collect();
        let (copied, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        // ORDERING: Relaxed; counts, which are read when all threads have ended.
        each(&new, |listed| {
            if self.copy_object(listed, to)? {
                copied.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(listed.bytes, Ordering::Relaxed);
            }
            Ok(())
        })?;
        done.copied += copied.into_inner();
        done.bytes += bytes.into_inner();
        done.kept += (objects.len() - new.len()) as u64;
        let paths = objects.iter().map(|listed| to.join(&listed.path));
        let paths: HashSet<PathBuf> = paths.flat_map(|path| [sidecar_of(&path), path]).collect();
        for directory in ["raw", "losses", "quarantine"].map(|name| to.join(name)) {
            if !directory.is_dir() {
                continue;
            }
            let mut others = Vec::new();
            walk(&directory, &mut |path| {
                others.extend((!paths.contains(path)).then(|| path.to_owned()));
            })?;
            for path in others {
                remove(&path).with_context(|| format!("cannot delete {}", path.display()))?;
                done.deleted += 1;
            }
        }
        Ok(())
    }

    /// Copies a capture, with what is known of it, or a loss report. Returns false if it was deleted meanwhile.
    fn copy_object(&self, listed: &Listed, to: &Path) -> Result<bool> {
        let Some((bytes, meta)) = self.cloud.find(&listed.path)? else { return Ok(false) };
        let place = to.join(&listed.path);
        let in_place = || format!("cannot write {}", place.display());
        if listed.path.starts_with("raw/") {
            let sidecar = sidecar_of(&place);
            let json = meta.to_json();
            write(&sidecar, listed.modified, |part| fs::write(part, json))
                .with_context(in_place)?;
        }
        write(&place, listed.modified, |part| fs::write(part, bytes)).with_context(in_place)?;
        Ok(true)
    }
}
