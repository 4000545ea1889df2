//! Makes the page's contents, on low-priority threads: a few requests at a time, so that heavy readers take neither threads
//! nor processor time that devices need. Readers take turns, and no reader has all of them. When too many requests wait, the
//! reader with most of them gets [`Error::Busy`].
//!
//! The report of an app is cached until rows of the app change, and answers all requests that waited when it was begun.
//! A request for many apps remakes a limited number of reports, oldest first. Work whose readers have left is
//! cancelled.

use super::tokens::Viewer;
use crate::budget::Budget;
use crate::store::objects::disk::tables_of;
use crate::turns::Turns;
use rustix::process::setpriority_process;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracetee_fleet::Error;
use tracetee_fleet::change::classes;
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::{AppReport, Ask, FleetReport};
use tracetee_fleet::selection::Since;

/// Minimum number of requests handled at once, from different readers; otherwise one for each processor.
const AT_ONCE: usize = 2;
/// Niceness of the threads: nice(1)'s default.
const NICENESS: i32 = 10;
/// Bytes of the reports that are remembered, as JSON.
const MAX_REMEMBERED_BYTES: u64 = 128 << 20;
/// Number of reports that a request for all apps remakes although older ones are cached.
const ANEW: usize = 50;
/// Time limit of each app's report: a hundred times that of a large app. Other reports wait for it.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Query of a page: the options of `tracetee report`. Empty texts are none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    app: Option<String>,
    screen: Option<String>,
    since: Option<String>,
    version: Option<String>,
    /// Android API level of the devices.
    api: Option<String>,
    /// A time of a quick frame, ms: devices of its class.
    class: Option<String>,
    /// `A..B`.
    compare: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

impl Query {
    /// Parses the query, for the apps that a reader may see; otherwise returns the error.
    pub(super) fn ask(self, viewer: &Viewer) -> Result<Ask, String> {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let since = some(self.since).map(|text| Since::parse(&text));
        let compare = match some(self.compare) {
            None => some(self.from).zip(some(self.to)),
            Some(versions) => match versions.split_once("..") {
                Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                    Some((from.to_owned(), to.to_owned()))
                }
                _ => return Err("compare: not two versions (compare=2.0..2.1)".to_owned()),
            },
        };
        let version = some(self.version);
        let (api, class) = (
            some(self.api).map(|text| text.parse()),
            some(self.class).map(|text| classes::parse(&text)),
        );
        if version.is_some() && compare.is_some() {
            return Err(
                "version and compare: a comparison needs two versions; leave one out".to_owned()
            );
        }
        Ok(Ask {
            only: viewer.only(),
            app: some(self.app),
            screen: some(self.screen),
            since: since.transpose().map_err(|error| format!("since: {error}"))?,
            version,
            api: api.transpose().map_err(|error| format!("api: {error}"))?,
            class: class.transpose().map_err(|error| format!("class: {error}"))?,
            compare,
            with_test_devices: false,
            time_limit: Some(TIME_LIMIT),
            is_unwanted: None,
        })
    }
}

/// Makes reports, and whatever else takes time.
#[derive(Debug)]
pub(super) struct Maker {
    tables: PathBuf,
    turns: Arc<Turns>,
    /// Flags that stop the work in progress.
    running: Mutex<Vec<Weak<AtomicBool>>>,
    /// Reports by app and filters.
    remembered: Mutex<Budget<String, Filters, Remembered>>,
}

/// The report of an app.
#[derive(Debug, Clone)]
struct Remembered {
    /// The number of the app's changes.
    changes: i64,
    begun: Instant,
    report: AppReport,
}

/// Screen, time, version, API level and class of device.
type Filters = (Option<String>, Option<Since>, Option<String>, Option<u64>, Option<i32>);

/// The wait for an answer: sets the flag when it is dropped, as the server does when the client is gone.
struct Wait(Arc<AtomicBool>);

impl Drop for Wait {
    fn drop(&mut self) {
        // ORDERING: Relaxed, here and below; a wish.
        self.0.store(true, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Maker {
    pub(super) fn new(root: &Path) -> Self {
        let at_once =
            std::thread::available_parallelism().map_or(AT_ONCE, |count| count.get().max(AT_ONCE));
        Self {
            tables: tables_of(root),
            turns: Turns::new(at_once, at_once / 2),
            running: Mutex::default(),
            remembered: Mutex::new(Budget::new(MAX_REMEMBERED_BYTES, u64::MAX)),
        }
    }

    /// Does work on its own thread, in a reader's turn. `work` gets a flag that is set when nobody waits any longer.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait, or when the server ends; and the errors of `work`.
    pub(super) async fn make<T: Send + 'static>(
        self: &Arc<Self>,
        person: &str,
        work: impl FnOnce(&Self, &Arc<AtomicBool>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turns.take(person).await.ok_or(Error::Busy)?;
        let wait = Wait(Arc::default());
        let (maker, is_unwanted) = (Arc::clone(self), Arc::clone(&wait.0));
        {
            let mut running = locked(&self.running);
            running.retain(|flag| flag.strong_count() > 0);
            running.push(Arc::downgrade(&is_unwanted));
        }
        let (made, result) = oneshot::channel();
        // Not one of tokio's threads, which cannot raise a lowered priority again.
        let begun = std::thread::Builder::new().name("page".to_owned()).spawn(move || {
            let _ = setpriority_process(None, NICENESS);
            let _turn = turn;
            let _ = made.send(work(&maker, &is_unwanted));
        });
        begun.map_err(|_| Error::Busy)?;
        result.await.unwrap_or(Err(Error::Busy))
    }

    /// Makes no more, and cancels the work in progress.
    pub(super) fn stop(&self) {
        self.turns.close();
        for flag in locked(&self.running).iter().filter_map(Weak::upgrade) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// The tables, open.
    pub(super) fn database(&self) -> Result<Database, Error> {
        Database::read(&self.tables)
    }

    /// Makes a report from the current tables, or from their state since it was `asked` for. A report of more than [`ANEW`]
    /// changed apps has the others in an earlier state.
    pub(super) fn report(
        &self,
        ask: Ask,
        asked: Instant,
        is_unwanted: &Arc<AtomicBool>,
    ) -> Result<FleetReport, Error> {
        let ask = Ask { is_unwanted: Some(Arc::clone(is_unwanted)), ..ask };
        let begun = Instant::now();
        let database = self.database()?;
        let changes = database.changes()?;
        let apps: Vec<String> = match &ask.app {
            // Any of the apps may have both versions.
            _ if ask.compare.is_some() => return FleetReport::from_database(&database, &ask),
            Some(app) => vec![app.clone()],
            None => changes.keys().cloned().collect(),
        };
        let apps: Vec<String> = apps.into_iter().filter(|app| ask.sees(app)).collect();
        let filters =
            (ask.screen.clone(), ask.since.clone(), ask.version.clone(), ask.api, ask.class);
        let mut old: Vec<(Instant, String)> = {
            let remembered = locked(&self.remembered);
            let known = |app: &String| Some((remembered.get(app, &filters)?, app.clone()));
            let is_old = |(known, app): &(&Remembered, String)| {
                Some(known.changes) != changes.get(app).copied() && known.begun < asked
            };
            let old = apps.iter().filter_map(known).filter(is_old);
            old.map(|(known, app)| (known.begun, app)).collect()
        };
        old.sort_unstable();
        let anew: HashSet<String> = old.into_iter().take(ANEW).map(|(_, app)| app).collect();
        let mut report = FleetReport::new(&ask);
        for app in apps {
            let number = changes.get(&app).copied();
            let known = locked(&self.remembered).get(&app, &filters).cloned();
            if let Some(known) = known.filter(|_| number.is_some() && !anew.contains(&app)) {
                report.apps.push(known.report);
                continue;
            }
            let of_app = Ask { app: Some(app.clone()), ..ask.clone() };
            let made = FleetReport::from_database(&database, &of_app);
            let made = match made {
                // All captures of an app were deleted, or none has the version.
                Err(Error::Missing(_)) if ask.app.is_none() => continue,
                made => made?.apps,
            };
            if let Some((changes, report)) = number.zip(made.first().cloned()) {
                let bytes = serde_json::to_vec(&report).map_or(0, |json| json.len() as u64);
                let made = Remembered { changes, begun, report };
                drop(locked(&self.remembered).put(app, filters.clone(), bytes, made));
            }
            report.apps.extend(made);
        }
        report.check_found(&ask)?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::MOST_WAITING;
    use std::io::Cursor;
    use tracetee_fleet::capture::{self, Limits};
    use tracetee_fleet::rows::{About, Rows};
    use tracetee_simulate::{Plan, Simulated};

    fn rows(app: &str, device: u64) -> Vec<Rows> {
        let plan = Plan { frames: 6, ..Plan::default() };
        let rows_of = |captured: Simulated| {
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
        plan.device(1, device).0.into_iter().map(rows_of).collect()
    }

    #[test]
    fn only_apps_with_new_captures_are_reported_anew() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Database::open(&tables_of(directory.path())).unwrap();
        writer.insert(&rows("a", 1)).unwrap();
        writer.insert(&rows("b", 2)).unwrap();
        let maker = Maker::new(directory.path());
        let report = |app: Option<&str>| {
            let ask = Ask { app: app.map(str::to_owned), ..Ask::default() };
            maker.report(ask, Instant::now(), &Arc::default())
        };
        let captures = |report: &FleetReport, app: &str| {
            let of_app = report.apps.iter().find(|of_app| of_app.app == app);
            of_app.map(|of_app| {
                of_app.versions.iter().map(|version| version.captures + version.anrs).sum::<u64>()
            })
        };
        let first = report(None).unwrap();
        let (in_a, in_b) = (captures(&first, "a").unwrap(), captures(&first, "b").unwrap());

        // Sums that change without a new capture show which app is reported anew.
        writer.run("UPDATE capture_rollups SET anrs = anrs + 1000").unwrap();
        let more = rows("a", 3);
        writer.insert(&more).unwrap();
        let second = report(None).unwrap();
        assert_eq!(captures(&second, "a"), Some(in_a + 1000 + more.len() as u64));
        assert_eq!(captures(&second, "b"), Some(in_b));
        assert_eq!(captures(&report(Some("b")).unwrap(), "b"), Some(in_b));

        // An app without captures is in no report.
        let keys: Vec<String> = writer.by_age().unwrap().into_iter().map(|(key, ..)| key).collect();
        writer.run("UPDATE capture_rollups SET anrs = 0").unwrap();
        writer.delete(&keys).unwrap();
        assert!(report(None).unwrap().apps.is_empty());
        assert!(matches!(report(Some("a")), Err(Error::Missing(_))));
    }

    #[test]
    fn a_look_at_many_apps_makes_a_limited_number_of_reports_anew_and_the_next_look_others() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Database::open(&tables_of(directory.path())).unwrap();
        let apps = 120;
        let insert = |writer: &mut Database, devices: u64| {
            let of_app = |number: u64| {
                let mut rows = rows(&number.to_string(), devices + number);
                rows.swap_remove(0)
            };
            writer.insert(&(0..apps).map(of_app).collect::<Vec<_>>()).unwrap();
        };
        insert(&mut writer, 0);
        let maker = Maker::new(directory.path());
        // Sums that change without a new capture show which app is reported anew.
        let marked = || {
            let report = maker.report(Ask::default(), Instant::now(), &Arc::default()).unwrap();
            assert_eq!(report.apps.len() as u64, apps);
            let of_app =
                |of_app: &&AppReport| of_app.versions.iter().any(|version| version.anrs >= 1000);
            report.apps.iter().filter(of_app).count()
        };
        assert_eq!(marked(), 0);
        writer.run("UPDATE capture_rollups SET anrs = anrs + 1000").unwrap();
        assert_eq!(marked(), 0, "all are remembered");
        insert(&mut writer, 1000);
        assert_eq!([(); 4].map(|()| marked()), [50, 100, 120, 120]);
        insert(&mut writer, 2000);
        let ask = Ask { app: Some("0".to_owned()), ..Ask::default() };
        let one = maker.report(ask, Instant::now(), &Arc::default()).unwrap();
        let captures: u64 =
            one.apps[0].versions.iter().map(|version| version.captures + version.anrs).sum();
        assert!(captures >= 1003, "an app that is asked for is as it is now: {captures}");
    }

    #[test]
    fn a_report_answers_all_who_waited_when_it_was_begun_and_nobody_who_asks_later() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Database::open(&tables_of(directory.path())).unwrap();
        writer.insert(&rows("a", 1)).unwrap();
        let maker = Maker::new(directory.path());
        let captures = |asked: Instant| {
            let report = maker.report(Ask::default(), asked, &Arc::default()).unwrap();
            report.apps[0].versions.iter().map(|version| version.captures).sum::<u64>()
        };
        let asked = Instant::now();
        let first = captures(asked);
        let more = rows("a", 2);
        writer.insert(&more).unwrap();
        assert_eq!(captures(asked), first);
        assert_eq!(captures(Instant::now()), first + more.len() as u64);
    }

    #[test]
    fn a_query_has_the_filters_of_the_command_and_a_wrong_one_is_said() {
        let query = |json: serde_json::Value| {
            serde_json::from_value::<Query>(json).unwrap().ask(&Viewer::of_all())
        };
        let ask =
            query(serde_json::json!({"compare": "2.0..2.1", "since": "2026-09-21", "app": ""}))
                .unwrap();
        assert_eq!(ask.compare, Some(("2.0".to_owned(), "2.1".to_owned())));
        assert_eq!((ask.app, ask.since), (None, Since::parse("2026-09-21").ok()));
        let ask = query(serde_json::json!({"version": "2.1", "from": "2.0"})).unwrap();
        assert_eq!((ask.version.as_deref(), ask.compare), (Some("2.1"), None));
        let ask = query(serde_json::json!({"api": "30", "class": "16.7"})).unwrap();
        assert_eq!((ask.api, ask.class), (Some(30), Some(0)));
        for (json, why) in [
            (serde_json::json!({"api": "old"}), "api: invalid digit"),
            (serde_json::json!({"class": "0"}), "class: not a time of a frame"),
            (serde_json::json!({"compare": "2.0"}), "compare: not two versions"),
            (serde_json::json!({"compare": "..2.0"}), "compare: not two versions"),
            (serde_json::json!({"since": "soon"}), "since: not a day"),
            (serde_json::json!({"version": "2.1", "compare": "2.0..2.1"}), "version and compare:"),
        ] {
            let error = query(json).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn pages_are_made_on_threads_that_let_uploads_go_first() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let maker = Arc::new(Maker::new(Path::new("nowhere")));
        let before = niceness();
        let of_page = runtime.block_on(maker.make("", move |_, _| Ok(niceness()))).unwrap();
        assert_eq!((of_page, niceness()), (NICENESS, before));
    }

    #[test]
    fn work_that_nobody_waits_for_is_given_up_and_too_much_is_refused() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let maker = Arc::new(Maker::new(Path::new("nowhere")));
        let (began, begins) = std::sync::mpsc::channel();
        let endless = move |_: &Maker, is_unwanted: &Arc<AtomicBool>| {
            began.send(()).unwrap();
            while !is_unwanted.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(())
        };
        let ask = |person: usize| {
            let (maker, work) = (Arc::clone(&maker), endless.clone());
            runtime.spawn(async move { maker.make(&person.to_string(), work).await })
        };
        let at_once = maker.turns.at_once();
        let running: Vec<_> = (0..at_once).map(ask).collect();
        (0..at_once).for_each(|_| begins.recv().unwrap());
        // The client of the first one goes: the next one has its turn.
        let waiting = ask(0);
        running[0].abort();
        begins.recv().unwrap();
        let more: Vec<_> = (0..=MOST_WAITING).map(|_| ask(0)).collect();
        let busy = runtime.block_on(async {
            let mut busy = 0;
            while busy == 0 {
                for task in &more {
                    busy += usize::from(task.is_finished());
                }
                tokio::task::yield_now().await;
            }
            busy
        });
        assert!(busy > 0);
        maker.stop();
        for task in [waiting].into_iter().chain(running.into_iter().skip(1)).chain(more) {
            let made = runtime.block_on(task).unwrap();
            assert!(matches!(made, Ok(()) | Err(Error::Busy)), "{made:?}");
        }
    }
}
