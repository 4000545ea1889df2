//! The platform's verdicts about frames, as the Android library recorded them: JankData (Android 16 and later), FrameMetrics
//! (Android 8), and the deadlines that Choreographer hands to callbacks (Android 13), which are there before a frame ends.
//!
//! The compositor knows a frame by its vsync id, which is in `Choreographer#doFrame N`, or, if the main thread began late, in the
//! `resynced to N` inside. FrameMetrics without an id, before Android 16, belongs to the first frame that began at its
//! intended vsync or later. JankData has durations since the expected begin, and from Android 17's second quarterly
//! release on the time at which the display showed the frame. A verdict that cannot be read, that fits no frame, or whose frame
//! would have ended after the record, judges none, and is counted. The library's callback for deadlines asks for a vsync, so that
//! a frame may come in which nothing is drawn; the library says so (`undrawn`). JankData of other surfaces than a window's (a
//! game's, Flutter's) judges none: nothing in it names a frame of these engines.

use crate::deadline::Expected;
use crate::found::Found;
use crate::frame::{Evidence, Outcome, StartSource};
use crate::judge::Judgement;
use crate::pipeline::Pipeline;
use crate::process::{DO_FRAME, Process, frame_id};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use tracetee_protocol::notes::{FRAME_CATEGORY, FRAME_VERDICT};
use tracetee_trace::{Instant, Seeded, Trace};

/// Bits of `SurfaceControl.JankData`.
const COMPOSER: u64 = 1;
const APPLICATION: u64 = 2;
/// Longer durations are not those of a frame, ns.
const MAX_NS: u64 = 600_000_000_000;
/// A frame's `doFrame` may begin this much before its intended vsync: the times are those of two readings of a clock.
const TOLERANCE_NS: u64 = 200_000;
/// Name of the section inside a frame that began too late for its vsync; the id of the vsync that it is for then.
const RESYNCED: &str = "Choreographer#doFrame - resynced to ";

/// The verdicts of a trace.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// By index of the frame.
    frames: HashMap<usize, Verdict, Seeded>,
    /// Number of those that cannot be read, or that fit no frame.
    pub(crate) left_out: u64,
}

/// The verdicts about a frame.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    jank: Option<Jank>,
    metrics: Option<Metrics>,
    due: Option<Due>,
    /// True if the library saw no window draw in a frame that it had requested.
    is_undrawn: bool,
}

/// The vsync that a frame was for when it began, and its deadline, on the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    vsync_ns: u64,
    deadline_ns: u64,
}

/// JankData: bits, and durations since the expected begin.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Jank {
    bits: u64,
    allowed_ns: u64,
    total_ns: u64,
    /// Time by which the display showed the frame later than expected, if both are known.
    shown_late_ns: Option<u64>,
}

/// FrameMetrics: the intended vsync on the trace's clock, and durations since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Metrics {
    intended_ns: u64,
    /// Time for which the device slept between the frame and its report, at most: the vsync may be this much earlier.
    suspended_ns: u64,
    /// None before Android 12.
    allowed_ns: Option<u64>,
    total_ns: u64,
    /// True if the vsync fits the frame's `doFrame`; otherwise only the durations are known.
    is_placed: bool,
}

impl Metrics {
    /// Time past the deadline; without one all of the frame's.
    fn over_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.allowed_ns.unwrap_or(0))
    }

    /// The possible times of the vsync.
    fn vsyncs_ns(&self) -> impl Iterator<Item = u64> + use<> {
        let before_ns = self.intended_ns.saturating_sub(self.suspended_ns);
        let before_ns = (self.suspended_ns > 0).then_some(before_ns);
        std::iter::once(self.intended_ns).chain(before_ns)
    }

    /// True if a frame of a vsync can have begun at a time: before it was complete.
    const fn fits(&self, vsync_ns: u64, begin_ns: u64) -> bool {
        begin_ns.saturating_add(TOLERANCE_NS) >= vsync_ns
            && begin_ns < vsync_ns.saturating_add(self.total_ns)
    }

    const fn end_ns(&self) -> u64 {
        self.intended_ns.saturating_add(self.total_ns)
    }

    /// Finds the vsync of the frame that began at a time.
    fn placed(self, begin_ns: u64) -> Self {
        let vsync_ns = self.vsyncs_ns().find(|&vsync_ns| self.fits(vsync_ns, begin_ns));
        let intended_ns = vsync_ns.unwrap_or(self.intended_ns).min(begin_ns);
        Self { intended_ns, is_placed: vsync_ns.is_some(), ..self }
    }
}

/// The arguments of a record.
#[derive(Deserialize)]
struct Args<'a> {
    source: &'a str,
    /// `vsync=4711 intended_ns=…`: in one string, because the agent's redaction treats long numbers as private, except after
    /// `vsync`.
    frame: &'a str,
}

/// A record that was read.
enum Read {
    Jank(i64, Jank),
    Metrics(Option<i64>, Metrics),
    Due(i64, Due),
    Undrawn(i64),
    /// Of no frame.
    Surface,
}

/// True if a time has been when a record was written: a frame is reported after its end.
const fn has_been(ns: u64, record: &Instant) -> bool {
    ns <= record.at_ns.saturating_add(TOLERANCE_NS)
}

fn read(trace: &Trace, instant: &Instant) -> Option<Read> {
    let Args { source, frame } = serde_json::from_str(trace.names.text(instant.args)).ok()?;
    let fields: BTreeMap<&str, &str> =
        frame.split(' ').filter_map(|field| field.split_once('=')).collect();
    let number = |key: &str| fields.get(key)?.parse::<u64>().ok();
    let duration = |key: &str| number(key).filter(|&ns| ns <= MAX_NS);
    let vsync = fields.get("vsync").and_then(|id| id.parse::<i64>().ok()).filter(|&id| id >= 0);
    let total_ns = || duration("total_ns").filter(|&ns| ns > 0);
    let intended_ns = || number("intended_ns").filter(|&ns| ns <= i64::MAX as u64 - MAX_NS);
    let allowed_ns = duration("allowed_ns").filter(|&ns| ns > 0);
    match source {
        "jank_data" => {
            let known = |key: &str| number(key).filter(|&ns| ns > 0);
            let late_ns = |(shown, expected): (u64, u64)| shown.checked_sub(expected);
            let shown_late_ns = known("present_ns")
                .filter(|&ns| has_been(ns, instant))
                .zip(known("expected_ns"))
                .and_then(late_ns)
                .filter(|&ns| ns <= MAX_NS);
            let (bits, allowed_ns, total_ns) =
                (number("jank")?, duration("allowed_ns")?, total_ns()?);
            Some(Read::Jank(vsync?, Jank { bits, allowed_ns, total_ns, shown_late_ns }))
        }
        "frame_metrics" => {
            let (intended_ns, total_ns) = (intended_ns()?, total_ns()?);
            number("gpu_ns").is_none_or(|gpu_ns| gpu_ns <= total_ns).then_some(())?;
            let suspended_ns = number("suspended_ns").unwrap_or(0);
            let is_placed = false;
            let metrics = Metrics { intended_ns, suspended_ns, allowed_ns, total_ns, is_placed };
            Some(Read::Metrics(vsync, metrics))
        }
        "vsync" => {
            let vsync_ns = intended_ns()?;
            Some(Read::Due(vsync?, Due { vsync_ns, deadline_ns: vsync_ns + allowed_ns? }))
        }
        "undrawn" => Some(Read::Undrawn(vsync?)),
        "surface_jank_data" => Some(Read::Surface),
        _ => None,
    }
}

impl Verdicts {
    /// Finds the verdicts about frames, which are in the order of time.
    pub(crate) fn find(trace: &Trace, process: &Process, found: &[Found]) -> Self {
        let mut all = Self::default();
        let names = trace.names.select(|name| name == FRAME_VERDICT);
        if names.is_empty() {
            return all;
        }
        let index_of = FrameIndex::find(trace, found);
        for instant in &trace.instants {
            let is_verdict = instant.pid == process.pid
                && names.has(instant.name)
                && trace.names.text(instant.category) == FRAME_CATEGORY;
            if !is_verdict {
                continue;
            }
            let read = read(trace, instant);
            if matches!(read, Some(Read::Surface)) {
                continue;
            }
            let judged = read.and_then(|read| {
                let index = match read {
                    Read::Jank(id, _)
                    | Read::Metrics(Some(id), _)
                    | Read::Due(id, _)
                    | Read::Undrawn(id) => index_of.by_id(id),
                    Read::Metrics(None, metrics) => index_of.by_time(&metrics),
                    Read::Surface => None,
                }?;
                let begin_ns = found.get(index)?.ui.start_ns;
                let can_be = match read {
                    Read::Metrics(_, metrics) => {
                        has_been(metrics.placed(begin_ns).end_ns(), instant)
                    }
                    _ => true,
                };
                can_be.then_some((index, read, begin_ns))
            });
            match judged {
                Some((index, read, start_ns)) => {
                    all.frames.entry(index).or_default().add(read, start_ns);
                }
                None => all.left_out += 1,
            }
        }
        all
    }

    pub(crate) fn verdict(&self, index: usize) -> Option<&Verdict> {
        self.frames.get(&index)
    }

    /// True if the library had requested this frame's vsync, and saw no window draw.
    pub(crate) fn is_undrawn(&self, index: usize) -> bool {
        self.verdict(index).is_some_and(|verdict| verdict.is_undrawn)
    }
}

/// Frames of the views, by vsync id and by time.
struct FrameIndex {
    by_id: HashMap<i64, usize, Seeded>,
    /// Begin of `doFrame`, by time.
    by_time: Vec<(u64, usize)>,
}

impl FrameIndex {
    fn find(trace: &Trace, found: &[Found]) -> Self {
        let mut by_id: HashMap<i64, usize, Seeded> = HashMap::default();
        let mut by_time = Vec::new();
        for (index, frame) in found.iter().enumerate() {
            if frame.pipeline != Pipeline::Views {
                continue;
            }
            by_time.push((frame.ui.start_ns, index));
            if let Some(id) = frame.vsync_id {
                by_id.insert(id, index);
            }
        }
        let resynced = trace.names.select(|name| name.starts_with(RESYNCED));
        for thread in trace.threads.values().filter(|_| !resynced.is_empty()) {
            for slice in thread.named(&resynced) {
                let id = trace.names.text(slice.name).strip_prefix(RESYNCED);
                let id = id.and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
                let parent = thread.slices.get(slice.parent as usize);
                let frame =
                    parent.and_then(|parent| frame_id(trace.names.text(parent.name), DO_FRAME)?);
                let index = frame.and_then(|frame| by_id.get(&frame).copied());
                if let Some((id, index)) = id.zip(index) {
                    by_id.entry(id).or_insert(index);
                }
            }
        }
        Self { by_id, by_time }
    }

    fn by_id(&self, id: i64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Returns the first frame that began at or after the intended vsync, if it began before the frame's end.
    fn by_time(&self, metrics: &Metrics) -> Option<usize> {
        metrics.vsyncs_ns().find_map(|vsync_ns| {
            let earliest_ns = vsync_ns.saturating_sub(TOLERANCE_NS);
            let next = self.by_time.partition_point(|&(begin_ns, _)| begin_ns < earliest_ns);
            let &(begin_ns, index) = self.by_time.get(next)?;
            metrics.fits(vsync_ns, begin_ns).then_some(index)
        })
    }
}

impl Verdict {
    /// Adds a record about a frame that began at `begin_ns`. Of a frame's several windows the latest counts.
    fn add(&mut self, read: Read, begin_ns: u64) {
        match read {
            Read::Jank(_, one) => {
                let jank = self.jank.get_or_insert(one);
                jank.bits |= one.bits;
                if one.total_ns > jank.total_ns {
                    *jank = Jank { bits: jank.bits, ..one };
                }
            }
            Read::Metrics(_, one) => {
                let one = one.placed(begin_ns);
                let metrics = self.metrics.get_or_insert(one);
                if one.over_ns() > metrics.over_ns() {
                    *metrics = one;
                }
            }
            Read::Due(_, due) => self.due = Some(due),
            Read::Undrawn(_) => self.is_undrawn = true,
            Read::Surface => {}
        }
    }

    /// Replaces the frame's expected begin and deadline by those of its intended vsync, if that is known.
    pub(crate) fn expected(&self, found: Expected) -> Expected {
        if found.source == StartSource::Timeline {
            return found;
        }
        let source = StartSource::Platform;
        if let Some(metrics) = self.metrics.filter(|metrics| metrics.is_placed) {
            let start_ns = metrics.intended_ns;
            let period_ns = found.deadline_ns.saturating_sub(found.start_ns);
            let deadline_ns = start_ns.saturating_add(metrics.allowed_ns.unwrap_or(period_ns));
            return Expected { start_ns, source, deadline_ns };
        }
        // A frame that was due before has resynced to a later vsync, whose deadline is not its own.
        match self.due {
            Some(Due { vsync_ns, deadline_ns }) if vsync_ns <= found.start_ns + TOLERANCE_NS => {
                Expected { start_ns: vsync_ns.min(found.start_ns), source, deadline_ns }
            }
            _ => found,
        }
    }

    /// Judges the frame by the compositor's verdict, if there is one. It was due to begin at `start_ns`; its threads were done
    /// at `own_end_ns`.
    pub(crate) fn by_compositor(
        &self,
        start_ns: u64,
        own_end_ns: u64,
        period_ns: u64,
    ) -> Option<Judgement> {
        let Jank { bits, allowed_ns, total_ns, shown_late_ns } = self.jank?;
        let deadline_ns = start_ns.saturating_add(allowed_ns);
        let end_ns = start_ns.saturating_add(total_ns);
        let frame = Judgement::in_time(Evidence::Platform, end_ns, deadline_ns);
        if bits == 0 {
            return Some(frame);
        }
        let period_ns = period_ns.max(1);
        if bits & APPLICATION != 0 {
            let missed = shown_late_ns.map_or(0, |ns| ns.saturating_add(period_ns / 2) / period_ns);
            return Some(Judgement { outcome: Outcome::App, missed, ..frame }.late(period_ns));
        }
        let outcome = if bits & COMPOSER != 0 { Outcome::System } else { Outcome::Unknown };
        // Shown at a later vsync than the one it was made for: at the next one after the app's work at the earliest.
        let done_ns = end_ns.max(own_end_ns).saturating_sub(deadline_ns);
        let next_ns = || (done_ns / period_ns + 1).saturating_mul(period_ns);
        let late_ns = shown_late_ns.filter(|&ns| ns > done_ns).unwrap_or_else(next_ns);
        let end_ns = deadline_ns.saturating_add(late_ns);
        Some(Judgement { outcome, end_ns, ..frame }.late(period_ns))
    }

    /// Judges the frame by FrameMetrics, if that has a deadline. A frame whose vsync is unknown needs some time in the
    /// trace, to which its duration can be attributed.
    pub(crate) fn by_metrics(
        &self,
        start_ns: u64,
        own_end_ns: u64,
        period_ns: u64,
    ) -> Option<Judgement> {
        let metrics = self.metrics.filter(|one| one.is_placed || own_end_ns > start_ns)?;
        let allowed_ns = metrics.allowed_ns?;
        let over_ns = metrics.over_ns();
        let (deadline_ns, end_ns) = if metrics.is_placed {
            let start_ns = metrics.intended_ns;
            (start_ns.saturating_add(allowed_ns), start_ns.saturating_add(metrics.total_ns))
        } else {
            (own_end_ns.saturating_sub(over_ns), own_end_ns)
        };
        let frame = Judgement::in_time(Evidence::Platform, end_ns, deadline_ns);
        let late = Judgement { outcome: Outcome::App, ..frame }.late(period_ns);
        Some(if over_ns > 0 { late } else { frame })
    }
}
