//! The arrows of flows, each from a slice to a slice.

use std::collections::HashMap;
use tracetee_trace::{Flow, FlowKind, FlowRecord, NameId, Thread, Trace};

/// A slice: the thread's key, and the slice's index.
pub(crate) type SliceKey = (u32, u32);

/// Returns the arrows of a trace: each point of a flow but the first is reached from the last start or step.
pub(crate) fn arrows(trace: &Trace) -> Vec<(SliceKey, SliceKey)> {
    let mut sources: HashMap<(NameId, NameId, u64), SliceKey> = HashMap::new();
    let mut arrows = Vec::new();
    for flow in &trace.flows {
        let Some(slice) = slice_of(trace, flow) else { continue };
        let (id, at) = ((flow.name, flow.category, flow.id), (flow.thread, slice));
        if flow.kind != FlowKind::Start
            && let Some(&source) = sources.get(&id)
        {
            arrows.push((source, at));
        }
        if matches!(flow.kind, FlowKind::Start | FlowKind::Step) {
            sources.insert(id, at);
        }
    }
    arrows
}

/// The slice of a flow's point, or the slice around the instant that has the point.
pub(crate) fn slice_of(trace: &Trace, flow: &Flow) -> Option<u32> {
    let thread = trace.threads.get(&flow.thread)?;
    match flow.record {
        Some(FlowRecord::Slice(slice)) => Some(slice),
        _ => slice_at(thread, flow.at_ns, flow.kind == FlowKind::EndAtNext),
    }
}

/// The innermost slice of a thread around a time; or the next to begin.
fn slice_at(thread: &Thread, at_ns: u64, next: bool) -> Option<u32> {
    let later = thread.slices.partition_point(|slice| slice.start_ns <= at_ns);
    if next {
        let same = thread.slices.partition_point(|slice| slice.start_ns < at_ns);
        return thread.slices.get(same).and_then(|_| u32::try_from(same).ok());
    }
    let mut index = u32::try_from(later.checked_sub(1)?).ok()?;
    loop {
        let slice = thread.slices.get(index as usize)?;
        if slice.end_ns >= at_ns {
            return Some(index);
        }
        index = slice.parent;
    }
}
