//! Makes the report of a fleet from the tables: one query for each part, app by app.

use super::comparison;
use super::fleet::{
    AppReport, Ask, CauseOf, Example, FleetReport, Loss, Smoothness, StackOf, Startup, Version,
};
use crate::compare::Rules;
use crate::database::{Database, Row};
use crate::error::Error;
use crate::queries;
use crate::selection::Chosen;
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

/// Makes the report of an app; `None`: it has no captures.
fn report_of(all: &Database, ask: &Ask, app: &str) -> Result<Option<AppReport>, Error> {
    let chosen = Chosen {
        since: ask.since.as_ref(),
        version: ask.version.as_deref(),
        api: ask.api,
        class: ask.class,
    };
    let selected = if chosen == Chosen::default() {
        all.check_sums(app, ask.compare.is_some())?;
        None
    } else {
        all.check_captures(app)?;
        Some(all.selected(app, chosen)?)
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
        by_platform: row.count("by_platform"),
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
