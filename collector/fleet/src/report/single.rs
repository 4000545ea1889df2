//! The report of one capture: frames, the worst of them, and their causes.

pub use super::single_rows::{CauseRow, Explained, FrameRow, PartRow, Worst};

use super::single_sentence::MAIN;
use crate::capture::Capture;
use crate::rows;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tracetee_jank::{
    Analysis, Cause, DeathReport, Evidence, FrameBudget, FrameExplanation, Interaction, Judged,
    LongSlice, Named, OtherProcess, PipelineTotals, StartKind, Startup, StateTimes, Step,
    StoodStill, ThreadRole, TimelineVerdict, Totals, Unknown,
};
use tracetee_protocol::json::Decimal;
use tracetee_protocol::notes;
use tracetee_trace::Trace;

/// Limits of the frames that are reported in full, and of their parts.
const WORST: usize = 10;
const PARTS: usize = 64;

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SingleReport {
    /// The capture's id, if it has one.
    pub id: Option<String>,
    /// The app's package name, else the main thread's name.
    pub app: String,
    /// The app's version.
    pub ver: String,
    /// The process id.
    pub pid: u32,
    /// Id of the window in the remote configuration.
    pub window: Option<String>,
    /// Event that opened the window.
    pub why: Option<String>,
    /// The end of the process, of a capture of its last seconds.
    pub death: Option<DeathReport>,
    /// Begin of the capture, ns of the trace's clock.
    pub begin_ns: u64,
    /// Duration of the capture.
    pub span_ns: u64,
    /// The time that a frame may take.
    pub period: FrameBudget,
    /// Number of times at which the display changed its refresh rate.
    pub refresh_switches: usize,
    /// Sums over the frames by the evidence that judges them, the most exact first.
    pub judged: BTreeMap<Evidence, Judged>,
    /// Number of verdicts of the platform that could not be read, or that fit no frame of the capture.
    pub verdicts_left_out: u64,
    /// Times in which no thread of the process could run, and frames that are left out.
    pub stood_still: StoodStill,
    /// Sums over all frames but those of the pipeline `vsync_callback`.
    pub totals: Totals,
    /// Sums by pipeline.
    pub pipelines: Vec<PipelineTotals>,
    /// Interactions that the system's jank monitor names, the first 1,000.
    pub interactions: Vec<Interaction>,
    /// Number of other interactions.
    pub interactions_left_out: u64,
    /// All frames, by time.
    pub frames: Vec<FrameRow>,
    /// The worst frames, those with the largest overruns first.
    pub worst: Vec<Worst>,
    /// Causes of the late frames, those with the largest overruns first.
    pub causes: Vec<CauseRow>,
    /// Explanations of the 300 late frames with the largest overruns, by time: deadline, states, causes, critical path.
    /// Their times are those of the trace's clock, as [`Worst::start_ns`].
    pub explanations: Vec<Explained>,
    /// Questions that the trace leaves open.
    pub unknown: Vec<Unknown>,
    /// Events that the recorder lost, by kind.
    pub lost_events: BTreeMap<String, u64>,
    /// Long dispatches of the main thread outside of frames, and unanswered input.
    pub long_slices: Vec<LongSlice>,
    /// Time of the first cold start to its first drawn frame.
    pub startup_ns: Option<u64>,
    /// Start-ups with their phases, the first 100.
    pub startups: Vec<Startup>,
    /// Number of other start-ups.
    pub startups_left_out: u64,
    /// Starts of the process in the background, for a service or a receiver.
    pub background_starts: u64,
    /// Other processes of the trace with frames, apps first.
    pub other_processes: Vec<OtherProcess>,
    /// Share of a CPU that recording took, percent.
    pub overhead_percent: Option<f64>,
    /// True if the agent stopped recording because it cost too much.
    pub over_budget: bool,
    /// Records that the agent dropped.
    pub lost_records: u64,
    /// Number of lines that could not be read.
    pub bad_lines: u64,
    /// See `bad_lines`.
    pub unmatched_ends: u64,
    /// See `bad_lines`.
    pub unclosed: u64,
    /// Stacks of late frames with their time in ns: the input of flame graphs.
    pub stacks: BTreeMap<String, u64>,
}

impl SingleReport {
    /// Makes the report of a capture.
    #[must_use]
    pub fn from_capture(capture: &Capture) -> Self {
        let Capture { trace, analysis } = capture;
        let about = &trace.about;
        let (first_ns, last_ns) = trace.span_ns.unwrap_or((0, 0));
        let since_first = |ns: u64| ns.saturating_sub(first_ns);
        let frames = analysis.frames.iter().map(|frame| FrameRow {
            at_ns: since_first(frame.start_ns),
            ui_at_ns: since_first(frame.ui_start_ns),
            pipeline: frame.pipeline,
            slow: frame.slow,
            dur_ns: frame.dur_ns,
            deadline_ns: frame.deadline_ns.saturating_sub(frame.start_ns),
            level: frame.level,
            janky: frame.janky,
            evidence: frame.evidence,
            outcome: frame.outcome,
            screen: frame.screen.as_deref().map(str::to_owned),
        });
        let long_slices = analysis.long_slices.iter().cloned();
        let long_slices =
            long_slices.map(|long| LongSlice { start_ns: since_first(long.start_ns), ..long });
        let interactions = analysis.interactions.rows.iter().filter(|one| !one.cancelled);
        let mut stacks = BTreeMap::new();
        for stack in &analysis.stacks {
            *stacks.entry(stack.stack.clone()).or_default() += stack.self_ns;
        }
        let notes_of = trace.instants.iter().map(|instant| trace.names.text(instant.name));
        let over_budget =
            notes_of.filter_map(notes::of_instant).any(|note| note.starts_with(notes::OVER_BUDGET));
        Self {
            id: about.id.clone(),
            app: about.app.clone().unwrap_or_else(|| analysis.process.name.clone()),
            ver: version(trace, analysis),
            pid: analysis.process.pid,
            window: about.window.clone(),
            why: about.why.clone(),
            death: analysis.death.clone(),
            begin_ns: first_ns,
            span_ns: last_ns - first_ns,
            period: analysis.frame_budget,
            refresh_switches: analysis.refresh_switches,
            judged: analysis.judged.clone(),
            verdicts_left_out: analysis.verdicts_left_out,
            stood_still: analysis.stood_still,
            totals: analysis.totals,
            pipelines: analysis.pipelines.clone(),
            interactions: interactions.cloned().collect(),
            interactions_left_out: analysis.interactions.left_out,
            frames: frames.collect(),
            worst: worst(analysis, first_ns),
            causes: causes(analysis),
            explanations: explained(analysis),
            unknown: analysis.unknown.clone(),
            lost_events: trace.losses.lost.clone(),
            long_slices: long_slices.collect(),
            startup_ns: analysis.startups.ttid_ns(StartKind::Cold),
            startups: analysis.startups.rows.clone(),
            startups_left_out: analysis.startups.left_out,
            background_starts: analysis.startups.background,
            other_processes: analysis.process.others.clone(),
            overhead_percent: about.overhead_percent.map(Decimal::to_f64),
            over_budget,
            lost_records: about.dropped.unwrap_or(0),
            bad_lines: trace.losses.bad_lines,
            unmatched_ends: trace.losses.unmatched_ends,
            unclosed: trace.losses.unclosed,
            stacks,
        }
    }
}

/// The version in the header; otherwise the code of the package, if the trace lists packages.
fn version(trace: &Trace, analysis: &Analysis) -> String {
    match trace.package_version(&analysis.process.name) {
        Some(code) if trace.about.version().is_none() => code.to_string(),
        _ => rows::version_of(&trace.about),
    }
}

fn worst(analysis: &Analysis, first_ns: u64) -> Vec<Worst> {
    let mut order: Vec<usize> = (0..analysis.frames.len()).collect();
    let worse = |index: usize| {
        let frame = analysis.frames.get(index);
        Reverse(frame.map_or((0, 0), |frame| (frame.jank_ns, frame.dur_ns)))
    };
    order.sort_by_key(|&index| (worse(index), index));
    let worst = order.into_iter().take(WORST);
    let is_late = |&index: &usize| analysis.frames.get(index).is_some_and(|frame| frame.slow);
    worst.filter(is_late).filter_map(|index| row_of(analysis, first_ns, index)).collect()
}

fn explained(analysis: &Analysis) -> Vec<Explained> {
    let explained = |one: &FrameExplanation| {
        let row = row_of(analysis, 0, one.frame)?;
        Some(Explained { sentence: row.sentence, explanation: one.clone() })
    };
    analysis.explanations.iter().filter_map(explained).collect()
}

/// Returns a frame with its sentence and its explanation, if it has one; `number` counts from 1.
#[must_use]
pub fn frame_of(capture: &Capture, number: usize) -> Option<(Worst, Option<FrameExplanation>)> {
    let Capture { trace, analysis } = capture;
    let (first_ns, _) = trace.span_ns.unwrap_or_default();
    let row = row_of(analysis, first_ns, number.checked_sub(1)?)?;
    let explanation = row.explanation.and_then(|index| analysis.explanations.get(index).cloned());
    Some((row, explanation))
}

/// Returns the sentence of the frame that lost most by a cause, which is the one that the timeline opens at.
pub(super) fn sentence_of(analysis: &Analysis, cause: &str, key: &str) -> Option<String> {
    let lost_ns = |one: &FrameExplanation| -> u64 {
        let causes = one.causes.iter().filter(|row| row.cause.name() == cause && row.key == key);
        causes.map(|row| row.self_ns).sum()
    };
    let with_cause = analysis.explanations.iter().filter(|one| lost_ns(one) > 0);
    let worst = with_cause.min_by_key(|one| Reverse(lost_ns(one)))?;
    Some(row_of(analysis, 0, worst.frame)?.sentence)
}

fn row_of(analysis: &Analysis, first_ns: u64, index: usize) -> Option<Worst> {
    let frame = analysis.frames.get(index)?;
    let first = analysis.parts.partition_point(|part| part.frame < index);
    let of_frame = analysis.parts.iter().skip(first).take_while(|part| part.frame == index);
    let mut parts: Vec<PartRow> = of_frame
        .filter(|part| part.self_ns + part.carried_ns > 0)
        .map(|part| PartRow {
            thread: part.thread,
            earlier: part.is_earlier,
            cause: part.cause,
            key: part.key.to_string(),
            name: part.name.to_string(),
            self_ns: part.self_ns,
            carried_ns: part.carried_ns,
            overrun_ns: part.overrun_ns,
            states: part.states,
            owner: part.contention.as_ref().map(|contention| contention.owner.clone()),
        })
        .collect();
    parts.sort_by_key(|part| Reverse(part.self_ns + part.carried_ns));
    let of_threads = parts.iter().filter(|part| part.thread != ThreadRole::Gpu);
    let earlier_ns = |part: &PartRow| if part.earlier { part.self_ns } else { part.carried_ns };
    let delayed_ns = of_threads.map(earlier_ns).sum();
    parts.truncate(PARTS);
    let mut worst = Worst {
        number: index + 1,
        pipeline: frame.pipeline,
        explanation: analysis.explanations.iter().position(|one| one.frame == index),
        at_ns: frame.start_ns.saturating_sub(first_ns),
        start_ns: frame.start_ns,
        dur_ns: frame.dur_ns,
        overrun_ns: frame.jank_ns,
        delayed_ns,
        ui_ns: frame.ui_ns,
        render_ns: frame.render_ns,
        dropped: frame.dropped,
        cadence: frame.cadence,
        evidence: frame.evidence,
        outcome: frame.outcome,
        screen: frame.screen.as_deref().map(str::to_owned),
        sentence: String::new(),
        parts,
    };
    if frame.slow {
        let explained = worst.explanation.and_then(|index| analysis.explanations.get(index));
        let path = explained.map_or(&[][..], |one| &one.path);
        let own = |step: &&Step| step.tid == Some(frame.ui_tid);
        let begins = match frame.ui_tid == analysis.process.pid {
            true => Some(MAIN),
            false => path.iter().find(own).map(|step| &*step.thread),
        };
        let late_by_system_ns = frame.timeline.map_or(0, TimelineVerdict::late_by_system_ns);
        worst.sentence = worst.sentence(path, begins, late_by_system_ns);
    }
    Some(worst)
}

fn causes(analysis: &Analysis) -> Vec<CauseRow> {
    let mut sums: BTreeMap<(Cause, &str), (CauseRow, usize)> = BTreeMap::new();
    for part in &analysis.parts {
        let (cause, key) = (part.cause, part.key.as_ref());
        let (row, last) = sums.entry((cause, key)).or_insert_with(|| {
            let row = CauseRow {
                cause,
                key: key.to_owned(),
                action: cause.action(),
                frames: 0,
                self_ns: 0,
                carried_ns: 0,
                overrun_ns: 0,
                states: StateTimes::default(),
                saved: 0,
                saved_halved: 0,
                saved_moved: 0,
            };
            (row, usize::MAX)
        });
        row.self_ns += part.self_ns;
        row.carried_ns += part.carried_ns;
        row.overrun_ns += part.overrun_ns;
        row.states.add_all(&part.states);
        if *last != part.frame {
            *last = part.frame;
            row.frames += u64::from(part.self_ns + part.carried_ns > 0);
            row.saved += u64::from(part.gain.removed);
            row.saved_halved += u64::from(part.gain.halved);
            row.saved_moved += u64::from(part.gain.moved);
        }
    }
    let mut causes: Vec<CauseRow> = sums.into_values().map(|(row, _)| row).collect();
    causes.sort_by_key(|cause| Reverse((cause.overrun_ns, cause.self_ns)));
    causes
}
