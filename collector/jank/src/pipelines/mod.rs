//! Pipelines: the ways in which an app makes frames, and their frames.
//!
//! Android's views and Compose draw from `Choreographer#doFrame` ([`crate::frames`]). Here are those that do not:
//! Flutter ([`flutter`]), games and GL apps ([`swaps`], [`unity`]), videos and other layers ([`video`]), React Native's
//! JavaScript ([`react_native`]), and frames of the views without sections ([`by_timeline`]).
//! [`find`] appends their frames to those of the views; [`crate::judge`] says which of them are late.

mod by_timeline;
mod flutter;
pub(crate) use flutter::{Role, engine_thread};
mod react_native;
mod summary;
mod swaps;
mod unity;
mod unmarked;
mod video;
mod wakes;

pub use summary::PipelineTotals;
pub(crate) use summary::by_pipeline;

use crate::found::Found;
use crate::pipeline::Pipeline;
use crate::process::{Process, is_compositor};
use std::collections::{BTreeMap, HashSet};
use tracetee_trace::{Seeded, Thread, Trace};

/// Appends the frames of all other pipelines of the process to those of the views, and sorts them by their begin.
pub(crate) fn find(trace: &Trace, process: &Process, found: &mut Vec<Found>) {
    if is_compositor(trace, process.pid, &process.name) {
        return;
    }
    let own: BTreeMap<u32, &Thread> = process.threads(trace).collect();
    let mut others = flutter::find(trace, &own);
    let raster: HashSet<u32, Seeded> = others.iter().flat_map(Found::tids).collect();
    others.extend(unity::find(trace, &own));
    let is_taken = |tid: &u32| process.render_tids.contains(tid) || raster.contains(tid);
    let has_unity = others.iter().any(|frame| frame.pipeline == Pipeline::Unity);
    let swapping = own.iter().filter(|(tid, _)| !is_taken(tid) && !has_unity);
    swapping.for_each(|(&tid, thread)| others.extend(swaps::find(trace, tid, thread)));
    let has_drawn = others.iter().any(|frame| frame.pipeline != Pipeline::ReactNative);
    let mut taken: HashSet<u32, Seeded> = others.iter().flat_map(Found::tids).collect();
    taken.extend(&process.render_tids);
    others.extend(video::find(trace, process, |tid| taken.contains(&tid)));
    others.extend(react_native::find(trace, &own));
    if found.is_empty() && !has_drawn {
        *found = by_timeline::find(trace, process);
    }
    if has_drawn {
        for frame in found.iter_mut().filter(|frame| !draws(trace, frame)) {
            frame.pipeline = Pipeline::VsyncCallback;
        }
    }
    found.append(&mut others);
    found.sort_by_key(|frame| frame.ui.start_ns);
}

/// True if something is laid out or drawn in a frame of the views.
pub(crate) fn draws(trace: &Trace, frame: &Found) -> bool {
    let draws = |name: &str| matches!(name, "traversal" | "performTraversals" | "draw");
    let (from_ns, to_ns) = (frame.ui.start_ns, frame.ui.end_ns);
    let slices = trace.threads.get(&frame.ui_tid).map_or(&[][..], |thread| &thread.slices);
    let first = slices.partition_point(|slice| slice.start_ns < from_ns);
    let mut inside = slices.iter().skip(first).take_while(|slice| slice.start_ns < to_ns);
    !frame.draws.is_empty() || inside.any(|slice| draws(trace.names.text(slice.name)))
}

#[cfg(test)]
mod tests;
