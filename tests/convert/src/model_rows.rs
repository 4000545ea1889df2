//! A model's content as rows of trace_processor, to compare both. Times are ns.

use crate::Rows;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tracetee_trace::{
    FlowKind, KernelKind, NameId, Scope, State, Thread, Trace, UNFINISHED, state_text,
};

/// A table: its name, the engine's rows, and the model's.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// The query.
    pub query: &'static str,
    /// The rows of a model.
    pub rows: fn(&Trace) -> Vec<Value>,
}

/// All tables.
pub const TABLES: [Table; 9] = [
    Table {
        name: "slices",
        query: "select p.pid, t.tid, s.ts, iif(s.dur < 0, -1, s.ts + s.dur), s.name, s.category, s.depth from slice s \
            join thread_track k on s.track_id = k.id join thread t using (utid) left join process p using (upid) \
            where s.name is null or s.name not glob 'binder *'",
        rows: slices,
    },
    Table {
        name: "slices of processes",
        query: "select p.pid, s.ts, iif(s.dur < 0, -1, s.ts + s.dur), s.name from slice s \
            join process_track k on s.track_id = k.id left join process p using (upid) where k.type not like '%frame%'",
        rows: asyncs,
    },
    Table {
        name: "counters",
        query: "select p.pid, k.name, c.ts, c.value from counter c join process_counter_track k on c.track_id = k.id \
            left join process p using (upid)",
        rows: counters,
    },
    Table {
        name: "flows",
        query: "select a.ts from_ts, a.name from_name, b.ts to_ts, b.name to_name from flow f join slice a on f.slice_out = a.id \
            join slice b on f.slice_in = b.id join thread_track j on a.track_id = j.id \
            join thread_track k on b.track_id = k.id where a.name not glob '[0-9]*' and a.name not glob 'binder *'",
        rows: flows,
    },
    Table {
        name: "sched",
        query: "select s.cpu, t.tid, s.ts, s.dur, s.end_state, s.priority from sched s join thread t using (utid)",
        rows: sched,
    },
    Table {
        name: "states",
        query: "select t.tid, s.ts, iif(s.state = 'Running', 'r', substr(s.state, 1, 1)) from thread_state s \
            join thread t using (utid) where t.tid != 0",
        rows: states,
    },
    Table {
        name: "frames",
        query: "select a.ts, a.dur, p.pid, a.surface_frame_token, a.display_frame_token, a.layer_name, a.on_time_finish, \
            a.gpu_composition, a.present_type, a.jank_type from actual_frame_timeline_slice a join process p using (upid)",
        rows: frames,
    },
    Table {
        name: "threads",
        query: "select distinct t.tid, p.pid from thread t join process p using (upid) where t.tid != 0 and p.pid != 0",
        rows: threads,
    },
    Table {
        name: "processes",
        query: "select distinct pid, name from process where pid != 0 and name is not null",
        rows: processes,
    },
];

/// Rows in an order of their own.
#[must_use]
pub fn sorted(rows: &[Value]) -> Rows {
    let mut rows: Rows = rows.iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

fn named(trace: &Trace, id: NameId) -> Value {
    (id != NameId::NONE).then(|| trace.names.text(id)).into()
}

/// Slices and instants of threads, which the engine has as slices without a duration.
fn slices(trace: &Trace) -> Vec<Value> {
    let mut rows = Vec::new();
    for (&key, thread) in &trace.threads {
        let mut depths: Vec<u32> = Vec::new();
        for slice in &thread.slices {
            let depth = depths.get(slice.parent as usize).map_or(0, |depth| depth + 1);
            depths.push(depth);
            let end = if slice.ended { i64::try_from(slice.end_ns).unwrap() } else { -1 };
            let (name, category) = (named(trace, slice.name), named(trace, slice.category));
            rows.push(json!([thread.pid, thread.tid, slice.start_ns, end, name, category, depth]));
        }
        for one in trace.instants.iter().filter(|one| one.track.is_none() && one.thread == key) {
            let is_open = |index: &usize| {
                let slice = thread.slices[*index];
                slice.start_ns <= one.at_ns && (slice.end_ns >= one.at_ns || !slice.ended)
            };
            let around = (0..thread.slices.len()).filter(is_open).map(|index| depths[index]).max();
            let depth = around.map_or(0, |depth| depth + 1);
            let (name, category) = (named(trace, one.name), named(trace, one.category));
            rows.push(json!([thread.pid, thread.tid, one.at_ns, one.at_ns, name, category, depth]));
        }
    }
    rows
}

fn asyncs(trace: &Trace) -> Vec<Value> {
    let asyncs = trace.asyncs.iter().filter(|one| one.pid != 0).map(|one| {
        let end = if one.end_ns == UNFINISHED { -1 } else { i64::try_from(one.end_ns).unwrap() };
        json!([one.pid, one.start_ns, end, named(trace, one.name)])
    });
    let instants = trace.instants.iter().filter(|one| one.track.is_some() && one.pid != 0);
    asyncs
        .chain(instants.map(|one| json!([one.pid, one.at_ns, one.at_ns, named(trace, one.name)])))
        .collect()
}

#[allow(clippy::cast_precision_loss, reason = "small numbers, which the engine has as doubles")]
fn counters(trace: &Trace) -> Vec<Value> {
    let of_processes =
        trace.counters.iter().filter(|one| one.scope == Scope::Process && one.pid != 0);
    of_processes
        .map(|one| json!([one.pid, trace.names.text(one.name), one.at_ns, one.value]))
        .collect()
}

/// The innermost slice of a thread at a time.
fn around(thread: &Thread, at_ns: u64) -> Option<usize> {
    let is_open = |&index: &usize| {
        let slice = thread.slices[index];
        slice.start_ns <= at_ns && slice.end_ns >= at_ns
    };
    (0..thread.slices.len()).rev().find(is_open)
}

/// Pairs of slices that follow each other in a flow.
fn flows(trace: &Trace) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut last: BTreeMap<u64, (u64, NameId)> = BTreeMap::new();
    for flow in &trace.flows {
        let thread = &trace.threads[&flow.thread];
        let Some(slice) = around(thread, flow.at_ns).map(|index| thread.slices[index]) else {
            continue;
        };
        if let Some((at_ns, name)) = last.insert(flow.id, (slice.start_ns, slice.name)) {
            rows.push(json!([at_ns, named(trace, name), slice.start_ns, named(trace, slice.name)]));
        }
        if flow.kind == FlowKind::End {
            last.remove(&flow.id);
        }
    }
    rows
}

fn sched(trace: &Trace) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut running = BTreeMap::new();
    for event in &trace.kernel {
        let KernelKind::Switch { state, next, .. } = event.kind else { continue };
        if let Some((at_ns, tid, priority)) =
            running.insert(event.cpu, (event.at_ns, next.tid, next.priority))
        {
            let dur = event.at_ns - at_ns;
            rows.push(json!([event.cpu, tid, at_ns, dur, state_text(state), priority]));
        }
    }
    let last = running.into_iter();
    rows.extend(
        last.map(|(cpu, (at_ns, tid, priority))| json!([cpu, tid, at_ns, -1, null, priority])),
    );
    rows
}

fn states(trace: &Trace) -> Vec<Value> {
    let mut rows = Vec::new();
    for thread in trace.threads.values().filter(|thread| thread.tid != 0) {
        let row =
            |state: &State| json!([thread.tid, state.at_ns, char::from(state.kind).to_string()]);
        rows.extend(thread.states.iter().map(row));
    }
    rows
}

fn frames(trace: &Trace) -> Vec<Value> {
    const PRESENT: [&str; 6] = [
        "Unspecified Present",
        "On-time Present",
        "Late Present",
        "Early Present",
        "Dropped Frame",
        "Unknown Present",
    ];
    let row = |frame: &tracetee_trace::TimelineFrame| {
        let actual = frame.actual?;
        let dur = if frame.end_ns == UNFINISHED {
            -1
        } else {
            i64::try_from(frame.end_ns - frame.start_ns).unwrap()
        };
        let token = (!frame.is_display).then_some(frame.token);
        Some(json!([
            frame.start_ns,
            dur,
            frame.pid,
            token,
            frame.display_token,
            named(trace, frame.layer),
            i32::from(actual.on_time),
            i32::from(actual.gpu),
            PRESENT[usize::from(actual.present)],
            actual.jank_text()
        ]))
    };
    trace.frames.iter().filter_map(row).collect()
}

/// Threads whose process is known, with or without events.
fn threads(trace: &Trace) -> Vec<Value> {
    let with_events = trace.threads.values().filter_map(|thread| Some((thread.tid, thread.pid?)));
    let dumped = trace.dumped.iter().map(|(&tid, &(pid, _))| (tid, pid));
    let all: BTreeSet<(u32, u32)> =
        with_events.chain(dumped).filter(|&(tid, pid)| tid != 0 && pid != 0).collect();
    all.into_iter().map(|(tid, pid)| json!([tid, pid])).collect()
}

fn processes(trace: &Trace) -> Vec<Value> {
    let named =
        trace.processes.iter().filter(|&(&pid, process)| pid != 0 && process.name != NameId::NONE);
    named.map(|(&pid, process)| json!([pid, trace.names.text(process.name)])).collect()
}
