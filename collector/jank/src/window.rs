//! The windows of a frame: which thread the frame waited for, from its begin to its end.

use crate::found::Found;
use crate::frame::{Evidence, Frame, Outcome};
use crate::thread_role::ThreadRole;
use tracetee_trace::NameId;

/// Name of the time that is assumed for a missing render thread.
const ASSUMED: &str = "(no render thread: 5 ms assumed)";
/// Name for the time of a frame that only FrameTimeline shows, and that the main thread did not pass to a render thread.
const UNSEEN: &str = "(no thread is known to draw it)";
/// Name of the time of such a frame that another process makes.
const MOVED: &str = "(another process moves its layer)";
/// Name of the time from the last thread's work to the end that FrameTimeline reports.
const GPU: &str = "(graphics processor)";
/// Name of the time in which a complete frame waited for the display.
pub(crate) const COMPOSITOR: &str = "(compositor)";
/// Names of such a time in which SurfaceFlinger's main thread was too late, by what it did most.
pub(crate) const COMPOSITOR_RAN: &str = "(compositor, which ran past the display's vsync)";
pub(crate) const COMPOSITOR_READY: &str =
    "(compositor, which had no processor until after the display's vsync)";
pub(crate) const COMPOSITOR_WAITED: &str =
    "(compositor, which was not done by the display's vsync)";
/// Name of such a time in which the display did not have the frame before yet.
pub(crate) const PENDING: &str = "(display, which the frame before still held)";

/// A part of a frame's time, and the thread whose work it was. The windows of a frame follow each other without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Role of the thread.
    pub(crate) role: ThreadRole,
    /// Key of the thread in the trace, or the name of time without one.
    pub(crate) thread: Result<u32, &'static str>,
    /// Begin.
    pub(crate) from_ns: u64,
    /// Begin of the thread's work on the frame, which lasts to the end; the end, if the thread was with earlier frames.
    pub(crate) own_from_ns: u64,
    /// End.
    pub(crate) to_ns: u64,
}

/// Returns the windows of a late frame; none for other frames, which are not needed.
pub(crate) fn of_late(frame: &Frame, found: &Found) -> Vec<Window> {
    if frame.jank_ns > 0 { windows(frame, found) } else { Vec::new() }
}

/// Returns the windows of a frame, from its begin to its end. Before its own first section, its thread was busy with
/// something else.
pub(crate) fn windows(frame: &Frame, found: &Found) -> Vec<Window> {
    let end_ns = frame.start_ns + frame.dur_ns;
    let (_, render) = found.pipeline.roles();
    let draw = found.last_draw();
    let mut windows = Vec::with_capacity(3);
    let mut now_ns = frame.start_ns;
    let mut push = |role, thread, begin_ns: u64, to_ns: u64| {
        let to_ns = to_ns.min(end_ns);
        if to_ns > now_ns {
            let own_from_ns = begin_ns.clamp(now_ns, to_ns);
            windows.push(Window { role, thread, from_ns: now_ns, own_from_ns, to_ns });
            now_ns = to_ns;
        }
    };
    let done_ns = frame.timeline.map_or(end_ns, |verdict| verdict.end_ns);
    match draw {
        // The main thread worked meanwhile, which delayed nothing.
        Some((tid, draw)) if found.is_behind => push(render, Ok(tid), draw.start_ns, draw.start_ns),
        _ => push(found.role, Ok(found.ui_tid), found.ui.start_ns, found.ui.end_ns),
    }
    match draw {
        Some((tid, draw)) => push(render, Ok(tid), draw.start_ns, draw.end_ns),
        None if found.is_moved => push(render, Err(MOVED), 0, done_ns),
        None if found.ui.name == NameId::NONE => push(render, Err(UNSEEN), 0, done_ns),
        None if frame.evidence == Evidence::Markers => push(render, Err(ASSUMED), 0, end_ns),
        None => {}
    }
    if let Some(gpu_ns) = found.gpu_ns {
        push(ThreadRole::Gpu, Err(GPU), 0, gpu_ns);
    }
    let is_app = matches!(frame.outcome, Outcome::InTime | Outcome::App);
    let is_pending = found.pending_ns.is_some_and(|at_ns| at_ns < end_ns);
    let waited = found.waited.unwrap_or(if is_pending { PENDING } else { COMPOSITOR });
    push(ThreadRole::Gpu, Err(if is_app { GPU } else { waited }), 0, end_ns);
    windows
}
