//! Unity's frames: one turn of `PlayerLoop`, and the swap that presents it, often on another thread.

use crate::found::Found;
use crate::pipeline::{Pipeline, UNITY_LOOP, of_swap};
use std::collections::BTreeMap;
use tracetee_trace::{Slice, Thread, Trace};

pub(super) fn find(trace: &Trace, own: &BTreeMap<u32, &Thread>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let loops = trace.names.select(|name| name == UNITY_LOOP);
    for (&tid, thread) in own {
        let first = found.len();
        for slice in thread.named(&loops) {
            let is_inside = found
                .get(first..)
                .and_then(<[Found]>::last)
                .is_some_and(|last| slice.start_ns < last.ui.end_ns);
            if !is_inside {
                let frame = Found::new(Pipeline::Unity, tid, None, *slice);
                found.push(Found { is_loop: true, ..frame });
            }
        }
    }
    found.sort_by_key(|frame| frame.ui.start_ns);
    if found.is_empty() {
        return found;
    }
    for (&tid, thread) in own {
        let is_swap = |slice: &&Slice| of_swap(trace.names.text(slice.name)).is_some();
        for slice in thread.slices.iter().filter(is_swap) {
            let index = found.partition_point(|frame| frame.ui.start_ns <= slice.start_ns);
            let frame = index.checked_sub(1).and_then(|index| found.get_mut(index));
            if let Some(frame) = frame.filter(|frame| frame.ui_tid != tid) {
                frame.draws.push((tid, *slice));
            }
        }
    }
    found
}
