//! Sums over the frames of a trace: counts, levels, percentiles, slow sessions.

use crate::frame::{Evidence, Frame, Level, Outcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// Android vitals: a session is slow when more than a quarter of its frames miss 20, or 30, frames a second.
const SLOW_SESSION_PERCENT: u64 = 25;
const OF_20_FPS_NS: u64 = 50_000_000;
const OF_30_FPS_NS: u64 = 33_333_333;

/// Sums over frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Number of frames.
    pub frames: u64,
    /// Late frames: the display missed a vsync for them; without evidence of that, complete after their deadline.
    pub slow: u64,
    /// Janky frames; see [`Frame::janky`].
    pub janky: u64,
    /// Frames longer than 700 ms.
    pub frozen: u64,
    /// Missed vsyncs; of frames judged by markers, whole periods beyond one.
    pub dropped: u64,
    /// Frames by Matrix's levels: best, normal, middle, high, frozen.
    pub levels: [u64; 5],
    /// Time of all frames beyond one period.
    pub jank_ns: u64,
    /// Duration of all frames.
    pub frame_ns: u64,
    /// 50th percentile of durations (nearest rank).
    pub p50_ns: u64,
    /// See `p50_ns`.
    pub p90_ns: u64,
    /// See `p50_ns`.
    pub p99_ns: u64,
    /// True if more than a quarter of the frames take longer than 50 ms.
    pub slow_session_20fps: bool,
    /// True if more than a quarter of the frames take longer than 33.3 ms.
    pub slow_session_30fps: bool,
}

/// Sums over the frames that one kind of evidence judges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// Number of frames.
    pub frames: u64,
    /// Late frames; by [`Evidence::Markers`] those that took longer than one period.
    pub late: u64,
    /// Late frames for which the display missed a vsync; by [`Evidence::Markers`] an estimate.
    pub missed: Missed,
    /// Missed vsyncs; by [`Evidence::Markers`] whole periods beyond one.
    pub dropped: u64,
    /// Frames by their way to the display.
    pub outcomes: BTreeMap<Outcome, u64>,
}

/// A number of frames, and its interval of 95 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// Most likely number.
    pub likely: u64,
    /// Lower end.
    pub least: u64,
    /// Upper end.
    pub most: u64,
}

/// Shares, per mille, of frames over one period for which the display missed a vsync, with Wilson's interval of 95 %: those that
/// are over it by less than 0.6 periods (0 of 24 frames), by less than [`CERTAIN`] periods (21 of 37), and the others, which no
/// queue of buffers hides. Measured on nine apps in public traces that show the display, with the app's sections alone. With any
/// app left out the others predict its number within this interval; its share within 10 points, if it has four such frames.
const JUST_OVER: Missed = Missed { likely: 0, least: 0, most: 138 };
const FAR_OVER: Missed = Missed { likely: 568, least: 409, most: 713 };
const SURE: Missed = Missed { likely: 1_000, least: 1_000, most: 1_000 };
const CERTAIN: u64 = 3;

impl Judged {
    /// Sums up frames by evidence, the most exact first.
    pub(crate) fn by_evidence<'a>(
        frames: impl Iterator<Item = &'a Frame>,
        period_ns: u64,
    ) -> BTreeMap<Evidence, Self> {
        let mut all: BTreeMap<Evidence, Self> = BTreeMap::new();
        // The variance of a capture's own number, whose share of missed vsyncs varies randomly.
        let (mut variance, mut sure) = (0, 0);
        for frame in frames {
            let sum = all.entry(frame.evidence).or_default();
            sum.frames += 1;
            sum.dropped += frame.dropped;
            *sum.outcomes.entry(frame.outcome).or_default() += 1;
            if frame.slow {
                sum.late += 1;
                let missed = match frame.evidence {
                    Evidence::Markers if frame.jank_ns < (period_ns * 3).div_ceil(5) => JUST_OVER,
                    Evidence::Markers if frame.jank_ns < CERTAIN * period_ns => FAR_OVER,
                    _ => SURE,
                };
                variance += missed.likely * (1_000 - missed.likely);
                sure += u64::from(missed == SURE && frame.evidence == Evidence::Markers);
                sum.missed.add(missed);
            }
        }
        for (&evidence, judged) in &mut all {
            let Missed { likely, least, most } = judged.missed;
            let by_markers = evidence == Evidence::Markers;
            let (variance, sure) = if by_markers { (variance, sure) } else { (0, 0) };
            let with_chance = |error: u64| (error * error + 4 * variance).isqrt();
            let least = likely.saturating_sub(with_chance(likely - least));
            let most = (likely + with_chance(most - likely)).min(judged.late * 1_000);
            // The interval has every number that is within it in part: one frame is 0 to 1 of them.
            let (least, most) = ((least / 1_000).max(sure), most.div_ceil(1_000));
            judged.missed = Missed { likely: (likely + 500) / 1_000, least, most };
        }
        all
    }
}

impl Missed {
    fn add(&mut self, other: Self) {
        self.likely += other.likely;
        self.least += other.least;
        self.most += other.most;
    }
}

impl Totals {
    pub(crate) fn from_frames<'a>(frames: impl Iterator<Item = &'a Frame>) -> Self {
        let frames: Vec<&Frame> = frames.collect();
        let count = |is: fn(&Frame) -> bool| frames.iter().filter(|frame| is(frame)).count() as u64;
        let sum = |field: fn(&Frame) -> u64| frames.iter().map(|frame| field(frame)).sum();
        let mut durations: Vec<u64> = frames.iter().map(|frame| frame.dur_ns).collect();
        durations.sort_unstable();
        let rank = |percent: usize| {
            let index = (durations.len() * percent).div_ceil(100).saturating_sub(1);
            durations.get(index).copied().unwrap_or(0)
        };
        let misses = |limit_ns: u64| {
            let late = durations.iter().filter(|&&dur_ns| dur_ns > limit_ns).count() as u64;
            late * 100 > durations.len() as u64 * SLOW_SESSION_PERCENT
        };
        Self {
            frames: frames.len() as u64,
            slow: count(|frame| frame.slow),
            janky: count(|frame| frame.janky),
            frozen: count(|frame| frame.frozen),
            dropped: sum(|frame| frame.dropped),
            levels: Level::ALL
                .map(|level| frames.iter().filter(|frame| frame.level == level).count() as u64),
            jank_ns: sum(|frame| frame.jank_ns),
            frame_ns: sum(|frame| frame.dur_ns),
            p50_ns: rank(50),
            p90_ns: rank(90),
            p99_ns: rank(99),
            slow_session_20fps: misses(OF_20_FPS_NS),
            slow_session_30fps: misses(OF_30_FPS_NS),
        }
    }
}
