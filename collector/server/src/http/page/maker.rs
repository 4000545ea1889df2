//! Makes reports for people on one thread of its own, so that whoever asks for many takes no thread that
//! devices need.
//!
//! Reports are remembered, and only apps with new captures are reported anew, by a second thread. If that takes longer
//! than [`QUICK`], the answer is the remembered report with its age. The report of a page without a query is made before
//! anybody asks for it: at the start, and by the second thread after changes ([`Ahead`]). A report that nobody waits for
//! any longer is not made, or given up. When too many wait, [`Error::Busy`] is the answer.

mod ahead;

use crate::store::tables_of;
use ahead::Ahead;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
/// Time for which whoever asks waits for a newer report than the remembered one.
const QUICK: Duration = Duration::from_millis(50);
/// Age up to which a remembered report is good enough until the next one is made; if it took long, ten times its
/// duration.
const FRESH: Duration = Duration::from_secs(60);
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

/// The numbers of the apps' changes.
type Changes = BTreeMap<String, i64>;

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
    made: Mutex<HashMap<What, Made>>,
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

    /// Notes that the remembered report has all captures that there were at `now`.
    fn is_complete(&self, what: &What, changes: &Changes, now: Instant) {
        if let Some(made) = locked(&self.made).get_mut(what).filter(|made| made.changes == *changes)
        {
            made.as_of = made.as_of.max(now);
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
                .and_then(|database| renew_report(database, shared, &what))
                .map(|report| renewed.try_send(report).unwrap_or_default()),
            Err(RecvTimeoutError::Timeout) => opened(&mut database, tables, &shared.renewal)
                .and_then(|database| ahead.look(database, shared)),
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

/// Makes a report, and remembers it.
fn renew_report(
    database: &Database,
    shared: &Shared,
    what: &What,
) -> Result<Arc<FleetReport>, Error> {
    let began = Instant::now();
    let changes = changes_of(database, what)?;
    let old = locked(&shared.made).get(what).cloned();
    if let Some(old) = old.as_ref().filter(|old| old.changes == changes) {
        shared.is_complete(what, &changes, began);
        return Ok(Arc::clone(&old.report));
    }
    let report = Arc::new(made_of(database, what, old.as_ref(), &changes)?);
    let mut made = locked(&shared.made);
    if made.len() >= MAX_REMEMBERED && !made.contains_key(what) {
        let oldest = made.iter().min_by_key(|(_, made)| made.as_of).map(|(what, _)| what.clone());
        oldest.and_then(|oldest| made.remove(&oldest));
    }
    let made_now =
        Made { report: Arc::clone(&report), changes, as_of: began, took: began.elapsed() };
    made.insert(what.clone(), made_now);
    Ok(report)
}

/// The numbers of the changes of those apps that a report is about.
fn changes_of(database: &Database, what: &What) -> Result<Changes, Error> {
    let mut changes = database.changes()?;
    if let Some(app) = what.app.as_ref().filter(|app| !app.is_empty()) {
        changes.retain(|of, _| of == app);
    }
    Ok(changes)
}

/// Makes a report; takes apps that have not changed from the old one.
fn made_of(
    database: &Database,
    what: &What,
    old: Option<&Made>,
    changes: &Changes,
) -> Result<FleetReport, Error> {
    let What { app, screen, from, to } = what.clone();
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let compare = some(from).zip(some(to));
    let ask = Ask { app: some(app), screen: some(screen), compare, exact: false };
    let old = match old {
        // A comparison needs an app with both versions, which may be any.
        Some(old) if ask.app.is_none() && ask.compare.is_none() => old,
        _ => return FleetReport::from_database(database, &ask),
    };
    let changed: Vec<&String> = changes
        .iter()
        .filter(|(app, number)| old.changes.get(*app) != Some(number))
        .map(|(app, _)| app)
        .collect();
    let mut report = (*old.report).clone();
    report.apps.retain(|of| !changed.contains(&&of.app));
    for app in changed {
        let ask = Ask { app: Some(app.clone()), ..ask.clone() };
        match FleetReport::from_database(database, &ask) {
            Ok(of_app) => report.apps.extend(of_app.apps),
            // All its captures are deleted.
            Err(Error::Missing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    report.apps.sort_by(|a, b| a.app.cmp(&b.app));
    Ok(report)
}

/// The reports, and what they are made of. Belongs to the thread.
pub(super) struct Reports {
    tables: PathBuf,
    shared: Arc<Shared>,
    database: Option<Database>,
    renew: Sender<Renewal>,
}

/// A report that is remembered.
#[derive(Debug, Clone)]
struct Made {
    report: Arc<FleetReport>,
    changes: Changes,
    /// The last time at which the tables were known to have these changes.
    as_of: Instant,
    took: Duration,
}

impl Reports {
    /// The tables, open.
    pub(super) fn database(&mut self) -> Result<&Database, Error> {
        opened(&mut self.database, &self.tables, &self.shared.interrupter)
    }

    /// The report, as it is now or was a moment ago; only as it is now if `is_new_wanted`.
    pub(super) fn of(&mut self, what: &What, is_new_wanted: bool) -> Result<Shown, Error> {
        let shared = Arc::clone(&self.shared);
        let old = locked(&shared.made).get(what).cloned();
        let is_good_enough =
            |old: &Made| old.as_of.elapsed() < FRESH.max(old.took * FRESH_TIMES) && !is_new_wanted;
        let Some(old) = old.filter(is_good_enough) else {
            return renew_report(self.database()?, &shared, what).map(Shown::complete);
        };
        let now = Instant::now();
        let changes = changes_of(self.database()?, what)?;
        if old.changes == changes {
            shared.is_complete(what, &changes, now);
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
    use std::io::Cursor;
    use tracetee_fleet::capture::{self, Limits};
    use tracetee_fleet::rows::{About, Rows};
    use tracetee_fleet::simulate::Plan;

    fn rows(app: &str, device: u64) -> Vec<Rows> {
        let plan = Plan { frames: 6, ..Plan::default() };
        let of = |captured: tracetee_fleet::simulate::Simulated| {
            let about = About {
                capture_id: captured.id.to_string(),
                app: Some(app.to_owned()),
                day: "2026-09-21".to_owned(),
                meta: captured.meta.clone(),
                ..About::default()
            };
            let text = Cursor::new(captured.text);
            capture::rows(text, &about, None, &Limits::default()).unwrap()
        };
        plan.device(1, device).0.into_iter().map(of).collect()
    }

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
                let made = locked(&maker.shared.made);
                made.get(&What::default()).is_some_and(|made| made.changes == changes)
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

    #[test]
    fn only_apps_with_new_captures_are_reported_anew() {
        let directory = tempfile::tempdir().unwrap();
        let tables = directory.path().join("tables.sqlite");
        let mut writer = Database::open(&tables).unwrap();
        writer.insert(&rows("a", 1)).unwrap();
        writer.insert(&rows("b", 2)).unwrap();
        let (reader, shared) = (Database::read(&tables).unwrap(), Shared::default());
        let report = |what: &What| renew_report(&reader, &shared, what).unwrap();
        let captures = |report: &FleetReport, app: &str| {
            let of_app = report.apps.iter().find(|of| of.app == app);
            of_app.map(|of| of.versions.iter().map(|version| version.captures).sum::<u64>())
        };
        let all = What::default();
        let of_b = What { app: Some("b".to_owned()), ..What::default() };
        let (first, first_of_b) = (report(&all), report(&of_b));
        let (in_a, in_b) = (captures(&first, "a").unwrap(), captures(&first, "b").unwrap());
        assert!(Arc::ptr_eq(&first, &report(&all)), "nothing has changed");

        // Sums that change without a new capture show which app is reported anew.
        writer.run("UPDATE capture_rollups SET captures = captures + 1000").unwrap();
        let more = rows("a", 3);
        writer.insert(&more).unwrap();
        let second = report(&all);
        assert_eq!(captures(&second, "a"), Some(in_a + 1000 + more.len() as u64));
        assert_eq!(captures(&second, "b"), Some(in_b));
        assert!(Arc::ptr_eq(&first_of_b, &report(&of_b)));

        // An app without captures is in no report.
        let keys: Vec<String> = writer.by_age().unwrap().into_iter().map(|(key, ..)| key).collect();
        writer
            .run("UPDATE capture_rollups SET captures = captures - 1000 WHERE captures > 1000")
            .unwrap();
        writer.delete(&keys).unwrap();
        assert!(report(&all).apps.is_empty());
    }
}
