//! Perfetto's own trace_processor on originals and on what is made of them: the rows are equal.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_convert::rows::{
    HEADER, assert_same, converted, has_no_duration, is_of_kernel, text, tid, tids, without,
};
use tracetee_tests_convert::{Engine, Random, frames, run_tool};

/// Formats that the engine reads.
const OUTPUTS: [&str; 6] =
    ["o.ftrace", "o.ftrace.gz", "o.html", "o.pftrace", "o.json", "o.dart.json"];

/// These outputs have the rows of the input.
fn equal(engine: &Engine, directory: &Path, input: &str, outputs: &[&str]) {
    for output in outputs {
        converted(directory, &[input], output);
    }
    let mut files = vec![input];
    files.extend(outputs);
    let mut all = engine.read(directory, &files).into_iter();
    let original = all.next().unwrap();
    assert_eq!(original.error, None, "{input}");
    let workers = tids(&original.threads, |row| row.contains("\"kworker"));
    let alone = tids(&original.threads, |row| row.split(',').nth(1) == Some("null"));
    for (output, found) in outputs.iter().zip(all) {
        let title = |table: &str| format!("{input} as {output}: {table}");
        assert_eq!(found.error, None, "{input} as {output}");
        for (stat, count) in &found.stats {
            let known = original.stats.get(stat).copied().unwrap_or(0);
            assert!(
                *count <= known,
                "{input} as {output}: {stat} {count}, {known} in the original"
            );
        }
        let is_json = output.ends_with(".json");
        let is_text = !is_json && *output != "o.pftrace";
        // Kernel workers' slices have their names by the kernel's symbols, Dart's instants are those of a process.
        let is_left = |row: &str| {
            !is_text && workers.contains(tid(row))
                || is_json && is_of_kernel(row)
                || output.ends_with(".dart.json") && has_no_duration(row)
        };
        let has_kernel_slices = original.slices.iter().any(|row| is_of_kernel(row));
        // If the original names no process, other formats need one.
        let pidless = |row: &String| match row.split_once(',') {
            Some((_, rest)) if !is_text && alone.contains(tid(row)) => format!("[null,{rest}"),
            _ => row.clone(),
        };
        let without_pid = |rows: &[String]| {
            let mut rows: Vec<String> = rows.iter().map(pidless).collect();
            // Without the kernel's slices around them others are less deep.
            if is_json && has_kernel_slices {
                rows.iter_mut().for_each(|row| row.truncate(row.rfind(',').unwrap()));
            }
            rows.sort();
            rows
        };
        let slices = [without_pid(&found.slices), without_pid(&original.slices)];
        let [found_slices, original_slices] = slices.each_ref().map(|rows| without(rows, is_left));
        assert_same(&title("slices"), &found_slices, &original_slices);
        let no_time = |row: &str| output.ends_with(".dart.json") && has_no_duration(row);
        assert_same(
            &title("asyncs"),
            &without(&found.asyncs, no_time),
            &without(&original.asyncs, no_time),
        );
        // The engine puts the name of a value, which JSON has, behind that of its counter.
        let sorted = |rows: &[String]| {
            let mut rows: Vec<String> =
                rows.iter().map(|row| row.replacen(" value\",", "\",", 1)).collect();
            rows.sort();
            rows
        };
        let [found_counters, known_counters] =
            [&found.counters, &original.counters].map(|rows| sorted(rows));
        assert_same(
            &title("counters"),
            &without(&found_counters, |_| false),
            &without(&known_counters, |_| false),
        );
        if is_json {
            continue;
        }
        assert_same(
            &title("sched"),
            &without(&found.sched, |_| false),
            &without(&original.sched, |_| false),
        );
        // Of two processors' events in one µs the engine takes either first, by the packets that they are in.
        let known: HashSet<&String> = original.states.iter().collect();
        let others = found.states.iter().filter(|row| !known.contains(row)).count();
        assert_eq!(found.states.len(), original.states.len(), "{}", title("states"));
        let most = if is_text { 0 } else { original.states.len() / 10_000 };
        assert!(others <= most, "{}: {others} others", title("states"));
    }
}

#[test]
fn generated_traces_have_the_same_rows_in_every_output() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("frames.ftrace"), frames(30)).unwrap();
    equal(&engine, directory.path(), "frames.ftrace", &OUTPUTS);
    for seed in 0..3 {
        let name = format!("{seed}.ftrace");
        std::fs::write(directory.path().join(&name), generated(seed)).unwrap();
        equal(&engine, directory.path(), &name, &["o.ftrace", "o.pftrace", "o.json"]);
    }
}

/// Threads of two processes that do what they want: slices that stay open, cookies that several share, the scheduler.
fn generated(seed: u64) -> String {
    let mut random = Random(seed);
    let threads = [
        ("main", 100, 100),
        ("Binder:100_1", 101, 100),
        ("main", 200, 200),
        ("w [1] x-2", 201, 200),
    ];
    let mut lines = HEADER.to_owned();
    let mut depth = [0; 4];
    let mut open: Vec<(u32, String)> = Vec::new();
    let mut at = 5_000_000;
    for _ in 0..400 {
        at += 1 + random.below(50);
        let thread = usize::try_from(random.below(4)).unwrap();
        let (name, tid, pid) = threads[thread];
        let label = *random.pick(&["a", "b c", "<init>", "\"q\"", "ünï"]);
        let cookie = random.below(2);
        let payload = match random.below(10) {
            0..=2 if depth[thread] < 6 => {
                depth[thread] += 1;
                format!("B|{pid}|{label}")
            }
            0..=5 if depth[thread] > 0 => {
                depth[thread] -= 1;
                format!("E|{pid}")
            }
            6 => format!("C|{pid}|{label}|{}", random.below(99)),
            7 | 8 => {
                let (begin, end) = match random.below(2) {
                    0 => (format!("S|{pid}|{label}|{cookie}"), format!("F|{pid}|{label}|{cookie}")),
                    _ => (
                        format!("G|{pid}|on {label}|work|{cookie}"),
                        format!("H|{pid}|on {label}|{cookie}"),
                    ),
                };
                // An open async slice does not begin again: readers differ in which of two an end belongs to.
                if open.iter().any(|(_, other)| *other == end) {
                    continue;
                }
                open.push((pid, end));
                begin
            }
            _ => {
                let found = open.iter().position(|(owner, _)| *owner == pid);
                let Some(index) = found else { continue };
                open.remove(index).1
            }
        };
        writeln!(
            lines,
            "{name:>16}-{tid:<7} ({pid:5}) [000] ...1 {}.{:06}: tracing_mark_write: {payload}",
            at / 1_000_000,
            at % 1_000_000
        )
        .unwrap();
        if random.below(4) == 0 {
            let (next, next_tid, _) = threads[(thread + 1) % 4];
            writeln!(
                lines,
                "{name:>16}-{tid:<7} ({pid:5}) [000] d..2 {}.{:06}: sched_switch: prev_comm={name} prev_pid={tid} \
                 prev_prio=120 prev_state={} ==> next_comm={next} next_pid={next_tid} next_prio=110",
                (at + 1) / 1_000_000,
                (at + 1) % 1_000_000,
                random.pick(&["S", "R", "R+", "D", "I", "D|K"])
            )
            .unwrap();
            at += 1;
        }
    }
    lines
}

#[test]
fn traces_of_real_phones_have_the_same_rows_in_every_output() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    for name in ["atrace-small.txt", "flutter-app.ftrace.txt.gz", "list-jank.ftrace.txt.gz"] {
        let Some(trace) = phone_trace(name) else { continue };
        std::fs::copy(trace, directory.path().join(name)).unwrap();
        // Each takes the engine some seconds.
        let outputs: &[_] =
            if name == "atrace-small.txt" { &OUTPUTS } else { &["o.html", "o.pftrace", "o.json"] };
        equal(&engine, directory.path(), name, outputs);
    }
}

#[test]
fn async_slices_of_one_cookie_are_told_apart_by_track_name_and_process() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (main, other) = (("main", 7, 7), ("othr", 8, 8));
    let line =
        |(name, tid, pid): (&'static str, u32, u32), us, payload| (name, tid, pid, us, payload);
    let lines = [
        line(main, 10, "G|7|Net|GET|1"),
        line(main, 20, "G|7|Disk|read|1"),
        line(main, 30, "H|7|Net|1"),
        line(main, 90, "H|7|Disk|1"),
        line(main, 1010, "S|7|deliver|5"),
        line(other, 1020, "S|8|deliver|5"),
        line(main, 1030, "F|7|deliver|5"),
        line(other, 1090, "F|8|deliver|5"),
        line(main, 2000, "S|7|one|9"),
        line(main, 2010, "S|7|two|9"),
        line(main, 2020, "F|7|one|9"),
        line(main, 2090, "F|7|two|9"),
    ];
    std::fs::write(path.join("in.ftrace"), text(&lines)).unwrap();
    equal(&engine, path, "in.ftrace", &OUTPUTS);
    for output in ["o.json", "o.dart.json"] {
        let written: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path.join(output)).unwrap()).unwrap();
        for event in written["traceEvents"].as_array().unwrap() {
            if matches!(event["ph"].as_str(), Some("b" | "e")) {
                // catapult skips those without a category, and takes one with both kinds of ids for an error.
                assert!(event["cat"].is_string() && event.get("id").is_none(), "{event}");
            }
        }
        // A second conversion gives the same.
        let _ = converted(path, &[output], "again.ftrace");
        assert_eq!(
            engine.whole(path, "again.ftrace").asyncs,
            engine.whole(path, "in.ftrace").asyncs,
            "{output}"
        );
    }
}

#[test]
fn names_that_end_a_script_and_empty_ones_lose_nothing() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let line = |us, payload| ("main", 7, 7, us, payload);
    let lines = [
        line(10, "B|7|eval: <b></script>"),
        line(110, "E|7"),
        line(1000, "B|7|later"),
        line(1050, "E|7"),
        line(1100, "S|7||5"),
        line(1150, "F|7||5"),
        line(1160, "C|7||5"),
        line(1170, "I|7|"),
        line(1180, "N|7||x"),
        line(1190, "N|7|t|"),
        line(1200, "G|7||n|5"),
        line(1210, "H|7||5"),
    ];
    std::fs::write(path.join("in.ftrace"), text(&lines)).unwrap();
    // Through the model too.
    std::fs::write(path.join("mapping.txt"), "com.example.Feed -> a.b:\n").unwrap();
    for output in ["o.ftrace", "o.atrace", "o.html", "o.pftrace", "o.json"] {
        for mapping in [&[][..], &["--mapping", "mapping.txt"]] {
            let mut arguments = vec!["convert", "in.ftrace", "-o", output];
            arguments.extend(mapping);
            let _ = run_tool(path, &arguments);
            let read = engine.whole(path, output);
            assert_eq!(
                read.slices
                    .iter()
                    .filter(|row| row.contains("\"eval: <b>") || row.contains("\"later\""))
                    .count(),
                2,
                "{output}: {:?}",
                read.slices
            );
            assert_eq!(read.counters.len(), 1, "{output}: {:?}", read.counters);
            let named = read.asyncs.iter().chain(&read.slices).count();
            // Two slices, two async ones, three instants.
            assert_eq!(named, 7, "{output}: {:?} {:?}", read.asyncs, read.slices);
        }
    }
}

#[test]
fn kernel_events_in_text_are_also_in_perfetto_s_format() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut text = HEADER.to_owned();
    let mut line = |us: u64, thread: &str, event: &str| {
        writeln!(text, "{thread:>24} (-----) [000] d..3   100.{us:06}: {event}").unwrap();
    };
    let switch = |(prev, prev_tid): (&str, u32), state: &str, (next, next_tid): (&str, u32)| {
        format!(
            "sched_switch: prev_comm={prev} prev_pid={prev_tid} prev_prio=120 prev_state={state} ==> next_comm={next} \
             next_pid={next_tid} next_prio=120"
        )
    };
    let (arrow, other, idle) = (("a ==> b", 77), ("x y", 55), ("swapper/0", 0));
    line(1, "<idle>-0", &switch(idle, "R", other));
    line(10, "x y-55", &switch(other, "D", arrow));
    line(20, "a ==> b-77", &switch(arrow, "S", idle));
    line(21, "<idle>-0", "sched_blocked_reason: pid=55 iowait=1 caller=worker_thread+0x534/0x820");
    line(22, "<idle>-0", "sched_waking: comm=x y pid=55 prio=120 target_cpu=000");
    line(23, "<idle>-0", &switch(idle, "R", other));
    line(30, "x y-55", "cpu_frequency_limits: min=500000 max=2800000 cpu_id=6");
    line(31, "x y-55", "cpu_frequency_limits: min_freq=600000 max_freq=1700000 cpu_id=4");
    line(32, "x y-55", "clock_set_rate: gpu state=4000 cpu_id=0");
    line(33, "x y-55", "clock_enable: gpu state=1 cpu_id=0");
    line(34, "x y-55", "clock_disable: gpu state=0 cpu_id=0");
    let binder =
        "transaction=5120 dest_node=5114 dest_proc=77 dest_thread=0 reply=0 flags=0x0 code=0x3";
    line(40, "x y-55", &format!("binder_transaction: {binder}"));
    line(50, "a ==> b-77", "binder_transaction_received: transaction=5120");
    line(60, "x y-55", "binder_return: cmd=0x7211 BR_FAILED_REPLY");
    std::fs::write(path.join("in.ftrace"), text).unwrap();
    let said = converted(path, &["in.ftrace"], "o.pftrace");
    let queries = [
        "select t.tid, s.ts, s.dur, s.state, s.io_wait, s.blocked_function from thread_state s join thread t using (utid) \
         where t.tid != 0 order by 1, 2",
        "select s.cpu, t.tid, t.name, s.ts, s.dur, s.end_state from sched s join thread t using (utid) order by s.ts",
        "select k.name, k.type, extract_arg(k.dimension_arg_set_id, 'cpu') cpu, c.ts, c.value from counter c \
         join track k on k.id = c.track_id order by 1, 3, 4",
        "select t.tid, s.ts, s.dur, s.name from slice s join thread_track k on s.track_id = k.id join thread t using (utid) \
         order by 1, 2",
    ];
    let rows = engine.rows(path, &["in.ftrace", "o.pftrace"], &queries);
    let counts: Vec<usize> = rows[0].iter().map(Vec::len).collect();
    assert_eq!(counts, [6, 4, 7, 2], "{:?}", rows[0]);
    assert_eq!(rows[1], rows[0], "{said}");
}

#[test]
fn process_0_and_the_names_of_threads_of_kernel_events_alone_are_the_same_in_perfettos_format() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "{HEADER}\
        third-400 (-----) [001] ...1 1.000361: cpu_frequency: state=1000 cpu_id=1\n\
        app-100 (  100) [000] ...1 1.000401: tracing_mark_write: C|0|zero|7\n\
        app-100 (  100) [000] ...1 1.000402: tracing_mark_write: S|0|work|1\n\
        app-100 (  100) [000] ...1 1.000403: tracing_mark_write: F|0|work|1\n"
    );
    std::fs::write(directory.path().join("in.ftrace"), text).unwrap();
    converted(directory.path(), &["in.ftrace"], "out.pftrace");
    let queries = [
        "select t.tid, t.name, p.pid from thread t left join process p using (upid) order by tid",
        "select pid, t.name, value from counter c join process_counter_track t on t.id = c.track_id \
            join process using (upid)",
        "select pid, s.name from slice s join process_track t on t.id = s.track_id \
            join process using (upid)",
    ];
    let [original, found] =
        &engine.rows(directory.path(), &["in.ftrace", "out.pftrace"], &queries)[..]
    else {
        panic!("two files")
    };
    assert_eq!(found, original);
    assert!(original.iter().all(|rows| !rows.is_empty()), "{original:?}");
}
