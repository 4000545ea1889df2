//! The trace as the page's program reads it: JSON, a column for each field of all slices of a thread, as gzip in base64.
//! Times are ns; those of a column are each since the one before it, the first since the trace's begin.

use crate::arrows::arrows;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use tracetee_trace::{
    Async, Counter, NO_PARENT, NO_WAKER, NameId, Scope, Slice, Thread, Trace, UNFINISHED,
};

/// Bytes of a line: readers of the page's text read lines.
const LINE_BYTES: usize = 4096;

/// All columns but those of threads.
#[derive(Serialize)]
struct Columns<'a> {
    /// Time of the trace's begin: seconds and ns, because JavaScript's numbers do not hold the ns since boot.
    begin: [u64; 2],
    /// Duration of the trace.
    took: u64,
    names: Vec<&'a str>,
    processes: Vec<(u32, &'a str)>,
    counters: Vec<CounterColumns>,
    tracks: Vec<TrackColumns>,
    flows: Vec<[u32; 4]>,
    losses: [u64; 3],
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
    /// Thread that ended the wait before it: 0 is an interrupt, -1 nobody known.
    waker: Vec<i64>,
}

#[derive(Serialize)]
struct CounterColumns {
    pid: u32,
    /// Key of the thread whose counter it is.
    thread: Option<u32>,
    name: NameId,
    unit: Option<NameId>,
    at: Vec<i64>,
    value: Vec<f64>,
}

#[derive(Serialize)]
struct TrackColumns {
    pid: u32,
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

pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let lines = Lines { out, left: LINE_BYTES };
    let packed = GzEncoder::new(EncoderWriter::new(lines, &STANDARD), Compression::default());
    let mut packed = BufWriter::with_capacity(1 << 16, packed);
    json(trace, &mut packed)?;
    let packed = packed.into_inner().map_err(io::IntoInnerError::into_error)?;
    packed.finish()?.finish()?.out.write_all(b"\n")
}

fn json(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let (begin_ns, end_ns) = trace.span_ns.unwrap_or_default();
    let mut instants: HashMap<u32, (Clock, PointColumns)> = HashMap::new();
    for one in &trace.instants {
        let new = || (Clock(begin_ns), PointColumns::default());
        let (clock, points) = instants.entry(one.thread).or_insert_with(new);
        points.push(clock.next(one.at_ns), one.name, one.category, one.args);
    }
    out.write_all(b"{\"threads\":[")?;
    let mut is_first = true;
    for (&key, thread) in &trace.threads {
        let instants = instants.remove(&key).map(|(_, points)| points);
        if thread.slices.is_empty() && thread.states.is_empty() && instants.is_none() {
            continue;
        }
        if !std::mem::replace(&mut is_first, false) {
            out.write_all(b",")?;
        }
        let columns = thread_columns(trace, key, thread, instants.unwrap_or_default());
        serde_json::to_writer(&mut *out, &columns)?;
    }
    out.write_all(b"],\"rest\":")?;
    let losses = &trace.losses;
    let columns = Columns {
        begin: [begin_ns / 1_000_000_000, begin_ns % 1_000_000_000],
        took: end_ns.saturating_sub(begin_ns),
        names: trace.names.iter().map(|(_, name)| name).collect(),
        processes: processes(trace),
        counters: counters(trace, begin_ns),
        tracks: tracks(trace, begin_ns),
        flows: arrows(trace).into_iter().map(|(from, to)| [from.0, from.1, to.0, to.1]).collect(),
        losses: [
            losses.unclosed,
            losses.unmatched_ends + losses.unmatched_async_ends,
            losses.bad_lines,
        ],
    };
    serde_json::to_writer(&mut *out, &columns)?;
    out.write_all(b"}")
}

fn thread_columns<'a>(
    trace: &'a Trace,
    key: u32,
    thread: &'a Thread,
    instants: PointColumns,
) -> ThreadColumns<'a> {
    let slices = &thread.slices;
    let begin_ns = trace.span_ns.unwrap_or_default().0;
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
        args: &thread.args,
        cpu: (0..slices.len().min(thread.cpu_ns.len())).map(|place| cpu(thread, place)).collect(),
        instants,
        states: StateColumns {
            at: thread.states.iter().map(|state| of_states.next(state.at_ns)).collect(),
            state: (0..thread.states.len()).map(|place| state(thread, place)).collect(),
            waker: thread.states.iter().map(|state| waker(state.waker)).collect(),
        },
    }
}

/// Returns the processor time that a slice took, ns, if it is known.
fn cpu(thread: &Thread, place: usize) -> Option<u64> {
    let (begin_ns, end_ns) = thread.cpu_of(u32::try_from(place).ok()?);
    end_ns?.checked_sub(begin_ns?)
}

/// Returns the state's place in the program's list: running, runnable, asleep, uninterruptible, io.
fn state(thread: &Thread, place: usize) -> u8 {
    match thread.states.get(place).map(|state| state.kind) {
        Some(b'r') => 0,
        Some(b'R') => 1,
        Some(b'D') => {
            let reason = thread.sleep_reason(place);
            let reason = reason.and_then(|reason| thread.blocked.get(reason as usize));
            if reason.is_some_and(|reason| reason.io_wait) { 4 } else { 3 }
        }
        _ => 2,
    }
}

fn processes(trace: &Trace) -> Vec<(u32, &str)> {
    let names = trace.process_names();
    let mut pids: BTreeSet<u32> = trace.processes.keys().copied().collect();
    pids.extend(trace.threads.values().filter_map(|thread| thread.pid));
    pids.into_iter().map(|pid| (pid, names.of(pid))).collect()
}

/// Counters in the order of their first values.
fn counters(trace: &Trace, begin_ns: u64) -> Vec<CounterColumns> {
    let mut places: HashMap<(u32, Option<u32>, NameId), usize> = HashMap::new();
    let mut made: Vec<(Clock, CounterColumns)> = Vec::new();
    for &Counter { pid, thread, name, at_ns, value, scope } in &trace.counters {
        let thread = (scope == Scope::Thread).then_some(thread);
        let place = *places.entry((pid, thread, name)).or_insert_with(|| {
            let unit = trace.units.get(&(pid, name)).copied();
            let (at, value) = (Vec::new(), Vec::new());
            made.push((Clock(begin_ns), CounterColumns { pid, thread, name, unit, at, value }));
            made.len() - 1
        });
        let Some((clock, columns)) = made.get_mut(place) else { continue };
        columns.at.push(clock.next(at_ns));
        columns.value.push(value);
    }
    made.into_iter().map(|(_, columns)| columns).collect()
}

/// Async slices by track; one without a track is on that of its name.
fn tracks(trace: &Trace, begin_ns: u64) -> Vec<TrackColumns> {
    let mut places: HashMap<(u32, NameId), usize> = HashMap::new();
    let mut made: Vec<(Clock, TrackColumns)> = Vec::new();
    for &Async { pid, track, name, category, args, start_ns, end_ns, .. } in &trace.asyncs {
        let label = track.unwrap_or(name);
        let place = *places.entry((pid, label)).or_insert_with(|| {
            let (points, took) = (PointColumns::default(), Vec::new());
            made.push((Clock(begin_ns), TrackColumns { pid, label, points, took }));
            made.len() - 1
        });
        let Some((clock, columns)) = made.get_mut(place) else { continue };
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
mod tests {
    use super::*;
    use base64::Engine;
    use serde_json::{Value, json};
    use std::io::Read;

    fn columns(trace: &Trace) -> Value {
        let mut out = Vec::new();
        write(trace, &mut out).unwrap();
        let lines = std::str::from_utf8(&out).unwrap().lines();
        assert!(lines.clone().all(|line| line.len() <= LINE_BYTES));
        let packed = STANDARD.decode(lines.collect::<String>()).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn columns_have_arguments_flows_categories_states_and_times_since_the_one_before() {
        let trace = tracetee_trace::json::read(
            r#"[{"ph":"X","name":"a","cat":"net","pid":1,"tid":2,"ts":5000000000,"dur":9,"args":{"url":"x"}},
            {"ph":"X","name":"b","pid":1,"tid":2,"ts":5000000002,"dur":3},
            {"ph":"s","name":"f","cat":"c","id":1,"pid":1,"tid":2,"ts":5000000003},
            {"ph":"X","name":"c","pid":1,"tid":3,"ts":5000000004,"dur":1},
            {"ph":"f","name":"f","cat":"c","id":1,"bp":"e","pid":1,"tid":3,"ts":5000000004},
            {"ph":"b","name":"load","cat":"io","id":"7","pid":1,"tid":3,"ts":5000000004,"args":{"n":1}},
            {"ph":"C","name":"heap","pid":1,"ts":5000000006,"args":{"value":3.5}}]"#
                .as_bytes(),
        )
        .unwrap();
        let columns = columns(&trace);
        let rest = &columns["rest"];
        let name =
            |id: &Value| rest["names"][usize::try_from(id.as_u64().unwrap()).unwrap()].clone();
        assert_eq!((&rest["begin"], &rest["took"]), (&json!([5000, 0]), &json!(9000)));
        let first = &columns["threads"][0];
        assert_eq!(first["start"], json!([0, 2000]));
        assert_eq!((&first["took"], &first["parent"]), (&json!([9000, 3000]), &json!([-1, 0])));
        assert_eq!(name(&first["category"][0]), "net");
        assert_eq!(name(&first["args"]["0"]), r#"{"url":"x"}"#);
        assert_eq!(rest["flows"], json!([[2, 1, 3, 0]]));
        let track = &rest["tracks"][0];
        assert_eq!((name(&track["label"]), &track["took"]), (json!("load"), &json!([-1])));
        assert_eq!(
            (name(&track["category"][0]), name(&track["args"][0])),
            (json!("io"), json!("{\"n\":1}"))
        );
        assert_eq!(
            (&rest["counters"][0]["at"], &rest["counters"][0]["value"]),
            (&json!([6000]), &json!([3.5]))
        );
    }

    #[test]
    fn a_sleep_for_a_disk_is_told_from_others() {
        let switch = |prev: u32, state: &str, next: u32| {
            format!(
                "sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=b next_pid={next} next_prio=120"
            )
        };
        let wake = "sched_waking: comm=a pid=7 prio=120 target_cpu=000".to_owned();
        let mut text = "# tracer: nop\n".to_owned();
        for (us, event) in [
            (1, "tracing_mark_write: B|7|x".to_owned()),
            (2, switch(7, "D", 0)),
            (4, wake.clone()),
            (5, "sched_blocked_reason: pid=7 iowait=1 caller=f+0x1/0x2".to_owned()),
            (6, switch(0, "R", 7)),
            (7, switch(7, "D", 0)),
            (8, wake),
            (9, switch(0, "R", 7)),
            (10, switch(7, "S", 0)),
        ] {
            text.push_str(&format!("a-7 (7) [000] d..2 1.{us:06}: {event}\n"));
        }
        let columns = columns(&tracetee_trace::read(text.as_bytes()).unwrap());
        let states = &columns["threads"][0]["states"];
        assert_eq!(states["state"], json!([4, 1, 0, 3, 1, 0, 2]));
        assert_eq!(states["at"], json!([1000, 2000, 2000, 1000, 1000, 1000, 1000]));
        assert_eq!(states["waker"], json!([-1, 7, -1, -1, 7, -1, -1]));
    }
}
