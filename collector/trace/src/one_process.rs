//! Reduces a trace to some of its processes.

use crate::event_text::EventText;
use crate::kernel::{KernelEvent, KernelKind};
use crate::model::Trace;
use crate::text::digits;
use std::collections::BTreeSet;

impl Trace {
    /// Removes everything that belongs to other processes. Events of the kernel stay if they concern a thread that stays;
    /// those of processor clocks also stay, because they concern all.
    pub fn keep_processes(&mut self, pids: &BTreeSet<u32>) {
        let is_kept = |pid: u32| pids.contains(&pid);
        self.threads.retain(|&key, thread| is_kept(thread.pid.unwrap_or(key)));
        self.processes.retain(|&pid, _| is_kept(pid));
        self.dumped.retain(|_, &mut (pid, _)| is_kept(pid));
        let tids = self.tids();
        self.retain_instants(|instant| is_kept(instant.pid));
        let threads = &self.threads;
        self.counters.retain(|counter| is_kept(counter.pid));
        self.units.retain(|&(pid, _), _| is_kept(pid));
        self.asyncs.retain(|one| is_kept(one.pid));
        self.flows.retain(|flow| threads.contains_key(&flow.thread));
        self.ends.retain(|end| threads.contains_key(&end.thread));
        self.samples.retain(|sample| match sample.pid {
            0 => tids.contains(&sample.tid),
            pid => is_kept(pid),
        });
        self.frames.retain(|frame| is_kept(frame.pid));
        self.buffers.clear();
        let mut kernel = std::mem::take(&mut self.kernel);
        kernel.retain(|event| self.concerns(event, &tids));
        self.kernel = kernel;
    }

    /// Returns the ids of all threads, including those without events.
    #[must_use]
    pub fn tids(&self) -> BTreeSet<u32> {
        self.threads.values().map(|thread| thread.tid).chain(self.dumped.keys().copied()).collect()
    }

    fn concerns(&self, event: &KernelEvent, tids: &BTreeSet<u32>) -> bool {
        match self.event_text(event) {
            Some(text) => tids.contains(&event.tid) || text_concerns(&text, tids),
            None => concerns(event, tids),
        }
    }
}

/// True for an event with the id of one of these threads in a field (`next_pid=12`), and for one of a processor.
fn text_concerns(text: &EventText<'_>, tids: &BTreeSet<u32>) -> bool {
    if matches!(text.event, "cpu_frequency" | "cpu_idle" | "cpu_frequency_limits") {
        return true;
    }
    let mut fields = memchr::memmem::find_iter(text.payload, b"pid=");
    fields.any(|at| {
        let id = text.payload.get(at + 4..).and_then(digits);
        id.and_then(|(id, _)| u32::try_from(id).ok()).is_some_and(|tid| tids.contains(&tid))
    })
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
        KernelKind::Received { .. } | KernelKind::Text { .. } => is_kept(event.tid),
        KernelKind::Frequency { .. }
        | KernelKind::FrequencyLimits { .. }
        | KernelKind::Idle { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Trace, read};

    #[test]
    fn events_of_a_text_stay_if_they_concern_a_thread_that_stays() {
        let text = " a-5 ( 5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n \
            b-6 ( 6) [001] d..2 1.000002: sched_waking: comm=a pid=5 prio=120 target_cpu=000\n \
            b-6 ( 6) [001] d..2 1.000003: sched_waking: comm=c pid=7 prio=120 target_cpu=000\n \
            b-6 ( 6) [001] d..2 1.000004: cpu_idle: state=0 cpu_id=1\n \
            a-5 ( 5) [002] dN.2 1.000005: ext4_da_write_begin: dev 1,2 ino 3\n \
            b-6 ( 6) [000] ...1 1.000006: print: 0xff: a note\n";
        assert!(read(text.as_bytes()).unwrap().kernel.is_empty());
        let mut trace = crate::text::read_for(text.as_bytes(), true).unwrap();
        assert_eq!(trace.kernel.len(), 5);
        let note = trace.event_text(&trace.kernel[4]).unwrap();
        assert_eq!((note.event, note.payload), ("tracing_mark_write", &b"a note"[..]));
        trace.keep_processes(&[5].into());
        let whole = crate::merge(&[(&trace, 0), (&Trace::default(), 0)]);
        for trace in [&trace, &whole] {
            let kept: Vec<_> =
                trace.kernel.iter().map(|event| trace.event_text(event).unwrap()).collect();
            let events: Vec<_> = kept.iter().map(|text| text.event).collect();
            assert_eq!(events, ["sched_waking", "cpu_idle", "ext4_da_write_begin"]);
            assert_eq!((kept[2].flags, kept[2].payload), (&b"dN.2"[..], &b"dev 1,2 ino 3"[..]));
            assert_eq!((trace.kernel[2].at_ns, trace.kernel[2].cpu), (1_000_005_000, 2));
        }
    }

    #[test]
    fn a_process_of_samples_alone_is_one_and_keeps_its_own() {
        let text = r#"{"traceEvents":[],"stackFrames":{"1":{"name":"f"}},"samples":[
            {"sf":1,"ts":5,"pid":4,"tid":1},{"sf":1,"ts":6,"pid":5,"tid":1}]}"#;
        let mut trace = crate::json::read(text.as_bytes()).unwrap();
        assert_eq!(trace.pids(), [4, 5].into());
        trace.keep_processes(&[4].into());
        assert_eq!(trace.samples.iter().map(|sample| sample.at_ns).collect::<Vec<_>>(), [5000]);
        assert_eq!(trace.pids(), [4].into());
    }

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
