//! What a trace holds. Times are nanoseconds of the trace's own clock.

use crate::names::{NameId, Names};
use std::collections::BTreeMap;

/// A slice that was open when the trace ended has this end until [`crate::read`] closes it.
pub const UNFINISHED: u64 = u64::MAX;
/// The parent of an outermost slice.
pub const NO_PARENT: u32 = u32::MAX;
/// No time lies behind this one, 285 years: what says so is wrong.
pub(crate) const MAX_NS: u64 = 9_000_000_000_000_000_000;
/// Keys from here on are no thread ids: more than any kernel gives.
pub const FIRST_KEY: u32 = 1 << 30;

/// A trace.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Trace {
    /// All names.
    pub names: Names,
    /// By process id: what is known of it besides its threads.
    pub processes: BTreeMap<u32, Process>,
    /// By thread id: process and name of each thread that a PROCESS DUMP lists, whether it has events or not.
    pub dumped: BTreeMap<u32, (u32, NameId)>,
    /// By key: the thread's id, or one from [`FIRST_KEY`] on where another thread has that id too.
    pub threads: BTreeMap<u32, Thread>,
    /// Values over time, in the order of the file.
    pub counters: Vec<Counter>,
    /// Points in time.
    pub instants: Vec<Instant>,
    /// Slices that need not nest: S and F, G and H.
    pub asyncs: Vec<Async>,
    /// Arrows between slices.
    pub flows: Vec<Flow>,
    /// What the agent says of a capture: the JSON of its `# tracetee: {…}` lines, the later over the
    /// earlier.
    pub about: serde_json::Map<String, serde_json::Value>,
    /// First and last time in it.
    pub span_ns: Option<(u64, u64)>,
    /// Milliseconds since 1970 of a point in time, from `trace_event_clock_sync: realtime_ts`.
    pub realtime: Option<(u64, u64)>,
    /// Events that are no markers, by name: sched_switch …
    pub kernel_events: BTreeMap<String, u64>,
    /// What was there and is not in it.
    pub losses: Losses,
}

impl Trace {
    /// How many slices it has.
    #[must_use]
    pub fn slice_count(&self) -> u64 {
        self.threads.values().map(|thread| thread.slices.len() as u64).sum()
    }

    /// The process that the agent's header names: its id and name.
    #[must_use]
    pub fn process_of_header(&self) -> Option<(u32, &str)> {
        let pid = self.about.get("pid")?.as_u64()?;
        let name = self.about.get("process").or_else(|| self.about.get("app"))?.as_str()?;
        (!name.is_empty()).then_some((u32::try_from(pid).ok()?, name))
    }

    /// Gives the header's process its name, unless something else has.
    pub(crate) fn name_process_of_header(&mut self) {
        let Some((pid, name)) = self.process_of_header() else { return };
        let name = name.to_owned();
        if !self.processes.contains_key(&pid) {
            let name = self.names.id(name.as_bytes());
            self.processes.insert(pid, Process { name });
        }
    }
}

/// A process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: NameId,
}

/// A thread.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id. Ids are given again when a thread has ended.
    pub tid: u32,
    /// Its process, where a line said so: the TGID column, or its markers.
    pub pid: Option<u32>,
    /// Its names, each with the time from which it had it.
    pub names: Vec<(u64, NameId)>,
    /// In the order of their begins: parents before children.
    pub slices: Vec<Slice>,
    /// The thread's own processor time at each slice's begin and end, ns; empty, or one for each slice, two
    /// zeros where it is not known.
    pub cpu_ns: Vec<(u64, u64)>,
    /// What slices say besides their name: JSON, by place.
    pub args: BTreeMap<u32, NameId>,
    /// What the scheduler did with it, by time.
    pub states: Vec<State>,
}

impl Thread {
    /// The name that it had last.
    #[must_use]
    pub fn name<'a>(&self, names: &'a Names) -> &'a str {
        self.names.last().map_or("", |&(_, name)| names.text(name))
    }
}

/// What a thread does from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// From then on.
    pub at_ns: u64,
    /// `r`: running; else as ps has it: R (runnable), S (sleeps), D (waits for a disk, mostly) …
    pub kind: u8,
}

/// A section of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// What it is called.
    pub name: NameId,
    /// Dart's stream, Chrome's category; mostly none.
    pub category: NameId,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The slice around it: its place in [`Thread::slices`], or [`NO_PARENT`].
    pub parent: u32,
    /// Whether its end was there. Otherwise it was closed where the slice around it ended, or at the thread's last
    /// event.
    pub ended: bool,
}

impl Slice {
    /// How long it took.
    #[must_use]
    pub const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A value at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The thread that wrote it: its key.
    pub thread: u32,
    /// Its process.
    pub pid: u32,
    /// What it is called.
    pub name: NameId,
    /// When.
    pub at_ns: u64,
    /// Its value from then on.
    pub value: i64,
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// The thread that wrote it: its key.
    pub thread: u32,
    /// Its process.
    pub pid: u32,
    /// The track it is on, if on one.
    pub track: Option<NameId>,
    /// What it is called.
    pub name: NameId,
    /// As [`Slice::category`].
    pub category: NameId,
    /// What it says besides: JSON.
    pub args: NameId,
    /// When.
    pub at_ns: u64,
}

/// A slice that need not nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Async {
    /// The threads that wrote its begin and its end: their keys.
    pub threads: [u32; 2],
    /// Its process.
    pub pid: u32,
    /// The track it is on, if on one.
    pub track: Option<NameId>,
    /// What it is called.
    pub name: NameId,
    /// As [`Slice::category`].
    pub category: NameId,
    /// What it says besides: JSON.
    pub args: NameId,
    /// What tells it from others of the name.
    pub cookie: i64,
    /// When it began.
    pub start_ns: u64,
    /// When it ended; [`UNFINISHED`] if it did not.
    pub end_ns: u64,
}

/// A point of an arrow from slice to slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The thread whose slice it is at: its key.
    pub thread: u32,
    /// What it is called.
    pub name: NameId,
    /// As [`Slice::category`].
    pub category: NameId,
    /// What ties the points of an arrow together, with name and category.
    pub id: u64,
    /// Which point.
    pub kind: FlowKind,
    /// When.
    pub at_ns: u64,
}

/// Which point of an arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowKind {
    /// Where it leaves.
    Start,
    /// Where it goes through.
    Step,
    /// Where it arrives: at the slice around that time.
    End,
    /// Where it arrives: at the next slice to begin.
    EndAtNext,
}

/// What was there and is not in the trace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Losses {
    /// Lines (JSON: events; method traces: records) read.
    pub lines: u64,
    /// Lines that could not be understood.
    pub bad_lines: u64,
    /// The first of them.
    pub shown: Vec<BadLine>,
    /// Ends without a begin.
    pub unmatched_ends: u64,
    /// Sections that were open at the end.
    pub unclosed: u64,
    /// Async ends without a begin.
    pub unmatched_async_ends: u64,
    /// Async slices that were open at the end.
    pub unclosed_asyncs: u64,
    /// Lines whose time lies before that of their thread's last one; taken to be at that.
    pub out_of_order: u64,
    /// Slices that overlap another of their thread and are not within it; cut.
    pub overlapping: u64,
    /// Values of counters that are no whole numbers; rounded.
    pub rounded: u64,
    /// The file ended, or could not be read on: behind so many bytes of what it unpacks to, and why.
    pub truncated: Option<(u64, String)>,
}

/// Bad lines that are shown, and how much of each.
const MAX_SHOWN: usize = 20;
const SHOWN_BYTES: usize = 200;

impl Losses {
    pub(crate) fn bad(&mut self, number: u64, why: &'static str, line: &[u8]) {
        self.bad_lines += 1;
        if self.shown.len() < MAX_SHOWN {
            let line = line.get(..SHOWN_BYTES).unwrap_or(line);
            let text = String::from_utf8_lossy(line).into_owned();
            self.shown.push(BadLine { number, why, text });
        }
    }
}

/// A line that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub number: u64,
    /// What is wrong.
    pub why: &'static str,
    /// Its beginning.
    pub text: String,
}
