//! Analyzes the captures of a version again after its mapping has come, on its own thread, while the collector
//! serves.
//!
//! New captures take precedence: the indexer's threads come to old ones only when no new one waits. The work goes by chunks
//! in the order of the captures' keys, and the note in `mappings/` has the last key, so that work continues there after a
//! kill. A capture that is done twice has the same rows.

use crate::store::index::queue::{Again, Chunk};
use crate::store::mappings::{Mappings, Version};
use crate::store::objects::disk::walk;
use crate::store::share::replica::Replica;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_fleet::object_keys::RawKey;

/// Captures between two notes of the progress.
const CHUNK: usize = 1000;
/// Interval at which the thread checks whether a chunk is written.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The thread, and the state that it shares with callers.
#[derive(Debug)]
pub(crate) struct Reanalysis {
    wake: Option<Sender<()>>,
    pending: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reanalysis {
    /// Starts the thread, which first continues the unfinished work of an earlier collector.
    pub(crate) fn start(
        root: &Path,
        mappings: Arc<Mappings>,
        redo: Sender<Again>,
        replica: Option<Arc<Replica>>,
    ) -> io::Result<Self> {
        let (wake, woken) = bounded(1);
        let (pending, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let worker = Worker {
            root: root.to_owned(),
            mappings,
            redo,
            pending: Arc::clone(&pending),
            ended: Arc::clone(&ended),
            replica,
        };
        let _ = wake.try_send(());
        // Otherwise an immediate query would report that no work is left.
        pending.store(worker.mappings.pending()?.len() as u64, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("analyse again".to_owned());
        let thread = Some(thread.spawn(move || worker.run(&woken))?);
        Ok(Self { wake: Some(wake), pending, ended, thread })
    }

    /// Registers a new mapping. Never waits.
    pub(crate) fn wake(&self) {
        // ORDERING: Relaxed, here and elsewhere in this file: counts, and a wish.
        self.pending.fetch_max(1, Ordering::Relaxed);
        // Full: the thread is woken already.
        let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
    }

    /// Asks the thread to end, without waiting for it.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Returns the number of versions whose captures are being analyzed again.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }
}

impl Drop for Reanalysis {
    /// Ends the thread; the next start continues.
    fn drop(&mut self) {
        self.end();
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    root: PathBuf,
    mappings: Arc<Mappings>,
    redo: Sender<Again>,
    pending: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    /// The replica of an object store, which has the captures instead of the directory.
    replica: Option<Arc<Replica>>,
}

impl Worker {
    fn run(&self, woken: &Receiver<()>) {
        while woken.recv().is_ok() {
            if let Err(error) = self.analyze_pending() {
                tracing::error!("cannot analyse captures again; the next start continues: {error}");
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn analyze_pending(&self) -> io::Result<()> {
        loop {
            let versions = self.mappings.pending()?;
            self.pending.store(versions.len() as u64, Ordering::Relaxed);
            let Some(version) = versions.first() else { return Ok(()) };
            self.version(version)?;
            if self.is_ended() {
                return Ok(());
            }
        }
    }

    /// Analyzes all captures of a version again, from the noted one on.
    fn version(&self, version: &Version) -> io::Result<()> {
        loop {
            let (noted, state) = self.mappings.progress(version);
            let Some(noted) = noted else { return Ok(()) };
            // An analysis that began with the old names may still write its rows.
            self.wait(|| self.mappings.has_earlier());
            let keys = self.keys_after(version, &noted)?;
            let chunk = keys.get(..CHUNK.min(keys.len())).unwrap_or_default();
            let failed = Chunk::default();
            for key in chunk {
                if self.redo.send(Again { key: key.clone(), chunk: Arc::clone(&failed) }).is_err() {
                    return Ok(());
                }
            }
            self.wait(|| Arc::strong_count(&failed) > 1);
            if self.is_ended() {
                return Ok(());
            }
            if failed.load(Ordering::Relaxed) {
                return Err(io::Error::other("the tables cannot be written"));
            }
            let is_last = chunk.len() == keys.len();
            let last = chunk.last().filter(|_| !is_last).map(RawKey::path);
            self.mappings.advance(version, &state, last.as_deref())?;
            if let Some(replica) = self.replica.as_ref().filter(|_| is_last) {
                replica.end_reanalysis(version)?;
            }
        }
    }

    fn wait(&self, busy: impl Fn() -> bool) {
        while busy() && !self.is_ended() {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns the next keys of a version's captures, one more than a chunk has.
    fn keys_after(&self, version: &Version, noted: &str) -> io::Result<Vec<RawKey>> {
        if let Some(replica) = &self.replica {
            return replica.fetch_after(version, noted, CHUNK);
        }
        let [app, ver] = version.parts();
        let below = self.root.join("raw/v1").join(app);
        let mut keys = Vec::new();
        let mut days: Vec<_> = match fs::read_dir(&below) {
            Ok(days) => days.collect::<io::Result<_>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(keys),
            Err(error) => return Err(error),
        };
        days.sort_by_key(fs::DirEntry::file_name);
        let from = RawKey::parse(noted).map(|key| format!("dt={}", key.day)).unwrap_or_default();
        for day in days.iter().filter(|day| *day.file_name() >= *from) {
            let of_day = day.path().join(&ver);
            if keys.len() > CHUNK || !of_day.exists() {
                continue;
            }
            walk(&of_day, &mut |path| {
                let key = path.to_str().and_then(RawKey::parse);
                keys.extend(key.filter(|key| *key.path() > *noted && keys.len() <= CHUNK));
            })?;
        }
        Ok(keys)
    }
}
