//! Sums over the frames of a trace: counts, levels, percentiles, slow sessions.

use crate::frames::{Frame, Level};
use serde::Serialize;

/// Android vitals: a session is slow when more than a quarter of its frames miss 20, or 30, frames a second.
const SLOW_SESSION_PERCENT: u64 = 25;
const OF_20_FPS_NS: u64 = 50_000_000;
const OF_30_FPS_NS: u64 = 33_333_333;

/// Sums over frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// How many.
    pub frames: u64,
    /// Longer than a period.
    pub slow: u64,
    /// Longer than two.
    pub janky: u64,
    /// Longer than 700 ms.
    pub frozen: u64,
    /// Vsyncs missed.
    pub dropped: u64,
    /// By Matrix's levels: best, normal, middle, high, frozen.
    pub levels: [u64; 5],
    /// What is over a period, of all.
    pub jank_ns: u64,
    /// All of their time.
    pub frame_ns: u64,
    /// Half, nine tenths, and 99 of 100 take no longer (nearest rank).
    pub p50_ns: u64,
    /// See `p50_ns`.
    pub p90_ns: u64,
    /// See `p50_ns`.
    pub p99_ns: u64,
    /// More than a quarter of the frames take longer than 50 ms.
    pub slow_session_20fps: bool,
    /// More than a quarter take longer than 33.3 ms.
    pub slow_session_30fps: bool,
}

impl Totals {
    pub(crate) fn from_frames(frames: &[Frame]) -> Self {
        let count =
            |is: fn(&Frame) -> bool| frames.iter().filter(|&frame| is(frame)).count() as u64;
        let sum = |of: fn(&Frame) -> u64| frames.iter().map(of).sum();
        let mut durations: Vec<u64> = frames.iter().map(|frame| frame.dur_ns).collect();
        durations.sort_unstable();
        let rank = |percent: usize| {
            let place = (durations.len() * percent).div_ceil(100).saturating_sub(1);
            durations.get(place).copied().unwrap_or(0)
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
