//! React Native's JavaScript thread: a turn that takes longer than a frame leaves the screen without an answer.
//!
//! A turn is a stretch of work: outermost slices with less than a millisecond between them.

use crate::found::Found;
use crate::pipeline::Pipeline;
use std::collections::BTreeMap;
use tracetee_trace::{NO_PARENT, Thread, Trace};

/// Names of the JavaScript thread, of the old and of the new architecture.
const THREADS: [&str; 2] = ["mqt_js", "mqt_v_js"];
/// Slices that are this close belong to one turn.
const SAME_TURN_NS: u64 = 1_000_000;

pub(super) fn find(trace: &Trace, own: &BTreeMap<u32, &Thread>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (&tid, thread) in own {
        if !THREADS.contains(&thread.name(&trace.names)) {
            continue;
        }
        let first = found.len();
        for slice in thread.slices.iter().filter(|slice| slice.parent == NO_PARENT) {
            match found.get_mut(first..).and_then(<[Found]>::last_mut) {
                Some(turn) if slice.start_ns.saturating_sub(turn.ui.end_ns) < SAME_TURN_NS => {
                    turn.ui.end_ns = turn.ui.end_ns.max(slice.end_ns);
                }
                _ => found.push(Found::new(Pipeline::ReactNative, tid, None, *slice)),
            }
        }
    }
    found
}
