//! Inputs that are joined, by Perfetto's own trace_processor: each slice is there once, and ends.

use std::fmt::Write as _;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_convert::rows::{HEADER, converted, text, tid, tids, without};
use tracetee_tests_convert::{Engine, run_tool};

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
    let (records, _) = run_tool(path, &["dmtracedump", "-o", "o.trace"]);
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
        assert!(said.contains("records in two inputs"), "{said}");
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
        let found: Vec<String> =
            slices.iter().map(|row| row.splitn(3, ',').nth(2).unwrap().to_owned()).collect();
        let expected = [
            r#"10,40,"com.example.A.outer()V",0]"#,
            r#"20,40,"com.example.A.inner()V",1]"#,
            r#"50,60,"com.example.A.later()V",0]"#,
        ];
        assert_eq!(found, expected, "{output}");
    }
}

#[test]
fn two_texts_and_one_with_a_mapping_keep_the_kernel_s_events() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let switch = |us: u64, cpu, prev: &str, state: &str, next: &str| {
        let spaced = |thread: &str| thread.replacen('-', " ", 1);
        let (prev, next) = (spaced(prev), spaced(next));
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
            run_tool(path, &["convert", "both.ftrace", "--mapping", "mapping.txt", "-o", output]);
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
