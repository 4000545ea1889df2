//! Fills the rows of an analyzed capture, or of a report.

use crate::schema::{
    CaptureRow, DeathRow, FrameRow, FrameSliceRow, LedgerDayRow, LedgerScreenRow, LossRow,
    StackRow, Text, capture_row, death_row, frame_row, frame_slice_row, stack_row,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tracetee_jank::{Analysis, Part};
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

/// A text from a capture or a report, of a limited size; `None` if there is none, or an empty one.
pub(crate) fn known(text: Option<&str>) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(|text| Text::from(cut(text)))
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
pub(crate) fn cohort(meta: &CaptureMeta) -> &'static str {
    match meta.opens.as_deref() {
        _ if meta.death.is_some() => "death",
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
    let capture = captured(about, trace, analysis);
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

fn captured(about: &About, trace: &Trace, analysis: &Analysis) -> CaptureRow {
    let mut meta = about.meta.clone();
    meta.merge(trace.about.clone());
    let has_note = |note: &str| {
        let names = trace.instants.iter().map(|instant| trace.names.text(instant.name));
        names.filter_map(notes::of_instant).any(|found| found.starts_with(note))
    };
    meta.recovered = Some(meta.recovered.unwrap_or(false) || has_note(notes::RECOVERED));
    // An object store may have lost what was said of it beside its body.
    let realtime_ms = trace.realtime.map(WallClock::unix_ms);
    meta.made_ms = meta.made_ms.or(realtime_ms).or_else(|| id_ms(&about.capture_id));
    capture_row(about, &meta, trace, analysis, has_note(notes::OVER_BUDGET))
}

/// The text of a name, which many rows share.
pub(crate) fn text_of(name: Option<&Arc<str>>) -> Text {
    name.map(|name| Text::from(Arc::clone(name))).unwrap_or_default()
}

/// Makes the rows of a loss report (`PUT /v1/losses/ID`).
#[must_use]
pub fn from_loss_report(
    report_id: &str,
    day: &str,
    app: Option<&str>,
    report: &LossReport,
) -> Rows {
    let row = LossRow {
        app: app.map(Text::from).or_else(|| known(report.device.app.as_deref())).unwrap_or(NO_NAME),
        dt: Text::from(day),
        part: Text::default(),
        report_id: Text::from(report_id),
        device: known(report.device.install_id.as_deref()).unwrap_or(NO_NAME),
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
