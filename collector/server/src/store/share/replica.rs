//! A replica of an object store's tables on this machine: whatever it has can be rebuilt from the bucket.
//!
//! The bucket is the truth. `raw/`, `losses/` and `ledgers/` have what was acknowledged; `sums/VERSION/` has parts
//! ([`tracetee_fleet::part`]) with the rows that collectors made of them, so that no collector analyzes a capture that
//! another one has analyzed. A replica is a directory like a local store, with the same tables. Its `raw/` has captures only
//! until their rows are published (`parts.rs`); `outbox/` has these rows, `parts/NAME` the keys of a part that is in the
//! tables. [`Replica::sync`] takes parts that are new, deletes what is not in the bucket any longer, and analyzes what no
//! part has: captures of a collector that was killed, or that bypassed all collectors. A capture counts once by its id, in
//! however many parts it is. `tend.rs` is the thread of a collector, `reader.rs` the replica of a command.

use crate::store::captures::entries::{Entry, Kind, note_name};
use crate::store::captures::id_index;
use crate::store::captures::local_store::LocalStore;
use crate::store::captures::profiles::is_dump;
use crate::store::captures::retention::{self, Deleted, Retention};
use crate::store::index::indexer::Indexer;
use crate::store::index::outbox::Outbox;
use crate::store::index::queue::Work;
use crate::store::mappings::Mappings;
use crate::store::objects::disk::{make_parent, note, remove, remove_file, remove_logs, tables_of};
use crate::store::objects::intents::{PLACE_TABLES, STALE};
use crate::store::objects::{Listed, Shared, each, intents, location, write_new};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::{RawKey, ReportKey, ReportKind};
use tracetee_fleet::part::directory;
use tracetee_fleet::stored_report::device_of_report;
use tracetee_protocol::CaptureMeta;

/// Captures of a transaction.
pub(crate) const BATCH: usize = if cfg!(test) { 4 } else { 500 };
/// Number of captures that are read from the bucket in advance, while earlier ones are analyzed.
const CAPTURES_AT_ONCE: usize = 256;

/// Interval at which a collector looks for parts, mappings and devices to forget.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// When the tables are checked for damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Damage in any of them, at the start.
    All,
    /// Damage in the rows that are read, checked by their reader.
    WhenRead,
}

/// A replica of an object store's tables.
#[derive(Debug)]
pub struct Replica {
    pub(crate) objects: Arc<dyn Shared>,
    pub(crate) address: String,
    pub(crate) root: PathBuf,
    /// The mappings and notes that are here, as the bucket listed them.
    mirrored: Mutex<BTreeMap<String, Listed>>,
    /// Set until the tables of captures and loss reports have been checked for damage.
    is_unchecked: AtomicBool,
    /// Set when the bucket's whole content is in the tables.
    pub(crate) complete: AtomicBool,
    /// One that ends with the process.
    _own: Option<TempDir>,
}

/// The objects of a bucket.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) raw: Vec<Listed>,
    pub(crate) reports: Vec<Listed>,
    pub(crate) quarantine: Vec<Listed>,
    /// Time that the lists took.
    pub(crate) took: Duration,
}

impl Listing {
    /// All captures, reports, and notes in quarantine.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let all = self.raw.iter().chain(&self.reports).chain(&self.quarantine);
        all.cloned().filter_map(Entry::of)
    }

    /// Applies retention to the bucket, and to the tables of a replica.
    pub(crate) fn retain(
        &self,
        replica: &Replica,
        retention: Retention,
        now: SystemTime,
    ) -> Result<Deleted> {
        let Replica { objects, root, .. } = replica;
        let entries = |each: &mut dyn FnMut(Entry)| {
            self.entries().for_each(each);
            Ok(())
        };
        retention::apply(&**objects, root, &entries, retention, now)
    }
}

/// The captures and reports that are in the tables.
#[derive(Debug, Default)]
struct Known {
    /// Raw keys, and whether the present analysis made their rows.
    captures: Vec<(String, bool)>,
    reports: Vec<ReportKey>,
}

impl Known {
    fn read(database: &Database) -> Result<Self> {
        let (captures, reports) = (database.analyzed_captures()?, database.reports(None)?);
        Ok(Self { captures, reports })
    }

    /// Returns the objects of the bucket that the tables lack, or have from an older analysis.
    fn unknown_of(&self, listing: &Listing) -> Listing {
        let current = self.captures.iter().filter(|(_, is_current)| *is_current);
        let current: HashSet<&str> = current.map(|(key, _)| &**key).collect();
        let reports: HashSet<&ReportKey> = self.reports.iter().collect();
        let raw = listing.raw.iter().filter(|listed| !current.contains(&*listed.path));
        let is_known = |key: ReportKey| reports.contains(&key);
        let is_unknown = |listed: &&Listed| !ReportKey::parse(&listed.path).is_some_and(is_known);
        let reports = listing.reports.iter().filter(is_unknown);
        Listing {
            raw: raw.cloned().collect(),
            reports: reports.cloned().collect(),
            ..Listing::default()
        }
    }
}

/// The path and the content of each of some objects.
type Contents = Vec<(String, Vec<u8>)>;

impl Replica {
    /// Opens the replica of an object store in a directory, or in one that ends with this process.
    pub(crate) fn open(address: &str, directory: Option<&Path>, publishes: bool) -> Result<Self> {
        Self::with_objects(location::open_shared(address)?, address, directory, publishes)
    }

    fn with_objects(
        objects: Arc<dyn Shared>,
        address: &str,
        directory: Option<&Path>,
        publishes: bool,
    ) -> Result<Self> {
        let (root, own) = match directory {
            Some(directory) => (directory.to_owned(), None),
            None => {
                let own = tempfile::tempdir().context("cannot create a temporary directory")?;
                (own.path().to_owned(), Some(own))
            }
        };
        let parts = root.join("parts");
        fs::create_dir_all(&parts).with_context(|| format!("cannot create {}", parts.display()))?;
        let endpoint = location::s3_endpoint().unwrap_or_default();
        let known = root.join("store");
        let is_here = format!("{address} {endpoint}\n");
        // Commands that open a new directory at once find this file complete or not at all.
        if !known.exists() {
            write_new(&known, is_here.as_bytes())?;
        }
        let text = fs::read_to_string(&known)?;
        if text != is_here {
            bail!("{} is the cache of {}; pass another directory", root.display(), text.trim())
        }
        if publishes {
            fs::create_dir_all(Outbox::path(&root))?;
        }
        Ok(Self {
            objects,
            address: address.to_owned(),
            root,
            mirrored: Mutex::default(),
            is_unchecked: AtomicBool::default(),
            complete: AtomicBool::default(),
            _own: own,
        })
    }

    /// Deletes tables of another version, and damaged ones. The caller holds the directory's lock. A collector checks all
    /// tables here. A command checks only the rows that it reads, when it reads them, because all take seconds.
    pub(crate) fn discard_unusable(&self, checks: Checks) -> Result<()> {
        // ORDERING: Relaxed, here and below; flags that publish nothing.
        self.is_unchecked.store(checks == Checks::WhenRead, Ordering::Relaxed);
        let is_usable = match Database::read(&tables_of(&self.root)) {
            Ok(database) => checks == Checks::WhenRead || database.check_all().is_ok(),
            Err(Error::Missing(_) | Error::Version { .. }) => false,
            Err(error) if error.is_damage() => false,
            Err(error) => return Err(error.into()),
        };
        let version = self.root.join("parts/version");
        if is_usable && fs::read_to_string(&version).is_ok_and(|text| text == directory()) {
            return Ok(());
        }
        self.discard()
    }

    /// Deletes the tables, which can be rebuilt, and unpublished rows, whose captures are here or in the bucket.
    /// The caller holds the directory's lock.
    ///
    /// # Errors
    /// When they cannot be deleted.
    pub fn discard(&self) -> Result<()> {
        let tables = tables_of(&self.root);
        remove_file(&tables)?;
        remove_logs(&tables)?;
        for waiting in fs::read_dir(Outbox::path(&self.root)).into_iter().flatten().flatten() {
            fs::remove_file(waiting.path())?;
        }
        fs::remove_dir_all(self.root.join("parts"))?;
        fs::create_dir_all(self.root.join("parts"))?;
        Ok(fs::write(self.root.join("parts/version"), directory())?)
    }

    /// Checks the lists of captures and loss reports in the tables, once. Called before anything is deleted or analyzed
    /// again because of them: a capture whose key is damaged would be counted twice.
    pub(crate) fn check_stored(&self, database: &Database) -> Result<()> {
        if self.is_unchecked.swap(false, Ordering::Relaxed) {
            database.check_stored()?;
        }
        Ok(())
    }

    fn mirrored(&self) -> MutexGuard<'_, BTreeMap<String, Listed>> {
        self.mirrored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the bucket.
    pub(crate) fn list(&self) -> Result<Listing> {
        let began = Instant::now();
        let raw = self.objects.list_all("raw/v1")?;
        let reports = ReportKind::ALL.map(|kind| self.objects.list_all(kind.directory()));
        let reports = reports.into_iter().collect::<Result<Vec<_>>>()?.concat();
        let quarantine = self.objects.list_all("quarantine")?;
        Ok(Listing { raw, reports, quarantine, took: began.elapsed() })
    }

    /// Updates the tables to the state of the bucket, and makes `indexer` analyze captures from before `until` that are in
    /// no part. Stops early when `is_over`. Returns the bucket's content.
    pub(crate) fn sync(
        &self,
        local: &LocalStore,
        indexer: &Indexer,
        until: SystemTime,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Listing> {
        let _looking = indexer.looking();
        self.mirror_mappings(&indexer.mappings())?;
        self.take_parts(is_over)?;
        // Read before the bucket is listed: a capture that is here, and not there, was deleted.
        let known = Known::read(&Database::open(&tables_of(&self.root))?)?;
        let listing = self.list()?;
        self.delete_gone(&listing, &known)?;
        let missing = self.missing(&listing, &known, until)?;
        if !missing.is_empty() {
            self.check_stored(&Database::open(&tables_of(&self.root))?)?;
            tracing::info!(
                count = missing.len(),
                "analyzing captures that no collector has published"
            );
        }
        for some in missing.chunks(CAPTURES_AT_ONCE).take_while(|_| !is_over()) {
            each(some, |(kind, path)| self.fetch(local, indexer, kind, path))?;
            while indexer.waiting() > CAPTURES_AT_ONCE as u64 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(listing)
    }

    /// Deletes rows of objects that are in the tables and not in the bucket.
    fn delete_gone(&self, listing: &Listing, known: &Known) -> Result<()> {
        let raw: HashSet<&str> = listing.raw.iter().map(|listed| &*listed.path).collect();
        let stored: HashSet<&str> = listing.reports.iter().map(|listed| &*listed.path).collect();
        let is_gone = |key: &&String| !raw.contains(key.as_str());
        let captures = known.captures.iter().map(|(key, _)| key);
        let captures: Vec<String> = captures.filter(is_gone).cloned().collect();
        let is_gone = |key: &&ReportKey| !stored.contains(key.path().as_str());
        let reports: Vec<ReportKey> = known.reports.iter().filter(is_gone).cloned().collect();
        if captures.is_empty() && reports.is_empty() {
            return Ok(());
        }
        let mut database = Database::open(&tables_of(&self.root))?;
        self.check_stored(&database)?;
        for key in &captures {
            remove(&self.root.join(key))?;
            RawKey::parse(key).iter().for_each(|key| id_index::leave(&self.root, key));
        }
        for some in captures.chunks(BATCH) {
            database.delete(some)?;
        }
        database.delete_reports(&reports)?;
        // No log is left that has a forgotten device.
        Ok(database.forget_deleted()?)
    }

    /// Returns objects from before `until` that are in the bucket, but neither in the tables, nor in quarantine, nor here.
    /// `known`: the earlier content of the tables.
    fn missing(
        &self,
        listing: &Listing,
        known: &Known,
        until: SystemTime,
    ) -> Result<Vec<(Kind, String)>> {
        let database = Database::open(&tables_of(&self.root))?;
        let set_aside: BTreeSet<&str> =
            listing.quarantine.iter().filter_map(|listed| note_name(&listed.path)).collect();
        let mut missing = Vec::new();
        let unknown = known.unknown_of(listing);
        for Entry { kind, path, at, .. } in unknown.entries() {
            let is_known = match &kind {
                Kind::Capture(key) => {
                    set_aside.contains(&*key.name())
                        || note(&self.root, key).exists()
                        || database.has_current(key)?
                }
                Kind::Report(key) => database.has_report(key)?,
                Kind::Quarantined(_) | Kind::Alone => continue,
            };
            if at < until && !is_known && !self.root.join(&path).exists() {
                missing.push((kind, path));
            }
        }
        Ok(missing)
    }

    /// Fetches the dump of a death's capture, or the capture of a dump, which another collector may have received; before
    /// the other one is analyzed. If both are stored at the same time, at least one finds the other.
    pub(crate) fn fetch_other(
        &self,
        local: &LocalStore,
        indexer: &Indexer,
        key: &RawKey,
        meta: &CaptureMeta,
    ) -> Result<()> {
        let is_dump = is_dump(&key.id, meta.window.as_deref());
        let other = key.pair().filter(|_| is_dump || meta.death.is_some());
        let other = other.map(|[capture, dump]| if is_dump { capture } else { dump });
        if let Some(other) = other.filter(|other| other.id != key.id && !local.has(other))
            && let Some((bytes, meta)) = self.objects.find(&other.path())?
            && self.keep_copy(local, &other, bytes, &meta)?
            && !is_dump
        {
            // The capture of a dump is analyzed with the dump.
            indexer.take(&other.app, Work::Capture(other.clone(), None));
        }
        Ok(())
    }

    /// Keeps a capture of the bucket here. Returns false if it is here, or its device is being forgotten.
    fn keep_copy(
        &self,
        local: &LocalStore,
        key: &RawKey,
        bytes: Vec<u8>,
        meta: &CaptureMeta,
    ) -> Result<bool> {
        let incoming = local.incoming();
        fs::write(&incoming.path, bytes)?;
        if local.forgets_capture(meta, &incoming.path) {
            self.delete_late(key.path())?;
            return Ok(false);
        }
        Ok(local.keep(key, &incoming, meta)?.is_some())
    }

    /// Deletes late data of a forgotten device. A running command finds it itself, and counts it.
    fn delete_late(&self, path: String) -> Result<()> {
        if intents::is_command_at_work(&self.root) { Ok(()) } else { self.objects.delete(&[path]) }
    }

    /// Fetches a capture or a report, for the indexer.
    fn fetch(&self, local: &LocalStore, indexer: &Indexer, kind: &Kind, path: &str) -> Result<()> {
        // It may have been deleted meanwhile.
        let Some((bytes, meta)) = self.objects.find(path)? else { return Ok(()) };
        match kind {
            Kind::Capture(key) => {
                if self.keep_copy(local, key, bytes, &meta)? {
                    let fetched = self.fetch_other(local, indexer, key, &meta);
                    indexer.take(&key.app, Work::Capture(key.clone(), None));
                    return fetched;
                }
            }
            Kind::Report(key) => {
                if local.forgets(device_of_report(key, &bytes).as_deref()) {
                    return self.delete_late(path.to_owned());
                }
                let file = self.root.join(path);
                make_parent(&file)?;
                fs::write(&file, bytes)?;
                indexer.take("", Work::Report(key.clone(), file));
            }
            Kind::Quarantined(_) | Kind::Alone => {}
        }
        Ok(())
    }

    /// Returns the directory, which has the mappings.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the tables.
    #[must_use]
    pub fn tables(&self) -> PathBuf {
        tables_of(&self.root)
    }

    /// Copies a capture from the bucket below a directory, as in a store, with its metadata. Returns false if there is none.
    ///
    /// # Errors
    /// When the object store cannot be read.
    pub fn copy(&self, key: &str, to: &Path) -> Result<bool> {
        if self.objects.file(key, to)?.is_none() {
            return Ok(false);
        }
        RawKey::parse(key).map_or(Ok(()), |key| id_index::enter(to, &key))?;
        Ok(true)
    }

    /// Copies the intents of commands here, for a collector: a command that searches for a device's data must find it.
    /// Returns true if one has changed, and the stale intents with their contents.
    pub(crate) fn mirror_intents(&self) -> Result<(bool, Contents)> {
        let all = self.objects.list_all("intents")?;
        let (mut stale, mut texts) = (Vec::new(), Vec::new());
        for listed in &all {
            let is_known = self.mirrored().get(&listed.path) == Some(listed);
            let is_stale = listed.modified + STALE < SystemTime::now();
            if (!is_known || is_stale)
                && let Some((text, _)) = self.objects.find(&listed.path)?
            {
                if is_stale {
                    stale.push((listed.path.clone(), text.clone()));
                }
                texts.push((&*listed.path, text));
            }
        }
        let paths: Vec<&str> = all.iter().map(|listed| &*listed.path).collect();
        let has_changed = intents::mirror(&self.root, &paths, &texts)?;
        self.mirrored().extend(all.iter().map(|listed| (listed.path.clone(), listed.clone())));
        Ok((has_changed, stale))
    }

    /// Deletes the parts that a rebuild has replaced.
    pub(crate) fn finish_rebuild(&self, replaced: &[String]) -> Result<()> {
        self.objects.delete(replaced)?;
        self.objects.delete(&[PLACE_TABLES.to_owned()])
    }

    /// Brings mappings that are new, or others, here.
    pub(crate) fn mirror_mappings(&self, mappings: &Mappings) -> Result<()> {
        for listed in self.objects.list_all("mappings/v1")? {
            if listed.path.ends_with("/pending")
                || self.mirrored().get(&listed.path) == Some(&listed)
            {
                continue;
            }
            if let Some((bytes, _)) = self.objects.find(&listed.path)? {
                mappings.mirror(&listed.path, &bytes)?;
            }
            self.mirrored().insert(listed.path.clone(), listed);
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "cloud")]
#[path = "replica_tests.rs"]
mod tests;
