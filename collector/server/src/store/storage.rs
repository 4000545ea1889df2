//! The storage of uploads: a local directory, or an object store with a replica of its tables in a directory (`replica.rs`).
//! In both, this collector analyzes the captures that it receives.

use crate::store::captures::arrived::Arrived;
use crate::store::captures::days::today;
use crate::store::captures::entries::{Entry, each_entry};
use crate::store::captures::local_store::{Incoming, LocalStore, losses_key};
use crate::store::captures::quarantined;
use crate::store::captures::retention::{self, Deleted, Retention};
use crate::store::index::indexer::Indexer;
use crate::store::index::queue::Work;
use crate::store::interrupted;
use crate::store::mappings::{Put, Refused, Version};
use crate::store::objects::disk::tables_of;
use crate::store::objects::location::StoreLocation;
use crate::store::objects::{Directory, described};
use crate::store::reanalysis::Reanalysis;
use crate::store::share::replica::{Checks, Replica};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tracetee_fleet::ledger;
use tracetee_fleet::object_keys::{RawKey, ReportKey};
use tracetee_protocol::{CaptureMeta, LossReport};
use uuid::Uuid;

/// The storage of uploads.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The directory of the store, or of the replica of an object store.
    pub(crate) root: PathBuf,
    pub(crate) local: LocalStore,
    pub(crate) indexer: Indexer,
    pub(crate) reanalysis: Reanalysis,
    /// The replica of an object store.
    pub(crate) replica: Option<Arc<Replica>>,
}

/// Outcome of storing a part of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptLedger {
    /// It is stored.
    New,
    /// It was stored before.
    Same,
    /// Another mapping was stored in its place before.
    Other,
}

/// The answer to a device that is being forgotten.
const FORGETTING: &str = "what this device has sent is being deleted; try again later";

fn put_off() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, FORGETTING)
}

impl Storage {
    /// Opens a store, and begins to analyze captures that are not in its tables yet. `cache`: directory of an object store's
    /// replica; `None`: a temporary one.
    pub(crate) fn open(location: StoreLocation<'_>, cache: Option<&Path>) -> anyhow::Result<Self> {
        let (root, local, replica) = match location {
            StoreLocation::Directory(root) => {
                let local = LocalStore::open(root)?;
                if let Some(done) = interrupted::settle(root)? {
                    tracing::warn!("{done}");
                }
                (root.to_owned(), local, None)
            }
            StoreLocation::Objects(address) => {
                let replica = Replica::open(address, cache, true)?;
                let local = LocalStore::open_copy(&replica.root)?;
                replica.discard_unusable(Checks::All)?;
                (replica.root.clone(), local, Some(Arc::new(replica)))
            }
        };
        let indexer = Indexer::start(&root, &tables_of(&root))?;
        let reanalysis =
            Reanalysis::start(&root, indexer.mappings(), indexer.again.clone(), replica.clone())?;
        Ok(Self { root, local, indexer, reanalysis, replica })
    }

    /// True if captures are kept in an object store.
    pub(crate) const fn is_remote(&self) -> bool {
        self.replica.is_some()
    }

    /// Stores a complete capture; `text` is its content, if available. `None`: it is already stored. Blocks.
    pub(crate) fn keep(
        &self,
        key: RawKey,
        incoming: &Incoming,
        meta: &CaptureMeta,
        text: Option<Vec<u8>>,
    ) -> io::Result<Option<PathBuf>> {
        if let Some(replica) = &self.replica {
            if self.local.forgets_capture(meta, &incoming.path) {
                return Err(put_off());
            }
            // The bucket decides: of two simultaneous uploads, even to different collectors, one is stored.
            let bytes = std::fs::read(&incoming.path)?;
            if !replica.objects.put_capture(&key.path(), bytes, meta).map_err(described)? {
                return Ok(None);
            }
            // It is stored; without its place here the next comparison with the bucket finds it.
            if let Err(error) = self.keep_here(&key, incoming, meta, text) {
                tracing::error!("cannot analyze a capture now: {error}");
            }
            if self.local.forgets_capture(meta, &incoming.path) {
                replica.objects.delete(&[key.path()]).map_err(described)?;
                return Err(put_off());
            }
            return Ok(Some(PathBuf::from(key.path())));
        }
        self.keep_here(&key, incoming, meta, text)
    }

    fn keep_here(
        &self,
        key: &RawKey,
        incoming: &Incoming,
        meta: &CaptureMeta,
        text: Option<Vec<u8>>,
    ) -> io::Result<Option<PathBuf>> {
        let kept = self.local.keep(key, incoming, meta)?;
        // A device's intent is written before the search for its files: the search finds files stored before, and later
        // uploads find the intent and are not acknowledged.
        if kept.is_some() && self.local.forgets_capture(meta, &incoming.path) {
            self.local.drop_kept(key)?;
            return Err(put_off());
        }
        if kept.is_some() {
            let fetch =
                |replica: &Arc<Replica>| replica.fetch_other(&self.local, &self.indexer, key, meta);
            if let Some(Err(error)) = self.replica.as_ref().map(fetch) {
                tracing::error!("cannot join a dump with its capture: {error:#}");
            }
            let arrived =
                text.and_then(|text| Arrived::new(&self.indexer.state.room, &key.app, meta, text));
            self.indexer.take(&key.app, Work::Capture(key.clone(), arrived));
        }
        Ok(kept)
    }

    /// Stores a loss report in its place. `false`: it already exists. Blocks.
    pub(crate) fn keep_losses(&self, id: Uuid, report: &LossReport) -> io::Result<bool> {
        let key = losses_key(id, report.device.app.as_deref(), today());
        let (app, device) = (report.device.app.as_deref(), report.device.install_id.as_deref());
        self.keep_report(key, report.to_json().as_bytes(), app.unwrap_or_default(), device)
    }

    /// Stores a report of an app's device in its place. `false`: it already exists. Blocks.
    pub(crate) fn keep_report(
        &self,
        key: ReportKey,
        bytes: &[u8],
        app: &str,
        device: Option<&str>,
    ) -> io::Result<bool> {
        let path = key.path();
        if self.local.forgets(device) {
            return Err(put_off());
        }
        if let Some(replica) = &self.replica
            && !replica.objects.put_new(&path, bytes.to_vec()).map_err(described)?
        {
            return Ok(false);
        }
        let incoming = self.local.incoming();
        std::fs::write(&incoming.path, bytes)?;
        let kept = self.local.keep_report(&path, &incoming)?;
        if self.local.forgets(device) {
            crate::store::objects::disk::remove(&self.root.join(&path))?;
            if let Some(replica) = &self.replica {
                replica.objects.delete(&[path]).map_err(described)?;
            }
            return Err(put_off());
        }
        let is_new = kept.is_some();
        kept.into_iter().for_each(|file| self.indexer.take(app, Work::Report(key.clone(), file)));
        Ok(is_new || self.is_remote())
    }

    /// Gives a part of a ledger its place. Blocks.
    pub(crate) fn keep_ledger(
        &self,
        key: ReportKey,
        part: &[u8],
        meta: &CaptureMeta,
    ) -> io::Result<KeptLedger> {
        let path = key.path();
        let (app, device) = (meta.app.as_deref().unwrap_or_default(), meta.install_id.as_deref());
        if self.keep_report(key, &ledger::stored(meta, part), app, device)? {
            return Ok(KeptLedger::New);
        }
        let known = match &self.replica {
            Some(replica) => replica.objects.get(&path).map_err(described)?.0,
            None => std::fs::read(self.root.join(path))?,
        };
        let is_same = ledger::split(&known).is_some_and(|(_, known)| known == part);
        Ok(if is_same { KeptLedger::Same } else { KeptLedger::Other })
    }

    /// Quarantines a body that is not a capture, with the reason. Blocks.
    pub(crate) fn quarantine(
        &self,
        key: &RawKey,
        incoming: &Incoming,
        reason: &str,
        meta: &CaptureMeta,
    ) {
        if let Some(replica) = &self.replica {
            let _ = quarantined::set_aside(&*replica.objects, key, reason, meta);
            return;
        }
        self.local.quarantine(key, incoming, reason, meta);
    }

    /// Applies retention to a directory.
    pub(crate) fn retain(&self, retention: Retention) -> anyhow::Result<Deleted> {
        let directory = Directory(self.root.clone());
        let entries = |each: &mut dyn FnMut(Entry)| each_entry(&directory, each);
        retention::apply(&directory, &self.root, &entries, retention, SystemTime::now())
    }

    /// Returns the bytes of a directory that count for limits.
    pub(crate) fn bytes(&self) -> anyhow::Result<u64> {
        let mut bytes = 0;
        each_entry(&Directory(self.root.clone()), &mut |entry| bytes += entry.bytes)?;
        Ok(bytes)
    }

    /// Validates and stores a mapping; its captures are then analyzed again. Blocks.
    pub(crate) fn put_mapping(&self, version: &Version, body: &Path) -> Result<Put, Refused> {
        let outcome = self.indexer.mappings().put(version, body, &self.local.incoming())?;
        let is_new = matches!(outcome, Put::New | Put::Replaced);
        if let Some(replica) = &self.replica {
            // Also if it exists already: the previous attempt may have failed.
            replica.put_mapping(version, is_new).map_err(described)?;
        }
        if is_new {
            self.reanalysis.wake();
        }
        Ok(outcome)
    }

    /// Checks that captures can be stored. Blocks.
    pub(crate) fn probe(&self) -> io::Result<()> {
        if let Some(replica) = &self.replica {
            replica.objects.probe().map_err(described)?;
        }
        self.local.probe()
    }

    /// Returns why a device's uploads are not taken now: the device is being forgotten, or the last write to the object
    /// store, a moment ago, failed.
    pub(crate) fn why_away(&self, device: Option<&str>) -> Option<&'static str> {
        if self.local.forgets(device) {
            return Some(FORGETTING);
        }
        if let Some(replica) = &self.replica {
            return replica.objects.why_away();
        }
        None
    }

    /// Ends the background threads.
    pub(crate) fn stop(self) {
        // First, because the indexer then drops this work.
        self.reanalysis.end();
        self.indexer.stop();
    }
}
