//! Makes reports for people on one thread of its own, so that whoever asks for many takes no thread that
//! devices need.
//!
//! Reports are remembered; what nobody waits for any longer is not made, and what is being made for nobody is
//! given up. When too many wait, [`Error::Busy`] is the answer.

use crate::store::tables_of;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracetee_fleet::Error;
use tracetee_fleet::database::{Database, Interrupter};
use tracetee_fleet::report::fleet::{Ask, FleetReport};

/// Maximum number of requests that wait.
const MAX_WAITING: usize = 64;
/// Reports that are remembered.
const MAX_REMEMBERED: usize = 20;
/// Time for which a report stays good enough after new captures; if it took long, ten times its duration.
const FRESH: Duration = Duration::from_secs(4);
const FRESH_TIMES: u32 = 10;

/// Query of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(super) struct What {
    app: Option<String>,
    screen: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// Work for the thread; it looks itself whether it is still wanted.
type Work = Box<dyn FnOnce(&mut Reports) + Send>;

/// The thread, and those who wait for it.
#[derive(Debug)]
pub(super) struct Maker {
    work: Mutex<Option<Sender<Work>>>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Set when what is made now is wanted no longer.
    running: Mutex<Option<Arc<AtomicBool>>>,
    interrupter: Mutex<Option<Interrupter>>,
    ended: AtomicBool,
}

impl Shared {
    /// Ends the query that runs, if it is this one's.
    fn give_up(&self, of: &Arc<AtomicBool>) {
        // ORDERING: Relaxed; a wish.
        of.store(true, Ordering::Relaxed);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|running| Arc::ptr_eq(running, of)) {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        let interrupter = self.interrupter.lock().unwrap_or_else(PoisonError::into_inner);
        interrupter.iter().for_each(Interrupter::interrupt);
    }
}

/// Somebody who waits; when this is dropped they wait no longer.
struct Wish {
    shared: Arc<Shared>,
    is_unwanted: Arc<AtomicBool>,
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.shared.give_up(&self.is_unwanted);
    }
}

impl Maker {
    /// Starts the thread.
    pub(super) fn start(root: &Path) -> std::io::Result<Self> {
        let (work, to_do): (Sender<Work>, Receiver<Work>) = bounded(MAX_WAITING);
        let shared = Arc::new(Shared::default());
        let reports = Reports {
            tables: tables_of(root),
            shared: Arc::clone(&shared),
            database: None,
            version: 0,
            made: HashMap::new(),
        };
        let thread = std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
            let mut reports = reports;
            for work in to_do {
                work(&mut reports);
            }
        })?;
        Ok(Self { work: Mutex::new(Some(work)), shared, thread: Mutex::new(Some(thread)) })
    }

    /// Has it done, in its turn. `work` gets a flag that is set when nobody waits any longer.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait, or when it ends; and what `work` says.
    pub(super) async fn make<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Reports, &Arc<AtomicBool>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, made) = oneshot::channel();
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let _wish =
            Wish { shared: Arc::clone(&self.shared), is_unwanted: Arc::clone(&is_unwanted) };
        let shared = Arc::clone(&self.shared);
        let work: Work = Box::new(move |reports| {
            let set = |running| {
                *shared.running.lock().unwrap_or_else(PoisonError::into_inner) = running;
            };
            set(Some(Arc::clone(&is_unwanted)));
            let is_over = [&*is_unwanted, &shared.ended].map(|flag| flag.load(Ordering::Relaxed));
            if is_over == [false, false] {
                let _ = answer.send(work(reports, &is_unwanted));
            }
            set(None);
        });
        {
            let sender = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            match sender.as_ref().map(|sender| sender.try_send(work)) {
                Some(Ok(())) => {}
                None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                    return Err(Error::Busy);
                }
            }
        }
        made.await.unwrap_or(Err(Error::Busy))
    }

    /// Gives up what is being made, and makes no more. Blocks for a moment.
    pub(super) fn stop(&self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        drop(self.work.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        while !thread.is_finished() {
            let running =
                self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
            running.iter().for_each(|running| running.store(true, Ordering::Relaxed));
            // Between two queries there is none to interrupt.
            self.shared.interrupt();
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = thread.join();
    }
}

/// The reports, and what they are made of. Belongs to the thread.
pub(super) struct Reports {
    tables: PathBuf,
    shared: Arc<Shared>,
    database: Option<Database>,
    version: i64,
    made: HashMap<What, Made>,
}

struct Made {
    report: Arc<FleetReport>,
    at: Instant,
    took: Duration,
    version: i64,
}

impl Reports {
    /// The tables, open.
    pub(super) fn database(&mut self) -> Result<&Database, Error> {
        match &mut self.database {
            Some(database) => Ok(database),
            none => {
                let database = Database::read(&self.tables)?;
                let interrupter = Some(database.interrupter());
                *self.shared.interrupter.lock().unwrap_or_else(PoisonError::into_inner) =
                    interrupter;
                Ok(none.insert(database))
            }
        }
    }

    /// The report, as it is now or was a moment ago.
    pub(super) fn of(&mut self, what: &What) -> Result<Arc<FleetReport>, Error> {
        self.version = self.database()?.data_version()?;
        if let Some(made) = self.made.get(what)
            && (made.version == self.version
                || made.at.elapsed() < FRESH.max(made.took * FRESH_TIMES))
        {
            return Ok(Arc::clone(&made.report));
        }
        let began = Instant::now();
        let What { app, screen, from, to } = what.clone();
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let compare = some(from).zip(some(to));
        let ask = Ask { app: some(app), screen: some(screen), compare };
        let report = Arc::new(FleetReport::from_database(self.database()?, &ask)?);
        if self.made.len() >= MAX_REMEMBERED {
            let oldest = self.made.iter().min_by_key(|(_, made)| made.at);
            if let Some(oldest) = oldest.map(|(what, _)| what.clone()) {
                self.made.remove(&oldest);
            }
        }
        let (at, took, version) = (Instant::now(), began.elapsed(), self.version);
        let made = Made { report: Arc::clone(&report), at, took, version };
        self.made.insert(what.clone(), made);
        Ok(report)
    }
}
