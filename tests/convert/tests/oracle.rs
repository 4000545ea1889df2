//! Perfetto's own trace_processor on originals and on what is made of them: the rows are equal. Where two inputs are
//! joined, each slice is there and ends.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_convert::{Engine, Random, frames, told};

const HEADER: &str = "# tracer: nop\n# TRACE:\n# tracer: nop\n\
    #           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n";

/// Text of markers of some threads: name, thread, process, µs, payload.
fn text(lines: &[(&str, u32, u32, u64, &str)]) -> String {
    let mut text = HEADER.to_owned();
    for (name, tid, pid, us, payload) in lines {
        let at = 1_000_000 + us;
        writeln!(
            text,
            "{name:>16}-{tid:<7} ({pid:5}) [000] ...1 {}.{:06}: tracing_mark_write: {payload}",
            at / 1_000_000,
            at % 1_000_000
        )
        .unwrap();
    }
    text
}

fn converted(directory: &Path, inputs: &[&str], output: &str) -> String {
    let arguments: Vec<&str> =
        ["convert"].iter().chain(inputs).chain(&["-o", output]).copied().collect();
    told(directory, &arguments).1
}

fn without(rows: &[String], is_left: impl Fn(&str) -> bool) -> Vec<&String> {
    rows.iter().filter(|row| !is_left(row)).collect()
}

/// Both tables have the same rows; else the first ones that only one has.
#[track_caller]
fn same(what: &str, found: &[&String], expected: &[&String]) {
    let only = |a: &[&String], b: &[&String]| {
        let known: HashSet<_> = b.iter().collect();
        a.iter()
            .filter(|row| !known.contains(row))
            .take(5)
            .map(|row| row.to_string())
            .collect::<Vec<_>>()
    };
    assert!(
        found == expected,
        "{what}: {} rows for {}; only there {:?}, only in the original {:?}",
        found.len(),
        expected.len(),
        only(found, expected),
        only(expected, found)
    );
}

/// True if the engine made a slice of the kernel's events, which JSON cannot represent.
fn is_of_kernel(slice: &str) -> bool {
    slice.contains("\"binder ")
}

/// True if a slice ends when it begins.
fn has_no_duration(row: &str) -> bool {
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    let at = row.as_array().unwrap().len().min(5) - 3;
    row[at] == row[at + 1]
}

/// The thread of a row of slices.
fn tid(row: &str) -> &str {
    row.split(',').nth(1).unwrap()
}

/// Threads of which `is` is true, by their rows.
fn tids(threads: &[String], is: impl Fn(&str) -> bool) -> HashSet<String> {
    let rows = threads.iter().filter(|row| is(row));
    rows.map(|row| row[1..].split(',').next().unwrap().to_owned()).collect()
}

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
        let what = |table: &str| format!("{input} as {output}: {table}");
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
        let of = |rows: &[String]| {
            let mut rows: Vec<String> = rows.iter().map(pidless).collect();
            // Without the kernel's slices around them others are less deep.
            if is_json && has_kernel_slices {
                rows.iter_mut().for_each(|row| row.truncate(row.rfind(',').unwrap()));
            }
            rows.sort();
            rows
        };
        let slices = [of(&found.slices), of(&original.slices)];
        let [found_slices, original_slices] = slices.each_ref().map(|rows| without(rows, is_left));
        same(&what("slices"), &found_slices, &original_slices);
        let no_time = |row: &str| output.ends_with(".dart.json") && has_no_duration(row);
        same(
            &what("asyncs"),
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
        same(
            &what("counters"),
            &without(&found_counters, |_| false),
            &without(&known_counters, |_| false),
        );
        if is_json {
            continue;
        }
        same(
            &what("sched"),
            &without(&found.sched, |_| false),
            &without(&original.sched, |_| false),
        );
        // Of two processors' events in one µs the engine takes either first, by the packets that they are in.
        let known: HashSet<&String> = original.states.iter().collect();
        let others = found.states.iter().filter(|row| !known.contains(row)).count();
        assert_eq!(found.states.len(), original.states.len(), "{}", what("states"));
        let most = if is_text { 0 } else { original.states.len() / 10_000 };
        assert!(others <= most, "{}: {others} others", what("states"));
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
        let place = usize::try_from(random.below(4)).unwrap();
        let (name, tid, pid) = threads[place];
        let label = *random.of(&["a", "b c", "<init>", "\"q\"", "ünï"]);
        let cookie = random.below(2);
        let payload = match random.below(10) {
            0..=2 if depth[place] < 6 => {
                depth[place] += 1;
                format!("B|{pid}|{label}")
            }
            0..=5 if depth[place] > 0 => {
                depth[place] -= 1;
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
                let of_it = open.iter().position(|(of, _)| *of == pid);
                let Some(place) = of_it else { continue };
                open.remove(place).1
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
            let (next, next_tid, _) = threads[(place + 1) % 4];
            writeln!(
                lines,
                "{name:>16}-{tid:<7} ({pid:5}) [000] d..2 {}.{:06}: sched_switch: prev_comm={name} prev_pid={tid} \
                 prev_prio=120 prev_state={} ==> next_comm={next} next_pid={next_tid} next_prio=110",
                (at + 1) / 1_000_000,
                (at + 1) % 1_000_000,
                random.of(&["S", "R", "R+", "D", "I", "D|K"])
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

/// The same markers, as the system and as the agent has them: 3 µs apart.
const SYSTEM_AND_OWN: [(&str, u64); 2] = [("system.ftrace", 3), ("own.ftrace", 0)];

#[test]
fn a_slice_that_is_cut_in_a_join_ends_and_nothing_later_is_within_it() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (name, later) in SYSTEM_AND_OWN {
        // Of the same name they would be the same, and there once.
        let (frame, second) =
            if later == 0 { ("B|7|frame", "B|7|later") } else { ("B|7|FRAME", "B|7|LATER") };
        let lines = [
            ("main", 7, 7, 0, "trace_event_clock_sync: realtime_ts=1795302485500"),
            ("main", 7, 7, 7 + later, frame),
            ("main", 7, 7, 107 + later, "E|7"),
            ("main", 7, 7, 997 + later, second),
            ("main", 7, 7, 1047 + later, "E|7"),
        ];
        std::fs::write(path.join(name), text(&lines)).unwrap();
    }
    for output in ["o.ftrace", "o.html", "o.pftrace", "o.json", "o.dart.json"] {
        let said = converted(path, &["system.ftrace", "own.ftrace"], output);
        assert!(
            said.contains("2 slices shortened because they overlap slices of another input"),
            "{said}"
        );
        let slices = engine.whole(path, output).slices;
        // Of both frames the second to begin is cut where the first ends.
        let expected = [
            r#"[7,7,1000007,1000107,"frame",0]"#,
            r#"[7,7,1000010,1000107,"FRAME",1]"#,
            r#"[7,7,1000997,1001047,"later",0]"#,
            r#"[7,7,1001000,1001047,"LATER",1]"#,
        ];
        assert_eq!(slices, expected, "{output}");
    }
    let _ = converted(path, &["system.ftrace", "own.ftrace"], "o.trace");
    let (records, _) = told(path, &["dmtracedump", "-o", "o.trace"]);
    assert_eq!(records.matches(" xit ").count(), 4, "{records}");
}

#[test]
fn a_real_trace_joined_with_its_own_markers_has_every_slice_once_and_every_switch() {
    let Some(engine) = Engine::new() else { return };
    let Some(system) = phone_trace("flutter-app.ftrace.txt.gz") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::copy(&system, path.join("system.ftrace.gz")).unwrap();
    let _ = converted(path, &["system.ftrace.gz"], "system.ftrace");
    // The app's markers alone, 3 µs earlier and later by turns.
    let mut own = HEADER.to_owned();
    for line in std::fs::read_to_string(path.join("system.ftrace")).unwrap().lines() {
        let (Some(at), true) = (line.find(": tracing_mark_write: "), line.contains("( 1259)"))
        else {
            continue;
        };
        let start = line[..at].rfind(' ').unwrap() + 1;
        let (seconds, us) = line[start..at].split_once('.').unwrap();
        let us = seconds.parse::<u64>().unwrap() * 1_000_000 + us.parse::<u64>().unwrap() - 3;
        let stamp = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        writeln!(own, "{}{stamp}{}", &line[..start], &line[at..]).unwrap();
    }
    std::fs::write(path.join("own.ftrace"), own).unwrap();
    let read = engine.read(path, &["system.ftrace", "own.ftrace"]);
    let (system, own) = (&read[0], &read[1]);
    assert!(own.slices.len() > 2000, "{}", own.slices.len());
    for output in ["o.ftrace", "o.pftrace"] {
        let said = converted(path, &["system.ftrace", "own.ftrace"], output);
        assert!(said.contains("records that two inputs have"), "{said}");
        let joined = engine.read(path, &[output]).remove(0);
        assert_eq!(joined.error, None);
        // All begin where they began, and what ended does.
        let begins = |rows: &[String]| {
            let mut begins: Vec<String> = rows
                .iter()
                .map(|row| {
                    let row: serde_json::Value = serde_json::from_str(row).unwrap();
                    format!("{} {} {}", row[1], row[2], row[4])
                })
                .collect();
            begins.sort();
            begins
        };
        let open = |rows: &[String]| rows.iter().filter(|row| row.contains(",-1,")).count();
        // The markers that the app's trace has too are there once.
        let expected = system.slices.clone();
        let workers = tids(&system.threads, |row| row.contains("\"kworker"));
        let is_left = |row: &str| output == "o.pftrace" && workers.contains(tid(row));
        let found: Vec<String> = without(&joined.slices, is_left).into_iter().cloned().collect();
        let expected: Vec<String> = without(&expected, is_left).into_iter().cloned().collect();
        assert_eq!(begins(&found), begins(&expected), "{output}");
        assert!(open(&found) <= open(&expected), "{output}");
        assert_eq!(joined.sched, system.sched, "{output}");
        assert_eq!(joined.states.len(), system.states.len(), "{output}");
    }
}

#[test]
fn a_method_without_its_exit_ends_with_what_is_around_it() {
    use tracetee_trace::method::{Action, Method, MethodTrace, Record, write};
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let record =
        |action, method, us| Record { thread: 1, action, method, time_us: us, wall_us: us };
    let method = |id, name: &str| Method {
        id,
        class: "com.example.A".to_owned(),
        name: Some(name.to_owned()),
        signature: "()V".to_owned(),
    };
    let trace = MethodTrace {
        version: 2,
        threads: vec![(1, "main".to_owned())],
        methods: vec![method(4, "outer"), method(8, "inner"), method(12, "later")],
        records: vec![
            record(Action::Enter, 4, 10),
            record(Action::Enter, 8, 20),
            record(Action::Exit, 4, 40),
            record(Action::Enter, 12, 50),
            record(Action::Exit, 12, 60),
        ],
        ..MethodTrace::default()
    };
    write(&trace, std::fs::File::create(path.join("x.trace")).unwrap()).unwrap();
    for output in ["o.ftrace", "o.html", "o.pftrace", "o.json"] {
        let _ = converted(path, &["x.trace"], output);
        let slices = engine.whole(path, output).slices;
        let told: Vec<String> =
            slices.iter().map(|row| row.splitn(3, ',').nth(2).unwrap().to_owned()).collect();
        let expected = [
            r#"10,40,"com.example.A.outer()V",0]"#,
            r#"20,40,"com.example.A.inner()V",1]"#,
            r#"50,60,"com.example.A.later()V",0]"#,
        ];
        assert_eq!(told, expected, "{output}");
    }
}

#[test]
fn two_texts_and_one_with_a_mapping_keep_the_kernel_s_events() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let switch = |us: u64, cpu, prev: &str, state: &str, next: &str| {
        let of = |thread: &str| thread.replacen('-', " ", 1);
        let (prev, next) = (of(prev), of(next));
        let ((prev, prev_tid), (next, next_tid)) =
            (prev.split_once(' ').unwrap(), next.split_once(' ').unwrap());
        format!(
            "{prev:>16}-{prev_tid:<7} (-----) [00{cpu}] d..2 1.{us:06}: sched_switch: prev_comm={prev} \
             prev_pid={prev_tid} prev_prio=120 prev_state={state} ==> next_comm={next} next_pid={next_tid} next_prio=97\n"
        )
    };
    let mut system = HEADER.to_owned();
    for (us, cpu, prev, state, next) in [
        (10, 0, "swapper-0", "R", "main-7"),
        (20, 1, "swapper-0", "R", "render-8"),
        (30, 0, "main-7", "S", "swapper-0"),
        (40, 1, "render-8", "R+", "swapper-0"),
        (60, 0, "swapper-0", "R", "main-7"),
        (90, 0, "main-7", "D", "render-8"),
        (95, 0, "render-8", "I", "swapper-0"),
    ] {
        system.push_str(&switch(us, cpu, prev, state, next));
    }
    system.push_str("          main-7       (-----) [000] d..2 1.000100: sched_waking: comm=render pid=8 prio=97 success=1 target_cpu=001\n");
    system.push_str("          main-7       (-----) [000] d..2 1.000101: cpu_frequency: state=1766400 cpu_id=1\n");
    system.push_str(
        "          main-7       (-----) [000] d..2 1.000102: cpu_idle: state=4294967295 cpu_id=3\n",
    );
    system.push_str(
        "          main-7       (-----) [000] d..2 1.000103: ext4_sync_file_exit: dev 8,0 ino 5\n",
    );
    std::fs::write(path.join("system.ftrace"), &system).unwrap();
    let own = [("main", 7, 7, 12, "B|7|a.b.c"), ("main", 7, 7, 70, "E|7")];
    std::fs::write(path.join("own.ftrace"), text(&own)).unwrap();
    let both = system
        + "            main-7       (    7) [000] ...1 1.000110: tracing_mark_write: I|7|x\n";
    std::fs::write(path.join("both.ftrace"), both).unwrap();
    std::fs::write(
        path.join("mapping.txt"),
        "com.example.Feed -> a.b:\n    1:5:void bind(int):10:14 -> c\n",
    )
    .unwrap();
    let original = engine.whole(path, "system.ftrace");
    assert_eq!(original.sched.len(), 7);
    for output in ["o.ftrace", "o.atrace", "o.html", "o.pftrace"] {
        let said = converted(path, &["own.ftrace", "system.ftrace"], output);
        assert!(!said.contains("kernel events"), "{output}: {said}");
        let joined = engine.whole(path, output);
        assert_eq!(
            (&joined.sched, &joined.states),
            (&original.sched, &original.states),
            "{output}"
        );
        assert_eq!(joined.slices, [r#"[7,7,1000012,1000070,"a.b.c",0]"#], "{output}");
        let (_, said) =
            told(path, &["convert", "both.ftrace", "--mapping", "mapping.txt", "-o", output]);
        assert!(!said.contains("kernel events"), "{output}: {said}");
        assert_eq!(engine.whole(path, output).sched, original.sched, "{output}");
    }
    // Those that have no rows are there too.
    let _ = converted(path, &["own.ftrace", "system.ftrace"], "o.ftrace");
    let joined = std::fs::read_to_string(path.join("o.ftrace")).unwrap();
    assert!(
        joined.contains(
            "main-7       (    7) [000] d..2 1.000103: ext4_sync_file_exit: dev 8,0 ino 5\n"
        ),
        "{joined}"
    );
    assert!(
        std::fs::read(path.join("o.pftrace"))
            .unwrap()
            .windows(19)
            .any(|bytes| bytes == b"ext4_sync_file_exit")
    );
}

#[test]
fn names_of_a_process_dump_and_of_the_scheduler_are_those_of_threads() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let dump = "PROCESS DUMP\n\
        USER            PID   PPID     VSZ    RSS WCHAN  PC S NAME                        COMM\n\
        u0_a1           990      1 2199108   4424 0       0 S com.example.app             [com.example.app]\n\
        USER            PID   TID CMD\n\
        u0_a1           990   990 com.example.app\n\
        u0_a1           990  1057 RenderThread\n\
        u0_a1           990  1058 never runs\n";
    let events = "# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n\
        \u{20}          <...>-1057  (  990) [002] .... 2.000010: tracing_mark_write: B|990|DrawFrame\n\
        \u{20}          <...>-1057  (  990) [002] .... 2.000900: tracing_mark_write: E|990\n\
        \u{20}          <...>-1060  (  990) [002] .... 2.000910: tracing_mark_write: B|990|work\n\
        \u{20}          <...>-1060  (  990) [002] .... 2.000920: tracing_mark_write: E|990\n\
        \u{20}          <...>-1060  (  990) [002] d..2 2.000930: sched_switch: prev_comm=Worker prev_pid=1060 \
        prev_prio=120 prev_state=S ==> next_comm=Other next_pid=1061 next_prio=120\n\
        \u{20}          <...>-1061  (  990) [002] .... 2.000940: tracing_mark_write: I|990|now\n";
    let section = |text: &str| {
        format!("<script class=\"trace-data\" type=\"application/text\">\n{text}</script>\n")
    };
    let page = format!(
        "<!DOCTYPE html>\n<html><body>\n{}{}</body></html>\n",
        section(dump),
        section(events)
    );
    std::fs::write(path.join("page.html"), page).unwrap();
    std::fs::write(path.join("dump.txt"), dump).unwrap();
    std::fs::write(path.join("events.ftrace"), events).unwrap();
    let inputs: [&[&str]; 2] = [&["page.html"], &["events.ftrace", "dump.txt"]];
    for input in inputs {
        for output in ["o.ftrace", "o.html", "o.pftrace", "o.json"] {
            let _ = converted(path, input, output);
            let read = engine.whole(path, output);
            let has = |row: &str| read.threads.contains(&row.to_owned());
            for (tid, name) in [(1057, "RenderThread"), (1060, "Worker"), (1061, "Other")] {
                assert!(
                    has(&format!("[{tid},990,\"{name}\"]")),
                    "{input:?} {output}: {:?}",
                    read.threads
                );
            }
            if output == "o.html" || output == "o.pftrace" {
                assert!(has("[1058,990,\"never runs\"]"), "{output}: {:?}", read.threads);
            }
            if output != "o.ftrace" {
                assert!(
                    read.processes.contains(&"[990,\"com.example.app\"]".to_owned()),
                    "{output}: {:?}",
                    read.processes
                );
            }
        }
    }
}

#[test]
fn real_threads_have_names_by_their_dump_beside_a_column_of_processes() {
    let Some(engine) = Engine::new() else { return };
    let of = |name: &str| phone_trace(name).map(|path| path.to_str().unwrap().to_owned());
    let (Some(events), Some(dump)) = (of("flutter-app.ftrace.txt.gz"), of("flutter-app.ps.txt.gz"))
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _ = converted(path, &[&events, &dump], "named.ftrace");
    // As a kernel writes it that remembers few names.
    let mut nameless = String::new();
    for line in std::fs::read_to_string(path.join("named.ftrace")).unwrap().lines() {
        let bracket = line.find(" [0").unwrap_or(0);
        let dash = line[..bracket].rfind('-').filter(|_| line.contains(": tracing_mark_write: "));
        match dash {
            Some(_) if line[..bracket].contains("(-----)") => {}
            Some(dash) => writeln!(nameless, "           <...>{}", &line[dash..]).unwrap(),
            None if line.starts_with('#') => writeln!(nameless, "{line}").unwrap(),
            None => {}
        }
    }
    std::fs::write(path.join("nameless.ftrace"), nameless).unwrap();
    // `USER PID TID CMD`.
    let file = flate2::read::GzDecoder::new(std::fs::File::open(&dump).unwrap());
    let listed = std::io::read_to_string(file).unwrap();
    let listed = listed.split("TID CMD").nth(1).unwrap().lines();
    let listed: HashSet<&str> = listed.filter_map(|row| row.split_whitespace().nth(2)).collect();
    for output in ["o.ftrace", "o.html", "o.pftrace", "o.json"] {
        let _ = converted(path, &["nameless.ftrace", &dump], output);
        let threads = engine.whole(path, output).threads;
        // In text and in JSON a process's main thread without an event has no place for a name.
        let has_no_place = |row: &str| {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            matches!(output, "o.ftrace" | "o.json") && row[0] == row[1]
        };
        let nameless = tids(&threads, |row| {
            let made = format!(",\"thread-{}\"]", row[1..].split(',').next().unwrap());
            row.ends_with(",null]") && !has_no_place(row) || row.ends_with(&made)
        });
        let known = nameless.iter().filter(|tid| listed.contains(&***tid)).count();
        // Those that had ended, or not begun, when the dump was made have none.
        assert_eq!(known, 0, "{output}: {nameless:?}");
        assert!(threads.len() > 90, "{output}: {threads:?}");
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
            let _ = told(path, &arguments);
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
