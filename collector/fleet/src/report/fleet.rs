//! The report of a fleet: smoothness of versions and screens, causes of jank, and what a version made worse.

use super::comparison::{self, Comparison};
use super::fixes::Fixes;
use super::quantile_errors::QuantileErrors;
use crate::compare::Rules;
use crate::database::{Database, Exceeded, Row};
use crate::error::Error;
use crate::queries;
use crate::selection::Since;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Limits of reported causes: of a version or a screen, and in total.
const MAX_CAUSES_OF: usize = 10;
const MAX_CAUSES: usize = 50;
/// Limit of reported stacks.
const MAX_STACKS: usize = 1000;

/// Filters of a report.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// App to restrict the report to.
    pub app: Option<String>,
    /// Apps that may be reported; `None` for all.
    pub only: Option<Vec<String>>,
    /// Only this screen.
    pub screen: Option<String>,
    /// Only captures since this time.
    pub since: Option<Since>,
    /// Only captures of this version.
    pub version: Option<String>,
    /// Two versions to compare: the earlier, the later.
    pub compare: Option<(String, String)>,
    /// Compares emulators and debuggable builds, too.
    pub with_test_devices: bool,
    /// Time of each app's report.
    pub time_limit: Option<Duration>,
    /// Set when nobody wants the report any longer.
    pub is_unwanted: Option<Arc<AtomicBool>>,
}

impl Ask {
    /// True if an app may be reported.
    #[must_use]
    pub fn sees(&self, app: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|of| of == app))
    }
}

/// The report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetReport {
    /// Only this screen.
    pub screen: Option<String>,
    /// Only captures since this time, UTC.
    pub since: Option<String>,
    /// Only captures of this version.
    pub version: Option<String>,
    /// Largest errors of quantiles.
    pub quantile_errors: QuantileErrors,
    /// Reports by app.
    pub apps: Vec<AppReport>,
}

/// The report of one app.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AppReport {
    /// Package name of the app.
    pub app: String,
    /// Versions, the earliest first.
    pub versions: Vec<Version>,
    /// Smoothness by screen and version.
    pub screens: Vec<Smoothness>,
    /// Smoothness by pipeline and version.
    pub pipelines: Vec<Smoothness>,
    /// Smoothness by day and version.
    pub days: Vec<Smoothness>,
    /// Causes, ranked by devices times overrun.
    pub causes: Vec<CauseOf>,
    /// Causes by version, the first ten of each.
    pub causes_by_version: Vec<CauseOf>,
    /// Causes by screen, the first ten of each.
    pub causes_by_screen: Vec<CauseOf>,
    /// Gains of fixes: late frames that would be in time without a cause.
    pub fixes: Fixes,
    /// Comparison of two versions, if requested.
    pub comparison: Option<Comparison>,
    /// Stacks of late frames.
    pub stacks: Vec<StackOf>,
    /// Captures that devices lost, or that the collector's retention deleted.
    pub losses: Vec<Loss>,
    /// Names that are told apart no longer, because there are too many.
    pub limits_exceeded: Vec<Exceeded>,
    /// Reason why the report has no more than the app's name.
    pub unfinished: Option<String>,
}

/// A version.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Version {
    /// Name of the version.
    pub ver: String,
    /// Devices that sent captures.
    pub devices: u64,
    /// Captures of these devices.
    pub captures: u64,
    /// Captures that count for rates: taken by schedule, complete, within the overhead budget.
    pub counted: u64,
    /// Captures that jank has triggered: they show causes and must not count for rates.
    pub triggered: u64,
    /// Captures excluded from rates because recording exceeded its budget.
    pub over_budget: u64,
    /// Captures excluded from rates because they were recovered from killed processes.
    pub recovered: u64,
    /// Records that agents dropped.
    pub lost_records: u64,
    /// Dispatches of main threads of 5 s and more, and input events that were not answered for 5 s.
    pub anrs: u64,
    /// Counted captures in which more than a quarter of the frames miss 20 frames a second.
    pub slow_sessions_20fps: u64,
    /// Counted captures in which more than a quarter of the frames miss 30 frames a second.
    pub slow_sessions_30fps: u64,
    /// Smoothness of the counted frames.
    pub smoothness: Option<Smoothness>,
    /// Times of cold starts to the first drawn frame.
    pub startup: Option<Startup>,
}

/// Start-up times of an app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Startup {
    /// Count.
    pub starts: u64,
    /// 50th percentile, ns.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// Smoothness of a group of frames.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Smoothness {
    /// The version.
    pub ver: String,
    /// The screen, if grouped by screen.
    pub screen: Option<String>,
    /// The pipeline, if grouped by pipeline.
    pub pipeline: Option<String>,
    /// The day, if grouped by day.
    pub dt: Option<String>,
    /// Number of devices.
    pub devices: u64,
    /// Count.
    pub frames: u64,
    /// Late frames.
    pub slow: u64,
    /// Janky frames.
    pub janky: u64,
    /// Frames longer than 700 ms.
    pub frozen: u64,
    /// Frames by Matrix's levels: normal, middle, high, frozen.
    pub levels: [u64; 4],
    /// Time beyond one period.
    pub jank_ns: u64,
    /// `jank_ns` per thousand frames, ms.
    pub jank_ms_in_1000: f64,
    /// 50th percentile of durations, in tenths of a millisecond; not by day.
    pub p50_100us: u64,
    /// 90th percentile.
    pub p90_100us: u64,
    /// 99th percentile.
    pub p99_100us: u64,
    /// Frames that FrameTimeline judges.
    pub by_timeline: u64,
    /// Frames that the buffers of the app's layers judge. The others are judged by the app's markers.
    pub by_buffers: u64,
    /// Frames that SurfaceFlinger, the graphics processor or the display made late.
    pub late_system: u64,
    /// Frames that waited behind earlier buffers; the display missed no vsync for them.
    pub stuffed: u64,
    /// Frames that the display never showed, though the app had drawn them.
    pub never_shown: u64,
}

/// A cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CauseOf {
    /// The version, if grouped by version.
    pub ver: Option<String>,
    /// Only this screen.
    pub screen: Option<String>,
    /// The cause.
    pub cause: String,
    /// Key of the cause: the slice, lock or method.
    pub key: String,
    /// Number of devices.
    pub devices: u64,
    /// Number of captures.
    pub captures: u64,
    /// Number of late frames.
    pub frames: u64,
    /// Time in these frames, each moment once.
    pub self_ns: u64,
    /// Time in these frames that an earlier late frame has, and that delayed these.
    pub carried_ns: u64,
    /// Share of these frames' time past their deadlines.
    pub overrun_ns: u64,
    /// Devices times milliseconds of overrun, the rank.
    pub score: f64,
    /// 50th percentile of its time in a frame, carried or not.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Captures that show the cause best.
    pub examples: Vec<Example>,
}

/// A capture that shows a cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Id of the capture.
    pub capture_id: String,
    /// Key of the stored capture.
    pub raw_key: String,
    /// Version of the app.
    pub ver: String,
    /// Time of the cause in the capture.
    pub self_ns: u64,
}

/// A stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StackOf {
    /// Names from the thread inwards, joined by `;`.
    pub stack: String,
    /// Number of devices.
    pub devices: u64,
    /// Time in the innermost slice.
    pub self_ns: u64,
}

/// Captures that devices lost, for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Reason.
    pub reason: String,
    /// Id of the window in the remote configuration.
    pub window: String,
    /// Number of devices.
    pub devices: u64,
    /// Count.
    pub captures: u64,
    /// Captures of these that may have arrived.
    pub unconfirmed: u64,
}

impl FleetReport {
    /// Returns a report without apps.
    #[must_use]
    pub fn new(ask: &Ask) -> Self {
        Self {
            screen: ask.screen.clone(),
            since: ask.since.as_ref().map(|since| since.text.clone()),
            version: ask.version.clone(),
            quantile_errors: QuantileErrors::of_rollups(),
            apps: Vec::new(),
        }
    }

    /// Returns the filters for a heading, each name as `write` has it: ", screen Feed, version 2.1, since 2026-11-21T00:00:00Z".
    pub(super) fn filters(&self, write: impl Fn(&str) -> String) -> String {
        let filters =
            [("screen", &self.screen), ("version", &self.version), ("since", &self.since)];
        let set = filters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        set.map(|(name, value)| format!(", {name} {}", write(value))).collect()
    }

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
        let is_compared = report.apps.iter().any(|app| app.comparison.is_some());
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

impl FleetReport {
    /// Checks that an app or a version that was asked for has captures.
    ///
    /// # Errors
    /// [`Error::Missing`] if it has none.
    pub fn check_found(&self, ask: &Ask) -> Result<(), Error> {
        let app = ask.app.as_ref().filter(|app| !app.is_empty());
        if !self.apps.is_empty() || (app.is_none() && ask.version.is_none()) {
            return Ok(());
        }
        let of = app.map_or_else(String::new, |app| format!(" of the app {app}"));
        let filters = Self { screen: None, ..Self::new(ask) }.filters(str::to_owned);
        Err(Error::Missing(format!("the store has no captures{of}{filters}")))
    }
}

/// Makes the report of an app; `None`: it has no captures.
fn report_of(all: &Database, ask: &Ask, app: &str) -> Result<Option<AppReport>, Error> {
    let (since, ver) = (ask.since.as_ref(), ask.version.as_deref());
    let selected = if since.is_none() && ver.is_none() {
        all.check_sums(app, ask.compare.is_some())?;
        None
    } else {
        all.check_captures(app)?;
        Some(all.selected(app, since, ver)?)
    };
    let database = selected.as_ref().unwrap_or(all);
    let screen = ask.screen.as_deref().unwrap_or_default();
    database.run(&queries::choose(app, screen))?;
    let mut report = AppReport { app: app.to_owned(), ..AppReport::default() };
    let mut is_known = false;
    let mut each = |query: queries::Query, take: &mut dyn FnMut(&mut AppReport, Row<'_>)| {
        let answer = database.query(&query.text())?;
        for row in answer.iter() {
            is_known = true;
            take(&mut report, row);
        }
        Ok::<_, Error>(())
    };
    each(queries::CAPTURES, &mut |app, row| app.versions.push(version(row)))?;
    let mut of_versions = Percentiles::new();
    each(queries::PERCENTILES_BY_VERSION, &mut |_, row| {
        of_versions.insert(group_of(row, "ver"), percentiles(row));
    })?;
    each(queries::FRAMES_BY_VERSION, &mut |app, row| {
        let found = smoothness(row, "ver", &of_versions);
        let version = app.versions.iter_mut().find(|version| version.ver == found.ver);
        if let Some(version) = version {
            version.smoothness = Some(found);
        }
    })?;
    each(queries::STARTUP, &mut |app, row| {
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
    let mut of_screens = Percentiles::new();
    each(queries::PERCENTILES_BY_SCREEN, &mut |_, row| {
        of_screens.insert(group_of(row, "screen"), percentiles(row));
    })?;
    each(queries::FRAMES_BY_SCREEN, &mut |app, row| {
        app.screens.push(smoothness(row, "screen", &of_screens));
    })?;
    let mut of_pipelines = Percentiles::new();
    each(queries::PERCENTILES_BY_PIPELINE, &mut |_, row| {
        of_pipelines.insert(group_of(row, "pipeline"), percentiles(row));
    })?;
    each(queries::FRAMES_BY_PIPELINE, &mut |app, row| {
        app.pipelines.push(smoothness(row, "pipeline", &of_pipelines));
    })?;
    each(queries::FRAMES_BY_DAY, &mut |app, row| {
        app.days.push(smoothness(row, "dt", &Percentiles::new()));
    })?;
    each(queries::CAUSES, &mut |app, row| {
        app.fixes.take(row, None);
        if app.causes.len() < MAX_CAUSES {
            app.causes.push(cause(row));
        }
    })?;
    each(queries::EXAMPLES, &mut |app, row| {
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
    let mut counts = HashMap::new();
    each(queries::CAUSES_BY_VERSION, &mut |app, row| {
        let ver = row.text("ver");
        if is_among_first(&mut counts, &ver) {
            app.causes_by_version.push(CauseOf { ver: Some(ver), ..cause(row) });
        }
    })?;
    let mut counts = HashMap::new();
    each(queries::CAUSES_BY_SCREEN, &mut |app, row| {
        let screen = row.text("screen");
        app.fixes.take(row, Some(screen.clone()));
        if is_among_first(&mut counts, &screen) {
            app.causes_by_screen.push(CauseOf { screen: Some(screen), ..cause(row) });
        }
    })?;
    each(queries::STACKS, &mut |app, row| {
        if app.stacks.len() < MAX_STACKS {
            app.stacks.push(StackOf {
                stack: row.text("stack"),
                devices: row.count("devices"),
                self_ns: row.count("self_ns"),
            });
        }
    })?;
    each(queries::LOSSES, &mut |app, row| {
        app.losses.push(Loss {
            reason: row.text("reason"),
            window: row.text("window_id"),
            devices: row.count("devices"),
            captures: row.count("captures"),
            unconfirmed: row.count("unconfirmed"),
        });
    })?;
    if !is_known {
        return Ok(None);
    }
    report.fixes.rank();
    report.limits_exceeded = all.exceeded_limits(app)?;
    if let Some((from, to)) = &ask.compare {
        let has = |ver: &str| report.versions.iter().any(|version| version.ver == ver);
        if has(from) && has(to) {
            let rules = Rules { has_test_devices: ask.with_test_devices, ..Rules::default() };
            let observations = database.observations(app, [from, to], screen, &rules)?;
            report.comparison = Some(comparison::comparison(from, to, &observations));
        }
    }
    Ok(Some(report))
}

/// Counts a cause of a group. Returns true if it is one of the first.
fn is_among_first(groups: &mut HashMap<String, usize>, group: &str) -> bool {
    let count = groups.entry(group.to_owned()).or_default();
    *count += 1;
    *count <= MAX_CAUSES_OF
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

/// The 50th, 90th and 99th percentile of groups, by version and name of the group.
type Percentiles = HashMap<(String, String), [u64; 3]>;

fn group_of(row: Row<'_>, column: &str) -> (String, String) {
    (row.text("ver"), row.text(column))
}

fn percentiles(row: Row<'_>) -> [u64; 3] {
    ["p50_100us", "p90_100us", "p99_100us"].map(|name| row.count(name))
}

fn smoothness(row: Row<'_>, column: &str, percentiles: &Percentiles) -> Smoothness {
    let found = percentiles.get(&group_of(row, column)).copied();
    let [p50_100us, p90_100us, p99_100us] = found.unwrap_or_default();
    let text = |name: &str| row.has(name).then(|| row.text(name));
    let (frames, jank_ns) = (row.count("frames"), row.count("jank_ns"));
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let jank_ms_in_1000 = if frames == 0 { 0.0 } else { jank_ns as f64 / frames as f64 / 1e3 };
    Smoothness {
        ver: row.text("ver"),
        screen: text("screen"),
        pipeline: text("pipeline"),
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
        p50_100us,
        p90_100us,
        p99_100us,
        by_timeline: row.count("by_timeline"),
        by_buffers: row.count("by_buffers"),
        late_system: row.count("late_system"),
        stuffed: row.count("stuffed"),
        never_shown: row.count("never_shown"),
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
        carried_ns: row.count("carried_ns"),
        overrun_ns: row.count("overrun_ns"),
        score: row.real("score").unwrap_or(0.0),
        p50_ns: row.count("p50_ns"),
        p90_ns: row.count("p90_ns"),
        p99_ns: row.count("p99_ns"),
        examples: Vec::new(),
    }
}
