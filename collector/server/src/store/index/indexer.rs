//! Makes rows of captures as they come, on threads of its own: what serves never waits for it.
//!
//! As many threads as there are processors read and analyse; one puts rows into the tables, many captures
//! in a transaction. A capture that is not in the tables yet when the collector ends is found at its next
//! start: what is in the directory counts, the tables are made of it. A capture of which no rows can be
//! made twice, or that takes longer than any should, goes to quarantine with the reason. Captures that are to be
//! analyzed again (`reanalysis.rs`) have their turn when no new one waits.

use crate::store::index::analyst::Analyst;
use crate::store::index::attempts::Attempts;
use crate::store::index::outbox::Outbox;
use crate::store::index::queue::{Again, Chunk, Content, MAX_ROWS, MAX_WAITING, Made, State, Work};
use crate::store::index::supervised;
use crate::store::mappings::Mappings;
use crate::store::objects::disk::{remove, walk};
use crate::store::objects::intents;
use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::{RawKey, ReportKey, ReportKind, app_of_report};
use tracetee_fleet::schema::Text;
use tracetee_fleet::sums::Contribution;

/// Captures and reports of a transaction. Captures reach [`BATCH_ROWS`] before; parts of ledgers change the same few
/// thousand sums, which takes most of the time.
const BATCH: usize = 5_000;
/// Maximum time that a capture waits for others of its batch; and in a rebuild, when the tables have no readers yet.
const BATCH_WAIT: Duration = Duration::from_millis(200);
const BATCH_WAIT_OF_REBUILD: Duration = Duration::from_secs(5);
/// Maximum number of rows in a transaction, except for a single capture; other captures wait meanwhile.
const BATCH_ROWS: usize = MAX_ROWS / 2;
/// Captures to be analyzed again that may wait.
const MAX_AGAIN: usize = 64;

/// The indexer.
#[derive(Debug)]
pub(crate) struct Indexer {
    root: PathBuf,
    tables: PathBuf,
    pub(crate) state: Arc<State>,
    mappings: Arc<Mappings>,
    /// Takes captures that are to be analyzed again.
    pub(crate) again: Sender<Again>,
    /// A message for each item of the queue.
    work: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    attempts: Option<Attempts>,
}

/// A search for captures that are not in the tables, while it runs.
struct Looking(Arc<State>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Indexer {
    /// Starts an indexer, which first indexes captures in the directory that are not in `tables`.
    pub(crate) fn start(root: &Path, tables: &Path) -> Result<Self> {
        Self::start_with(root, tables, BATCH_WAIT)
    }

    /// Starts an indexer for a command, which checks the rows that it reads: no thread searches for damage.
    pub(crate) fn start_for_command(root: &Path, tables: &Path) -> Result<Self> {
        Self::start_with(root, tables, BATCH_WAIT_OF_REBUILD)
    }

    /// Runs an indexer that rebuilds all tables. Returns the number of captures and reports.
    pub(crate) fn rebuild(root: &Path, tables: &Path) -> Result<u64> {
        Ok(Self::start_with(root, tables, BATCH_WAIT_OF_REBUILD)?.finish())
    }

    fn start_with(root: &Path, tables: &Path, batch_wait: Duration) -> Result<Self> {
        let database = Database::open(tables)?;
        let state = Arc::new(State::default());
        let (work, to_do) = bounded(MAX_WAITING);
        let (again, to_redo) = bounded(MAX_AGAIN);
        let (rows, made) = bounded(BATCH);
        let mappings = Arc::new(Mappings::new(root));
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let attempts = Attempts::start(root, count)?;
        let mut threads = Vec::new();
        for number in 0..count {
            let analyst = Analyst {
                root: root.to_owned(),
                rows: rows.clone(),
                state: Arc::clone(&state),
                mappings: Arc::clone(&mappings),
                attempt: attempts.of_thread(number),
            };
            let (to_do, to_redo) = (to_do.clone(), to_redo.clone());
            let (panics, ended) = (Arc::clone(&state.panics), Arc::clone(&state.ended));
            let work = move || analyst.run(&to_do, &to_redo);
            threads.push(supervised::spawn("analyse", panics, ended, work)?);
        }
        let mut writer = Writer {
            root: root.to_owned(),
            outbox: Outbox::find(root),
            database,
            made,
            state: Arc::clone(&state),
            batch_wait,
        };
        let (panics, ended) = (Arc::clone(&state.panics), Arc::clone(&state.ended));
        threads.push(supervised::spawn("tables", panics, ended, move || writer.run())?);
        if batch_wait < BATCH_WAIT_OF_REBUILD {
            let (panics, ended) = (Arc::clone(&state.panics), Arc::clone(&state.ended));
            let (tables, state) = (tables.to_owned(), Arc::clone(&state));
            let work = move || state.damage.watch(&tables);
            threads.push(supervised::spawn("check", panics, ended, work)?);
        }
        let (root, tables) = (root.to_owned(), tables.to_owned());
        let work = Some(work);
        let attempts = Some(attempts);
        let indexer = Self { root, tables, state, mappings, again, work, threads, attempts };
        indexer.catch_up()?;
        Ok(indexer)
    }

    /// Registers a new capture of an app. Never waits.
    pub(crate) fn take(&self, app: &str, work: Work) {
        let Some(sender) = &self.work else { return };
        if self.state.push(app, work) && sender.try_send(()).is_err() {
            // The waiting capture to which this message belongs is found in the directory later.
            self.state.pop();
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            self.state.missed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of waiting captures. If there are too many, devices have to wait too.
    pub(crate) fn waiting(&self) -> u64 {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// True if the indexer has fallen behind with the captures of an app: as many wait as there is free room.
    pub(crate) fn is_behind(&self, app: &str) -> bool {
        !self.state.queue.locked().admits(&app.to_owned(), 1)
    }

    /// Returns the bytes of the tables, including data that is not in their main file yet.
    pub(crate) fn tables_bytes(&self) -> u64 {
        let bytes = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        let mut log = self.tables.clone().into_os_string();
        log.push("-wal");
        bytes(&self.tables) + bytes(Path::new(&log))
    }

    /// Returns the mappings in use.
    pub(crate) fn mappings(&self) -> Arc<Mappings> {
        Arc::clone(&self.mappings)
    }

    /// Indexes all captures in the directory that are not in the tables, on its own thread.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let Some(work) = self.work.clone() else { return Ok(()) };
        self.state.missed.store(false, Ordering::Relaxed);
        let (root, tables) = (self.root.clone(), self.tables.clone());
        let state = Arc::clone(&self.state);
        // Counts as a waiting capture until all are found, so that the tables do not appear complete before.
        state.waiting.fetch_add(1, Ordering::Relaxed);
        let looking = Looking(Arc::clone(&state));
        std::thread::Builder::new().name("catch up".to_owned()).spawn(move || {
            let _looking = looking;
            let given = each_missing(&root, &tables, |missing| {
                if state.ended.load(Ordering::Relaxed) {
                    return;
                }
                let app = match &missing {
                    Work::Capture(key, _) => key.app.clone(),
                    Work::Report(key, _) => app_of_report(&key.name).unwrap_or_default(),
                };
                if state.push(&app, missing) && work.send(()).is_err() {
                    state.waiting.fetch_sub(1, Ordering::Relaxed);
                }
            });
            if let Err(error) = given {
                tracing::error!("cannot look through {}: {error:#}", root.display());
            }
        })?;
        Ok(())
    }

    /// Counts as a waiting capture until it is dropped, so that the tables do not appear complete before.
    pub(crate) fn looking(&self) -> impl Drop + use<> {
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        Looking(Arc::clone(&self.state))
    }

    /// Waits until all captures so far are in the tables.
    pub(crate) fn settle(&self) {
        while self.waiting() > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it when everything is in the tables. Returns the number of captures and reports.
    pub(crate) fn finish(mut self) -> u64 {
        self.join();
        self.state.analysed.load(Ordering::Relaxed)
    }

    /// Ends it now: what waits is left for the next start.
    pub(crate) fn stop(mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.join();
    }

    fn join(&mut self) {
        self.work = None;
        self.state.damage.end();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.attempts = None;
    }
}

/// Calls `each` for each capture and report that is in the directory and not in the tables, or is there from an older
/// analysis.
pub(crate) fn each_missing(root: &Path, tables: &Path, mut each: impl FnMut(Work)) -> Result<()> {
    let database = Database::open(tables)?;
    let mut wrong = None;
    walk(&root.join("raw"), &mut |path| {
        let Some(key) = path.to_str().and_then(RawKey::parse) else { return };
        match database.has_current(&key) {
            Ok(false) => each(Work::Capture(key, None)),
            Ok(true) => {}
            Err(error) => wrong = Some(error),
        }
    })?;
    for kind in ReportKind::ALL {
        walk(&root.join(kind.directory()), &mut |path| {
            let Some(key) = path.to_str().and_then(ReportKey::parse) else { return };
            match database.has_report(&key) {
                Ok(false) => each(Work::Report(key, path.to_owned())),
                Ok(true) => {}
                Err(error) => wrong = Some(error),
            }
        })?;
    }
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

/// True if the file that was analyzed still exists. Deletes it if it is of a device that is being forgotten, and
/// only its text says so.
fn is_stored(root: &Path, contribution: &Contribution, is_any_forgotten: bool) -> bool {
    let Some(path) = contribution.key().map(|key| root.join(key)) else { return true };
    let is_forgotten = |device: &Text| intents::is_forgotten(root, Some(device));
    if is_any_forgotten && contribution.devices().any(is_forgotten) {
        let _ = remove(&path);
        return false;
    }
    path.exists()
}

/// The room of a batch and its waiting captures; released when this is dropped.
struct Batch<'a> {
    state: &'a State,
    rows: usize,
    waited: u64,
    chunks: Vec<Chunk>,
}

impl Batch<'_> {
    /// Captures that were to be analyzed again have no new rows.
    fn fail_chunks(&self) {
        self.chunks.iter().for_each(|chunk| chunk.store(true, Ordering::Relaxed));
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail_chunks();
        }
        self.state.give_room(self.rows);
        self.state.count_done(self.waited);
    }
}

/// The thread that writes.
struct Writer {
    root: PathBuf,
    /// For a replica of an object store: rows for other collectors.
    outbox: Option<Outbox>,
    database: Database,
    made: Receiver<Made>,
    state: Arc<State>,
    batch_wait: Duration,
}

impl Writer {
    fn run(&mut self) {
        while let Ok(first) = self.made.recv() {
            let mut rows = first.row_count();
            let mut batch = vec![first];
            let until = std::time::Instant::now() + self.batch_wait;
            while batch.len() < BATCH && rows < BATCH_ROWS {
                match self.made.recv_deadline(until) {
                    Ok(made) => {
                        rows += made.row_count();
                        batch.push(made);
                    }
                    Err(_) => break,
                }
            }
            let (mut new, mut again, mut gone) = (Vec::new(), Vec::new(), Vec::new());
            let mut tokens = Vec::new();
            let mut held = Batch { state: &self.state, rows, waited: 0, chunks: Vec::new() };
            for made in batch {
                tokens.push(made.token);
                held.waited += u64::from(made.chunk.is_none());
                match (made.content, made.chunk) {
                    (Content::Rows(analyzed), None) => new.push(*analyzed),
                    (Content::Rows(analyzed), Some(chunk)) => {
                        again.push(analyzed.0);
                        held.chunks.push(chunk);
                    }
                    (Content::Explained(analyzed), _) => {
                        again.push(analyzed.0.clone());
                        new.push(*analyzed);
                    }
                    (Content::Gone(raw_key), _) => gone.push(raw_key),
                }
            }
            let (root, is_any_forgotten) = (&self.root, intents::is_any(&self.root));
            let is_stored = |new: &Contribution| is_stored(root, new, is_any_forgotten);
            // Without an outbox, only the transaction is checked.
            let is_added = |new: &Contribution| self.outbox.is_none() || is_stored(new);
            let (added, rows): (Vec<_>, Vec<_>) =
                new.into_iter().filter(|(new, _)| is_added(new)).unzip();
            if let Some(outbox) = &self.outbox {
                // First: rows in the tables are in the outbox, or published.
                if let Err(error) = outbox.put(&added, &again) {
                    tracing::error!("cannot write rows for other collectors: {error}");
                    self.state.missed.store(true, Ordering::Relaxed);
                    held.fail_chunks();
                    continue;
                }
            }
            let mut written = self.database.insert_stored(&added, &is_stored);
            if !gone.is_empty() {
                written =
                    written.and_then(|inserted| self.database.delete(&gone).map(|_| inserted));
            }
            match written {
                Ok(inserted) => {
                    // A capture that was already there does not count: a search of the directory may find a waiting capture.
                    let rows = rows.iter().zip(inserted);
                    let new: Vec<_> =
                        rows.filter_map(|(rows, is_new)| is_new.then_some(rows)).collect();
                    self.state.analysed.fetch_add(new.len() as u64, Ordering::Relaxed);
                    self.state.observed.add(new);
                }
                Err(error) => {
                    self.state.damage.note(&error);
                    let remedy = if error.is_damage() {
                        "run `tracetee store rebuild`"
                    } else {
                        "the captures are stored, and will be tried again"
                    };
                    tracing::error!("cannot write the tables: {error}; {remedy}");
                    self.state.missed.store(true, Ordering::Relaxed);
                }
            }
            if !again.is_empty()
                && let Err(error) = self.database.replace(&again)
            {
                tracing::error!("cannot replace captures that were analysed again: {error}");
                held.fail_chunks();
            }
            drop(tokens);
            self.state.analysed_again.fetch_add(again.len() as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::captures::local_store::LocalStore;
    use crate::store::objects::disk::tables_of;
    use crate::store::test_store::put;
    use serde_json::json;

    const FRAME: &str = "# tracer: nop
 app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|Choreographer#doFrame
 app-5 (5) [000] ...1 1.010000: tracing_mark_write: E|5
";

    #[test]
    fn a_capture_that_comes_while_the_directory_is_looked_through_is_observed_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        let keys = [1, 2].map(|digit| {
            let id = uuid::Builder::from_unix_timestamp_millis(86_400_000, &[digit; 10]);
            let meta = json!({"app": "a", "install_id": "d", "opens": "schedule"});
            let path = put(&store, id.into_uuid(), &meta, FRAME).unwrap();
            RawKey::parse(path.to_str().unwrap()).unwrap()
        });
        let indexer = Indexer::start_for_command(root, &tables_of(root)).unwrap();
        for key in keys {
            indexer.take("a", Work::Capture(key, None));
        }
        let observed = Arc::clone(&indexer.state.observed);
        assert_eq!(indexer.finish(), 2);
        let frames: Vec<_> = observed.sums().iter().map(|(_, sums)| sums.frames).collect();
        assert_eq!(frames, [2]);
    }
}
