//! Perfetto's own trace_processor on traces that are read and written here: its rows of an original are those of our model,
//! and those of what we write of it.

use serde_json::{Value, json};
use tracetee_convert::{Format, write};
use tracetee_tests_convert::{Engine, Rows, everything};
use tracetee_trace::{KernelKind, NameId, Scope, Trace, read_any};

/// Rows to compare: what they are, and the query. Times are ns.
const QUERIES: [(&str, &str); 16] = [
    (
        "slices",
        "select p.pid, t.tid, s.ts, iif(s.dur < 0, -1, s.ts + s.dur), s.name, s.category, s.depth from slice s \
         join thread_track k on s.track_id = k.id join thread t using (utid) left join process p using (upid) \
         where s.dur != 0 or s.name not like 'binder%' order by 1, 2, 3, 7, 4, 5",
    ),
    (
        "slices of processes",
        "select p.pid, s.ts, iif(s.dur < 0, -1, s.ts + s.dur), s.name, s.category from slice s \
         join process_track k on s.track_id = k.id left join process p using (upid) \
         where k.type not like '%frame%' order by 1, 2, 3, 4",
    ),
    (
        "slices of nobody",
        "select s.ts, iif(s.dur < 0, -1, s.ts + s.dur), s.name from slice s join track k on s.track_id = k.id \
         where k.type glob 'global*' order by 1, 2, 3",
    ),
    (
        "counters",
        "select p.pid, k.name, c.ts, c.value from counter c join process_counter_track k on c.track_id = k.id \
         left join process p using (upid) order by 1, 2, 3, 4",
    ),
    (
        "units",
        "select distinct name, unit from process_counter_track where unit is not null order by 1",
    ),
    (
        "counters of threads",
        "select t.tid, k.name, c.ts, c.value from counter c join thread_counter_track k on c.track_id = k.id \
         join thread t using (utid) order by 1, 2, 3, 4",
    ),
    (
        "counters of processors",
        "select k.cpu, k.name, c.ts, c.value from counter c join cpu_counter_track k on c.track_id = k.id \
         order by 1, 2, 3, 4",
    ),
    (
        "flows",
        "select a.ts, a.name, b.ts, b.name from flow f join slice a on f.slice_out = a.id \
         join slice b on f.slice_in = b.id where a.name not glob '[0-9]*' order by 1, 2, 3, 4",
    ),
    (
        "sched",
        "select s.cpu, t.tid, s.ts, s.dur, s.end_state, s.priority from sched s join thread t using (utid) \
         order by 1, 3",
    ),
    (
        "states",
        "select t.tid, s.ts, s.dur, s.state from thread_state s join thread t using (utid) where t.tid != 0 \
         order by 1, 2, 3",
    ),
    (
        "actual frames",
        "select a.ts, a.dur, p.pid, a.name, a.surface_frame_token, a.display_frame_token, a.layer_name, \
         a.present_type, a.on_time_finish, a.gpu_composition, a.jank_type, a.prediction_type, a.jank_severity_type \
         from actual_frame_timeline_slice a join process p using (upid) order by 1, 2, 3",
    ),
    (
        "expected frames",
        "select a.ts, a.dur, p.pid, a.surface_frame_token, a.display_frame_token, a.layer_name \
         from expected_frame_timeline_slice a join process p using (upid) order by 1, 2, 3",
    ),
    (
        "buffer events",
        "select ts, dur, name, frame_number, layer_name from frame_slice order by 1, 2, 3",
    ),
    (
        "samples",
        "select s.ts, t.tid, s.cpu, f.name, f.rel_pc, m.name, m.build_id, c.depth from perf_sample s \
         join thread t using (utid) left join stack_profile_callsite c on s.callsite_id = c.id \
         left join stack_profile_frame f on c.frame_id = f.id left join stack_profile_mapping m on f.mapping = m.id \
         order by 1, 2",
    ),
    ("packages", "select package_name, uid, version_code, debuggable from package_list order by 1"),
    (
        "threads",
        "select distinct t.tid, p.pid, t.name, p.name from thread t left join process p using (upid) where t.tid != 0 \
         order by 1, 2, 3",
    ),
];

/// Rows of each query are equal; else the first that differ.
#[track_caller]
fn same(what: &str, found: &Rows, expected: &Rows) {
    let only = |a: &Rows, b: &Rows| {
        a.iter().filter(|row| !b.contains(row)).take(5).cloned().collect::<Vec<_>>()
    };
    assert!(
        found == expected,
        "{what}: {} rows for {}; only here {:#?}, only in the original {:#?}",
        found.len(),
        expected.len(),
        only(found, expected),
        only(expected, found)
    );
}

fn read(bytes: Vec<u8>) -> Trace {
    read_any(std::io::Cursor::new(bytes)).unwrap()
}

/// The only thing that is left out: the processor's first switch, whose earlier thread is not known.
const FIRST_SWITCH: &str = "compact scheduler events before the first switch of their processor";

#[test]
fn what_is_written_again_has_the_rows_of_the_original() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut files = Vec::new();
    for seed in 0..2 {
        let bytes = everything(seed);
        let trace = read(bytes.clone());
        assert_eq!((trace.losses.bad_lines, &trace.losses.truncated), (0, &None));
        let unread: Vec<_> =
            trace.losses.unread.iter().map(|(what, &count)| (&**what, count)).collect();
        assert_eq!(unread, [(FIRST_SWITCH, 1)]);
        std::fs::write(path.join(format!("{seed}.pftrace")), bytes).unwrap();
        let mut out = Vec::new();
        let dropped = write(&trace, Format::Perfetto, &mut out).unwrap();
        assert_eq!(dropped.to_string(), "", "{seed}");
        std::fs::write(path.join(format!("{seed}.again.pftrace")), out).unwrap();
        files.extend([format!("{seed}.pftrace"), format!("{seed}.again.pftrace")]);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let queries = QUERIES.map(|(_, query)| query);
    let all = engine.rows(path, &files, &queries);
    for (seed, pair) in all.chunks(2).enumerate() {
        for (place, (what, _)) in QUERIES.iter().enumerate() {
            assert!(!pair[0][place].is_empty(), "{seed}: the original has no {what}");
            same(&format!("{seed}: {what}"), &pair[1][place], &pair[0][place]);
        }
    }
}

/// The slices, counters and switches of a model, as the queries have them.
fn rows_of(trace: &Trace) -> [Rows; 3] {
    let text = |id| trace.names.text(id);
    let mut slices = Vec::new();
    for thread in trace.threads.values() {
        let mut depths: Vec<u32> = Vec::new();
        for slice in &thread.slices {
            let depth = depths.get(slice.parent as usize).map_or(0, |depth| depth + 1);
            depths.push(depth);
            let end = if slice.ended { i64::try_from(slice.end_ns).unwrap() } else { -1 };
            let category = (slice.category != NameId::NONE).then(|| text(slice.category));
            slices.push(json!([
                thread.pid,
                thread.tid,
                slice.start_ns,
                end,
                text(slice.name),
                category,
                depth
            ]));
        }
        // The engine has instants as slices without a duration.
        for one in trace.instants.iter().filter(|one| one.track.is_none()) {
            if trace.threads[&one.thread] == *thread {
                let open = |place: usize| {
                    let slice = thread.slices[place];
                    slice.start_ns <= one.at_ns && slice.end_ns >= one.at_ns
                };
                let around = (0..thread.slices.len())
                    .filter(|&place| open(place))
                    .map(|place| depths[place])
                    .max();
                let depth = around.map_or(0, |depth| depth + 1);
                let row = json!([
                    thread.pid,
                    thread.tid,
                    one.at_ns,
                    one.at_ns,
                    text(one.name),
                    text(one.category),
                    depth
                ]);
                slices.push(row);
            }
        }
    }
    let counters = trace.counters.iter().filter(|one| one.scope == Scope::Process);
    let counters = counters.map(|one| {
        #[allow(
            clippy::cast_precision_loss,
            reason = "small numbers, which the engine has as floating-point ones"
        )]
        let value = one.value as f64;
        json!([one.pid, text(one.name), one.at_ns, value])
    });
    let switches = trace.kernel.iter().filter_map(|event| match event.kind {
        KernelKind::Switch { next, .. } => {
            Some(json!([event.cpu, next.tid, event.at_ns, next.priority]))
        }
        _ => None,
    });
    [sorted(slices), sorted(counters.collect()), sorted(switches.collect())]
}

fn sorted(rows: Vec<Value>) -> Rows {
    let mut rows: Rows = rows.iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

#[test]
fn the_model_has_the_engine_s_slices_counters_and_switches() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bytes = everything(7);
    std::fs::write(path.join("x.pftrace"), &bytes).unwrap();
    let switches = "select s.cpu, t.tid, s.ts, s.priority from sched s join thread t using (utid)";
    let queries = [QUERIES[0].1, QUERIES[3].1, switches];
    let expected = engine.rows(path, &["x.pftrace"], &queries).remove(0);
    let found = rows_of(&read(bytes));
    for ((what, found), mut expected) in
        ["slices", "counters", "switches"].iter().zip(found).zip(expected)
    {
        expected.sort();
        assert!(expected.len() > 50, "{what}: {}", expected.len());
        same(what, &found, &expected);
    }
}
