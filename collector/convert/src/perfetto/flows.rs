//! Flows as Perfetto has them: ids at the slices that they leave and reach. Called by the writer, once for a trace.

use super::track_ids::hash;
use crate::arrows::slice_at;
use std::collections::{HashMap, HashSet};
use tracetee_trace::{FlowKind, Trace};

/// Ids of the flows that leave a slice, and of those that end at it.
type AtSlice = (Vec<u64>, Vec<u64>);

/// The flows of a trace.
#[derive(Default)]
pub(super) struct Flows {
    /// By the thread's key and the slice's place.
    at_slices: HashMap<(u32, u32), AtSlice>,
    /// Points of flows that are at no slice.
    loose: HashSet<usize>,
}

impl Flows {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut flows = Self::default();
        let continued = continued(trace);
        // Slices that the next points of flows come from.
        let mut sources: HashMap<u64, (u32, u32)> = HashMap::new();
        for (place, flow) in trace.flows.iter().enumerate() {
            let thread = trace.threads.get(&flow.thread);
            let next = flow.kind == FlowKind::EndAtNext;
            let Some(slice) = thread.and_then(|thread| slice_at(thread, flow.at_ns, next)) else {
                flows.loose.insert(place);
                continue;
            };
            let at = (flow.thread, slice);
            let id = flow_id(trace, place);
            match flow.kind {
                FlowKind::Start | FlowKind::Step => {
                    flows.at_slices.entry(at).or_default().0.push(id);
                    sources.insert(id, at);
                }
                // After an end Perfetto forgets the id: an end with later points has a flow of its own.
                FlowKind::End | FlowKind::EndAtNext => {
                    let source = sources.get(&id).filter(|_| continued.contains(&place));
                    let own = source.map(|&source| {
                        let own = hash(&[8, id, place as u64]);
                        flows.at_slices.entry(source).or_default().0.push(own);
                        own
                    });
                    flows.at_slices.entry(at).or_default().1.push(own.unwrap_or(id));
                }
            }
        }
        flows
    }

    /// Returns the flows of a slice, once.
    pub(super) fn take(&mut self, key: u32, place: u32) -> AtSlice {
        self.at_slices.remove(&(key, place)).unwrap_or_default()
    }

    /// True for a point that is at no slice.
    pub(super) fn is_loose(&self, place: usize) -> bool {
        self.loose.contains(&place)
    }
}

/// Places of points of flows that others follow before the id begins again.
fn continued(trace: &Trace) -> HashSet<usize> {
    let mut follows: HashSet<u64> = HashSet::new();
    let mut found = HashSet::new();
    for (place, flow) in trace.flows.iter().enumerate().rev() {
        let id = flow_id(trace, place);
        if follows.contains(&id) {
            found.insert(place);
        }
        if flow.kind == FlowKind::Start {
            follows.remove(&id);
        } else {
            follows.insert(id);
        }
    }
    found
}

/// Returns the id of a point's flow.
pub(super) fn flow_id(trace: &Trace, place: usize) -> u64 {
    trace.flows.get(place).map_or(0, |flow| {
        hash(&[6, flow.name.number().into(), flow.category.number().into(), flow.id])
    })
}
