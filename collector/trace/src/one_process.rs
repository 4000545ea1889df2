//! Reduces a trace to some of its processes.

use crate::kernel::{KernelEvent, KernelKind};
use crate::model::Trace;
use std::collections::BTreeSet;

impl Trace {
    /// Removes everything of other processes than these. Events of the kernel stay if they concern a thread that stays; those
    /// of processor clocks stay, too, because they concern all.
    pub fn keep_processes(&mut self, pids: &BTreeSet<u32>) {
        let is_kept = |pid: u32| pids.contains(&pid);
        self.threads.retain(|&key, thread| is_kept(thread.pid.unwrap_or(key)));
        self.processes.retain(|&pid, _| is_kept(pid));
        self.dumped.retain(|_, &mut (pid, _)| is_kept(pid));
        let tids = self.tids();
        let threads = &self.threads;
        self.counters.retain(|counter| is_kept(counter.pid));
        self.units.retain(|&(pid, _), _| is_kept(pid));
        self.instants.retain(|instant| is_kept(instant.pid));
        self.asyncs.retain(|one| is_kept(one.pid));
        self.flows.retain(|flow| threads.contains_key(&flow.thread));
        self.samples.retain(|sample| tids.contains(&sample.tid));
        self.frames.retain(|frame| is_kept(frame.pid));
        self.buffers.clear();
        self.kernel.retain(|event| concerns(event, &tids));
    }

    /// Returns the ids of all threads, also of those without events of their own.
    #[must_use]
    pub fn tids(&self) -> BTreeSet<u32> {
        self.threads.values().map(|thread| thread.tid).chain(self.dumped.keys().copied()).collect()
    }
}

fn concerns(event: &KernelEvent, tids: &BTreeSet<u32>) -> bool {
    let is_kept = |tid: u32| tids.contains(&tid);
    match event.kind {
        KernelKind::Switch { prev, next, .. } => is_kept(prev.tid) || is_kept(next.tid),
        KernelKind::Wake { task, .. } => is_kept(task.tid),
        KernelKind::Blocked { tid, .. }
        | KernelKind::Rename { tid, .. }
        | KernelKind::NewTask { tid, .. } => is_kept(tid),
        KernelKind::Transaction { pid, .. } => {
            is_kept(event.tid) || u32::try_from(pid).is_ok_and(is_kept)
        }
        KernelKind::Received { .. } => is_kept(event.tid),
        KernelKind::Frequency { .. }
        | KernelKind::FrequencyLimits { .. }
        | KernelKind::Idle { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::read;

    #[test]
    fn only_what_belongs_to_a_process_stays() {
        let text = " a-5 ( 5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n \
            b-6 ( 6) [000] ...1 1.000002: tracing_mark_write: B|6|y\n \
            b-6 ( 6) [000] ...1 1.000003: tracing_mark_write: S|6|z|1\n \
            a2-7 ( 5) [000] ...1 1.000004: tracing_mark_write: C|5|n|1\n \
            b-6 ( 6) [000] ...1 1.000005: tracing_mark_write: C|6|n|1\n";
        let mut trace = read(text.as_bytes()).unwrap();
        trace.keep_processes(&[5].into());
        assert_eq!(trace.threads.keys().copied().collect::<Vec<_>>(), [5, 7]);
        assert_eq!((trace.counters.len(), trace.asyncs.len()), (1, 0));
        assert_eq!(trace.pids(), [5].into());
    }
}
