//! Makes rows of captures as they come, on threads of its own: what serves never waits for it.
//!
//! As many threads as there are processors read and analyse; one puts rows into the tables, many captures
//! in a transaction. A capture that is not in the tables yet when the collector ends is found at its next
//! start: what is in the directory counts, the tables are made of it.

use super::directory::{about, walk};
use crate::cli::say;
use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_fleet::capture;
use tracetee_fleet::database::Database;
use tracetee_fleet::keys::RawKey;
use tracetee_fleet::rows::{self, Rows};
use tracetee_fleet::schema::{CAPTURES, LOSSES};

/// Captures that may wait to be analysed: a name each.
const MAX_WAITING: usize = 20_000;
/// Captures of a transaction.
const BATCH: usize = 200;
/// How long a capture may wait for others to come into the tables with.
const BATCH_WAIT: Duration = Duration::from_millis(200);

/// What rows are to be made of.
#[derive(Debug)]
pub(crate) enum Work {
    /// A capture.
    Capture(RawKey),
    /// A loss report: its path.
    Losses(PathBuf),
}

/// The analyser.
#[derive(Debug)]
pub(crate) struct Analyser {
    root: PathBuf,
    tables: PathBuf,
    shared: Arc<Shared>,
    work: Option<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicU64,
    analysed: AtomicU64,
    failed: AtomicU64,
    /// Something was not taken: the directory is to be looked through again.
    missed: AtomicBool,
    /// What waits is left for the next start.
    ended: AtomicBool,
}

impl Analyser {
    /// Starts one, which first takes what is in the directory and not in `tables`.
    pub(crate) fn start(root: &Path, tables: &Path) -> Result<Self> {
        let database = Database::open(tables)?;
        let shared = Arc::new(Shared::default());
        let (work, to_do) = bounded(MAX_WAITING);
        let (rows, made) = bounded(BATCH);
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut threads = Vec::new();
        for _ in 0..count {
            let (root, to_do, rows) = (root.to_owned(), to_do.clone(), rows.clone());
            let shared = Arc::clone(&shared);
            threads.push(std::thread::Builder::new().name("analyse".to_owned()).spawn(
                move || {
                    for work in to_do {
                        if !shared.ended.load(Ordering::Relaxed) {
                            analyse(&root, work, &rows, &shared);
                        }
                    }
                },
            )?);
        }
        let writer = Writer { database, made, shared: Arc::clone(&shared) };
        let writing = std::thread::Builder::new().name("tables".to_owned());
        threads.push(writing.spawn(move || writer.run())?);
        let (root, tables) = (root.to_owned(), tables.to_owned());
        let analyser = Self { root, tables, shared, work: Some(work), threads };
        analyser.catch_up()?;
        Ok(analyser)
    }

    /// A capture has come. Never waits.
    pub(crate) fn take(&self, work: Work) {
        let Some(sender) = &self.work else { return };
        // ORDERING: Relaxed, here and below: counts, and a wish.
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(work) {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.shared.missed.store(true, Ordering::Relaxed);
        }
    }

    /// How many wait; when they are too many, devices are asked to wait too.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Whether it cannot follow.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting() >= MAX_WAITING as u64 / 2
    }

    /// Analysed, and of them those of which no rows could be made.
    pub(crate) fn counts(&self) -> [&AtomicU64; 2] {
        [&self.shared.analysed, &self.shared.failed]
    }

    /// Whether captures were left for later because too many came: then [`Analyser::catch_up`].
    pub(crate) fn has_missed(&self) -> bool {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Takes all that is in the directory and not in the tables, on a thread of its own.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let Some(work) = self.work.clone() else { return Ok(()) };
        self.shared.missed.store(false, Ordering::Relaxed);
        let (root, tables) = (self.root.clone(), self.tables.clone());
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name("catch up".to_owned()).spawn(move || {
            let given = each_missing(&root, &tables, |missing| {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                shared.waiting.fetch_add(1, Ordering::Relaxed);
                if work.send(missing).is_err() {
                    shared.waiting.fetch_sub(1, Ordering::Relaxed);
                }
            });
            if let Err(error) = given {
                say(&format!("cannot look through {}: {error:#}", root.display()));
            }
        })?;
        Ok(())
    }

    /// Waits until what was given so far is in the tables.
    pub(crate) fn settle(&self) {
        while self.waiting() > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it when all is in the tables. Gives how many captures and loss reports that were.
    pub(crate) fn finish(mut self) -> u64 {
        self.join();
        self.shared.analysed.load(Ordering::Relaxed)
    }

    /// Ends it now: what waits is left for the next start.
    pub(crate) fn stop(mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.join();
    }

    fn join(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Each capture and loss report that is in the directory and not in the tables.
pub(crate) fn each_missing(root: &Path, tables: &Path, mut each: impl FnMut(Work)) -> Result<()> {
    let database = Database::open(tables)?;
    let mut wrong = None;
    walk(&root.join("raw"), &mut |path| {
        let Some(key) = path.to_str().and_then(RawKey::parse) else { return };
        match database.has(&CAPTURES, &key.id) {
            Ok(false) => each(Work::Capture(key)),
            Ok(true) => {}
            Err(error) => wrong = Some(error),
        }
    })?;
    walk(&root.join("losses"), &mut |path| {
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()) else { return };
        match database.has(&LOSSES, id) {
            Ok(false) => each(Work::Losses(path.to_owned())),
            Ok(true) => {}
            Err(error) => wrong = Some(error),
        }
    })?;
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

/// The rows of a capture or a loss report; `None`: it is gone.
pub(crate) fn rows_of(root: &Path, work: &Work) -> Result<Option<Rows>> {
    match work {
        Work::Capture(key) => {
            let place = root.join(key.path());
            let Ok(file) = File::open(&place) else { return Ok(None) };
            let about = about(root, key)?;
            Ok(Some(capture::rows(file, &about, None)?))
        }
        Work::Losses(path) => {
            let Ok(json) = fs::read(path) else { return Ok(None) };
            let report: Value = serde_json::from_slice(&json)?;
            let name = |path: &Path| {
                path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned()
            };
            let day = path.parent().map(name).unwrap_or_default();
            let day = day.strip_prefix("dt=").unwrap_or(&day);
            Ok(Some(rows::of_losses(&name(path), day, None, &report)))
        }
    }
}

fn analyse(root: &Path, work: Work, rows: &Sender<Rows>, shared: &Shared) {
    let made = rows_of(root, &work);
    match made {
        Ok(Some(made)) => {
            if rows.send(made).is_ok() {
                return;
            }
        }
        Ok(None) => {}
        Err(error) => {
            shared.failed.fetch_add(1, Ordering::Relaxed);
            let what = match &work {
                Work::Capture(key) => key.path(),
                Work::Losses(path) => path.display().to_string(),
            };
            say(&format!("no rows of {what}: {error:#}"));
        }
    }
    shared.waiting.fetch_sub(1, Ordering::Relaxed);
}

/// The thread that writes.
struct Writer {
    database: Database,
    made: Receiver<Rows>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.made.recv() {
            let mut batch = vec![first];
            let until = std::time::Instant::now() + BATCH_WAIT;
            while batch.len() < BATCH {
                match self.made.recv_deadline(until) {
                    Ok(rows) => batch.push(rows),
                    Err(_) => break,
                }
            }
            if let Err(error) = self.database.insert(&batch) {
                say(&format!("the tables cannot be written, `tracetee rebuild` will: {error}"));
                self.shared.missed.store(true, Ordering::Relaxed);
            }
            let count = batch.len() as u64;
            self.shared.analysed.fetch_add(count, Ordering::Relaxed);
            self.shared.waiting.fetch_sub(count, Ordering::Relaxed);
        }
    }
}
