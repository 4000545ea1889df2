//! Threads as sequences of calls, for the profile viewers' formats: [`crate::speedscope`], [`crate::firefox`], [`crate::pprof`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use tracetee_trace::{NameId, Sample, StackFrame, Thread, Trace};

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
    let mut samples: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
    for sample in &trace.samples {
        samples.entry(sample.tid).or_default().push(sample);
    }
    samples.values_mut().for_each(|samples| samples.sort_by_key(|sample| sample.at_ns));
    let name_of = |pid: u32| trace.processes.get(&pid).map_or("", |one| trace.names.text(one.name));
    let mut callers: Vec<Caller<'_>> = Vec::new();
    for (&key, thread) in &trace.threads {
        let samples = if key == thread.tid { samples.remove(&key) } else { None };
        let samples = samples.unwrap_or_default();
        if thread.slices.is_empty() && samples.is_empty() {
            continue;
        }
        let pid = thread.pid.unwrap_or(thread.tid);
        let (process, name) = (name_of(pid), thread.name(&trace.names));
        let slices = Some(thread);
        callers.push(Caller { pid, tid: thread.tid, process, thread: name, slices, samples });
    }
    for (tid, samples) in samples {
        let pid = samples.first().map_or(tid, |sample| sample.pid);
        let process = name_of(pid);
        callers.push(Caller { pid, tid, process, thread: "", slices: None, samples });
    }
    callers
}

/// A step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A slice begins.
    Enter(NameId),
    /// The innermost slice, which has this name, ends.
    Leave(NameId),
}

/// Returns the steps of a thread by time; they nest.
pub(crate) fn steps(thread: &Thread) -> Vec<(u64, Step)> {
    let mut steps: Vec<(u64, Step)> = Vec::with_capacity(2 * thread.slices.len());
    let mut open: Vec<u32> = Vec::new();
    let mut push = |at_ns: u64, step| {
        let last_ns = steps.last().map_or(0, |&(last_ns, _)| last_ns);
        steps.push((at_ns.max(last_ns), step));
    };
    for (place, slice) in (0_u32..).zip(&thread.slices) {
        while let Some(done) = open.pop_if(|last| *last != slice.parent) {
            if let Some(done) = thread.slices.get(done as usize) {
                push(done.end_ns, Step::Leave(done.name));
            }
        }
        open.push(place);
        push(slice.start_ns, Step::Enter(slice.name));
    }
    while let Some(done) = open.pop() {
        if let Some(done) = thread.slices.get(done as usize) {
            push(done.end_ns, Step::Leave(done.name));
        }
    }
    steps
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

/// Returns the first time of the trace, from which the formats count.
pub(crate) fn first_ns(trace: &Trace) -> u64 {
    let of_samples = trace.samples.iter().map(|sample| sample.at_ns).min();
    [trace.span_ns.map(|(first, _)| first), of_samples].into_iter().flatten().min().unwrap_or(0)
}
