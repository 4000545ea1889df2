//! Fills the rows of an analyzed capture, or of a report.

use crate::schema::{
    CaptureRow, DeathRow, FrameRow, FrameSliceRow, LedgerDayRow, LedgerScreenRow, LossRow,
    StackRow, Text,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tracetee_jank::{Analysis, DeathReport, Frame, Named, Part, Stack, StartKind};
use tracetee_protocol::json::Decimal;
use tracetee_protocol::loss_report::{self, LossReport};
use tracetee_protocol::{CaptureMeta, notes};
use tracetee_trace::{Dump, Trace, WallClock};

pub use crate::table::Value;

/// The rows of one capture, or of one report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// The capture's own row; a report has none.
    pub capture: Option<CaptureRow>,
    /// The capture's frames.
    pub frames: Vec<FrameRow>,
    /// The parts of the capture's late frames.
    pub frame_slices: Vec<FrameSliceRow>,
    /// The stacks of the capture's late frames.
    pub stacks: Vec<StackRow>,
    /// The end of the process, in the capture of its last seconds; at most one.
    pub deaths: Vec<DeathRow>,
    /// The loss report's rows; a capture has none.
    pub losses: Vec<LossRow>,
    /// Rows of a part of a ledger.
    pub ledger: Option<Ledger>,
    /// The install id in the metadata that came with the capture, if its text names another device.
    pub other_device: Option<Text>,
}

/// The rows of a part of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// The part's own row.
    pub day: LedgerDayRow,
    /// Its screens.
    pub screens: Vec<LedgerScreenRow>,
    /// Histograms of times, and counts of ended processes.
    pub histograms: Vec<Histogram>,
}

/// A histogram of a part of a ledger, or the ends of processes for a reason: as [`crate::schema::LedgerBucketRow`], but with its names once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Kind.
    pub kind: Text,
    /// Screen of an overrun, or empty.
    pub screen: Text,
    /// Source of an overrun, reason of an exit, or empty.
    pub name: Text,
    /// Middle, ns, and amount of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

impl Rows {
    /// The number of rows in all tables.
    #[must_use]
    pub fn count(&self) -> usize {
        let Self { capture, frames, frame_slices, stacks, deaths, losses, ledger, other_device: _ } =
            self;
        let ledger = ledger.as_ref().map_or(0, Ledger::count);
        let of_frames = frames.len() + frame_slices.len() + stacks.len();
        capture.iter().len() + of_frames + deaths.len() + losses.len() + ledger
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
    pub meta: CaptureMeta,
    /// The size of the stored capture.
    pub bytes: u64,
    /// The key of the stored capture.
    pub raw_key: String,
    /// The dump that the system made when the process ended, of a capture of its last seconds.
    pub dump: Option<Arc<Dump>>,
}

/// Limit for texts from a capture or a report, which are repeated in each of its rows.
const MAX_TEXT_BYTES: usize = 256;

pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text)
}

/// The device of a collector's own loss report: captures that it had stored and deleted.
pub const COLLECTOR: &str = "(collector)";
/// Placeholder for an unknown app, device or version.
pub const UNKNOWN: &str = "unknown";
pub(crate) const NO_NAME: Text = Text::new_static(UNKNOWN);

/// Returns the version as reports name it: the version's name, else its code.
#[must_use]
pub fn version_of(meta: &CaptureMeta) -> String {
    meta.version().map_or_else(|| UNKNOWN.to_owned(), |version| cut(&version).to_owned())
}

/// Returns why the capture was taken, by the header's `opens`. Only captures by schedule are unbiased: rates must
/// not count a capture that jank has triggered.
fn cohort(meta: &CaptureMeta) -> &'static str {
    match meta.opens.as_deref() {
        Some("schedule") => "time",
        Some("app_start") => "start",
        Some("section") => "section",
        Some("triggers") => "trigger",
        _ => "manual",
    }
}

/// Makes the rows of a capture.
#[must_use]
pub fn from_capture(about: &About, trace: &Trace, analysis: &Analysis) -> Rows {
    let frame_of = |part: &Part| analysis.frames.get(part.frame);
    let capture = capture_row(about, trace, analysis);
    let sender = about.meta.install_id.as_deref().filter(|id| !id.is_empty()).map(cut);
    let other_device = sender.filter(|&sender| capture.device != sender).map(Text::from);
    Rows {
        other_device,
        capture: Some(capture),
        frames: (0_u64..).zip(&analysis.frames).map(|(n, frame)| frame_row(n, frame)).collect(),
        frame_slices: analysis
            .parts
            .iter()
            .map(|part| frame_slice_row(part, frame_of(part)))
            .collect(),
        stacks: analysis.stacks.iter().map(stack_row).collect(),
        deaths: analysis.death.iter().map(death_row).collect(),
        losses: Vec::new(),
        ledger: None,
    }
}

/// Returns the time within an id (UUID version 7).
fn id_ms(id: &str) -> Option<u64> {
    let (high, rest) = id.split_at_checked(8)?;
    let low = rest.strip_prefix('-')?.get(..4)?;
    u64::from_str_radix(&[high, low].concat(), 16).ok()
}

fn capture_row(about: &About, trace: &Trace, analysis: &Analysis) -> CaptureRow {
    let mut meta = about.meta.clone();
    meta.merge(trace.about.clone());
    let text = |text: &Option<String>| {
        text.as_deref().filter(|text| !text.is_empty()).map(|text| Text::from(cut(text)))
    };
    let has_note = |note: &str| {
        let names = trace.instants.iter().map(|instant| trace.names.text(instant.name));
        names.filter_map(notes::of_instant).any(|found| found.starts_with(note))
    };
    let over_budget = has_note(notes::OVER_BUDGET);
    let recovered = meta.recovered.unwrap_or(false) || has_note(notes::RECOVERED);
    let cohort = if meta.death.is_some() { "death" } else { cohort(&meta) };
    let totals = &analysis.totals;
    let (first_ns, last_ns) = trace.span_ns.unwrap_or((0, 0));
    let realtime_ms = trace.realtime.map(WallClock::unix_ms);
    CaptureRow {
        app: about.app.as_ref().map(Text::from).or_else(|| text(&meta.app)).unwrap_or(NO_NAME),
        dt: Text::from(&about.day),
        ver: Text::from(version_of(&meta)),
        capture_id: Text::from(&about.capture_id),
        part: Text::default(),
        device: text(&meta.install_id).unwrap_or(NO_NAME),
        cohort: Text::new_static(cohort),
        counted: cohort == "time" && !over_budget && !recovered,
        version_code: meta.version_code,
        window_id: text(&meta.window).unwrap_or_default(),
        why: text(&meta.why).unwrap_or_default(),
        model: text(&meta.model),
        api: meta.api,
        // An object store may have lost what was said of it beside its body.
        made_ms: meta.made_ms.or(realtime_ms).or_else(|| id_ms(&about.capture_id)).unwrap_or(0),
        span_ns: last_ns - first_ns,
        period_ns: analysis.frame_budget.ns,
        period_source: Text::new_static(analysis.frame_budget.source.name()),
        frames: totals.frames,
        slow: totals.slow,
        janky: totals.janky,
        frozen: totals.frozen,
        dropped_vsyncs: totals.dropped,
        jank_ns: totals.jank_ns,
        frame_ns: totals.frame_ns,
        startup_ns: analysis.startups.ttid_ns(StartKind::Cold),
        warm_start_ns: analysis.startups.ttid_ns(StartKind::Warm),
        hot_start_ns: analysis.startups.ttid_ns(StartKind::Hot),
        ttfd_ns: analysis.startups.ttfd_ns(),
        anrs: analysis.long_slices.iter().filter(|long| long.anr).count() as u64,
        slow_session_20fps: totals.slow_session_20fps,
        slow_session_30fps: totals.slow_session_30fps,
        overhead_percent: meta.overhead_percent.map(Decimal::to_f64),
        over_budget,
        recovered,
        lost_records: meta.dropped.unwrap_or(0),
        bytes: about.bytes,
        raw_key: Text::from(&about.raw_key),
        debuggable: meta.debuggable.unwrap_or(false),
        emulator: meta.emulator.unwrap_or(false),
        evidence: Text::new_static(analysis.judged.keys().next().map_or("", |best| best.name())),
    }
}

/// The text of a name, which many rows share.
fn text_of(name: Option<&Arc<str>>) -> Text {
    name.map(|name| Text::from(Arc::clone(name))).unwrap_or_default()
}

fn frame_row(number: u64, frame: &Frame) -> FrameRow {
    let cause = frame.cause.as_ref();
    FrameRow {
        frame: number,
        pipeline: Text::new_static(frame.pipeline.name()),
        vsync_id: frame.vsync_id,
        screen: text_of(frame.screen.as_ref()),
        start_ns: frame.start_ns,
        start_source: Text::new_static(frame.start_source.name()),
        ui_start_ns: frame.ui_start_ns,
        deadline_ns: frame.deadline_ns,
        ui_ns: frame.ui_ns,
        render_ns: frame.render_ns,
        dur_ns: frame.dur_ns,
        dur_100us: frame.dur_ns.div_ceil(100_000),
        dropped_vsyncs: frame.dropped,
        level: Text::new_static(frame.level.name()),
        slow: frame.slow,
        janky: frame.janky,
        frozen: frame.frozen,
        jank_ns: frame.jank_ns,
        cause: Text::new_static(cause.map_or("", |(cause, _)| cause.name())),
        cause_key: text_of(cause.map(|(_, key)| key)),
        evidence: Text::new_static(frame.evidence.name()),
        outcome: Text::new_static(frame.outcome.name()),
    }
}

fn frame_slice_row(part: &Part, frame: Option<&Frame>) -> FrameSliceRow {
    let owner = part.contention.as_ref().map(|contention| Text::from(&*contention.owner));
    FrameSliceRow {
        frame: part.frame as u64,
        pipeline: Text::new_static(frame.map_or("", |frame| frame.pipeline.name())),
        frame_ns: frame.map_or(0, |frame| frame.dur_ns),
        screen: text_of(frame.and_then(|frame| frame.screen.as_ref())),
        thread: Text::new_static(part.thread.name()),
        cause: Text::new_static(part.cause.name()),
        cause_key: text_of(Some(&part.key)),
        name: text_of(Some(&part.name)),
        self_ns: part.self_ns,
        carried_ns: part.carried_ns,
        overrun_ns: part.overrun_ns,
        running_ns: part.states.running_ns,
        runnable_ns: part.states.runnable_ns,
        asleep_ns: part.states.asleep_ns,
        blocked_ns: part.states.uninterruptible_ns + part.states.io_ns,
        slices: part.count,
        owner: owner.unwrap_or_default(),
        saved: part.gain.removed,
        saved_halved: part.gain.halved,
        saved_moved: part.gain.moved,
        saved_most: part.gain.most,
    }
}

fn stack_row(stack: &Stack) -> StackRow {
    StackRow {
        screen: text_of(stack.screen.as_ref()),
        stack: Text::from(&*stack.stack),
        self_ns: stack.self_ns,
        slices: stack.count,
    }
}

fn death_row(death: &DeathReport) -> DeathRow {
    let text = |text: &str| Text::from(cut(text));
    DeathRow {
        reason: text(&death.reason),
        cause: Text::new_static(death.cause.name()),
        cause_key: text(&death.key),
        noticed_by: Text::new_static(death.noticed_by),
        visible: death.visible,
        importance: death.importance,
        screen: text(&death.screen),
        process: text(&death.process),
        pss_kb: death.pss_kb,
        rss_kb: death.rss_kb,
        at_ms: death.at_ms,
        waited_ns: death.waited_ns,
        dump: Text::new_static(death.dump.name()),
        sentence: text(&death.sentence),
    }
}

/// Makes the rows of a loss report (`PUT /v1/losses/ID`).
#[must_use]
pub fn from_loss_report(
    report_id: &str,
    day: &str,
    app: Option<&str>,
    report: &LossReport,
) -> Rows {
    let known = |text: Option<&str>| {
        Text::from(cut(text.filter(|text| !text.is_empty()).unwrap_or(UNKNOWN)))
    };
    let row = LossRow {
        app: app.map_or_else(|| known(report.device.app.as_deref()), Text::from),
        dt: Text::from(day),
        part: Text::default(),
        report_id: Text::from(report_id),
        device: known(report.device.install_id.as_deref()),
        capture_id: Text::default(),
        window_id: Text::default(),
        reason: Text::default(),
        unconfirmed: false,
        captures: 1,
    };
    let mut losses: Vec<LossRow> = report
        .lost
        .iter()
        .map(|lost| LossRow {
            capture_id: Text::from(cut(&lost.id)),
            window_id: Text::from(cut(&lost.label)),
            reason: Text::from(cut(&lost.reason)),
            unconfirmed: lost.unconfirmed,
            ..row.clone()
        })
        .collect();
    // A device lists its losses; those of the collector itself are only counted.
    let is_counted = |reason: &str| reason == loss_report::OLDER || row.device == COLLECTOR;
    for (reason, &captures) in &report.by_reason {
        if is_counted(reason) {
            losses.push(LossRow { reason: Text::from(cut(reason)), captures, ..row.clone() });
        }
    }
    Rows { losses, ..Rows::default() }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
