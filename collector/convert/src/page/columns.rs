//! The trace in the form that the page's script reads: lines of JSON, as gzip in base64. The first line is the head,
//! followed by one for each thread, the app's first, with a column for each field of all its slices; the last line has the
//! data that belongs to no thread. So a browser shows the first threads before it has unpacked the others.
//!
//! Times are ns; each time in a column is relative to the previous one, the first to the trace's begin.

use super::{binder, samples};
use crate::arrows::arrows;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use tracetee_trace::{
    Async, Counter, Gap, NO_PARENT, NO_WAKER, NameId, Scope, Slice, Thread, Trace, UNFINISHED,
    is_system_process,
};

/// Bytes of a line: readers of the page's text read lines.
const LINE_BYTES: usize = 4096;

/// The first line.
#[derive(Serialize)]
struct Head<'a> {
    /// Time of the trace's begin: seconds and ns, because JavaScript's numbers do not hold the ns since boot.
    begin: [u64; 2],
    /// Duration of the trace.
    took: u64,
    /// Number of threads that follow.
    threads: usize,
    names: Vec<&'a str>,
    /// Process id, name, and whether it is one of Android's own.
    processes: Vec<(u32, &'a str, bool)>,
    losses: [u64; 3],
    /// Records and events that recorders have lost, by kind.
    lost: BTreeMap<&'a str, u64>,
    /// True if names are coloured by inclusive time.
    by_time: bool,
}

/// The last line.
#[derive(Serialize)]
struct Rest {
    counters: Vec<CounterColumns>,
    tracks: Vec<TrackColumns>,
    flows: Vec<[u32; 4]>,
    clocks: Vec<ClockColumns>,
    shown: Vec<ShownColumns>,
    gaps: Vec<GapColumns>,
}

/// Time in which records are missing.
#[derive(Serialize)]
struct GapColumns {
    from: u64,
    to: u64,
    cpu: Option<u32>,
    count: Option<u64>,
    why: &'static str,
}

/// Clock of a processor.
#[derive(Serialize, Default)]
struct ClockColumns {
    cpu: u16,
    max: u32,
    at: Vec<i64>,
    khz: Vec<u32>,
}

/// FrameTimeline's frames of a layer.
#[derive(Serialize, Default)]
struct ShownColumns {
    pid: u32,
    layer: NameId,
    /// False: when they are expected; true: when they were drawn.
    actual: bool,
    at: Vec<i64>,
    /// -1 for one without an end.
    took: Vec<i64>,
    token: Vec<i64>,
    /// Type of jank; empty for expected frames.
    jank: Vec<String>,
}

#[derive(Serialize)]
struct ThreadColumns<'a> {
    key: u32,
    tid: u32,
    pid: Option<u32>,
    label: &'a str,
    name: Vec<NameId>,
    start: Vec<i64>,
    took: Vec<u64>,
    /// Index of the surrounding slice, or -1.
    parent: Vec<i64>,
    /// Empty if no slice has one.
    category: Vec<NameId>,
    /// Indices of slices whose end the trace does not have.
    open: Vec<usize>,
    /// Arguments as JSON, by the slice's index.
    args: &'a BTreeMap<u32, NameId>,
    /// Processor time; empty if no slice has one.
    cpu: Vec<Option<u64>>,
    instants: PointColumns,
    states: StateColumns,
}

#[derive(Serialize, Default)]
struct PointColumns {
    at: Vec<i64>,
    name: Vec<NameId>,
    category: Vec<NameId>,
    args: Vec<NameId>,
}

#[derive(Serialize)]
struct StateColumns {
    at: Vec<i64>,
    /// Place of the state in the program's list of them.
    state: Vec<u8>,
    /// Thread that ended the preceding wait: 0 is an interrupt, -1 unknown.
    waker: Vec<i64>,
    /// Processor on which it began.
    cpu: Vec<u16>,
}

#[derive(Serialize, Default)]
struct CounterColumns {
    pid: u32,
    /// Key of the thread whose counter it is.
    thread: Option<u32>,
    name: NameId,
    unit: Option<NameId>,
    at: Vec<i64>,
    value: Vec<f64>,
}

#[derive(Serialize, Default)]
struct TrackColumns {
    pid: u32,
    /// Key of the thread whose track it is.
    thread: Option<u32>,
    label: NameId,
    #[serde(flatten)]
    points: PointColumns,
    /// -1 for one without an end.
    took: Vec<i64>,
}

/// Times of a column.
struct Clock(u64);

impl Clock {
    /// Returns a time since the last one.
    fn next(&mut self, at_ns: u64) -> i64 {
        let since = at_ns.cast_signed() - self.0.cast_signed();
        self.0 = at_ns;
        since
    }
}

/// Writes the columns; the threads of process `app` come first.
pub(super) fn write(trace: &Trace, app: Option<u32>, out: &mut impl Write) -> io::Result<()> {
    let lines = Lines { out, left: LINE_BYTES };
    let packed = GzEncoder::new(EncoderWriter::new(lines, &STANDARD), Compression::default());
    let mut packed = BufWriter::with_capacity(1 << 16, packed);
    json(trace, app, &mut packed)?;
    let packed = packed.into_inner().map_err(io::IntoInnerError::into_error)?;
    packed.finish()?.finish()?.out.write_all(b"\n")
}

fn line(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn json(trace: &Trace, app: Option<u32>, out: &mut impl Write) -> io::Result<()> {
    let (begin_ns, end_ns) = span(trace);
    let (names, samples) = samples::slices(trace);
    let (names, calls) = binder::calls(trace, names);
    let mut instants: HashMap<u32, (Clock, PointColumns)> = HashMap::new();
    for one in &trace.instants {
        let new = || (Clock(begin_ns), PointColumns::default());
        let (clock, points) = instants.entry(one.thread).or_insert_with(new);
        points.push(clock.next(one.at_ns), one.name, one.category, one.args);
    }
    let has_content = |&(key, thread): &(&u32, &Thread)| {
        !thread.slices.is_empty() || !thread.states.is_empty() || instants.contains_key(key)
    };
    let mut threads: Vec<_> = trace.threads.iter().filter(has_content).collect();
    threads.sort_by_key(|(_, thread)| app.is_none() || thread.pid != app);
    let losses = &trace.losses;
    let mut lost: BTreeMap<&str, u64> =
        losses.lost.iter().map(|(what, &count)| (&**what, count)).collect();
    if let Some(records @ 1..) = trace.about.dropped {
        lost.insert("records that the agent dropped", records);
    }
    let head = Head {
        begin: [begin_ns / 1_000_000_000, begin_ns % 1_000_000_000],
        took: end_ns.saturating_sub(begin_ns),
        threads: threads.len(),
        names: names.iter().map(|(_, name)| name).collect(),
        processes: processes(trace),
        losses: [
            losses.unclosed,
            losses.unmatched_ends + losses.unmatched_async_ends,
            losses.bad_lines,
        ],
        lost,
        by_time: trace.is_of_methods,
    };
    line(&head, out)?;
    for (&key, thread) in threads {
        let instants = instants.remove(&key).map(|(_, points)| points);
        let instants = instants.unwrap_or_default();
        line(&thread_columns(trace, begin_ns, (key, thread), instants), out)?;
    }
    let rest = Rest {
        counters: counters(trace, begin_ns),
        tracks: tracks(trace, &samples, &calls, begin_ns),
        flows: arrows(trace).into_iter().map(|(from, to)| [from.0, from.1, to.0, to.1]).collect(),
        clocks: clocks(trace, begin_ns),
        shown: shown(trace, begin_ns),
        gaps: gaps(trace, begin_ns),
    };
    line(&rest, out)
}

/// Begin and end of the page: those of the records, or of the window if it has no records there.
fn span(trace: &Trace) -> (u64, u64) {
    let (begin_ns, end_ns) = trace.span_ns.unwrap_or_default();
    let gaps = &trace.losses.gaps;
    let from_ns = gaps.iter().map(|gap| gap.from_ns).fold(begin_ns, u64::min);
    (from_ns, gaps.iter().map(|gap| gap.to_ns).fold(end_ns, u64::max))
}

fn gaps(trace: &Trace, begin_ns: u64) -> Vec<GapColumns> {
    let since = |at_ns: u64| at_ns.saturating_sub(begin_ns);
    let column = |&Gap { why, from_ns, to_ns, cpu, count }: &Gap| GapColumns {
        from: since(from_ns),
        to: since(to_ns),
        cpu,
        count,
        why,
    };
    trace.losses.gaps.iter().map(column).collect()
}

/// Clocks of processors, by processor.
fn clocks(trace: &Trace, begin_ns: u64) -> Vec<ClockColumns> {
    let mut made: BTreeMap<u16, (Clock, ClockColumns)> = BTreeMap::new();
    for clock in &trace.scheduling.clocks {
        let (times, columns) = made.entry(clock.cpu).or_insert_with(|| {
            let max = trace.scheduling.max_khz.get(&clock.cpu).copied().unwrap_or(0);
            let cpu = clock.cpu;
            (Clock(begin_ns), ClockColumns { cpu, max, ..ClockColumns::default() })
        });
        columns.at.push(times.next(clock.at_ns));
        columns.khz.push(clock.khz);
    }
    made.into_values().map(|(_, columns)| columns).collect()
}

/// FrameTimeline's frames, by process and layer; the expected ones before the actual ones.
fn shown(trace: &Trace, begin_ns: u64) -> Vec<ShownColumns> {
    let mut made: BTreeMap<(u32, NameId, bool), (Clock, ShownColumns)> = BTreeMap::new();
    let mut frames: Vec<_> = trace.frames.iter().collect();
    frames.sort_by_key(|frame| frame.start_ns);
    for frame in frames {
        // An expected frame is one of the process: it has no layer.
        let layer = if frame.actual.is_some() { frame.layer } else { NameId::NONE };
        let key = (frame.pid, layer, frame.actual.is_some());
        let (clock, columns) = made.entry(key).or_insert_with(|| {
            let (pid, actual) = (frame.pid, frame.actual.is_some());
            (Clock(begin_ns), ShownColumns { pid, layer, actual, ..ShownColumns::default() })
        });
        columns.at.push(clock.next(frame.start_ns));
        let took = frame.end_ns.saturating_sub(frame.start_ns).cast_signed();
        columns.took.push(if frame.end_ns == UNFINISHED { -1 } else { took });
        columns.token.push(frame.token);
        columns.jank.extend(frame.actual.map(|actual| actual.jank_text()));
    }
    made.into_values().map(|(_, columns)| columns).collect()
}

fn thread_columns<'a>(
    trace: &'a Trace,
    begin_ns: u64,
    (key, thread): (u32, &'a Thread),
    instants: PointColumns,
) -> ThreadColumns<'a> {
    let slices = &thread.slices;
    let (mut clock, mut of_states) = (Clock(begin_ns), Clock(begin_ns));
    let has_categories = slices.iter().any(|slice| slice.category != NameId::NONE);
    let categories = if has_categories { slices.as_slice() } else { &[] };
    let parent = |parent| if parent == NO_PARENT { -1 } else { i64::from(parent) };
    let waker = |waker| if waker == NO_WAKER { -1 } else { i64::from(waker) };
    ThreadColumns {
        key,
        tid: thread.tid,
        pid: thread.pid,
        label: thread.name(&trace.names),
        name: slices.iter().map(|slice| slice.name).collect(),
        start: slices.iter().map(|slice| clock.next(slice.start_ns)).collect(),
        took: slices.iter().map(Slice::duration_ns).collect(),
        parent: slices.iter().map(|slice| parent(slice.parent)).collect(),
        category: categories.iter().map(|slice| slice.category).collect(),
        open: (0..).zip(slices).filter(|(_, slice)| !slice.ended).map(|(index, _)| index).collect(),
        args: &thread.args,
        cpu: (0..slices.len().min(thread.cpu_ns.len())).map(|index| cpu(thread, index)).collect(),
        instants,
        states: StateColumns {
            at: thread.states.iter().map(|state| of_states.next(state.at_ns)).collect(),
            state: (0..thread.states.len()).map(|index| state(thread, index)).collect(),
            waker: thread.states.iter().map(|state| waker(state.waker)).collect(),
            cpu: thread.states.iter().map(|state| state.cpu).collect(),
        },
    }
}

/// Returns the processor time that a slice took, ns, if it is known.
fn cpu(thread: &Thread, index: usize) -> Option<u64> {
    let (begin_ns, end_ns) = thread.cpu_of(u32::try_from(index).ok()?);
    end_ns?.checked_sub(begin_ns?)
}

/// Returns the state's index in the program's list: running, runnable, asleep, uninterruptible, io.
fn state(thread: &Thread, index: usize) -> u8 {
    match thread.states.get(index).map(|state| state.kind) {
        Some(b'r') => 0,
        Some(b'R') => 1,
        Some(b'D') => {
            let reason = thread.sleep_reason(index);
            let reason = reason.and_then(|reason| thread.blocked.get(reason as usize));
            if reason.is_some_and(|reason| reason.io_wait) { 4 } else { 3 }
        }
        _ => 2,
    }
}

pub(super) fn processes(trace: &Trace) -> Vec<(u32, &str, bool)> {
    let names = trace.process_names();
    let mut pids: BTreeSet<u32> = trace.processes.keys().copied().collect();
    pids.extend(trace.threads.values().filter_map(|thread| thread.pid));
    let row = |pid| (pid, names.of(pid), is_system_process(names.of(pid)));
    pids.into_iter().map(row).collect()
}

/// Counters in the order of their first values.
fn counters(trace: &Trace, begin_ns: u64) -> Vec<CounterColumns> {
    let mut places: HashMap<(u32, Option<u32>, NameId), usize> = HashMap::new();
    let mut made: Vec<(Clock, CounterColumns)> = Vec::new();
    for &Counter { pid, thread, name, at_ns, value, scope } in &trace.counters {
        let thread = (scope == Scope::Thread).then_some(thread);
        let index = *places.entry((pid, thread, name)).or_insert_with(|| {
            let unit = trace.units.get(&(pid, name)).copied();
            let columns = CounterColumns { pid, thread, name, unit, ..CounterColumns::default() };
            made.push((Clock(begin_ns), columns));
            made.len() - 1
        });
        let Some((clock, columns)) = made.get_mut(index) else { continue };
        columns.at.push(clock.next(at_ns));
        columns.value.push(value);
    }
    made.into_iter().map(|(_, columns)| columns).collect()
}

/// Async slices, samples and binder calls by track; one without a track goes to the track named after it.
fn tracks(trace: &Trace, samples: &[Async], calls: &[Async], begin_ns: u64) -> Vec<TrackColumns> {
    let slices = trace.asyncs.iter().chain(samples).map(|slice| (None, slice));
    let mut slices: Vec<_> =
        slices.chain(calls.iter().map(|call| (Some(call.threads[0]), call))).collect();
    slices.sort_by_key(|(_, slice)| slice.start_ns);
    let mut places: HashMap<(u32, Option<u32>, NameId), usize> = HashMap::new();
    let mut made: Vec<(Clock, TrackColumns)> = Vec::new();
    for (thread, &Async { pid, track, name, category, args, start_ns, end_ns, .. }) in slices {
        let label = track.unwrap_or(name);
        let index = *places.entry((pid, thread, label)).or_insert_with(|| {
            let columns = TrackColumns { pid, thread, label, ..TrackColumns::default() };
            made.push((Clock(begin_ns), columns));
            made.len() - 1
        });
        let Some((clock, columns)) = made.get_mut(index) else { continue };
        columns.points.push(clock.next(start_ns), name, category, args);
        let took = end_ns.saturating_sub(start_ns).cast_signed();
        columns.took.push(if end_ns == UNFINISHED { -1 } else { took });
    }
    made.into_iter().map(|(_, columns)| columns).collect()
}

impl PointColumns {
    fn push(&mut self, at: i64, name: NameId, category: NameId, args: NameId) {
        self.at.push(at);
        self.name.push(name);
        self.category.push(category);
        self.args.push(args);
    }
}

/// A writer of lines of the same length.
struct Lines<'a, W> {
    out: &'a mut W,
    left: usize,
}

impl<W: Write> Write for Lines<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.left == 0 {
                self.out.write_all(b"\n")?;
                self.left = LINE_BYTES;
            }
            let (line, after) = rest.split_at(rest.len().min(self.left));
            self.out.write_all(line)?;
            self.left -= line.len();
            rest = after;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
