//! The reports that are remembered: the last ones by query, with the changes of the tables that are in them.

use super::locked;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::{Ask, FleetReport};

/// Reports that are remembered.
pub(super) const MAX_REMEMBERED: usize = 20;

/// Time of each app's report: hundred times that of a large app's. Others wait for it.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Query of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(in crate::http::page) struct What {
    app: Option<String>,
    screen: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// The numbers of the apps' changes.
pub(super) type Changes = BTreeMap<String, i64>;

/// A report that is remembered.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) report: Arc<FleetReport>,
    pub(super) changes: Changes,
    /// The last time at which the tables were known to have these changes.
    pub(super) as_of: Instant,
    pub(super) took: Duration,
}

/// The remembered reports.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<HashMap<What, Made>>);

impl Remembered {
    /// Returns the report of a query.
    pub(super) fn get(&self, what: &What) -> Option<Made> {
        locked(&self.0).get(what).cloned()
    }

    /// Notes that the remembered report has all captures that there were at `now`.
    pub(super) fn note_complete(&self, what: &What, changes: &Changes, now: Instant) {
        if let Some(made) = locked(&self.0).get_mut(what).filter(|made| made.changes == *changes) {
            made.as_of = made.as_of.max(now);
        }
    }

    /// Makes a report, and remembers it.
    ///
    /// # Errors
    /// When the tables cannot be read.
    pub(super) fn renew(
        &self,
        database: &Database,
        what: &What,
    ) -> Result<Arc<FleetReport>, Error> {
        let began = Instant::now();
        let changes = changes_of(database, what)?;
        let old = self.get(what);
        if let Some(old) = old.as_ref().filter(|old| old.changes == changes) {
            self.note_complete(what, &changes, began);
            return Ok(Arc::clone(&old.report));
        }
        let report = Arc::new(made_of(database, what, old.as_ref(), &changes)?);
        let mut made = locked(&self.0);
        if made.len() >= MAX_REMEMBERED && !made.contains_key(what) {
            let oldest =
                made.iter().min_by_key(|(_, made)| made.as_of).map(|(what, _)| what.clone());
            oldest.and_then(|oldest| made.remove(&oldest));
        }
        let made_now =
            Made { report: Arc::clone(&report), changes, as_of: began, took: began.elapsed() };
        made.insert(what.clone(), made_now);
        Ok(report)
    }
}

/// The numbers of the changes of those apps that a report is about.
pub(super) fn changes_of(database: &Database, what: &What) -> Result<Changes, Error> {
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
    let time_limit = Some(TIME_LIMIT);
    let ask = Ask { app: some(app), screen: some(screen), compare, exact: false, time_limit };
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Cursor;
    use tracetee_fleet::capture::{self, Limits};
    use tracetee_fleet::rows::{About, Rows};
    use tracetee_fleet::simulate::Plan;

    pub(in super::super) fn rows(app: &str, device: u64) -> Vec<Rows> {
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

    #[test]
    fn only_apps_with_new_captures_are_reported_anew() {
        let directory = tempfile::tempdir().unwrap();
        let tables = directory.path().join("tables.sqlite");
        let mut writer = Database::open(&tables).unwrap();
        writer.insert(&rows("a", 1)).unwrap();
        writer.insert(&rows("b", 2)).unwrap();
        let (reader, remembered) = (Database::read(&tables).unwrap(), Remembered::default());
        let report = |what: &What| remembered.renew(&reader, what).unwrap();
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
