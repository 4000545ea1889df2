//! Threads that have slices or samples, their stacks of slices, and the frames of samples, for [`crate::pprof`].

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use tracetee_trace::{NO_PARENT, NameId, Sample, StackFrame, Thread, Trace};

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

/// Each stack of a thread, with the self time of its innermost slice.
pub(crate) fn stacks(thread: &Thread) -> Vec<(Vec<NameId>, u64)> {
    // Stacks are nodes of a tree: parent, name, own time, depth. Deeper slices count for the stack above.
    const MAX_DEPTH: u32 = 1000;
    let mut nodes: Vec<(usize, NameId, u64, u32)> = Vec::new();
    let mut places: HashMap<(usize, NameId), usize> = HashMap::new();
    let mut node_of: Vec<usize> = Vec::with_capacity(thread.slices.len());
    const ROOT: usize = usize::MAX;
    for slice in &thread.slices {
        let parent = match slice.parent {
            NO_PARENT => ROOT,
            parent => node_of.get(parent as usize).copied().unwrap_or(ROOT),
        };
        let depth = nodes.get(parent).map_or(0, |&(.., depth)| depth + 1);
        if depth >= MAX_DEPTH {
            node_of.push(parent);
            continue;
        }
        let node = *places.entry((parent, slice.name)).or_insert_with(|| {
            nodes.push((parent, slice.name, 0, depth));
            nodes.len() - 1
        });
        let took = slice.duration_ns();
        if let Some((_, _, own, _)) = nodes.get_mut(node) {
            *own = own.wrapping_add(took);
        }
        // A child's time is subtracted from its parent's; the final sum is right.
        if let Some((_, _, own, _)) = nodes.get_mut(parent) {
            *own = own.wrapping_sub(took);
        }
        node_of.push(node);
    }
    let stack = |mut node: usize| {
        let mut names = Vec::new();
        while let Some(&(parent, name, ..)) = nodes.get(node) {
            names.push(name);
            node = parent;
        }
        names.reverse();
        names
    };
    nodes
        .iter()
        .enumerate()
        .filter(|(_, (_, _, own, _))| *own > 0)
        .map(|(node, &(_, _, own, _))| (stack(node), own))
        .collect()
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
