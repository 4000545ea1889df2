//! Threads that have slices or samples, and the frames of samples, for [`crate::pprof`] and [`crate::stacks`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use tracetee_trace::{Sample, StackFrame, Thread, Trace};

/// A thread that has slices or samples of callstacks.
pub(crate) struct Caller<'a> {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) process: &'a str,
    pub(crate) thread: &'a str,
    /// The thread with its slices; `None` if only samples name it.
    pub(crate) slices: Option<&'a Thread>,
    /// The samples by time.
    pub(crate) samples: Vec<&'a Sample>,
}

impl Caller<'_> {
    /// Returns the thread's name with its id.
    pub(crate) fn label(&self) -> String {
        let name = if self.thread.is_empty() { "thread" } else { self.thread };
        format!("{name} ({})", self.tid)
    }
}

/// Returns the threads that have slices or samples.
pub(crate) fn callers(trace: &Trace) -> Vec<Caller<'_>> {
    // Threads of two processes may have the same id in JSON.
    let mut samples: BTreeMap<u32, BTreeMap<u32, Vec<&Sample>>> = BTreeMap::new();
    for sample in &trace.samples {
        let of_tid = samples.entry(sample.tid).or_default();
        of_tid.entry(sample.pid).or_default().push(sample);
    }
    let all = samples.values_mut().flat_map(BTreeMap::values_mut);
    all.for_each(|samples| samples.sort_by_key(|sample| sample.at_ns));
    let name_of = |pid: u32| trace.processes.get(&pid).map_or("", |one| trace.names.text(one.name));
    let mut callers: Vec<Caller<'_>> = Vec::new();
    for thread in trace.threads.values() {
        let pid = thread.pid.unwrap_or(thread.tid);
        let found = samples.get_mut(&thread.tid).and_then(|of_tid| match thread.pid {
            Some(pid) => of_tid.remove(&pid).or_else(|| of_tid.remove(&0)),
            None => of_tid.pop_first().map(|(_, samples)| samples),
        });
        let samples = found.unwrap_or_default();
        if thread.slices.is_empty() && samples.is_empty() {
            continue;
        }
        let (process, name) = (name_of(pid), thread.name(&trace.names));
        let slices = Some(thread);
        callers.push(Caller { pid, tid: thread.tid, process, thread: name, slices, samples });
    }
    let rest = samples.into_iter().flat_map(|(tid, of_tid)| {
        of_tid.into_iter().map(move |(pid, samples)| (tid, pid, samples))
    });
    for (tid, pid, samples) in rest {
        let process = name_of(pid);
        callers.push(Caller { pid, tid, process, thread: "", slices: None, samples });
    }
    callers
}

/// Limit of a sample's frames; outer ones are left out.
const MAX_FRAMES: usize = 1000;

/// Returns the frames of a sample, the innermost first.
pub(crate) fn frames<'a>(trace: &'a Trace, sample: &Sample) -> Vec<Cow<'a, str>> {
    let frames = trace.stacks.frames(sample.stack).take(MAX_FRAMES);
    frames.map(|frame| frame_name(trace, frame)).collect()
}

/// A frame's function; without one, its file and address.
fn frame_name(trace: &Trace, frame: StackFrame) -> Cow<'_, str> {
    match trace.names.text(frame.function) {
        "" => format!("{}+{:#x}", trace.names.text(frame.mapping), frame.rel_pc).into(),
        function => function.into(),
    }
}
