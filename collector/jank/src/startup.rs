//! Start-up: from the binding of the application to its first drawn frame.

use crate::frames::{ASSUMED_RENDER_NS, FrameSlices};
use crate::process::Process;
use tracetee_trace::Trace;

/// Returns the time from `bindApplication` to the end of the next `DrawFrame`; without a render thread, to the end of the
/// next frame and the 5 ms that are assumed for one.
pub(crate) fn startup_ns(trace: &Trace, process: &Process, frames: &FrameSlices) -> Option<u64> {
    let main = trace.threads.get(&process.pid)?;
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
