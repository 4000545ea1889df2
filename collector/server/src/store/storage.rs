//! The storage of uploads: a local directory, whose captures this collector analyses, or an object store, of
//! which converters make the tables (`tracetee store tables`).

use super::analyst::Work;
use super::arrived::Arrived;
use super::indexer::Indexer;
use super::local_store::{Incoming, LocalStore};
#[cfg(feature = "parquet")]
use super::local_store::{losses_path, today};
use super::mappings::{Put, Refused, Version};
#[cfg(feature = "parquet")]
use super::objects::Objects;
use super::reanalysis::Reanalysis;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(feature = "parquet")]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "parquet")]
use tempfile::TempDir;
#[cfg(feature = "parquet")]
use tokio::runtime::Handle;
use tracetee_fleet::object_keys::RawKey;
use tracetee_protocol::{CaptureMeta, LossReport};
use uuid::Uuid;

/// The storage of uploads.
#[derive(Debug)]
pub(crate) enum Storage {
    /// A directory.
    Local { store: Box<LocalStore>, indexer: Indexer, reanalysis: Reanalysis },
    /// An object store. `incoming` is this machine's, for what is not checked yet.
    #[cfg(feature = "parquet")]
    Objects { objects: Objects, incoming: TempDir, next: AtomicU64 },
}

/// An error of an object store with all its causes.
#[cfg(feature = "parquet")]
fn described(error: anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

impl Storage {
    /// A name for what is on its way.
    pub(crate) fn incoming(&self) -> Incoming {
        match self {
            Self::Local { store, .. } => store.incoming(),
            #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
            Self::Objects { objects, .. } => {
                let bytes = std::fs::read(&incoming.path)?;
                let kept =
                    Handle::current().block_on(objects.put_new(&key.path(), bytes, Some(meta)));
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
            #[cfg(feature = "parquet")]
            Self::Objects { objects, .. } => {
                let path = losses_path(id, today());
                let kept =
                    Handle::current().block_on(objects.put_new(&path, json.into_bytes(), None));
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
            #[cfg(feature = "parquet")]
            Self::Objects { objects, .. } => {
                // The body is of no use, and may be a bomb.
                let _ =
                    Handle::current().block_on(objects.quarantine(&id.to_string(), reason, meta));
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
            #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
            Self::Objects { .. } => 0,
        }
    }

    /// Checks that captures can be stored. Blocks.
    pub(crate) fn probe(&self) -> io::Result<()> {
        match self {
            Self::Local { store, .. } => store.probe(),
            #[cfg(feature = "parquet")]
            Self::Objects { objects, .. } => {
                Handle::current().block_on(objects.probe()).map_err(described)
            }
        }
    }

    /// Returns why an object store takes nothing now: the last write, a moment ago, failed.
    pub(crate) fn why_away(&self) -> Option<&'static str> {
        match self {
            Self::Local { .. } => None,
            #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
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
            #[cfg(feature = "parquet")]
            Self::Objects { .. } => {}
        }
    }
}
