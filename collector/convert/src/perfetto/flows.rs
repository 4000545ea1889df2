//! Flows in Perfetto's form: ids at the slices and instants that they leave and reach. Called by the writer, once for a
//! trace.

use super::track_ids::hash;
use crate::arrows::slice_of;
use std::collections::{HashMap, HashSet};
use tracetee_trace::{FlowKind, FlowRecord, Trace};

/// Ids of the flows that leave a record, and of those that end at it.
type AtRecord = (Vec<u64>, Vec<u64>);

/// The flows of a trace.
#[derive(Default)]
pub(super) struct Flows {
    /// Keyed by thread and record.
    at_records: HashMap<(u32, FlowRecord), AtRecord>,
    /// Points of flows that are at no record.
    pub(super) loose: HashSet<usize>,
}

impl Flows {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut flows = Self::default();
        let continued = continued(trace);
        // Records from which the next points of flows come.
        let mut sources: HashMap<u64, (u32, FlowRecord)> = HashMap::new();
        for (index, flow) in trace.flows.iter().enumerate() {
            let around = || slice_of(trace, flow).map(FlowRecord::Slice);
            let Some(record) = flow.record.or_else(around) else {
                flows.loose.insert(index);
                continue;
            };
            let at = (flow.thread, record);
            let id = flow_id(trace, index);
            match flow.kind {
                FlowKind::Start | FlowKind::Step => {
                    // A record that has the id twice would be a flow from itself to itself.
                    if sources.insert(id, at) != Some(at) {
                        flows.at_records.entry(at).or_default().0.push(id);
                    }
                }
                // After an end Perfetto forgets the id: an end with later points gets its own flow.
                FlowKind::End | FlowKind::EndAtNext => {
                    let source = sources.get(&id).filter(|_| continued.contains(&index));
                    let own = source.map(|&source| {
                        let own = hash(&[8, id, index as u64]);
                        flows.at_records.entry(source).or_default().0.push(own);
                        own
                    });
                    flows.at_records.entry(at).or_default().1.push(own.unwrap_or(id));
                }
            }
        }
        flows
    }

    /// Returns the flows of a record, once.
    pub(super) fn take(&mut self, key: u32, record: FlowRecord) -> AtRecord {
        self.at_records.remove(&(key, record)).unwrap_or_default()
    }
}

/// Places of flow points that others follow before the id is reused.
fn continued(trace: &Trace) -> HashSet<usize> {
    let mut follows: HashSet<u64> = HashSet::new();
    let mut found = HashSet::new();
    for (index, flow) in trace.flows.iter().enumerate().rev() {
        let id = flow_id(trace, index);
        if follows.contains(&id) {
            found.insert(index);
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
pub(super) fn flow_id(trace: &Trace, index: usize) -> u64 {
    trace.flows.get(index).map_or(0, |flow| {
        hash(&[6, flow.name.number().into(), flow.category.number().into(), flow.id])
    })
}
