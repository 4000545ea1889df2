//! The storage of uploads: a local directory, whose captures this collector analyses, or an object store, of
//! which converters make the tables (`tracetee store tables`).

use super::analyst::Work;
use super::arrived::Arrived;
use super::indexer::Indexer;
use super::local_store::{Incoming, LocalStore};
use super::location::StoreLocation;
use super::mappings::{Put, Refused, Version};
#[cfg(not(feature = "cloud"))]
use super::objects::unavailable;
use super::reanalysis::Reanalysis;
use super::tables_of;
use std::io;
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::RawKey;
use tracetee_protocol::{CaptureMeta, LossReport};
use uuid::Uuid;
#[cfg(feature = "cloud")]
use {
    super::cloud::Cloud,
    super::local_store::{losses_path, today},
    super::objects::Objects,
    anyhow::Context,
    std::sync::atomic::{AtomicU64, Ordering},
    tempfile::TempDir,
};

/// The storage of uploads.
#[derive(Debug)]
pub(crate) enum Storage {
    /// A directory.
    Local { store: Box<LocalStore>, indexer: Indexer, reanalysis: Reanalysis },
    /// An object store. `incoming` is this machine's, for what is not checked yet.
    #[cfg(feature = "cloud")]
    Objects { objects: Cloud, incoming: TempDir, next: AtomicU64 },
}

/// An error of an object store with all its causes.
#[cfg(feature = "cloud")]
fn described(error: anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

impl Storage {
    /// Opens a store, and begins to analyse what is not in its tables yet.
    pub(crate) fn open(location: StoreLocation<'_>) -> anyhow::Result<Self> {
        match location {
            StoreLocation::Directory(path) => {
                let store = LocalStore::open(path)?;
                let indexer = Indexer::start(path, &tables_of(path))?;
                let reanalysis = Reanalysis::start(path, indexer.mappings(), indexer.redo())?;
                Ok(Self::Local { store: Box::new(store), indexer, reanalysis })
            }
            #[cfg(feature = "cloud")]
            StoreLocation::Objects(address) => Ok(Self::Objects {
                objects: Cloud::open(address)?,
                incoming: tempfile::tempdir().context("cannot create a temporary directory")?,
                next: AtomicU64::new(0),
            }),
            #[cfg(not(feature = "cloud"))]
            StoreLocation::Objects(address) => Err(unavailable(address)),
        }
    }

    /// A name for what is on its way.
    pub(crate) fn incoming(&self) -> Incoming {
        match self {
            Self::Local { store, .. } => store.incoming(),
            #[cfg(feature = "cloud")]
            Self::Objects { incoming, next, .. } => {
                // ORDERING: Relaxed; a number that nobody else has.
                let number = next.fetch_add(1, Ordering::Relaxed);
                Incoming { path: incoming.path().join(number.to_string()) }
            }
        }
    }

    /// True if a capture is known to be stored. Does not ask an object store, which reports it when the
    /// capture is written.
    pub(crate) fn has(&self, key: &RawKey) -> bool {
        match self {
            Self::Local { store, .. } => store.has(key),
            #[cfg(feature = "cloud")]
            Self::Objects { .. } => false,
        }
    }

    /// Gives a whole capture its place; `text` is its content, if that is at hand. `None`: another one has the place.
    /// Blocks.
    pub(crate) fn keep(
        &self,
        key: RawKey,
        incoming: &Incoming,
        meta: &CaptureMeta,
        text: Option<Vec<u8>>,
    ) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Local { store, indexer, .. } => {
                let kept = store.keep(&key, incoming, meta)?;
                if kept.is_some() {
                    let arrived = text.and_then(|text| Arrived::new(indexer.room(), meta, text));
                    let app = key.app.clone();
                    indexer.take(&app, Work::Capture(key, arrived));
                }
                Ok(kept)
            }
            #[cfg(feature = "cloud")]
            Self::Objects { objects, .. } => {
                let bytes = std::fs::read(&incoming.path)?;
                let kept = objects.put_new(&key.path(), bytes, Some(meta));
                let kept = kept.map_err(described)?;
                Ok(kept.then(|| PathBuf::from(key.path())))
            }
        }
    }

    /// Gives a loss report its place. `false`: it is there. Blocks.
    pub(crate) fn keep_losses(&self, id: Uuid, report: &LossReport) -> io::Result<bool> {
        let json = report.to_json();
        match self {
            Self::Local { store, indexer, .. } => {
                let incoming = store.incoming();
                std::fs::write(&incoming.path, json)?;
                let kept = store.keep_losses(id, report.device.install_id.as_deref(), &incoming)?;
                let is_new = kept.is_some();
                let app = report.device.app.as_deref().unwrap_or_default();
                kept.into_iter().for_each(|path| indexer.take(app, Work::Losses(path)));
                Ok(is_new)
            }
            #[cfg(feature = "cloud")]
            Self::Objects { objects, .. } => {
                let kept = objects.put_new(&losses_path(id, today()), json.into_bytes(), None);
                kept.map_err(described)
            }
        }
    }

    /// Sets aside what was no capture, with the reason. Blocks.
    pub(crate) fn quarantine(
        &self,
        id: Uuid,
        incoming: &Incoming,
        reason: &str,
        meta: &CaptureMeta,
    ) {
        match self {
            Self::Local { store, .. } => store.quarantine(id, incoming, reason, meta),
            #[cfg(feature = "cloud")]
            Self::Objects { objects, .. } => {
                // The body is of no use, and may be a bomb.
                let _ = Objects::Cloud(objects.clone()).quarantine(&id.to_string(), reason, meta);
            }
        }
    }

    /// Validates and stores a mapping; its captures are then analysed again. `None`: this store keeps none. Blocks.
    pub(crate) fn put_mapping(
        &self,
        version: &Version,
        body: &Path,
    ) -> Option<Result<Put, Refused>> {
        match self {
            Self::Local { store, indexer, reanalysis } => {
                let put = indexer.mappings().put(version, body, &store.incoming());
                if matches!(put, Ok(Put::New | Put::Replaced)) {
                    reanalysis.wake();
                }
                Some(put)
            }
            #[cfg(feature = "cloud")]
            Self::Objects { .. } => None,
        }
    }

    /// True if this store keeps mappings.
    pub(crate) const fn has_mappings(&self) -> bool {
        self.indexer().is_some()
    }

    /// Returns the number of versions whose captures are being analysed again.
    pub(crate) fn reanalysing(&self) -> u64 {
        match self {
            Self::Local { reanalysis, .. } => reanalysis.pending(),
            #[cfg(feature = "cloud")]
            Self::Objects { .. } => 0,
        }
    }

    /// Checks that captures can be stored. Blocks.
    pub(crate) fn probe(&self) -> io::Result<()> {
        match self {
            Self::Local { store, .. } => store.probe(),
            #[cfg(feature = "cloud")]
            Self::Objects { objects, .. } => objects.probe().map_err(described),
        }
    }

    /// Returns why an object store takes nothing now: the last write, a moment ago, failed.
    pub(crate) fn why_away(&self) -> Option<&'static str> {
        match self {
            Self::Local { .. } => None,
            #[cfg(feature = "cloud")]
            Self::Objects { objects, .. } => objects.why_away(),
        }
    }

    /// Returns the bytes of the tables; `None` if there are none here.
    pub(crate) fn tables_bytes(&self) -> Option<u64> {
        self.indexer().map(Indexer::tables_bytes)
    }

    /// Returns the bytes that the store's file system has left; `None` for an object store.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        match self {
            Self::Local { store, .. } => store.free_bytes(),
            #[cfg(feature = "cloud")]
            Self::Objects { .. } => None,
        }
    }

    /// True if indexing has fallen behind with the captures of an app.
    pub(crate) fn is_behind(&self, app: &str) -> bool {
        self.indexer().is_some_and(|indexer| indexer.is_behind(app))
    }

    /// Returns the indexer, if this collector indexes captures.
    pub(crate) const fn indexer(&self) -> Option<&Indexer> {
        match self {
            Self::Local { indexer, .. } => Some(indexer),
            #[cfg(feature = "cloud")]
            Self::Objects { .. } => None,
        }
    }

    /// Ends what works beside it.
    pub(crate) fn stop(self) {
        match self {
            Self::Local { indexer, reanalysis, .. } => {
                // First: what the indexer then drops is not done.
                reanalysis.end();
                indexer.stop();
            }
            #[cfg(feature = "cloud")]
            Self::Objects { .. } => {}
        }
    }
}
