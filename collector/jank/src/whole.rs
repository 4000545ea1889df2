//! What holds for the trace as a whole: sums over its frames, start-up, not responding.

use crate::app::App;
use crate::frames::{ASSUMED_RENDER_NS, Frame, FrameSlices, Level};
use crate::namer::Namer;
use serde::Serialize;
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, Trace};

/// Android: a main thread that is busy for so long does not respond.
const ANR_NS: u64 = 5_000_000_000;
/// A tap that is answered later is felt.
const LONG_NS: u64 = 100_000_000;
/// Android vitals: a session is slow when more than a quarter of its frames miss 20, or 30, a second.
const SLOW_SESSION_PERCENT: u64 = 25;
const OF_20_FPS_NS: u64 = 50_000_000;
const OF_30_FPS_NS: u64 = 33_333_333;

/// An outermost slice of the main thread that is long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongSlice {
    /// Its name.
    pub name: Arc<str>,
    /// When.
    pub start_ns: u64,
    /// How long.
    pub dur_ns: u64,
    /// Five seconds or more.
    pub anr: bool,
}

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
    pub(crate) fn of(frames: &[Frame]) -> Self {
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

pub(crate) fn long_slices(trace: &Trace, app: &App, namer: &Namer<'_>) -> Vec<LongSlice> {
    let main = trace.threads.get(&app.pid);
    let outermost = main.iter().flat_map(|thread| &thread.slices);
    outermost
        .filter(|slice| slice.parent == NO_PARENT)
        .filter_map(|slice| {
            let (name, dur_ns) = (Arc::clone(&namer.named(slice.name).name), slice.duration_ns());
            let is_frame = name.starts_with("Choreographer#doFrame");
            let anr = dur_ns >= ANR_NS;
            let is_long = anr || (dur_ns >= LONG_NS && !is_frame);
            is_long.then_some(LongSlice { name, start_ns: slice.start_ns, dur_ns, anr })
        })
        .collect()
}

/// From `bindApplication` to the end of the first `DrawFrame` behind it; without a render thread to that
/// of the first frame and the 5 ms that are assumed of one.
pub(crate) fn startup_ns(trace: &Trace, app: &App, frames: &FrameSlices) -> Option<u64> {
    let main = trace.threads.get(&app.pid)?;
    let bind =
        main.slices.iter().find(|slice| trace.names.text(slice.name) == "bindApplication")?;
    let behind = |start_ns: u64| start_ns >= bind.start_ns;
    let end_ns = if frames.has_render_thread {
        frames.draws.iter().find(|(_, draw)| behind(draw.start_ns))?.1.end_ns
    } else {
        let first = frames.found.iter().find(|found| behind(found.ui.start_ns))?;
        first.ui.end_ns + ASSUMED_RENDER_NS
    };
    Some(end_ns - bind.start_ns)
}
