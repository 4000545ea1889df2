//! Frames of games and GL apps: a thread that swaps buffers runs in a loop, and a frame lasts from one swap to the next.
//! If the thread itself waits for a vsync between them, as views did before `Choreographer`, it begins with that vsync; if
//! the trace does not show what woke a main thread, with the first section that draws.

use super::wakes::wakes;
use crate::deadline::gives_vsyncs;
use crate::found::Found;
use crate::pipeline::of_swap;
use tracetee_trace::{NO_PARENT, Slice, Thread, Trace, from_place, last_before};

/// A thread without a slice for longer is paused, and the next frame begins with its next slice.
const PAUSE_NS: u64 = 200_000_000;
/// A thread that swaps less often draws no animation.
const LEAST_SWAPS: usize = 3;
/// Sections of views that draw on the main thread, as they did before Android 5. Between frames it waits for work.
const VIEWS: [&str; 3] = ["performTraversals", "dequeueBuffer", "eglBeginFrame"];

/// The frames of a thread, one for each swap; none if it swaps a few times only.
pub(super) fn find(trace: &Trace, tid: u32, thread: &Thread) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    // End of the last frame, and of the last outermost slice.
    let mut last_end_ns = None;
    let mut busy_ns = 0;
    let mut resumed_ns = None;
    for slice in &thread.slices {
        let is_outermost = slice.parent == NO_PARENT;
        if is_outermost && slice.start_ns.saturating_sub(busy_ns) > PAUSE_NS {
            resumed_ns = Some(slice.start_ns);
        }
        if is_outermost {
            busy_ns = slice.end_ns;
        }
        let Some(pipeline) = of_swap(trace.names.text(slice.name)) else { continue };
        // One inside of another is the same swap.
        if last_end_ns.is_some_and(|end_ns| slice.start_ns < end_ns) {
            continue;
        }
        let after = last_end_ns.unwrap_or(slice.start_ns);
        let start_ns = resumed_ns.take().filter(|_| last_end_ns.is_some()).unwrap_or(after);
        last_end_ns = Some(slice.end_ns);
        let frame = Slice { start_ns: start_ns.max(after), ..*slice };
        found.push(Found { is_loop: true, ..Found::new(pipeline, tid, None, frame) });
    }
    if found.len() < LEAST_SWAPS {
        return Vec::new();
    }
    let outermost: Vec<&Slice> =
        thread.slices.iter().filter(|slice| slice.parent == NO_PARENT).collect();
    let is_main = thread.pid.is_none_or(|pid| pid == tid);
    let drawn_ns = |frame: Slice| {
        let later = from_place(&outermost, |slice| slice.start_ns < frame.start_ns);
        let mut later = later.iter().filter(|_| is_main);
        let draws = later.find(|slice| VIEWS.contains(&trace.names.text(slice.name)))?;
        Some(draws.start_ns).filter(|&begin_ns| begin_ns < frame.end_ns)
    };
    for frame in &mut found {
        let begin_ns = vsync(trace, thread, &outermost, frame.ui).or_else(|| drawn_ns(frame.ui));
        frame.ui.start_ns = begin_ns.unwrap_or(frame.ui.start_ns);
    }
    found
}

/// Returns the last time within a frame at which SurfaceFlinger woke the thread for a vsync outside of all slices.
fn vsync(trace: &Trace, thread: &Thread, outermost: &[&Slice], frame: Slice) -> Option<u64> {
    let is_idle = |at_ns: u64| {
        let before = last_before(outermost, |slice| slice.start_ns < at_ns);
        before.is_none_or(|slice| slice.end_ns <= at_ns)
    };
    let is_vsync = |waker: u32| {
        let waker = trace.threads.get(&waker)?;
        Some(gives_vsyncs(waker.name(&trace.names)))
    };
    let wakes = wakes(thread, frame.start_ns, frame.end_ns);
    let vsyncs = wakes.filter(|wake| is_vsync(wake.waker) == Some(true) && is_idle(wake.at_ns));
    vsyncs.last().map(|wake| wake.at_ns)
}
