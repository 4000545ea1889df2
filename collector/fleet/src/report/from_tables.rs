//! Makes the report of a fleet from the tables: one query for each part, app by app.

use super::breakdown::{Breakdowns, MOST_CAPTURES};
use super::fixes::CauseRow;
use super::fleet::{AppReport, Ask, CauseOf, Example, FleetReport, Smoothness, Startup};
use super::ledgers::Ledgers;
use crate::change::Source;
use crate::change::comparison::comparison;
use crate::change::constants::MOST_DEVICES;
use crate::change::segment::Segment;
use crate::database::Database;
use crate::error::Error;
use crate::queries;
use crate::significance::real;
use crate::table::Text;
use serde::Deserialize;
use std::collections::HashMap;

/// Limits of reported causes: of a version or a screen, and in total.
const MAX_CAUSES_OF: usize = 10;
const MAX_CAUSES: usize = 50;
/// Limit of reported stacks.
const MAX_STACKS: usize = 1000;

impl FleetReport {
    /// Makes the report from the tables, app by app.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Missing`] for an app or a version without captures.
    pub fn from_database(database: &Database, ask: &Ask) -> Result<Self, Error> {
        let _snapshot = database.snapshot()?;
        database.check_apps()?;
        let mut report = Self::new(ask);
        let apps = match ask.app.as_ref().filter(|app| !app.is_empty()) {
            Some(app) => vec![app.clone()],
            None => database.changes()?.into_keys().collect(),
        };
        for app in apps.into_iter().filter(|app| ask.sees(app)) {
            match database
                .within(ask.time_limit, ask.is_unwanted.as_ref(), || report_of(database, ask, &app))
            {
                Ok(Some(made)) => report.apps.push(made),
                Ok(None) => {}
                // The others have theirs.
                Err(error @ Error::TooSlow(_)) => {
                    let unfinished = Some(error.to_string());
                    report.apps.push(AppReport { app, unfinished, ..AppReport::default() });
                }
                Err(error) => return Err(error),
            }
        }
        report.check_found(ask)?;
        // Of an app whose report takes too long, nobody knows its versions.
        let is_compared = |app: &AppReport| {
            app.comparison.is_some()
                || !app.ledgers.comparisons.is_empty()
                || app.unfinished.is_some()
        };
        let is_compared = report.apps.iter().any(is_compared);
        if let Some((from, to)) = ask.compare.as_ref().filter(|_| !is_compared) {
            let versions = report.apps.iter().flat_map(|app| &app.versions);
            let known: Vec<&str> = versions.map(|version| &*version.ver).collect();
            return Err(Error::Missing(format!(
                "no app has both versions {from} and {to}; available: {}",
                known.join(", ")
            )));
        }
        Ok(report)
    }
}

/// Makes the report of an app; `None`: it has no captures.
fn report_of(all: &Database, ask: &Ask, app: &str) -> Result<Option<AppReport>, Error> {
    let (selected, sample) = if ask.since.is_none() && ask.has_all_devices() {
        all.check_sums(app)?;
        if ask.compare.is_some() {
            all.check_devices(app)?;
        }
        let sample = all.sample_captures(app, MOST_CAPTURES)?;
        // Of more, the check of the whole file covers those that are read.
        if sample.len() < MOST_CAPTURES {
            all.check_captures(app)?;
        }
        (None, sample)
    } else {
        all.check_captures(app)?;
        all.check_ledgers(app)?;
        let (selected, sample) = all.selected(app, ask, MOST_CAPTURES)?;
        (Some(selected), sample)
    };
    let database = selected.as_ref().unwrap_or(all);
    let screen = ask.screen.as_deref().unwrap_or_default();
    database.run(&queries::choose(app, screen))?;
    let mut report = AppReport { app: app.to_owned(), ..AppReport::default() };
    report.versions = database.rows(&queries::CAPTURES.text())?;
    report.deaths = database.rows(&queries::DEATHS.text())?;
    report.deaths_by_key = database.rows(&queries::DEATHS_BY_KEY.text())?;
    report.deaths_by_version = database.rows(&queries::DEATHS_BY_VERSION.text())?;
    report.deaths_by_key.truncate(MAX_CAUSES);
    report.losses = database.rows(&queries::LOSSES.text())?;
    report.ledgers = Ledgers::read(database)?;
    if report.versions.is_empty() && report.losses.is_empty() && report.ledgers.versions.is_empty()
    {
        return Ok(None);
    }
    let mut percentiles = Percentiles::new();
    for query in [
        queries::PERCENTILES_BY_VERSION,
        queries::PERCENTILES_BY_SCREEN,
        queries::PERCENTILES_BY_PIPELINE,
    ] {
        let rows = database.rows::<Smoothness>(&query.text())?;
        percentiles.extend(rows.into_iter().map(|row| (group(&row), row)));
    }
    let smoothness = |query: queries::Query| {
        let rows = database.rows::<SmoothnessRow>(&query.text())?;
        Ok::<_, Error>(rows.into_iter().map(|row| row.finish(&percentiles)).collect::<Vec<_>>())
    };
    report.devices = smoothness(queries::FRAMES)?.first().map_or(0, |all| all.devices);
    for found in smoothness(queries::FRAMES_BY_VERSION)? {
        let version = report.versions.iter_mut().find(|version| version.ver == found.ver);
        if let Some(version) = version {
            version.smoothness = Some(found);
        }
    }
    for StartupRow { ver, startup } in database.rows(&queries::STARTUP.text())? {
        let version = report.versions.iter_mut().find(|version| version.ver == ver);
        if let Some(version) = version {
            version.startup = Some(startup);
        }
    }
    report.screens = smoothness(queries::FRAMES_BY_SCREEN)?;
    report.pipelines = smoothness(queries::FRAMES_BY_PIPELINE)?;
    report.days = smoothness(queries::FRAMES_BY_DAY)?;
    for row in database.rows::<CauseRow>(&queries::CAUSES.text())? {
        report.fixes.add(&row);
        if report.causes.len() < MAX_CAUSES {
            report.causes.push(row.cause);
        }
    }
    for ExampleRow { cause, cause_key, mut example } in database.rows(&queries::EXAMPLES.text())? {
        let is_of = |row: &&mut CauseOf| row.cause == cause && row.key == cause_key;
        if let Some(row) = report.causes.iter_mut().find(is_of) {
            (example.model, example.made_ms) = all.origin_of(&example.raw_key)?;
            row.examples.push(example);
        }
    }
    let by_version = database.rows::<CauseOf>(&queries::CAUSES_BY_VERSION.text())?;
    report.causes_by_version = first_of_each(by_version, |cause| cause.ver.clone());
    let by_screen = database.rows::<CauseRow>(&queries::CAUSES_BY_SCREEN.text())?;
    by_screen.iter().for_each(|row| report.fixes.add(row));
    let by_screen = by_screen.into_iter().map(|row| row.cause).collect();
    report.causes_by_screen = first_of_each(by_screen, |cause| cause.screen.clone());
    report.stacks = database.rows(&queries::STACKS.text())?;
    report.stacks.truncate(MAX_STACKS);
    report.fixes.rank();
    report.breakdowns = Breakdowns::read(all, sample, &report, screen)?;
    report.limits_exceeded = all.exceeded_limits(app)?;
    if let Some((from, to)) = &ask.compare {
        let screen = ask.screen.as_deref().filter(|screen| !screen.is_empty());
        let segment = Segment { screen: screen.map(Text::from), ..Segment::default() };
        let (versions, tests) = ([&**from, &**to], ask.with_test_devices);
        let mut fleets = Vec::new();
        let has = |ver: &&str| report.versions.iter().any(|version| version.ver == **ver);
        if versions.iter().all(has) {
            fleets.push(database.devices(MOST_DEVICES, app, versions, &segment, tests)?);
        }
        let has = |ver: &&str| report.ledgers.versions.iter().any(|version| version.ver == **ver);
        // Ledgers do not know the speed of a device.
        if versions.iter().all(has) && ask.class.is_none() {
            let segment = Segment { api: ask.api, ..segment };
            let from_day = ask.since.as_ref().map_or("", |since| since.day());
            fleets.extend(all.ledger_fleets(app, versions, from_day, &segment, tests)?);
            // Ends of processes are on no screen.
            fleets.retain(|fleet| fleet.source != Source::Deaths || screen.is_none());
        }
        for fleet in &fleets {
            let made = comparison(from, to, fleet, fleets.len());
            match fleet.source {
                Source::Captures => report.comparison = Some(made),
                Source::Ledgers | Source::Deaths => report.ledgers.comparisons.push(made),
            }
        }
    }
    Ok(Some(report))
}

/// Keeps the first causes of each group.
fn first_of_each(mut causes: Vec<CauseOf>, group: fn(&CauseOf) -> Option<String>) -> Vec<CauseOf> {
    let mut counts: HashMap<Option<String>, usize> = HashMap::new();
    causes.retain(|cause| {
        let count = counts.entry(group(cause)).or_default();
        *count += 1;
        *count <= MAX_CAUSES_OF
    });
    causes
}

/// Percentiles of groups, whose rows have no more than these.
type Percentiles = HashMap<[Option<String>; 4], Smoothness>;

/// Returns the names of a group.
fn group(row: &Smoothness) -> [Option<String>; 4] {
    [Some(row.ver.clone()), row.screen.clone(), row.pipeline.clone(), row.dt.clone()]
}

#[derive(Deserialize)]
struct SmoothnessRow {
    #[serde(flatten)]
    found: Smoothness,
    level_normal: u64,
    level_middle: u64,
    level_high: u64,
    level_frozen: u64,
}

impl SmoothnessRow {
    fn finish(self, percentiles: &Percentiles) -> Smoothness {
        let found = self.found;
        let Smoothness { p50_100us, p90_100us, p99_100us, .. } =
            percentiles.get(&group(&found)).cloned().unwrap_or_default();
        let frames = found.frames.max(1);
        let jank_ms_in_1000 = real(found.jank_ns) / real(frames) / 1e3;
        let levels = [self.level_normal, self.level_middle, self.level_high, self.level_frozen];
        Smoothness { levels, jank_ms_in_1000, p50_100us, p90_100us, p99_100us, ..found }
    }
}

#[derive(Deserialize)]
struct StartupRow {
    ver: String,
    #[serde(flatten)]
    startup: Startup,
}

#[derive(Deserialize)]
struct ExampleRow {
    cause: String,
    cause_key: String,
    #[serde(flatten)]
    example: Example,
}
