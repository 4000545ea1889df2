//! Frames of games and GL apps: a thread that swaps buffers runs in a loop, and a frame lasts from one swap to the next.

use crate::frames::Found;
use crate::pipeline::of_swap;
use tracetee_trace::{NO_PARENT, Slice, Thread, Trace};

/// A thread without a slice for longer is paused, and the next frame begins with its next slice.
const PAUSE_NS: u64 = 200_000_000;
/// A thread that swaps less often draws no animation.
const LEAST_SWAPS: usize = 3;

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
    if found.len() < LEAST_SWAPS { Vec::new() } else { found }
}
