//! The model of a trace. Times are nanoseconds of the trace's own clock.

use crate::frames::{BufferEvent, TimelineFrame};
use crate::kernel::KernelEvent;
use crate::names::{NameId, NameSet, Names};
use crate::samples::{Sample, Stacks};
use crate::scheduling::{Blocked, Scheduling};
use crate::wall_clock::WallClock;
use std::collections::BTreeMap;
use tracetee_protocol::CaptureMeta;

/// End of a slice that was open at the end of the trace, until [`crate::read`] closes it.
pub const UNFINISHED: u64 = u64::MAX;
/// Parent of an outermost slice.
pub const NO_PARENT: u32 = u32::MAX;
/// Largest plausible time, 285 years; a later one is an error.
pub(crate) const MAX_NS: u64 = 9_000_000_000_000_000_000;
/// First key that is not a thread id; kernels give smaller ids.
pub const FIRST_KEY: u32 = 1 << 30;

/// A trace.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Trace {
    /// All names.
    pub names: Names,
    /// Processes by id.
    pub processes: BTreeMap<u32, Process>,
    /// Process and name of each thread in a PROCESS DUMP, by thread id, with or without events.
    pub dumped: BTreeMap<u32, (u32, NameId)>,
    /// Threads by key: the thread's id, or a number from [`FIRST_KEY`] if another thread has that id too.
    pub threads: BTreeMap<u32, Thread>,
    /// Counter values, in the order of the file.
    pub counters: Vec<Counter>,
    /// Instants.
    pub instants: Vec<Instant>,
    /// Slices that do not have to nest: S and F, G and H.
    pub asyncs: Vec<Async>,
    /// Points of flows between slices.
    pub flows: Vec<Flow>,
    /// Ends without a begin, which [`merge()`](crate::merge()) gives to slices that another trace has without an end.
    pub ends: Vec<LooseEnd>,
    /// Metadata of a capture: the JSON of the agent's `# tracetee: {…}` lines; later lines override
    /// earlier ones.
    pub about: CaptureMeta,
    /// True if it is a method trace: viewers colour its slices by inclusive time.
    pub is_of_methods: bool,
    /// First and last time.
    pub span_ns: Option<(u64, u64)>,
    /// The time of day at a time of the trace, from `trace_event_clock_sync: realtime_ts` or a clock snapshot.
    pub realtime: Option<WallClock>,
    /// Events of the kernel, by time: of Perfetto's traces, and of a text if it was read with them
    /// ([`crate::read_file_with_events`]).
    pub kernel: Vec<KernelEvent>,
    /// Flags and payloads of the events of a text, one after the other.
    pub kernel_text: Vec<u8>,
    /// Binder calls and processor clocks.
    pub scheduling: Scheduling,
    /// Frames as SurfaceFlinger sees them.
    pub frames: Vec<TimelineFrame>,
    /// Events of graphics buffers.
    pub buffers: Vec<BufferEvent>,
    /// Samples of callstacks.
    pub samples: Vec<Sample>,
    /// Callstacks of the samples.
    pub stacks: Stacks,
    /// Counters with several series: name of the counter and key of the series, by the combined name, as
    /// [`Counter::name`] does.
    pub series: BTreeMap<NameId, (NameId, NameId)>,
    /// Units of counters, by process and name.
    pub units: BTreeMap<(u32, NameId), NameId>,
    /// Installed packages.
    pub packages: Vec<Package>,
    /// Numbers of kernel events, by name: sched_switch …
    pub kernel_events: BTreeMap<String, u64>,
    /// Rows of a Perfetto trace that are read but that no writer reproduces exactly, by kind.
    pub reshaped: BTreeMap<&'static str, u64>,
    /// Errors in the file, and the data lost to them.
    pub losses: Losses,
}

impl Trace {
    /// Returns the number of slices.
    #[must_use]
    pub fn slice_count(&self) -> u64 {
        self.threads.values().map(|thread| thread.slices.len() as u64).sum()
    }

    /// Returns id and name of the process in the agent's metadata.
    #[must_use]
    pub fn process_of_header(&self) -> Option<(u32, &str)> {
        let name = self.about.process.as_ref().or(self.about.app.as_ref())?;
        (!name.is_empty()).then_some((self.about.pid?, name.as_str()))
    }

    /// Counts the records on tracks of process 0.
    pub(crate) fn of_process_0(&self) -> u64 {
        let counters =
            self.counters.iter().filter(|one| one.pid == 0 && one.scope == Scope::Process);
        let instants = self.instants.iter().filter(|one| one.pid == 0 && one.track.is_some());
        let asyncs = self.asyncs.iter().filter(|one| one.pid == 0);
        (counters.count() + instants.count() + asyncs.count()) as u64
    }

    /// Names the process of the agent's metadata, unless it has a name.
    pub(crate) fn name_process_of_header(&mut self) {
        let Some((pid, name)) = self.process_of_header() else { return };
        let name = name.to_owned();
        if !self.processes.contains_key(&pid) {
            let name = self.names.id(name.as_bytes());
            self.processes.insert(pid, Process { name });
        }
    }
}

/// An installed package.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Name of the package.
    pub name: NameId,
    /// User id of its processes.
    pub uid: u64,
    /// Version code.
    pub version: i64,
    /// True if it may be debugged.
    pub is_debuggable: bool,
    /// True if the shell may profile it.
    pub is_profileable: bool,
}

/// A process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Process {
    /// Name of the process.
    pub name: NameId,
}

/// A thread.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Thread id. The kernel reuses ids of threads that have ended.
    pub tid: u32,
    /// Process id, if the TGID column or a marker names it.
    pub pid: Option<u32>,
    /// Names of the thread, each with the time from which it is valid.
    pub names: Vec<(u64, NameId)>,
    /// Slices by begin: parents before children.
    pub slices: Vec<Slice>,
    /// Processor time of the thread at each slice's begin and end, ns: empty, or one pair for each slice, with
    /// zeros if unknown ([`Thread::cpu_of`]).
    pub cpu_ns: Vec<(u64, u64)>,
    /// Arguments of slices as JSON, by the slice's index.
    pub args: BTreeMap<u32, NameId>,
    /// Scheduler states, by time.
    pub states: Vec<State>,
    /// Reasons of sleeps, by time.
    pub blocked: Vec<Blocked>,
}

impl Thread {
    /// Returns the last name.
    #[must_use]
    pub fn name<'a>(&self, names: &'a Names) -> &'a str {
        self.names.last().map_or("", |&(_, name)| names.text(name))
    }

    /// Returns the processor time at a slice's begin and end, ns, where it is known.
    #[must_use]
    pub fn cpu_of(&self, index: u32) -> (Option<u64>, Option<u64>) {
        match self.cpu_ns.get(index as usize) {
            None | Some((0, 0)) => (None, None),
            Some(&(begin_ns, 0)) => (Some(begin_ns), None),
            Some(&(begin_ns, end_ns)) => (Some(begin_ns), Some(end_ns)),
        }
    }

    /// Returns the index in `blocked` of the reason of a sleep, the state at `index`: the kernel reports it at the
    /// wake-up, of which the trace may have no record, before the thread runs.
    #[must_use]
    pub fn sleep_reason(&self, index: usize) -> Option<u32> {
        let slept_ns = self.states.get(index)?.at_ns;
        let runs_ns = self.states.get(index + 2).map_or(u64::MAX, |state| state.at_ns);
        let found = self.blocked.partition_point(|reason| reason.at_ns <= slept_ns);
        let is_of_this = self.blocked.get(found)?.at_ns <= runs_ns;
        is_of_this.then(|| u32::try_from(found).ok())?
    }

    /// Iterates over the slices that have one of these names.
    pub fn named<'a>(&'a self, names: &'a NameSet) -> impl Iterator<Item = &'a Slice> + use<'a> {
        let slices = if names.is_empty() { &[] } else { &*self.slices };
        slices.iter().filter(|slice| names.has(slice.name))
    }
}

/// A scheduler state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Begin of the state.
    pub at_ns: u64,
    /// `r`: running; otherwise as in ps: R (runnable), S (sleeping), D (waiting, usually for a disk) …
    pub kind: u8,
    /// Processor of the event.
    pub cpu: u16,
    /// Id of the thread that woke a runnable thread, [`crate::INTERRUPT`], or [`crate::NO_WAKER`].
    pub waker: u32,
}

/// A section of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Name.
    pub name: NameId,
    /// Dart's stream or Chrome's category; usually empty.
    pub category: NameId,
    /// Begin.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Index of the surrounding slice in [`Thread::slices`], or [`NO_PARENT`].
    pub parent: u32,
    /// True if the trace has its end. Otherwise it was closed at the end of the surrounding slice, or at the
    /// thread's last event.
    pub ended: bool,
    /// True if one event of the trace has its begin and its end: an `X` of JSON, also without a duration.
    pub is_complete: bool,
}

impl Slice {
    /// Returns the duration.
    #[must_use]
    pub const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A value of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter {
    /// Key of the thread that wrote it.
    pub thread: u32,
    /// Process id.
    pub pid: u32,
    /// Name; for one of several series (see [`Trace::series`]) followed by its key, as in Perfetto.
    pub name: NameId,
    /// Time.
    pub at_ns: u64,
    /// Value from this time.
    pub value: f64,
    /// Owner of the counter.
    pub scope: Scope,
}

impl Counter {
    /// Returns an integer as a counter's value, and counts it if it has to be rounded.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the loss is what is counted"
    )]
    pub(crate) fn from_int(value: impl Into<i128>, losses: &mut Losses) -> f64 {
        let value = value.into();
        let real = value as f64;
        losses.rounded += u64::from(real as i128 != value);
        real
    }
}

/// Owner of a counter.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The process; none, if its id is 0.
    #[default]
    Process,
    /// The thread that wrote it.
    Thread,
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Key of the thread that wrote it.
    pub thread: u32,
    /// Process id.
    pub pid: u32,
    /// Track, if it has one.
    pub track: Option<NameId>,
    /// Name.
    pub name: NameId,
    /// Category, as in [`Slice::category`].
    pub category: NameId,
    /// Arguments as JSON.
    pub args: NameId,
    /// Time.
    pub at_ns: u64,
    /// Processor time of the thread, ns; 0 if unknown.
    pub cpu_ns: u64,
}

/// An asynchronous slice, which does not have to nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Async {
    /// Keys of the threads that wrote begin and end.
    pub threads: [u32; 2],
    /// Process id.
    pub pid: u32,
    /// Track, if it has one.
    pub track: Option<NameId>,
    /// Name.
    pub name: NameId,
    /// Category, as in [`Slice::category`].
    pub category: NameId,
    /// Arguments as JSON.
    pub args: NameId,
    /// Distinguishes it from others of the same name.
    pub cookie: i64,
    /// Begin.
    pub start_ns: u64,
    /// End; [`UNFINISHED`] if it has none.
    pub end_ns: u64,
}

/// An end without a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LooseEnd {
    /// Key of the thread that wrote it.
    pub thread: u32,
    /// Time.
    pub at_ns: u64,
    /// The async slice that it ends; otherwise the thread's innermost slice.
    pub key: Option<AsyncKey>,
}

/// Key that pairs an async end with its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AsyncKey {
    /// Process id.
    pub pid: u32,
    /// Track, if it has one.
    pub track: Option<NameId>,
    /// Name or category, depending on the format.
    pub name: NameId,
    /// As [`Async::cookie`].
    pub cookie: i64,
}

/// A point of a flow, an arrow from slice to slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Key of the thread to whose slice the point belongs.
    pub thread: u32,
    /// Name.
    pub name: NameId,
    /// Category, as in [`Slice::category`].
    pub category: NameId,
    /// Identifies the flow, together with name and category.
    pub id: u64,
    /// Kind of the point.
    pub kind: FlowKind,
    /// Time.
    pub at_ns: u64,
    /// The record of the point. `None`: the slice around its time, or the next one, depending on its kind.
    pub record: Option<FlowRecord>,
}

/// Record that a point of a flow is at, of the point's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowRecord {
    /// A slice, by its index in [`Thread::slices`].
    Slice(u32),
    /// An instant, by its index in [`Trace::instants`].
    Instant(u32),
}

/// Kind of a flow's point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowKind {
    /// The flow starts.
    Start,
    /// The flow passes through.
    Step,
    /// The flow ends at the slice around this time.
    End,
    /// The flow ends at the next slice to begin.
    EndAtNext,
}

/// Errors in a file, and events that the model lacks because of them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Losses {
    /// Lines read (JSON: events; method traces: records).
    pub lines: u64,
    /// Malformed lines.
    pub bad_lines: u64,
    /// The first malformed lines.
    pub shown: Vec<BadLine>,
    /// Ends without a begin.
    pub unmatched_ends: u64,
    /// Sections that were open at the end.
    pub unclosed: u64,
    /// Async ends without a begin.
    pub unmatched_async_ends: u64,
    /// Async slices that were open at the end.
    pub unclosed_asyncs: u64,
    /// Lines earlier than the last line of their thread; moved to its time.
    pub out_of_order: u64,
    /// Slices that partly overlapped another of their thread; cut.
    pub overlapping: u64,
    /// Integer values of counters that an f64 cannot represent; rounded.
    pub rounded: u64,
    /// Async slices that begin within another one of their track, which only some formats can show.
    pub nested_asyncs: u64,
    /// Tracks of no process, which only Perfetto's format has.
    pub tracks_of_nobody: u64,
    /// Number of records in two merged traces that were merged into one.
    pub twins: u64,
    /// Content that the reader does not read, by field and reason.
    pub unread: BTreeMap<String, u64>,
    /// Losses that the recorder itself reports, by kind.
    pub lost: BTreeMap<String, u64>,
    /// Times of losses, as far as they are known, by their begin.
    pub gaps: Vec<Gap>,
    /// Position in the uncompressed text at which the file ended early or became unreadable, and the reason.
    pub truncated: Option<(u64, String)>,
}

/// A time in which records are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Reason; of the recorder's losses as in [`Losses::lost`].
    pub why: &'static str,
    /// Time of the last record before it, or the trace's begin.
    pub from_ns: u64,
    /// Time of the first record after it, or the trace's end.
    pub to_ns: u64,
    /// Processor whose records are missing, if it is only one.
    pub cpu: Option<u32>,
    /// Number of records, if the recorder says it.
    pub count: Option<u64>,
}

/// Number of malformed lines that are kept, and bytes of each.
const MAX_SHOWN: usize = 20;
const SHOWN_BYTES: usize = 200;

impl Losses {
    pub(crate) fn not_read(&mut self, what: &str, count: u64) {
        if count > 0 {
            *self.unread.entry(what.to_owned()).or_default() += count;
        }
    }

    pub(crate) fn bad(&mut self, number: u64, why: &'static str, line: &[u8]) {
        self.bad_lines += 1;
        if self.shown.len() < MAX_SHOWN {
            let line = line.get(..SHOWN_BYTES).unwrap_or(line);
            let text = String::from_utf8_lossy(line).into_owned();
            self.shown.push(BadLine { number, why, text });
        }
    }
}

/// A malformed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub number: u64,
    /// Reason.
    pub why: &'static str,
    /// First bytes of the line.
    pub text: String,
}
