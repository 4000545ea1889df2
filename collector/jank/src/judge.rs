//! Lateness of the frames of pipelines other than the views.
//!
//! A loop that swaps buffers is held back by the display, so that a frame in time takes one period, or as many as the
//! game has chosen (30 frames a second on a display of 60 Hz: two). It is late when it misses a vsync of that cadence.
//! Flutter's two threads work at the same time, each with a period for its part.

use crate::pipeline::Pipeline;
use std::collections::HashMap;
use tracetee_trace::Seeded;

/// Limit of a loop's cadence in periods: 10 frames a second at 60 Hz.
const MAX_CADENCE: u64 = 6;

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
}

/// Periods that a frame of a loop takes when it is in time, by pipeline and thread.
#[derive(Debug, Default)]
pub(crate) struct Cadences(HashMap<(Pipeline, u32), u64, Seeded>);

impl Cadences {
    /// Finds the cadence of each loop: the median of its frames, in whole periods.
    pub(crate) fn find(frames: impl Iterator<Item = Judged>, period_ns: u64) -> Self {
        let mut durations: HashMap<(Pipeline, u32), Vec<u64>, Seeded> = HashMap::default();
        for frame in frames.filter(|frame| frame.is_loop) {
            durations.entry((frame.pipeline, frame.tid)).or_default().push(frame.dur_ns);
        }
        let cadence = |durations: &mut Vec<u64>| {
            durations.sort_unstable();
            let median_ns = durations.get(durations.len() / 2).copied().unwrap_or(0);
            periods(median_ns, period_ns).clamp(1, MAX_CADENCE)
        };
        Self(durations.iter_mut().map(|(&of, durations)| (of, cadence(durations))).collect())
    }

    fn of(&self, frame: &Judged) -> u64 {
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
    pub(crate) fn of(frame: &Judged, period_ns: u64, cadences: &Cadences) -> Self {
        let &Judged { dur_ns, .. } = frame;
        if frame.is_loop {
            let cadence = cadences.of(frame);
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
