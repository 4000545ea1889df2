//! What a fleet's captures tell: how smooth each version and screen is, which causes make the jank, and
//! what a version made worse.

use super::comparison::{self, Comparison};
use crate::database::{Database, Row};
use crate::error::Error;
use crate::sql;
use serde::Serialize;
use std::collections::BTreeMap;

/// Causes of a version or a screen that are told, and of the whole.
const MAX_CAUSES_OF: usize = 10;
const MAX_CAUSES: usize = 50;
/// Stacks that are told.
const MAX_STACKS: usize = 1000;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Of this app only.
    pub app: Option<String>,
    /// Of this screen only.
    pub screen: Option<String>,
    /// Two versions: the earlier, the later.
    pub compare: Option<(String, String)>,
}

/// The report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetReport {
    /// Of this screen only.
    pub screen: Option<String>,
    /// By app.
    pub apps: Vec<AppReport>,
}

/// What the fleet of one app tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AppReport {
    /// Its package.
    pub app: String,
    /// The earliest first.
    pub versions: Vec<Version>,
    /// By screen and version.
    pub screens: Vec<Smoothness>,
    /// By day and version.
    pub days: Vec<Smoothness>,
    /// By devices times time.
    pub causes: Vec<CauseOf>,
    /// Of each version the first ten.
    pub causes_by_version: Vec<CauseOf>,
    /// Of each screen the first ten.
    pub causes_by_screen: Vec<CauseOf>,
    /// Two versions, if asked.
    pub comparison: Option<Comparison>,
    /// Where the time of janky frames went.
    pub stacks: Vec<StackOf>,
    /// What devices could not send.
    pub losses: Vec<Loss>,
}

/// A version.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Version {
    /// Its name.
    pub ver: String,
    /// Devices that sent something.
    pub devices: u64,
    /// What they sent.
    pub captures: u64,
    /// Captures that count for rates: taken by time, whole, within the budget.
    pub counted: u64,
    /// Taken because of jank: they show causes and must not feed rates.
    pub triggered: u64,
    /// Left out of rates: recording cost more than is allowed.
    pub over_budget: u64,
    /// Left out of rates: what a killed process left.
    pub recovered: u64,
    /// Records that did not fit.
    pub lost_records: u64,
    /// Main threads that were busy for 5 s.
    pub anrs: u64,
    /// Of the counted ones: more than a quarter of the frames missed 20, or 30, frames a second.
    pub slow_sessions_20fps: u64,
    /// See `slow_sessions_20fps`.
    pub slow_sessions_30fps: u64,
    /// Its counted frames.
    pub smoothness: Option<Smoothness>,
    /// From `bindApplication` to the first drawn frame.
    pub startup: Option<Startup>,
}

/// Starts of an app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Startup {
    /// How many.
    pub starts: u64,
    /// Half take no longer.
    pub p50_ns: u64,
    /// Nine tenths.
    pub p90_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
}

/// Frames of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Smoothness {
    /// The version.
    pub ver: String,
    /// The screen, where by screen.
    pub screen: Option<String>,
    /// The day, where by day.
    pub dt: Option<String>,
    /// Whose.
    pub devices: u64,
    /// How many.
    pub frames: u64,
    /// Longer than a period.
    pub slow: u64,
    /// Longer than two.
    pub janky: u64,
    /// Longer than 700 ms.
    pub frozen: u64,
    /// Matrix's levels normal, middle, high, frozen.
    pub levels: [u64; 4],
    /// What is over a period.
    pub jank_ns: u64,
    /// `jank_ns` in a thousand frames, ms.
    pub jank_ms_in_1000: f64,
    /// Half take no longer, in tenths of a millisecond; none by day.
    pub p50_100us: u64,
    /// Nine tenths.
    pub p90_100us: u64,
    /// 99 of 100.
    pub p99_100us: u64,
}

/// A cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CauseOf {
    /// Of this version only.
    pub ver: Option<String>,
    /// Of this screen only.
    pub screen: Option<String>,
    /// Which kind.
    pub cause: String,
    /// What exactly.
    pub key: String,
    /// On how many devices.
    pub devices: u64,
    /// In how many captures.
    pub captures: u64,
    /// In how many janky frames.
    pub frames: u64,
    /// How much of their time.
    pub self_ns: u64,
    /// Devices times milliseconds: what it is ranked by.
    pub score: f64,
    /// Of its time in a frame: half have no more.
    pub p50_ns: u64,
    /// Nine tenths.
    pub p90_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// The captures that show it best.
    pub examples: Vec<Example>,
}

/// A capture that shows a cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Its id.
    pub capture_id: String,
    /// Where it is in the store.
    pub raw_key: String,
    /// Its version.
    pub ver: String,
    /// The cause's time in it.
    pub self_ns: u64,
}

/// A stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StackOf {
    /// From the thread inwards, joined by `;`.
    pub stack: String,
    /// On how many devices.
    pub devices: u64,
    /// Time in its innermost slice.
    pub self_ns: u64,
}

/// Captures that did not come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Why.
    pub reason: String,
    /// Of which window.
    pub window: String,
    /// On how many devices.
    pub devices: u64,
    /// How many.
    pub captures: u64,
    /// Of them, those that may have arrived.
    pub unconfirmed: u64,
}

impl FleetReport {
    /// Asks the tables.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Missing`] for an app or a version that has sent nothing.
    pub fn from_database(database: &Database, ask: &Ask) -> Result<Self, Error> {
        let app = ask.app.as_deref().unwrap_or_default();
        let screen = ask.screen.as_deref().unwrap_or_default();
        database.run(&sql::choose(app, screen))?;
        let mut apps: BTreeMap<String, AppReport> = BTreeMap::new();
        let mut each = |query: sql::Query, take: &mut dyn FnMut(&mut AppReport, Row<'_>)| {
            let answer = database.query(query.text)?;
            for row in answer.iter() {
                let app = row.text("app");
                let report = apps
                    .entry(app.clone())
                    .or_insert_with(|| AppReport { app, ..AppReport::default() });
                take(report, row);
            }
            Ok::<_, Error>(())
        };
        each(sql::CAPTURES, &mut |app, row| app.versions.push(version(row)))?;
        each(sql::FRAMES_BY_VERSION, &mut |app, row| {
            let found = smoothness(row);
            let version = app.versions.iter_mut().find(|version| version.ver == found.ver);
            if let Some(version) = version {
                version.smoothness = Some(found);
            }
        })?;
        each(sql::PERCENTILES_BY_VERSION, &mut |app, row| {
            let of = app.versions.iter_mut().filter_map(|version| version.smoothness.as_mut());
            of.for_each(|smoothness| percentiles(smoothness, row));
        })?;
        each(sql::STARTUP, &mut |app, row| {
            let version = app.versions.iter_mut().find(|version| version.ver == row.text("ver"));
            if let Some(version) = version {
                version.startup = Some(Startup {
                    starts: row.count("starts"),
                    p50_ns: row.count("p50_ns"),
                    p90_ns: row.count("p90_ns"),
                    p99_ns: row.count("p99_ns"),
                });
            }
        })?;
        each(sql::FRAMES_BY_SCREEN, &mut |app, row| app.screens.push(smoothness(row)))?;
        each(sql::PERCENTILES_BY_SCREEN, &mut |app, row| {
            app.screens.iter_mut().for_each(|smoothness| percentiles(smoothness, row));
        })?;
        each(sql::FRAMES_BY_DAY, &mut |app, row| app.days.push(smoothness(row)))?;
        each(sql::CAUSES, &mut |app, row| {
            if app.causes.len() < MAX_CAUSES {
                app.causes.push(cause(row));
            }
        })?;
        each(sql::EXAMPLES, &mut |app, row| {
            let (of, key) = (row.text("cause"), row.text("cause_key"));
            let cause = app.causes.iter_mut().find(|cause| cause.cause == of && cause.key == key);
            if let Some(cause) = cause {
                cause.examples.push(Example {
                    capture_id: row.text("capture_id"),
                    raw_key: row.text("raw_key"),
                    ver: row.text("ver"),
                    self_ns: row.count("self_ns"),
                });
            }
        })?;
        each(sql::CAUSES_BY_VERSION, &mut |app, row| {
            let mut found = cause(row);
            found.ver = Some(row.text("ver"));
            push_few(&mut app.causes_by_version, found, |cause| cause.ver.clone());
        })?;
        each(sql::CAUSES_BY_SCREEN, &mut |app, row| {
            let mut found = cause(row);
            found.screen = Some(row.text("screen"));
            push_few(&mut app.causes_by_screen, found, |cause| cause.screen.clone());
        })?;
        each(sql::STACKS, &mut |app, row| {
            if app.stacks.len() < MAX_STACKS {
                app.stacks.push(StackOf {
                    stack: row.text("stack"),
                    devices: row.count("devices"),
                    self_ns: row.count("self_ns"),
                });
            }
        })?;
        each(sql::LOSSES, &mut |app, row| {
            app.losses.push(Loss {
                reason: row.text("reason"),
                window: row.text("window_id"),
                devices: row.count("devices"),
                captures: row.count("captures"),
                unconfirmed: row.count("unconfirmed"),
            });
        })?;
        if let Some(app) = ask.app.as_ref().filter(|app| !apps.contains_key(*app)) {
            return Err(Error::Missing(format!("the store has nothing of the app {app}")));
        }
        let mut report = Self { screen: ask.screen.clone(), apps: apps.into_values().collect() };
        if let Some((from, to)) = &ask.compare {
            comparison::compare(&mut report.apps, database, from, to)?;
        }
        Ok(report)
    }
}

/// Pushes while its group has few.
fn push_few(causes: &mut Vec<CauseOf>, cause: CauseOf, group: fn(&CauseOf) -> Option<String>) {
    if causes.iter().filter(|of| group(of) == group(&cause)).count() < MAX_CAUSES_OF {
        causes.push(cause);
    }
}

fn version(row: Row<'_>) -> Version {
    Version {
        ver: row.text("ver"),
        devices: row.count("devices"),
        captures: row.count("captures"),
        counted: row.count("counted"),
        triggered: row.count("triggered"),
        over_budget: row.count("over_budget"),
        recovered: row.count("recovered"),
        lost_records: row.count("lost_records"),
        anrs: row.count("anrs"),
        slow_sessions_20fps: row.count("slow_sessions_20fps"),
        slow_sessions_30fps: row.count("slow_sessions_30fps"),
        smoothness: None,
        startup: None,
    }
}

fn smoothness(row: Row<'_>) -> Smoothness {
    let text = |name: &str| row.has(name).then(|| row.text(name));
    let (frames, jank_ns) = (row.count("frames"), row.count("jank_ns"));
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let jank_ms_in_1000 = if frames == 0 { 0.0 } else { jank_ns as f64 / frames as f64 / 1e3 };
    Smoothness {
        ver: row.text("ver"),
        screen: text("screen"),
        dt: text("dt"),
        devices: row.count("devices"),
        frames,
        slow: row.count("slow"),
        janky: row.count("janky"),
        frozen: row.count("frozen"),
        levels: ["level_normal", "level_middle", "level_high", "level_frozen"]
            .map(|level| row.count(level)),
        jank_ns,
        jank_ms_in_1000,
        ..Smoothness::default()
    }
}

fn percentiles(smoothness: &mut Smoothness, row: Row<'_>) {
    let is_screen = smoothness.screen.as_ref().is_none_or(|screen| *screen == row.text("screen"));
    if smoothness.ver == row.text("ver") && is_screen {
        smoothness.p50_100us = row.count("p50_100us");
        smoothness.p90_100us = row.count("p90_100us");
        smoothness.p99_100us = row.count("p99_100us");
    }
}

fn cause(row: Row<'_>) -> CauseOf {
    CauseOf {
        ver: None,
        screen: None,
        cause: row.text("cause"),
        key: row.text("cause_key"),
        devices: row.count("devices"),
        captures: row.count("captures"),
        frames: row.count("frames"),
        self_ns: row.count("self_ns"),
        score: row.real("score").unwrap_or(0.0),
        p50_ns: row.count("p50_ns"),
        p90_ns: row.count("p90_ns"),
        p99_ns: row.count("p99_ns"),
        examples: Vec::new(),
    }
}
