//! Makes rows of captures as they come, on threads of its own: what serves never waits for it.
//!
//! As many threads as there are processors read and analyse; one puts rows into the tables, many captures
//! in a transaction. A capture that is not in the tables yet when the collector ends is found at its next
//! start: what is in the directory counts, the tables are made of it. A capture of which no rows can be
//! made twice, or that takes longer than any should, goes to quarantine with the reason.

use super::attempts::{Attempt, Attempts, End};
use super::local_store::{about, set_aside, walk};
use anyhow::{Context as _, Result, bail};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_fleet::capture::{self, Limits};
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::rows::{self, Rows};
use tracetee_fleet::schema::{CAPTURES, LOSSES};
use tracetee_jank::{Stopped, Watch};
use tracetee_protocol::LossReport;

/// Captures that may wait to be analysed: a name each.
const MAX_WAITING: usize = 20_000;
/// Captures of a transaction.
const BATCH: usize = 200;
/// Maximum time that a capture waits for others of its batch.
const BATCH_WAIT: Duration = Duration::from_millis(200);
/// Processor time that a capture may take: the largest that is taken in needs a quarter of it.
const MOST_TIME: Duration = Duration::from_secs(60);
/// Rows that may wait to be written, of all captures: some 200 MB.
const MAX_ROWS: usize = 200_000;

/// Work item of the indexer.
#[derive(Debug)]
pub(crate) enum Work {
    /// A capture.
    Capture(RawKey),
    /// A loss report: its path.
    Losses(PathBuf),
}

/// The indexer.
#[derive(Debug)]
pub(crate) struct Indexer {
    root: PathBuf,
    tables: PathBuf,
    shared: Arc<Shared>,
    work: Option<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
    attempts: Option<Attempts>,
}

/// Result of an analysis, for the tables.
enum Made {
    /// The rows of a capture or a loss report.
    Rows(Box<Rows>),
    /// The raw key of a capture that is in quarantine now: rows that an older analysis made go.
    Gone(String),
}

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicU64,
    analysed: AtomicU64,
    failed: AtomicU64,
    /// Something was not taken: the directory is to be looked through again.
    missed: AtomicBool,
    /// Set to leave waiting captures, and those in progress, for the next start.
    ended: Arc<AtomicBool>,
    rows: Mutex<usize>,
    written: Condvar,
}

impl Shared {
    /// Waits until so many rows may wait with the others; one capture always may.
    fn make_room(&self, count: usize) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        while *rows > 0 && *rows + count > MAX_ROWS {
            rows = self.written.wait(rows).unwrap_or_else(PoisonError::into_inner);
        }
        *rows += count;
    }

    fn give_room(&self, count: usize) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        *rows = rows.saturating_sub(count);
        self.written.notify_all();
    }
}

/// A search for captures that are not in the tables, while it runs.
struct Looking(Arc<Shared>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the limits of indexing a capture, until `stop` is set.
pub(crate) fn limits(stop: &Arc<AtomicBool>) -> Limits {
    Limits { watch: Watch::new(Arc::clone(stop), thread_time, MOST_TIME), ..Limits::default() }
}

impl Indexer {
    /// Starts one, which first takes what is in the directory and not in `tables`. Tables of an older version are
    /// upgraded: the caller has the store's lock.
    pub(crate) fn start(root: &Path, tables: &Path) -> Result<Self> {
        if Database::upgrade(tables)? {
            tracing::info!("upgraded {}", tables.display());
        }
        let database = Database::open(tables)?;
        let shared = Arc::new(Shared::default());
        let (work, to_do) = bounded(MAX_WAITING);
        let (rows, made) = bounded(BATCH);
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let attempts = Attempts::start(root, count)?;
        let mut threads = Vec::new();
        for number in 0..count {
            let (root, to_do, rows) = (root.to_owned(), to_do.clone(), rows.clone());
            let (shared, attempt) = (Arc::clone(&shared), attempts.of_thread(number));
            threads.push(std::thread::Builder::new().name("analyse".to_owned()).spawn(
                move || {
                    for work in to_do {
                        if !shared.ended.load(Ordering::Relaxed) {
                            analyse(&root, work, &rows, &shared, &attempt);
                        }
                    }
                },
            )?);
        }
        let writer = Writer { database, made, shared: Arc::clone(&shared) };
        let writing = std::thread::Builder::new().name("tables".to_owned());
        threads.push(writing.spawn(move || writer.run())?);
        let (root, tables) = (root.to_owned(), tables.to_owned());
        let work = Some(work);
        let indexer = Self { root, tables, shared, work, threads, attempts: Some(attempts) };
        indexer.catch_up()?;
        Ok(indexer)
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

    /// Returns the number of waiting captures. If there are too many, devices have to wait too.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// True if the indexer has fallen behind.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting() >= MAX_WAITING as u64 / 2
    }

    /// Analysed, and of them those of which no rows could be made.
    pub(crate) fn counts(&self) -> [&AtomicU64; 2] {
        [&self.shared.analysed, &self.shared.failed]
    }

    /// True if captures were skipped because too many came; [`Indexer::catch_up`] indexes them.
    pub(crate) fn has_missed(&self) -> bool {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Takes all that is in the directory and not in the tables, on a thread of its own.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let Some(work) = self.work.clone() else { return Ok(()) };
        self.shared.missed.store(false, Ordering::Relaxed);
        let (root, tables) = (self.root.clone(), self.tables.clone());
        let shared = Arc::clone(&self.shared);
        // Until all are found, as one that waits: nobody may take the tables for complete before.
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        let looking = Looking(Arc::clone(&shared));
        std::thread::Builder::new().name("catch up".to_owned()).spawn(move || {
            let _looking = looking;
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
                tracing::error!("cannot look through {}: {error:#}", root.display());
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
        self.attempts = None;
    }
}

/// Each capture and loss report that is in the directory and not in the tables, or there as an older analysis saw it.
pub(crate) fn each_missing(root: &Path, tables: &Path, mut each: impl FnMut(Work)) -> Result<()> {
    let database = Database::open(tables)?;
    let mut wrong = None;
    walk(&root.join("raw"), &mut |path| {
        let Some(key) = path.to_str().and_then(RawKey::parse) else { return };
        match database.is_current(&CAPTURES, &key.id) {
            Ok(false) => each(Work::Capture(key)),
            Ok(true) => {}
            Err(error) => wrong = Some(error),
        }
    })?;
    walk(&root.join("losses"), &mut |path| {
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()) else { return };
        match database.is_current(&LOSSES, id) {
            Ok(false) => each(Work::Losses(path.to_owned())),
            Ok(true) => {}
            Err(error) => wrong = Some(error),
        }
    })?;
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

/// The rows of a capture or a loss report; `None`: it is gone.
fn rows_of(root: &Path, work: &Work, limits: &Limits) -> Result<Option<Rows>> {
    match work {
        Work::Capture(key) => {
            let file = match File::open(root.join(key.path())) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let about = about(root, key)?;
            let rows = || capture::rows(file, &about, None, limits);
            match catch_unwind(AssertUnwindSafe(rows)) {
                Ok(rows) => Ok(Some(rows?)),
                Err(_) => bail!("internal error: the analysis panicked"),
            }
        }
        Work::Losses(path) => {
            let Ok(json) = fs::read(path) else { return Ok(None) };
            let report = LossReport::from_json(&json).context("not a loss report")?;
            let name = |path: &Path| {
                path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned()
            };
            let day = path.parent().map(name).unwrap_or_default();
            let day = day.strip_prefix("dt=").unwrap_or(&day);
            Ok(Some(rows::from_loss_report(&name(path), day, None, &report)))
        }
    }
}

fn analyse(root: &Path, work: Work, rows: &Sender<Made>, shared: &Shared, attempt: &Attempt) {
    if let Work::Capture(key) = &work {
        attempt.begin(key);
    }
    let made = rows_of(root, &work, &limits(&shared.ended));
    let was_asked = made.as_ref().is_err_and(|error| {
        let error = error.downcast_ref::<tracetee_fleet::Error>();
        matches!(error, Some(tracetee_fleet::Error::Stopped(Stopped::Asked)))
    });
    let is_to_go = attempt.end(match &made {
        Ok(_) => End::Done,
        Err(error) if was_asked || is_ours(error) => End::Interrupted,
        Err(_) => End::Failed,
    });
    match made {
        Ok(Some(made)) => {
            shared.make_room(made.count());
            if rows.send(Made::Rows(Box::new(made))).is_ok() {
                return;
            }
        }
        Ok(None) => {}
        // It is there at the next start.
        Err(_) if was_asked => {}
        Err(error) => {
            shared.failed.fetch_add(1, Ordering::Relaxed);
            failed(root, &work, &error, is_to_go);
            if let Work::Capture(key) = &work
                && is_to_go
                && rows.send(Made::Gone(key.path())).is_ok()
            {
                return;
            }
        }
    }
    shared.waiting.fetch_sub(1, Ordering::Relaxed);
}

/// True if an error is that of this machine, not of the capture.
fn is_ours(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|error| error.downcast_ref::<std::io::Error>());
    causes.any(|error| error.raw_os_error().is_some())
}

/// No rows can be made.
fn failed(root: &Path, work: &Work, error: &anyhow::Error, is_to_go: bool) {
    let file = match work {
        Work::Capture(key) => key.path(),
        Work::Losses(path) => path.display().to_string(),
    };
    let error = format!("{error:#}");
    match work {
        Work::Capture(key) if is_to_go => match set_aside(root, key, &error) {
            Ok(()) => tracing::warn!(file, error, "cannot index; moved to quarantine"),
            Err(why) => tracing::error!(file, error, "cannot index, nor move to quarantine: {why}"),
        },
        _ => tracing::warn!(file, error, "cannot index"),
    }
}

/// The thread that writes.
struct Writer {
    database: Database,
    made: Receiver<Made>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.made.recv() {
            let mut batch = vec![first];
            let until = std::time::Instant::now() + BATCH_WAIT;
            while batch.len() < BATCH {
                match self.made.recv_deadline(until) {
                    Ok(made) => batch.push(made),
                    Err(_) => break,
                }
            }
            let count = batch.len() as u64;
            let (mut all, mut gone) = (Vec::new(), Vec::new());
            for made in batch {
                match made {
                    Made::Rows(rows) => all.push(*rows),
                    Made::Gone(raw_key) => gone.push(raw_key),
                }
            }
            let mut written = self.database.insert(&all);
            if !gone.is_empty() {
                written = written.and(self.database.delete(&gone));
            }
            if let Err(error) = written {
                tracing::error!("cannot write the tables: {error}; run `tracetee rebuild`");
                self.shared.missed.store(true, Ordering::Relaxed);
            }
            self.shared.give_room(all.iter().map(Rows::count).sum());
            self.shared.analysed.fetch_add(all.len() as u64, Ordering::Relaxed);
            self.shared.waiting.fetch_sub(count, Ordering::Relaxed);
        }
    }
}
