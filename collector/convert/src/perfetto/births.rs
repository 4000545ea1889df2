//! Times at which threads and processes begin. Called by the writer, once for a trace.

use super::pid_of;
use std::collections::HashMap;
use tracetee_trace::Trace;

/// Time of the first event of each thread and process. A descriptor is written at this time: at an earlier one, Perfetto
/// would treat the thread as different from the one in later kernel events.
#[derive(Default)]
pub(super) struct Births {
    threads: HashMap<u32, u64>,
    processes: HashMap<u32, u64>,
    /// The trace's last time: for those without any event.
    last_ns: u64,
}

impl Births {
    pub(super) fn new(trace: &Trace) -> Self {
        let last_ns = trace.span_ns.map_or(0, |(_, last)| last);
        let mut births = Self { last_ns, ..Self::default() };
        for (&key, thread) in &trace.threads {
            if let Some(slice) = thread.slices.first() {
                births.add(Some(key), pid_of(key, thread), slice.start_ns);
            }
        }
        let key = |key: u32| trace.threads.contains_key(&key).then_some(key);
        for one in &trace.asyncs {
            births.add(key(one.threads[0]), one.pid, one.start_ns);
        }
        for one in &trace.instants {
            births.add(key(one.thread), one.pid, one.at_ns);
        }
        for one in &trace.counters {
            births.add(key(one.thread), one.pid, one.at_ns);
        }
        for one in &trace.flows {
            let Some(thread) = trace.threads.get(&one.thread) else { continue };
            births.add(Some(one.thread), pid_of(one.thread, thread), one.at_ns);
        }
        // The states of all threads with one id are combined: those of the last thread count.
        for (&key, thread) in &trace.threads {
            if let (Some(state), false) = (thread.states.last(), births.threads.contains_key(&key))
            {
                births.add(Some(key), pid_of(key, thread), state.at_ns);
            }
        }
        births
    }

    fn add(&mut self, key: Option<u32>, pid: u32, at_ns: u64) {
        let process = self.processes.entry(pid).or_insert(at_ns);
        *process = at_ns.min(*process);
        if let Some(key) = key {
            let thread = self.threads.entry(key).or_insert(at_ns);
            *thread = at_ns.min(*thread);
        }
    }

    pub(super) fn thread(&self, key: u32) -> u64 {
        self.threads.get(&key).copied().unwrap_or(self.last_ns)
    }

    pub(super) fn process(&self, pid: u32) -> u64 {
        self.processes.get(&pid).copied().unwrap_or(self.last_ns)
    }
}
