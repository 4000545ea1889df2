//! Events of the scheduler and of binder: states, sleeps, names of threads.

use super::Builder;
use crate::model::State;
use crate::names::NameId;
use crate::scheduling::{Blocked, Transaction};

impl Builder {
    /// The scheduler did something with a thread, which may be none of the trace's.
    pub(crate) fn state(&mut self, tid: u32, state: State) {
        if tid != 0 {
            self.states.entry(tid).or_default().push(state);
        }
    }

    /// Adds the reason of a thread's sleep.
    pub(crate) fn blocked(&mut self, tid: u32, blocked: Blocked) {
        if tid != 0 {
            self.blocked.entry(tid).or_default().push(blocked);
        }
    }

    /// Adds a binder transaction.
    pub(crate) fn sent(&mut self, transaction: Transaction) {
        self.trace.scheduling.sent(&mut self.pending, transaction);
    }

    /// A thread receives a binder transaction.
    pub(crate) fn received(&mut self, id: i32, at_ns: u64, tid: u32) {
        self.trace.scheduling.received(&mut self.pending, id, at_ns, tid);
    }

    /// Marks a sleeping thread as runnable.
    pub(crate) fn woken(&mut self, tid: u32, woken: State) {
        let last = self.states.get(&tid).and_then(|states| states.last());
        if last.is_none_or(|state| !matches!(state.kind, b'r' | b'R')) {
            self.state(tid, woken);
        }
    }

    /// Begins a thread. An earlier thread with the same id stays the same thread in the trace, which is counted.
    pub(crate) fn new_task(&mut self, tid: u32) {
        if self.states.contains_key(&tid) {
            self.not_read("new threads with the id of an earlier one, shown as one", 1);
        }
    }

    /// Makes threads of those that only the scheduler's events name.
    pub(crate) fn threads_of_states(&mut self) {
        let mut tids: Vec<u32> =
            self.states.keys().filter(|tid| !self.by_tid.contains_key(tid)).copied().collect();
        tids.sort_unstable();
        for tid in tids {
            self.thread(tid, None);
        }
    }

    /// The scheduler gives a thread this name, which may be none of the trace's.
    pub(crate) fn comm(&mut self, tid: u32, name: &[u8]) {
        let known = self.comms.get(&tid);
        if known.is_none_or(|&known| self.trace.names.text(known).as_bytes() != name) {
            let name = self.trace.names.id(name);
            self.comms.insert(tid, name);
        }
    }

    /// The same, with a name of the trace.
    pub(crate) fn comm_id(&mut self, tid: u32, name: NameId) {
        self.comms.insert(tid, name);
    }
}
