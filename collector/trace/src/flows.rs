//! Flows of instants stay with them when instants change their places.

use crate::model::{FlowRecord, Instant, Trace};

impl Trace {
    /// Sorts the instants by time.
    pub(crate) fn sort_instants(&mut self) {
        if !self.instants.is_sorted_by_key(|one| one.at_ns) {
            self.move_instants(|instants| instants.sort_by_key(|(_, one)| one.at_ns));
        }
    }

    /// Removes instants.
    pub(crate) fn retain_instants(&mut self, is_kept: impl Fn(&Instant) -> bool) {
        self.move_instants(|instants| instants.retain(|(_, one)| is_kept(one)));
    }

    /// Changes the list of instants, each with its index before.
    fn move_instants(&mut self, change: impl FnOnce(&mut Vec<(usize, Instant)>)) {
        let mut instants: Vec<_> =
            std::mem::take(&mut self.instants).into_iter().enumerate().collect();
        let mut places: Vec<Option<u32>> = vec![None; instants.len()];
        change(&mut instants);
        for (index, (before, one)) in instants.into_iter().enumerate() {
            if let Some(moved) = places.get_mut(before) {
                *moved = u32::try_from(index).ok();
            }
            self.instants.push(one);
        }
        for flow in &mut self.flows {
            if let Some(FlowRecord::Instant(index)) = flow.record {
                let moved = places.get(index as usize).copied().flatten();
                flow.record = moved.map(FlowRecord::Instant);
            }
        }
    }
}
