//! The time for which the graphics processor works on a frame, as the app sees it: libgui has a thread that waits for each
//! frame's fence. Without it, what a complete frame waits for is the compositor's, or the display's: SurfaceFlinger skips a vsync
//! while the display does not have the frame before yet.

use crate::found::Found;
use crate::process::Process;
use tracetee_trace::{Slice, Trace};

/// Section of the thread that waits for the graphics processor after each frame (libgui, Android 9 and later), and the time
/// after the frame's draw until it begins.
const FENCE: &str = "waiting for GPU completion";
const FENCE_NS: u64 = 1_000_000;
/// Counter of SurfaceFlinger, 1 if it skips a vsync because the frame before is pending (Android 10 and later).
const PENDING: &str = "PrevFramePending";

/// Joins the waits for the graphics processor with the frames in whose draw they began, or soon after it.
pub(crate) fn join(trace: &Trace, process: &Process, found: &mut [Found]) {
    let names = trace.names.select(|name| name.starts_with(FENCE));
    let is_pending = trace.names.select(|name| name == PENDING);
    if names.is_empty() && is_pending.is_empty() {
        return;
    }
    let rises = trace.counters.iter().filter(|one| is_pending.has(one.name) && one.value > 0.0);
    let mut pending: Vec<u64> = rises.map(|one| one.at_ns).collect();
    pending.sort_unstable();
    let own = process.threads(trace);
    let mut waits: Vec<Slice> = own.flat_map(|(_, thread)| thread.named(&names).copied()).collect();
    waits.sort_by_key(|wait| wait.start_ns);
    for frame in found {
        let Some((_, draw)) = frame.last_draw() else { continue };
        let first = waits.partition_point(|wait| wait.start_ns < draw.start_ns);
        let wait = waits.get(first);
        let wait = wait.filter(|wait| wait.start_ns <= draw.end_ns.saturating_add(FENCE_NS));
        frame.gpu_ns = wait.map(|wait| wait.end_ns);
        let next = pending.partition_point(|&at_ns| at_ns < draw.end_ns);
        frame.pending_ns = pending.get(next).copied();
    }
}
