//! Frames of layers that no other pipeline draws: a video's, a camera's, or those of a `SurfaceView`.
//!
//! A producer queues buffers, each for a time of its own, and SurfaceFlinger takes them for the display: a frame lasts from the
//! time at which the display took the buffer before to that at which it took this one. [`crate::latches`] judges it.

use crate::buffers::{Layer, layers};
use crate::found::Found;
use crate::pipeline::Pipeline;
use crate::pipelines::by_timeline::slice;
use crate::process::Process;
use tracetee_trace::{Slice, Trace};

/// A layer that shows fewer buffers is not an animation.
const LEAST_SHOWN: usize = 12;
/// A layer without a new buffer for longer is paused: a video, and others, which may draw only when something changes.
const PAUSE_NS: u64 = 1_000_000_000;
const OTHER_PAUSE_NS: u64 = 200_000_000;
/// Begins or parts of the names of threads that queue a decoder's pictures: `CodecLooper`, `MediaCodec_loop`.
const CODEC: &str = "Codec";

/// Finds the frames of the layers whose buffers no thread that `is_taken` queues.
pub(super) fn find(trace: &Trace, process: &Process, is_taken: impl Fn(u32) -> bool) -> Vec<Found> {
    let mut found = Vec::new();
    let (own, views) = layers(trace, process);
    for layer in own.iter().chain(&views) {
        let by: Vec<u32> = layer.buffers.iter().filter_map(|one| Some(one.by?.0)).collect();
        if layer.latches.len() >= LEAST_SHOWN && !by.iter().any(|&tid| is_taken(tid)) {
            frames(trace, layer, &mut found);
        }
    }
    found
}

fn frames(trace: &Trace, layer: &Layer, found: &mut Vec<Found>) {
    let mut before_ns = None;
    let mut buffers = layer.buffers.iter().filter(|one| one.latch.is_some()).peekable();
    while let Some(buffer) = buffers.next() {
        // Of those that were taken at once the last is shown.
        let follower = buffers.peek().filter(|next| next.latch == buffer.latch);
        let Some(shown_ns) = layer.latched_ns(buffer).filter(|_| follower.is_none()) else {
            continue;
        };
        let before_ns = before_ns.replace(shown_ns);
        let Some((tid, start_ns)) = buffer.by else { continue };
        let name = trace.threads.get(&tid).map_or("", |thread| thread.name(&trace.names));
        let (pipeline, pause_ns) = if name.contains(CODEC) {
            (Pipeline::Video, PAUSE_NS)
        } else {
            (Pipeline::Surface, OTHER_PAUSE_NS)
        };
        let called_ns = before_ns.filter(|before_ns| shown_ns - before_ns <= pause_ns);
        let ui = Slice { name: layer.name, ..slice(start_ns, buffer.queued_ns) };
        found.push(Found { is_loop: true, called_ns, ..Found::new(pipeline, tid, None, ui) });
    }
}
