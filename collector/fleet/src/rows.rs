//! Fills the rows of an analyzed capture, or of a report.

use crate::schema::{
    CaptureRow, DeathRow, FrameRow, FrameSliceRow, LedgerDayRow, LedgerScreenRow, LossRow,
    StackRow, Text, capture_row, death_row, frame_row, frame_slice_row, stack_row,
};
use crate::table::known;
use serde::{Deserialize, Serialize};
use tracetee_jank::{Analysis, Part};
use tracetee_protocol::loss_report::{self, LossReport};
use tracetee_protocol::notes;
use tracetee_trace::{Trace, WallClock};

pub use crate::schema::About;
pub(crate) use crate::table::{NO_NAME, cut};
pub use crate::table::{UNKNOWN, Value, version_of};

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

/// The device of a collector's own loss report: captures that it had stored and deleted.
pub const COLLECTOR: &str = "(collector)";

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
        report_id: Text::from(report_id),
        device: known(report.device.install_id.as_deref()).unwrap_or(NO_NAME),
        captures: 1,
        ..LossRow::default()
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
