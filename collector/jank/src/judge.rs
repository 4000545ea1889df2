//! Lateness of frames. [`Judgement`] is what any evidence says of one; by sections alone [`Verdict`] judges those of
//! pipelines other than the views.
//!
//! A loop that swaps buffers is held back by the display, so that a frame in time takes one period, or as many as the
//! game has chosen (30 frames a second on a display of 60 Hz: two). It is late when it misses a vsync of that cadence.
//! Flutter's two threads work at the same time, each with a period for its part.

use crate::found::Found;
use crate::frame::{Evidence, Outcome};
use crate::pipeline::Pipeline;
use std::collections::HashMap;
use tracetee_trace::Seeded;

/// Limit of a loop's cadence in periods: 10 frames a second at 60 Hz.
const MAX_CADENCE: u64 = 6;

/// Whether a frame was late, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) evidence: Evidence,
    pub(crate) outcome: Outcome,
    pub(crate) late: bool,
    /// Vsyncs at which the display showed an older frame; by sections whole periods.
    pub(crate) missed: u64,
    /// Time by which the frame had to be complete.
    pub(crate) deadline_ns: u64,
    /// Time at which it was.
    pub(crate) end_ns: u64,
    /// Name of the compositor that made it late.
    pub(crate) waited: Option<&'static str>,
}

impl Judgement {
    pub(crate) const fn in_time(evidence: Evidence, end_ns: u64, deadline_ns: u64) -> Self {
        let (outcome, late, missed, waited) = (Outcome::InTime, false, 0, None);
        Self { evidence, outcome, late, missed, deadline_ns, end_ns, waited }
    }

    /// The frame, marked as late. If nothing shows its end after the deadline, it is one period late.
    pub(crate) fn late(self, period_ns: u64) -> Self {
        let period_ns = period_ns.max(1);
        let end_ns = if self.end_ns > self.deadline_ns {
            self.end_ns
        } else {
            self.deadline_ns.saturating_add(period_ns)
        };
        let missed = (end_ns - self.deadline_ns).div_ceil(period_ns).max(self.missed);
        Self { late: true, end_ns, missed, ..self }
    }
}

/// The facts of a frame that say whether it is late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged {
    pub(crate) pipeline: Pipeline,
    /// Thread that begins it.
    pub(crate) tid: u32,
    /// True for a turn of a loop that the display holds back.
    pub(crate) is_loop: bool,
    /// Time on the thread that begins it.
    pub(crate) ui_ns: u64,
    /// Time on the thread that completes it, if it drew.
    pub(crate) draw_ns: Option<u64>,
    /// Time in total.
    pub(crate) dur_ns: u64,
    /// The display's refresh period then.
    pub(crate) period_ns: u64,
}

impl Judged {
    pub(crate) fn new(found: &Found, period_ns: u64) -> Self {
        Self {
            pipeline: found.pipeline,
            tid: found.ui_tid,
            is_loop: found.is_loop,
            ui_ns: found.ui.duration_ns(),
            draw_ns: found.draw_ns(),
            dur_ns: found.end_ns().saturating_sub(found.start_ns()),
            period_ns,
        }
    }
}

/// Periods that a frame of a loop takes when it is in time, by pipeline and thread.
#[derive(Debug, Default)]
pub(crate) struct Cadences(HashMap<(Pipeline, u32), u64, Seeded>);

impl Cadences {
    /// Finds the cadence of each loop: the median of its frames, in whole periods.
    pub(crate) fn find(frames: impl Iterator<Item = Judged>) -> Self {
        let mut all: HashMap<(Pipeline, u32), Vec<u64>, Seeded> = HashMap::default();
        for frame in frames.filter(|frame| frame.is_loop) {
            let taken = periods(frame.dur_ns, frame.period_ns);
            all.entry((frame.pipeline, frame.tid)).or_default().push(taken);
        }
        let median = |taken: &mut Vec<u64>| {
            taken.sort_unstable();
            taken.get(taken.len() / 2).copied().unwrap_or(1).clamp(1, MAX_CADENCE)
        };
        Self(all.iter_mut().map(|(&thread, taken)| (thread, median(taken))).collect())
    }

    /// Returns the cadence of a frame's loop.
    pub(crate) fn periods(&self, frame: &Judged) -> u64 {
        self.0.get(&(frame.pipeline, frame.tid)).copied().unwrap_or(1)
    }
}

/// A duration in periods, rounded.
fn periods(ns: u64, period_ns: u64) -> u64 {
    let period_ns = period_ns.max(1);
    ns.saturating_add(period_ns / 2) / period_ns
}

/// Lateness of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Missed vsyncs.
    pub(crate) dropped: u64,
    /// True if the frame is late at all.
    pub(crate) slow: bool,
    /// True if it misses a vsync that a viewer expects.
    pub(crate) janky: bool,
    /// Time beyond the budget.
    pub(crate) jank_ns: u64,
}

impl Verdict {
    /// Judges a frame.
    pub(crate) fn new(frame: &Judged, cadences: &Cadences) -> Self {
        let &Judged { dur_ns, period_ns, .. } = frame;
        if frame.is_loop {
            let cadence = cadences.periods(frame);
            let dropped = periods(dur_ns, period_ns).saturating_sub(cadence);
            let budget_ns = cadence.saturating_mul(period_ns);
            let is_late = dropped > 0;
            let jank_ns = if is_late { dur_ns.saturating_sub(budget_ns) } else { 0 };
            return Self { dropped, slow: is_late, janky: is_late, jank_ns };
        }
        if let (Pipeline::Flutter, Some(draw_ns)) = (frame.pipeline, frame.draw_ns) {
            // One period for each thread.
            let longer_ns = frame.ui_ns.max(draw_ns);
            let both_ns = period_ns.saturating_mul(2);
            let jank_ns = longer_ns.saturating_sub(period_ns).max(dur_ns.saturating_sub(both_ns));
            return Self {
                dropped: (dur_ns / period_ns.max(1)).saturating_sub(1),
                slow: jank_ns > 0,
                janky: dur_ns > both_ns,
                jank_ns,
            };
        }
        Self {
            dropped: dur_ns / period_ns.max(1),
            slow: dur_ns > period_ns,
            janky: dur_ns > period_ns.saturating_mul(2),
            jank_ns: dur_ns.saturating_sub(period_ns),
        }
    }
}
