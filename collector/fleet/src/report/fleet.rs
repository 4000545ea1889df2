//! The report of a fleet: smoothness of versions and screens, causes of jank, and what a version made worse.

pub use crate::selection::Ask;

use super::breakdown::Breakdowns;
use super::fixes::Fixes;
use super::ledgers::Ledgers;
use super::quantile_errors::QuantileErrors;
use crate::change::Source;
use crate::change::classes::range_ms;
use crate::change::comparison::{Comparison, Verdict};
use crate::database::Exceeded;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use tracetee_trace::shown;

/// The report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetReport {
    /// Only this screen.
    pub screen: Option<String>,
    /// Only captures since this time, UTC.
    pub since: Option<String>,
    /// Only captures of this version.
    pub version: Option<String>,
    /// Only captures of devices with this Android API level.
    pub api: Option<u64>,
    /// Only captures of devices with this time of a quick frame, from and to, ms.
    pub device_ms: Option<[f64; 2]>,
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
    /// Devices whose frames rates count, each once.
    pub devices: u64,
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
    /// Groups of devices that have more jank than others.
    pub breakdowns: Breakdowns,
    /// Comparison of two versions, if requested.
    pub comparison: Option<Comparison>,
    /// Stacks of late frames.
    pub stacks: Vec<StackOf>,
    /// Ends of processes by reason and cause, those that users noticed first.
    pub deaths: Vec<DeathOf>,
    /// Ends of processes by reason, cause and key of the cause.
    pub deaths_by_key: Vec<DeathOf>,
    /// Ends of processes by version, reason and cause.
    pub deaths_by_version: Vec<DeathOf>,
    /// Captures that devices lost, or that the collector's retention deleted.
    pub losses: Vec<Loss>,
    /// Counts of every device, from ledgers.
    pub ledgers: Ledgers,
    /// Names that are told apart no longer, because there are too many.
    pub limits_exceeded: Vec<Exceeded>,
    /// Reason why the report has no more than the app's name.
    pub unfinished: Option<String>,
}

/// A version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    #[serde(skip_deserializing)]
    pub levels: [u64; 4],
    /// Time beyond one period.
    pub jank_ns: u64,
    /// `jank_ns` per thousand frames, ms.
    #[serde(skip_deserializing)]
    pub jank_ms_in_1000: f64,
    /// 50th percentile of durations, in tenths of a millisecond; not by day.
    pub p50_100us: u64,
    /// 90th percentile.
    pub p90_100us: u64,
    /// 99th percentile.
    pub p99_100us: u64,
    /// Frames that FrameTimeline judges.
    pub by_timeline: u64,
    /// Frames that the platform's verdicts judge: JankData, FrameMetrics.
    pub by_platform: u64,
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CauseOf {
    /// The version, if grouped by version.
    pub ver: Option<String>,
    /// Only this screen.
    pub screen: Option<String>,
    /// The cause.
    pub cause: String,
    /// Key of the cause: the slice, lock or method.
    #[serde(rename(deserialize = "cause_key"))]
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
    #[serde(skip_deserializing)]
    pub examples: Vec<Example>,
}

/// A capture that shows a cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Id of the capture.
    pub capture_id: String,
    /// Key of the stored capture.
    pub raw_key: String,
    /// Version of the app.
    pub ver: String,
    /// Time of the cause in the capture.
    pub self_ns: u64,
    /// Model of the device.
    #[serde(skip_deserializing)]
    pub model: Option<String>,
    /// Time of the capture, Unix time in ms; 0 if unknown.
    #[serde(skip_deserializing)]
    pub made_ms: u64,
}

/// A stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackOf {
    /// Names from the thread inwards, joined by `;`.
    pub stack: String,
    /// Number of devices.
    pub devices: u64,
    /// Time in the innermost slice.
    pub self_ns: u64,
}

/// Ends of processes for one reason and cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeathOf {
    /// Android's reason.
    pub reason: String,
    /// Cause.
    pub cause: String,
    /// Key of the cause, in a list by key.
    #[serde(rename(deserialize = "cause_key"), default)]
    pub key: Option<String>,
    /// Version, in a list by version.
    #[serde(default)]
    pub ver: Option<String>,
    /// Number of ends.
    pub deaths: u64,
    /// Those that a user noticed: a screen was visible.
    pub by_user: u64,
    /// Those in which the process stood still.
    pub frozen: u64,
    /// Number of devices.
    pub devices: u64,
    /// Number of versions.
    pub versions: u64,
    /// Number of screens.
    pub screens: u64,
    /// Largest proportional memory, KiB; 0 if unknown.
    pub pss_kb: u64,
    /// Largest resident memory, KiB; 0 if unknown.
    pub rss_kb: u64,
    /// Longest time for which a main thread had been in what it did at the end, ns.
    pub waited_ns: u64,
    /// Id of the worst capture.
    pub capture_id: String,
}

/// Captures that devices lost, for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Reason.
    pub reason: String,
    /// Id of the window in the remote configuration.
    #[serde(rename(deserialize = "window_id"))]
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
            api: ask.api,
            device_ms: ask.class.map(range_ms),
            quantile_errors: QuantileErrors::of_rollups(),
            apps: Vec::new(),
        }
    }

    /// Returns the filters for a heading, each name as `write` has it: ", screen Feed, version 2.1, since 2026-11-21T00:00:00Z".
    pub(super) fn filters(&self) -> String {
        let filters = [
            ("screen", self.screen.clone()),
            ("version", self.version.clone()),
            ("API", self.api.map(|api| api.to_string())),
            ("devices of", self.device_ms.map(|[from, to]| format!("{from:.1} to {to:.1} ms"))),
            ("since", self.since.clone()),
        ];
        let set = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        set.map(|(name, value)| format!(", {name} {}", shown(&value))).collect()
    }

    /// Returns the verdicts of this report's comparisons. Ledgers, which not all devices keep, decide if they show that a version is worse.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let is_one = |comparison: &&Comparison| {
            comparison.source == Source::Captures || comparison.verdict == Verdict::Worse
        };
        let all = self.apps.iter().flat_map(AppReport::comparisons);
        all.filter(is_one).map(|comparison| comparison.verdict)
    }

    /// Checks that an app, a version or a screen that was asked for has captures.
    ///
    /// # Errors
    /// [`Error::Missing`] if it has none.
    pub fn check_found(&self, ask: &Ask) -> Result<(), Error> {
        let app = ask.app.as_ref().filter(|app| !app.is_empty());
        let is_all = app.is_none() && ask.has_all_devices();
        let has_frames = |app: &AppReport| {
            app.unfinished.is_some() || !app.screens.is_empty() || !app.causes.is_empty()
        };
        let found = Self::new(ask);
        let (noun, is_found) = if found.screen.is_some() {
            ("frames", self.apps.iter().any(has_frames))
        } else {
            ("captures", !self.apps.is_empty() || is_all)
        };
        if is_found {
            return Ok(());
        }
        let of_app = app.map_or_else(String::new, |app| format!(" of the app {app}"));
        let filters = found.filters();
        Err(Error::Missing(format!("the store has no {noun}{of_app}{filters}")))
    }
}
