//! The thread that maintains a collector's replica: it publishes the collector's rows, takes those of others, and compares
//! everything with the bucket every ten minutes, or at twenty times the duration of listing. One collector in each ten
//! minutes, the first to write the lease, applies retention, joins small parts and continues a killed collector's work on a
//! mapping.

use crate::store::captures::retention::{Deleted, Retention};
use crate::store::commands;
use crate::store::objects::intents::{self, PLACE_TABLES};
use crate::store::share::replica::{LOOK_EVERY, Listing, Replica};
use crate::store::storage::Storage;
use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Interval at which the rows of new captures are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(10);
/// Interval at which it compares all with the bucket, unless lists take long.
const SYNC_EVERY: Duration = Duration::from_secs(600);
/// Share of the time that listing may take: with many captures in a bucket, comparisons are rarer.
const SHARE_OF_LISTS: u32 = 20;
/// Time after which an unpublished capture is analyzed by any collector that sees it.
const ORPHANED: Duration = Duration::from_secs(60);
/// Time after the start of a second comparison: by then, captures of a collector that was just killed are orphaned.
const SECOND_SYNC: Duration = Duration::from_secs(75);
const TURN: Duration = Duration::from_secs(1);

/// Receives the thread's results.
pub(crate) trait Observer {
    /// Retention was applied.
    fn note_retained(&self, deleted: &Deleted);
    /// The bytes of the store.
    fn note_size(&self, bytes: u64);
}

/// Times of the last turns.
struct Turns {
    began: Instant,
    synced: Option<Instant>,
    /// Interval to the next comparison.
    sync_every: Duration,
    looked: Option<Instant>,
    published: Option<Instant>,
}

fn is_due(last: Option<Instant>, every: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= every)
}

impl Replica {
    /// Maintains the replica until the sender is dropped; then publishes the rest.
    pub(crate) fn tend(
        &self,
        storage: &Storage,
        retention: Retention,
        observer: &dyn Observer,
        ended: &Receiver<()>,
    ) {
        let (began, sync_every) = (Instant::now(), SYNC_EVERY);
        let mut turns = Turns { began, synced: None, sync_every, looked: None, published: None };
        let mut is_failing = false;
        loop {
            let is_over = ended.recv_timeout(TURN) != Err(RecvTimeoutError::Timeout);
            if is_over {
                turns.published = None;
            }
            let is_ending = || ended.try_recv() == Err(TryRecvError::Disconnected);
            match self.turn(&mut turns, storage, retention, observer, &is_ending) {
                Ok(()) if is_failing && !is_over => {
                    is_failing = false;
                    tracing::info!("the sums are read and published again");
                }
                Ok(()) => {}
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::error!("cannot read or publish the sums, trying again: {error:#}");
                }
                Err(_) => {}
            }
            if is_over {
                return;
            }
        }
    }

    fn turn(
        &self,
        turns: &mut Turns,
        storage: &Storage,
        retention: Retention,
        observer: &dyn Observer,
        is_over: &dyn Fn() -> bool,
    ) -> Result<()> {
        if is_due(turns.published, PUBLISH_EVERY) {
            self.publish()?;
            turns.published = Some(Instant::now());
        }
        if is_over() {
            return Ok(());
        }
        if is_due(turns.looked, LOOK_EVERY) {
            let (has_changed, interrupted) = self.mirror_intents()?;
            if has_changed {
                turns.synced = None;
            }
            for (name, text) in interrupted {
                self.go_on(&name, &text)?;
            }
            self.mirror_mappings(&storage.indexer.mappings())?;
            self.take_parts(is_over)?;
            turns.looked = Some(Instant::now());
        }
        let second = turns.began + SECOND_SYNC;
        let is_second = Instant::now() >= second && turns.synced.is_none_or(|last| last < second);
        if is_second || is_due(turns.synced, turns.sync_every) {
            let began = Instant::now();
            let until = SystemTime::now().checked_sub(ORPHANED).unwrap_or(SystemTime::UNIX_EPOCH);
            let listing = self.sync(&storage.local, &storage.indexer, until, is_over)?;
            if !is_over() {
                // ORDERING: Relaxed; a flag that publishes nothing.
                self.complete.store(true, Ordering::Relaxed);
            }
            observer.note_size(listing.entries().map(|entry| entry.bytes).sum());
            if !is_over() && self.is_mine()? {
                self.maintain(storage, &listing, retention, observer, is_over)?;
            }
            turns.synced = Some(began);
            turns.sync_every = SYNC_EVERY.max(listing.took * SHARE_OF_LISTS);
        }
        Ok(())
    }

    /// True if this collector is the one of these ten minutes that maintains the bucket.
    fn is_mine(&self) -> Result<bool> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("leases/{:010}", now.as_secs() / SYNC_EVERY.as_secs());
        let is_mine = self.objects.put_new(&name, Vec::new())?;
        if is_mine {
            let leases = self.objects.list("leases")?;
            let old: Vec<String> = leases.into_iter().filter(|lease| *lease < name).collect();
            self.objects.delete(&old)?;
        }
        Ok(is_mine)
    }

    fn maintain(
        &self,
        storage: &Storage,
        listing: &Listing,
        retention: Retention,
        observer: &dyn Observer,
        is_over: &dyn Fn() -> bool,
    ) -> Result<()> {
        let deleted = listing.retain(self, retention, SystemTime::now())?;
        observer.note_retained(&deleted);
        self.compact(listing, is_over)?;
        let now = SystemTime::now();
        let mappings = storage.indexer.mappings();
        for listed in self.objects.list_all("mappings/v1")? {
            if listed.path.ends_with("/pending") && listed.modified + SYNC_EVERY < now {
                mappings.resume(&listed.path)?;
                storage.reanalysis.wake();
            }
        }
        let intents = self.objects.list_all("intents")?;
        let kept = intents::AFTERWARDS + SYNC_EVERY;
        let ended = intents.into_iter().filter(|note| note.modified + kept < now);
        self.objects.delete(&ended.map(|note| note.path).collect::<Vec<_>>())
    }

    /// Completes the work of a killed command.
    pub(super) fn go_on(&self, name: &str, text: &[u8]) -> Result<()> {
        if name == PLACE_TABLES {
            let parts: Vec<String> =
                String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
            self.finish_rebuild(&parts)?;
            tracing::warn!("ended a `store rebuild` that was interrupted");
        } else if let Some(device) = intents::device_of(text) {
            commands::forget_objects(&self.address, None, device)?;
            tracing::warn!("ended a `store forget` that was interrupted");
        }
        Ok(())
    }
}
