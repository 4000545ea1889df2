//! Makes reports for people on one thread of its own, so that whoever asks for many takes no thread that
//! devices need.
//!
//! Reports are remembered ([`remembered`]), and only apps with new captures are reported anew, by a second thread. If that takes longer
//! than [`QUICK`], the answer is the remembered report with its age. The report of a page without a query is made before
//! anybody asks for it: at the start, and by the second thread after changes ([`Ahead`]). A report that nobody waits for
//! any longer is not made, or given up. When too many wait, [`Error::Busy`] is the answer.

mod ahead;
mod remembered;

use crate::store::tables_of;
use ahead::Ahead;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use remembered::{MAX_REMEMBERED, Made, Remembered, changes_of};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracetee_fleet::Error;
use tracetee_fleet::database::{Database, Interrupter};
use tracetee_fleet::report::fleet::FleetReport;

pub(super) use remembered::What;

/// Maximum number of requests that wait.
const MAX_WAITING: usize = 64;
/// Time for which whoever asks waits for a newer report than the remembered one.
const QUICK: Duration = Duration::from_millis(50);
/// Age up to which a remembered report is good enough until the next one is made; if it took long, ten times its
/// duration.
const FRESH: Duration = Duration::from_secs(60);
const FRESH_TIMES: u32 = 10;

/// A report, as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) report: Arc<FleetReport>,
    /// Time since all captures were in it; zero if they are.
    pub(super) age: Duration,
}

impl Shown {
    const fn complete(report: Arc<FleetReport>) -> Self {
        Self { report, age: Duration::ZERO }
    }
}

/// A wish for a newer report; whoever has it gets the report, too, if they still wait.
#[derive(Debug)]
struct Renewal {
    what: What,
    renewed: Sender<Arc<FleetReport>>,
}

/// Work for the thread; it looks itself whether it is still wanted.
type Work = Box<dyn FnOnce(&mut Reports) + Send>;

/// The thread, and those who wait for it.
#[derive(Debug)]
pub(super) struct Maker {
    work: Mutex<Option<Sender<Work>>>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Set when what is made now is wanted no longer.
    running: Mutex<Option<Arc<AtomicBool>>>,
    interrupter: Mutex<Option<Interrupter>>,
    /// Of the thread that renews.
    renewal: Mutex<Option<Interrupter>>,
    remembered: Remembered,
    ended: AtomicBool,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Ends the query that runs, if it is this one's.
    fn give_up(&self, of: &Arc<AtomicBool>) {
        // ORDERING: Relaxed; a wish.
        of.store(true, Ordering::Relaxed);
        let running = locked(&self.running);
        if running.as_ref().is_some_and(|running| Arc::ptr_eq(running, of)) {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        locked(&self.interrupter).iter().for_each(Interrupter::interrupt);
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
        let (renew, outdated): (Sender<Renewal>, Receiver<Renewal>) = bounded(MAX_REMEMBERED);
        let shared = Arc::new(Shared::default());
        let (of_requests, of_renewals) = (Arc::clone(&shared), Arc::clone(&shared));
        let (tables, same_tables) = (tables_of(root), tables_of(root));
        let requests = std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
            let mut reports = Reports { tables, shared: of_requests, database: None, renew };
            for work in to_do {
                work(&mut reports);
            }
        })?;
        let renewals = std::thread::Builder::new()
            .name("renewals".to_owned())
            .spawn(move || renew_reports(&outdated, &of_renewals, &same_tables))?;
        let _ = work.try_send(Box::new(first_report));
        let threads = Mutex::new(vec![requests, renewals]);
        Ok(Self { work: Mutex::new(Some(work)), shared, threads })
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
            let set = |running| *locked(&shared.running) = running;
            set(Some(Arc::clone(&is_unwanted)));
            let is_over = [&*is_unwanted, &shared.ended].map(|flag| flag.load(Ordering::Relaxed));
            if is_over == [false, false] {
                let _ = answer.send(work(reports, &is_unwanted));
            }
            set(None);
        });
        {
            let sender = locked(&self.work);
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
        drop(locked(&self.work).take());
        for thread in locked(&self.threads).drain(..) {
            while !thread.is_finished() {
                let running = locked(&self.shared.running).clone();
                running.iter().for_each(|running| running.store(true, Ordering::Relaxed));
                // Between two queries there is none to interrupt.
                self.shared.interrupt();
                locked(&self.shared.renewal).iter().for_each(Interrupter::interrupt);
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = thread.join();
        }
    }
}

/// The tables, open.
fn opened<'a>(
    database: &'a mut Option<Database>,
    tables: &Path,
    interrupter: &Mutex<Option<Interrupter>>,
) -> Result<&'a Database, Error> {
    match database {
        Some(database) => Ok(database),
        none => {
            let opened = Database::read(tables)?;
            *locked(interrupter) = Some(opened.interrupter());
            Ok(none.insert(opened))
        }
    }
}

/// Makes the report of a page without a query; whoever asks for it meanwhile waits for it.
fn first_report(reports: &mut Reports) {
    let shared = Arc::clone(&reports.shared);
    let is_over = || shared.ended.load(Ordering::Relaxed);
    if !is_over()
        && let Err(error) = reports.of(&What::default(), false)
        && !is_over()
    {
        tracing::warn!("cannot make the first report: {error}");
    }
}

/// Makes reports anew that are wanted, and ahead the one of a page without a query, until all senders are dropped.
fn renew_reports(outdated: &Receiver<Renewal>, shared: &Shared, tables: &Path) {
    let mut database = None;
    let mut ahead = Ahead::default();
    loop {
        let wanted = outdated.recv_timeout(ahead::EVERY);
        // ORDERING: Relaxed; a wish.
        if shared.ended.load(Ordering::Relaxed) {
            return;
        }
        let renewed = match wanted {
            Ok(Renewal { what, renewed }) => opened(&mut database, tables, &shared.renewal)
                .and_then(|database| shared.remembered.renew(database, &what))
                .map(|report| renewed.try_send(report).unwrap_or_default()),
            Err(RecvTimeoutError::Timeout) => opened(&mut database, tables, &shared.renewal)
                .and_then(|database| ahead.look(database, &shared.remembered)),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match renewed {
            Err(error) if !shared.ended.load(Ordering::Relaxed) => {
                tracing::warn!("cannot renew a report: {error}");
            }
            _ => {}
        }
    }
}

/// The reports, and what they are made of. Belongs to the thread.
pub(super) struct Reports {
    tables: PathBuf,
    shared: Arc<Shared>,
    database: Option<Database>,
    renew: Sender<Renewal>,
}

impl Reports {
    /// The tables, open.
    pub(super) fn database(&mut self) -> Result<&Database, Error> {
        opened(&mut self.database, &self.tables, &self.shared.interrupter)
    }

    /// The report, as it is now or was a moment ago; only as it is now if `is_new_wanted`.
    pub(super) fn of(&mut self, what: &What, is_new_wanted: bool) -> Result<Shown, Error> {
        let shared = Arc::clone(&self.shared);
        let old = shared.remembered.get(what);
        let is_good_enough =
            |old: &Made| old.as_of.elapsed() < FRESH.max(old.took * FRESH_TIMES) && !is_new_wanted;
        let Some(old) = old.filter(is_good_enough) else {
            return shared.remembered.renew(self.database()?, what).map(Shown::complete);
        };
        let now = Instant::now();
        let changes = changes_of(self.database()?, what)?;
        if old.changes == changes {
            shared.remembered.note_complete(what, &changes, now);
            return Ok(Shown::complete(old.report));
        }
        let (renewed, report) = bounded(1);
        // If it is full, what waits there is made first; whoever asks again, asks for this one again.
        let is_taken = self.renew.try_send(Renewal { what: what.clone(), renewed }).is_ok();
        let patience = if old.took > QUICK { Duration::ZERO } else { QUICK };
        if is_taken && let Ok(report) = report.recv_timeout(patience) {
            return Ok(Shown::complete(report));
        }
        Ok(Shown { report: old.report, age: old.as_of.elapsed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remembered::Changes;
    use remembered::tests::rows;

    fn captures(shown: &Shown) -> u64 {
        shown.report.apps.iter().flat_map(|app| &app.versions).map(|of| of.captures).sum()
    }

    #[test]
    fn a_report_that_is_not_renewed_in_time_is_shown_with_its_age() {
        let directory = tempfile::tempdir().unwrap();
        let tables = directory.path().join("tables.sqlite");
        let mut writer = Database::open(&tables).unwrap();
        let (first, second) = (rows("a", 1), rows("a", 2));
        let (few, all) = (first.len() as u64, (first.len() + second.len()) as u64);
        writer.insert(&first).unwrap();
        let (renew, outdated) = bounded(MAX_REMEMBERED);
        let shared = Arc::<Shared>::default();
        let mut reports =
            Reports { tables: tables.clone(), shared: Arc::clone(&shared), database: None, renew };
        let what = What::default();
        let shown = reports.of(&what, false).unwrap();
        assert_eq!((captures(&shown), shown.age), (few, Duration::ZERO));

        // Nobody renews it.
        writer.insert(&second).unwrap();
        let late = reports.of(&what, false).unwrap();
        assert_eq!(captures(&late), few);
        assert!(late.age > Duration::ZERO);
        assert!(reports.of(&what, false).unwrap().age > late.age);
        let new = reports.of(&what, true).unwrap();
        assert_eq!((captures(&new), new.age), (all, Duration::ZERO));
        assert_eq!(reports.of(&what, false).unwrap().age, Duration::ZERO, "nothing has changed");

        // It is renewed beside who asks, and handed over when it is made in time.
        let thread = std::thread::spawn(move || renew_reports(&outdated, &shared, &tables));
        let shown = (3..100).map(|device| {
            writer.insert(&rows("a", device)).unwrap();
            reports.of(&what, false).unwrap()
        });
        let shown = shown.into_iter().find(|shown| shown.age == Duration::ZERO).unwrap();
        assert!(captures(&shown) > all);
        drop(reports);
        thread.join().unwrap();
    }

    #[test]
    fn the_first_page_is_made_before_anybody_asks() {
        let directory = tempfile::tempdir().unwrap();
        let tables = tables_of(directory.path());
        let mut writer = Database::open(&tables).unwrap();
        writer.insert(&rows("a", 1)).unwrap();
        let maker = Maker::start(directory.path()).unwrap();
        let is_made = |changes: Changes| {
            let is_it = || {
                let made = maker.shared.remembered.get(&What::default());
                made.is_some_and(|made| made.changes == changes)
            };
            let pause = Duration::from_millis(20);
            (0..1500).any(|_| {
                is_it() || {
                    std::thread::sleep(pause);
                    false
                }
            })
        };
        assert!(is_made(writer.changes().unwrap()), "after the start");
        writer.insert(&rows("a", 2)).unwrap();
        assert!(is_made(writer.changes().unwrap()), "after a change");
        maker.stop();
    }
}
