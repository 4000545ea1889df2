//! Perfetto's own trace_processor on traces that are read and written here: its rows of an original are those of our model,
//! and those of what we write of it.

use std::collections::BTreeMap;
use std::path::Path;
use tracetee_convert::{Format, write};
use tracetee_tests::root;
use tracetee_tests_convert::model_rows::{TABLES, sorted};
use tracetee_tests_convert::{Engine, Rows, everything, frames};
use tracetee_trace::{Scope, Trace, UNFINISHED, read_any, read_file_with_events};

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
        "select a.ts from_ts, a.name from_name, b.ts to_ts, b.name to_name from flow f join slice a on f.slice_out = a.id \
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
        "select s.ts, t.tid, s.cpu, f.name, f.rel_pc, m.name mapping, m.build_id, c.depth from perf_sample s \
         join thread t using (utid) left join stack_profile_callsite c on s.callsite_id = c.id \
         left join stack_profile_frame f on c.frame_id = f.id left join stack_profile_mapping m on f.mapping = m.id \
         order by 1, 2",
    ),
    ("packages", "select package_name, uid, version_code, debuggable from package_list order by 1"),
    (
        "threads",
        "select distinct t.tid, p.pid, t.name, p.name process from thread t left join process p using (upid) where t.tid != 0 \
         order by 1, 2, 3",
    ),
];

/// Rows of each query are equal; else the first that differ.
#[track_caller]
fn assert_same(label: &str, found: &Rows, expected: &Rows) {
    let only = |a: &Rows, b: &Rows| {
        a.iter().filter(|row| !b.contains(row)).take(5).cloned().collect::<Vec<_>>()
    };
    assert!(
        found == expected,
        "{label}: {} rows for {}; only here {:#?}, only in the original {:#?}",
        found.len(),
        expected.len(),
        only(found, expected),
        only(expected, found)
    );
}

fn read(bytes: Vec<u8>) -> Trace {
    read_any(std::io::Cursor::new(bytes)).unwrap()
}

/// All that is left out: the processor's first switch, whose earlier thread is not known, and whether samples are of the kernel.
const FIRST_SWITCH: &str = "compact scheduler events before the first switch of their processor";
const MODE: &str = "perf sample field cpu_mode";

#[test]
fn a_switch_and_a_wakeup_of_one_microsecond_keep_their_order() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let switch = |cpu: u32, at: u32, prev: u32, state: &str, next: u32| {
        format!(
            " t-{prev} [00{cpu}] d..2 1.{at:06}: sched_switch: prev_comm=t prev_pid={prev} prev_prio=120 \
             prev_state={state} ==> next_comm=t next_pid={next} next_prio=120\n"
        )
    };
    let wake = |cpu: u32, at: u32, tid: u32| {
        format!(
            " w-99 [00{cpu}] d..2 1.{at:06}: sched_waking: comm=t pid={tid} prio=120 target_cpu=000\n"
        )
    };
    let mut text = "# tracer: nop\n".to_owned();
    // Each order of the two events, and of their processors; another event of one of them comes before.
    for (index, (of_switch, of_wake)) in [(3, 5), (5, 3), (3, 5), (5, 3)].into_iter().enumerate() {
        let (tid, at) = (7 + u32::try_from(index).unwrap(), 100 * u32::try_from(index).unwrap());
        let (switch_out, wake_up) =
            (switch(of_switch, at + 9, tid, "S", 0), wake(of_wake, at + 9, tid));
        text += &switch(of_switch, at + 5, 0, "R", tid);
        text += &wake(of_wake, at + 6, 99);
        text += &if index < 2 { switch_out + &wake_up } else { wake_up + &switch_out };
        text += &switch(of_switch, at + 20, 0, "R", tid);
        text += &switch(of_switch, at + 30, tid, "S", 0);
    }
    std::fs::write(directory.path().join("in.ftrace"), &text).unwrap();
    let mut out = std::fs::File::create(directory.path().join("out.pftrace")).unwrap();
    let trace = read_file_with_events(&directory.path().join("in.ftrace")).unwrap();
    write(&trace, Format::Perfetto, &mut out).unwrap();
    let states = "select t.tid, (s.ts + 500) / 1000, s.state, (s.ts + s.dur + 500) / 1000 from thread_state s join thread t using (utid) \
        where t.tid between 7 and 10 order by 1, 2, s.id";
    let rows = engine.rows(directory.path(), &["in.ftrace", "out.pftrace"], &[states]);
    assert_eq!(rows[0][0].len(), 2 * 5 + 2 * 4, "{:?}", rows[0][0]);
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn a_rewritten_trace_has_the_rows_of_the_original() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut files = Vec::new();
    for seed in 0..2 {
        let bytes = everything(seed);
        let trace = read(bytes.clone());
        assert_eq!((trace.losses.bad_lines, &trace.losses.truncated), (0, &None));
        let unread: Vec<_> =
            trace.losses.unread.iter().map(|(kind, &count)| (&**kind, count)).collect();
        assert_eq!(unread, [(FIRST_SWITCH, 1), (MODE, 40)]);
        std::fs::write(path.join(format!("{seed}.pftrace")), bytes).unwrap();
        let mut out = Vec::new();
        let dropped = write(&trace, Format::Perfetto, &mut out).unwrap();
        // All is there, some of it in another form.
        assert_eq!(trace.reshaped.len(), 3, "{seed}");
        let reshaped = trace.reshaped.iter().map(|(kind, count)| format!("{count} {kind}"));
        assert_eq!(dropped.to_string(), reshaped.collect::<Vec<_>>().join(", "), "{seed}");
        std::fs::write(path.join(format!("{seed}.again.pftrace")), out).unwrap();
        files.extend([format!("{seed}.pftrace"), format!("{seed}.again.pftrace")]);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let queries = QUERIES.map(|(_, query)| query);
    let all = engine.rows(path, &files, &queries);
    for (seed, pair) in all.chunks(2).enumerate() {
        for (index, (label, _)) in QUERIES.iter().enumerate() {
            assert!(!pair[0][index].is_empty(), "{seed}: the original has no {label}");
            assert_same(&format!("{seed}: {label}"), &pair[1][index], &pair[0][index]);
        }
    }
}

/// The tables that the engine has of these files are those that the model has of each.
#[track_caller]
fn equal_to_the_model(engine: &Engine, path: &Path, files: &[&str], most_loss: &[(&str, u64)]) {
    let queries = TABLES.map(|table| table.query);
    for (file, rows) in files.iter().zip(engine.rows(path, files, &queries)) {
        let trace = read_file_with_events(&path.join(file)).unwrap();
        let losses = &trace.losses;
        assert_eq!((losses.bad_lines, &losses.truncated), (0, &None), "{file}");
        let unread: Vec<_> = losses.unread.iter().map(|(kind, &count)| (&**kind, count)).collect();
        assert_eq!(unread, most_loss, "{file}");
        for (table, mut expected) in TABLES.iter().zip(rows) {
            expected.sort();
            assert_same(
                &format!("{file}: {}", table.name),
                &sorted(&(table.rows)(&trace)),
                &expected,
            );
        }
    }
}

#[test]
fn the_model_has_every_row_of_the_engine() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bytes = everything(7);
    let trace = read(bytes.clone());
    for table in TABLES {
        assert!(!(table.rows)(&trace).is_empty(), "no {}", table.name);
    }
    std::fs::write(path.join("x.pftrace"), bytes).unwrap();
    equal_to_the_model(&engine, path, &["x.pftrace"], &[(FIRST_SWITCH, 1), (MODE, 40)]);
}

#[test]
fn a_trace_of_perfetto_s_sdk_has_the_engine_s_rows() {
    let Some(engine) = Engine::new() else { return };
    let traces = root().join("tests/traces");
    let unread = [
        ("flows of slices on async tracks", 40),
        ("packet field trace_provenance", 1),
        ("process descriptor field cmdline", 2),
    ];
    equal_to_the_model(&engine, &traces, &["perfetto-sdk.pftrace"], &unread);
    let trace = read_file_with_events(&traces.join("perfetto-sdk.pftrace")).unwrap();
    assert_eq!((trace.slice_count(), trace.asyncs.len(), trace.counters.len()), (121, 40, 40));
    let thread = |key: u32| &trace.threads[&key];
    let (&key, worker) =
        trace.threads.iter().find(|(_, thread)| thread.name(&trace.names) == "worker").unwrap();
    assert_eq!(
        trace.names.text(thread(key).args[&0]),
        r#"{"number":0,"of":"worker","is_even":true}"#
    );
    assert_eq!(worker.slices.len(), 60);
}

#[test]
fn text_becomes_the_rows_of_the_model() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let trace = read(frames(20).into_bytes());
    let file = std::fs::File::create(path.join("text.pftrace")).unwrap();
    write(&trace, Format::Perfetto, file).unwrap();
    equal_to_the_model(&engine, path, &["text.pftrace"], &[]);
}

/// Times in whole µs, which all formats have.
fn in_us(mut trace: Trace) -> Trace {
    let us = |at_ns: &mut u64| {
        if *at_ns != UNFINISHED {
            *at_ns -= *at_ns % 1000;
        }
    };
    for thread in trace.threads.values_mut() {
        thread.slices.iter_mut().for_each(|one| {
            us(&mut one.start_ns);
            us(&mut one.end_ns);
        });
        thread.states.iter_mut().for_each(|one| us(&mut one.at_ns));
    }
    trace.asyncs.iter_mut().for_each(|one| {
        us(&mut one.start_ns);
        us(&mut one.end_ns);
    });
    trace.instants.iter_mut().for_each(|one| us(&mut one.at_ns));
    trace.counters.iter_mut().for_each(|one| us(&mut one.at_ns));
    trace.flows.iter_mut().for_each(|one| us(&mut one.at_ns));
    trace.kernel.iter_mut().for_each(|one| us(&mut one.at_ns));
    trace
}

#[test]
fn a_perfetto_trace_has_the_same_rows_in_every_format() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut trace = in_us(read(everything(11)));
    // Text and JSON have counters and async slices of processes alone, and JSON instants of threads alone.
    trace.counters.retain(|one| one.scope == Scope::Process);
    trace.asyncs.retain(|one| one.pid != 0);
    trace.instants.retain(|one| one.track.is_none());
    let files = ["o.pftrace", "o.ftrace", "o.json", "o.dart.json"];
    for (file, format) in
        files.into_iter().zip([Format::Perfetto, Format::Ftrace, Format::Chrome, Format::Dart])
    {
        write(&trace, format, std::fs::File::create(path.join(file)).unwrap()).unwrap();
    }
    let all = engine.read(path, &files);
    let [original, others @ ..] = &*all else { unreachable!() };
    assert!(original.slices.len() > 50 && original.sched.len() > 50);
    for (file, found) in files.iter().skip(1).zip(others) {
        assert_eq!((&found.error, &found.stats), (&None, &BTreeMap::new()), "{file}");
        // Dart has instants on tracks of processes.
        let is_instant = |row: &String| {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            row[2] == row[3]
        };
        let without_instants = |rows: &Rows| -> Rows {
            rows.iter().filter(|row| !file.contains("dart") || !is_instant(row)).cloned().collect()
        };
        assert_same(
            &format!("{file}: slices"),
            &without_instants(&found.slices),
            &without_instants(&original.slices),
        );
        let sorted = |rows: &Rows| {
            let mut rows: Rows =
                rows.iter().map(|row| row.replacen(" value\",", "\",", 1)).collect();
            rows.sort();
            rows
        };
        let counters = [sorted(&found.counters), sorted(&original.counters)];
        assert_same(&format!("{file}: counters"), &counters[0], &counters[1]);
        if *file == "o.ftrace" {
            assert_same("sched", &found.sched, &original.sched);
            assert_eq!(found.states.len(), original.states.len());
        }
    }
}
