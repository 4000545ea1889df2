//! Fills the rows of an analyzed capture, or of a loss report.

use crate::schema::{CaptureRow, FrameRow, FrameSliceRow, LossRow, StackRow};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use tracetee_jank::{Analysis, Frame, Part, Stack};
use tracetee_trace::Trace;

pub use crate::table::Value;

/// The rows of one capture, or of one loss report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// The capture's own row; a loss report has none.
    pub capture: Option<CaptureRow>,
    /// The capture's frames.
    pub frames: Vec<FrameRow>,
    /// The parts of the capture's janky frames.
    pub frame_slices: Vec<FrameSliceRow>,
    /// The stacks of the capture's janky frames.
    pub stacks: Vec<StackRow>,
    /// The loss report's rows; a capture has none.
    pub losses: Vec<LossRow>,
}

impl Rows {
    /// The number of rows in all tables.
    #[must_use]
    pub fn count(&self) -> usize {
        let Self { capture, frames, frame_slices, stacks, losses } = self;
        capture.iter().len() + frames.len() + frame_slices.len() + stacks.len() + losses.len()
    }
}

/// Facts about a capture that its text does not contain.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The capture's id.
    pub capture_id: String,
    /// The app according to the store: the app of a token takes precedence over the device's statement.
    pub app: Option<String>,
    /// The day of the capture's id, UTC, YYYY-MM-DD.
    pub day: String,
    /// The metadata that was uploaded with the capture; the capture's own header takes precedence.
    pub meta: Map<String, Json>,
    /// The size of the stored capture.
    pub bytes: u64,
    /// The key of the stored capture.
    pub raw_key: String,
}

/// Limit for texts from a capture or a report, which are repeated in each of its rows.
const MAX_TEXT_BYTES: usize = 256;

/// Limit for the losses of a report: as many as a device keeps.
const MAX_LOSSES: usize = 5_000;

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text)
}

/// Placeholder for an unknown app, device or version.
pub const UNKNOWN: &str = "unknown";

/// Returns the version as reports name it: the version's name, else its code.
#[must_use]
pub fn version_of(meta: &Map<String, Json>) -> String {
    let name = meta.get("version_name").and_then(Json::as_str).filter(|name| !name.is_empty());
    let code = || meta.get("version_code").and_then(Json::as_u64).map(|code| code.to_string());
    name.map(|name| cut(name).to_owned()).or_else(code).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Returns why the capture was taken, by the header's `opens`. Only captures by schedule are unbiased: rates must
/// not count a capture that jank has triggered.
fn cohort(meta: &Map<String, Json>) -> &'static str {
    match meta.get("opens").and_then(Json::as_str) {
        Some("schedule") => "time",
        Some("app_start") => "start",
        Some("section") => "section",
        Some("triggers") => "trigger",
        _ => "manual",
    }
}

/// The instant that the agent writes when recording costs too much.
const OVER_BUDGET: &str = "tracetee: over budget";
/// The instant that the agent writes into a capture that it recovered after a crash.
const RECOVERED: &str = "tracetee: recovered";

/// Makes the rows of a capture.
#[must_use]
pub fn from_capture(about: &About, trace: &Trace, analysis: &Analysis) -> Rows {
    let frame_of = |part: &Part| analysis.frames.get(part.frame);
    Rows {
        capture: Some(capture_row(about, trace, analysis)),
        frames: (0_u64..).zip(&analysis.frames).map(|(n, frame)| frame_row(n, frame)).collect(),
        frame_slices: analysis
            .parts
            .iter()
            .map(|part| frame_slice_row(part, frame_of(part)))
            .collect(),
        stacks: analysis.stacks.iter().map(stack_row).collect(),
        losses: Vec::new(),
    }
}

fn capture_row(about: &About, trace: &Trace, analysis: &Analysis) -> CaptureRow {
    let mut meta = about.meta.clone();
    meta.extend(trace.about.clone());
    let text = |name: &str| {
        let text = meta.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        text.map(|text| cut(text).to_owned())
    };
    let number = |name: &str| meta.get(name).and_then(Json::as_u64);
    let has_instant = |prefix: &str| {
        trace.instants.iter().any(|instant| trace.names.text(instant.name).starts_with(prefix))
    };
    let over_budget = has_instant(OVER_BUDGET);
    let is_recovered = meta.get("recovered").and_then(Json::as_bool).unwrap_or(false);
    let recovered = is_recovered || has_instant(RECOVERED);
    let cohort = cohort(&meta);
    let totals = &analysis.totals;
    let (first_ns, last_ns) = trace.span_ns.unwrap_or((0, 0));
    let realtime_ms = trace.realtime.map(|(_, ms)| ms);
    CaptureRow {
        app: about.app.clone().or_else(|| text("app")).unwrap_or_else(|| UNKNOWN.to_owned()),
        dt: about.day.clone(),
        ver: version_of(&meta),
        capture_id: about.capture_id.clone(),
        part: String::new(),
        device: text("install_id").unwrap_or_else(|| UNKNOWN.to_owned()),
        cohort: cohort.to_owned(),
        counted: cohort == "time" && !over_budget && !recovered,
        version_code: number("version_code"),
        window_id: text("window").unwrap_or_default(),
        why: text("why").unwrap_or_default(),
        model: text("model"),
        api: number("api"),
        made_ms: number("made_ms").or(realtime_ms).unwrap_or(0),
        span_ns: last_ns - first_ns,
        period_ns: analysis.frame_budget.ns,
        period_source: analysis.frame_budget.source.name().to_owned(),
        frames: totals.frames,
        slow: totals.slow,
        janky: totals.janky,
        frozen: totals.frozen,
        dropped_vsyncs: totals.dropped,
        jank_ns: totals.jank_ns,
        frame_ns: totals.frame_ns,
        startup_ns: analysis.startup_ns,
        anrs: analysis.long_slices.iter().filter(|long| long.anr).count() as u64,
        slow_session_20fps: totals.slow_session_20fps,
        slow_session_30fps: totals.slow_session_30fps,
        overhead_percent: meta.get("overhead_percent").and_then(Json::as_f64),
        over_budget,
        recovered,
        lost_records: number("dropped").unwrap_or(0),
        bytes: about.bytes,
        raw_key: about.raw_key.clone(),
    }
}

fn screen(screen: Option<&Arc<str>>) -> String {
    screen.map(|screen| screen.as_ref().to_owned()).unwrap_or_default()
}

fn frame_row(number: u64, frame: &Frame) -> FrameRow {
    let (cause, cause_key) = match &frame.cause {
        Some((cause, key)) => (cause.name(), &**key),
        None => ("", ""),
    };
    FrameRow {
        frame: number,
        vsync_id: frame.vsync_id,
        screen: screen(frame.screen.as_ref()),
        start_ns: frame.start_ns,
        ui_ns: frame.ui_ns,
        render_ns: frame.render_ns,
        dur_ns: frame.dur_ns,
        dur_100us: frame.dur_ns.div_ceil(100_000),
        dropped_vsyncs: frame.dropped,
        level: frame.level.name().to_owned(),
        slow: frame.slow,
        janky: frame.janky,
        frozen: frame.frozen,
        jank_ns: frame.jank_ns,
        cause: cause.to_owned(),
        cause_key: cause_key.to_owned(),
    }
}

fn frame_slice_row(part: &Part, frame: Option<&Frame>) -> FrameSliceRow {
    let owner = part.contention.as_ref().map(|contention| contention.owner.clone());
    FrameSliceRow {
        frame: part.frame as u64,
        frame_ns: frame.map_or(0, |frame| frame.dur_ns),
        screen: screen(frame.and_then(|frame| frame.screen.as_ref())),
        thread: part.thread.name().to_owned(),
        cause: part.cause.name().to_owned(),
        cause_key: part.key.as_ref().to_owned(),
        name: part.name.as_ref().to_owned(),
        self_ns: part.self_ns,
        slices: part.count,
        owner: owner.unwrap_or_default(),
    }
}

fn stack_row(stack: &Stack) -> StackRow {
    StackRow {
        screen: screen(stack.screen.as_ref()),
        stack: stack.stack.clone(),
        self_ns: stack.self_ns,
        slices: stack.count,
    }
}

/// Makes the rows of a loss report (`PUT /v1/losses/ID`).
#[must_use]
pub fn from_loss_report(report_id: &str, day: &str, app: Option<&str>, report: &Json) -> Rows {
    let text = |of: &Json, name: &str| {
        cut(of.get(name).and_then(Json::as_str).unwrap_or_default()).to_owned()
    };
    let or_unknown = |text: String| if text.is_empty() { UNKNOWN.to_owned() } else { text };
    let row = LossRow {
        app: app.map_or_else(|| or_unknown(text(report, "app")), str::to_owned),
        dt: day.to_owned(),
        part: String::new(),
        report_id: report_id.to_owned(),
        device: or_unknown(text(report, "install_id")),
        capture_id: String::new(),
        window_id: String::new(),
        reason: String::new(),
        unconfirmed: false,
        captures: 1,
    };
    let lost = report.get("lost").and_then(Json::as_array).into_iter().flatten();
    let mut losses: Vec<LossRow> = lost
        .take(MAX_LOSSES)
        .map(|lost| LossRow {
            capture_id: text(lost, "id"),
            window_id: text(lost, "label"),
            reason: text(lost, "reason"),
            unconfirmed: lost.get("unconfirmed").and_then(Json::as_bool).unwrap_or(false),
            ..row.clone()
        })
        .collect();
    let older = report.get("by_reason").and_then(|by| by.get("older")).and_then(Json::as_u64);
    if let Some(older) = older {
        losses.push(LossRow { reason: "older".to_owned(), captures: older, ..row });
    }
    Rows { losses, ..Rows::default() }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
