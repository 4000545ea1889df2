//! `--pid`, `--process`, names of processes, and files that are not traces: what the program does and says.

use std::path::Path;
use tracetee_tests_convert::{refused, run_tool};
use tracetee_trace::read_file;

fn write(directory: &Path, name: &str, text: &[u8]) {
    std::fs::write(directory.join(name), text).unwrap();
}

/// Two apps, surfaceflinger, and the scheduler; each app has three frames of 20 ms, surfaceflinger more.
fn phone() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    let mut line = |task: &str, pid: u32, us: u64, event: &str| {
        text.push_str(&format!(" {task}-{pid} ({pid:5}) [000] ...1 1.{us:06}: {event}\n"));
    };
    let mark = |payload: &str| format!("tracing_mark_write: {payload}");
    for frame in 0..3 {
        let us = frame * 50_000;
        line("m.example.first", 10, us, &mark("B|10|Choreographer#doFrame"));
        line("surfaceflinger", 30, us + 1, &mark("B|30|eglSwapBuffers"));
        line("surfaceflinger", 30, us + 2, &mark("E|30"));
        line(
            "m.example.first",
            10,
            us + 10,
            "sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=b next_pid=99 next_prio=120",
        );
        line(
            "other",
            99,
            us + 20,
            "sched_switch: prev_comm=b prev_pid=99 prev_prio=120 prev_state=S ==> next_comm=c next_pid=98 next_prio=120",
        );
        line("m.example.first", 10, us + 20_000, &mark("E|10"));
        line("second", 20, us + 30_000, &mark("B|20|Choreographer#doFrame"));
        line("second", 20, us + 30_100, &mark("E|20"));
        line("second", 20, us + 30_200, &mark("C|20|rate|1"));
    }
    text
}

const DUMP: &[u8] = b"PROCESS DUMP\nUSER PID PPID VSZ RSS WCHAN PC S NAME COMM\n\
    u0 10 2 1 1 0 0 S com.example.first app\nu0 20 2 1 1 0 0 S com.example.second app\n";

#[test]
fn one_process_is_kept_by_id_or_name_with_the_events_that_concern_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "in.ftrace", phone().as_bytes());
    write(path, "ps.txt", DUMP);
    for asked in [["--pid", "10"], ["--process", "com.example.first"], ["--process", "first"]] {
        let _ = run_tool(
            path,
            &["convert", "in.ftrace", "ps.txt", "-o", "one.ftrace", asked[0], asked[1]],
        );
        let text = std::fs::read_to_string(path.join("one.ftrace")).unwrap();
        assert_eq!(text.matches("doFrame").count(), 3, "{asked:?}: {text}");
        assert!(!text.contains("eglSwapBuffers") && !text.contains("rate"), "{asked:?}: {text}");
        // Its own switches, not those between two others.
        assert_eq!(text.matches("prev_pid=10").count(), 3, "{asked:?}: {text}");
        assert!(!text.contains("next_pid=98"), "{asked:?}: {text}");
    }
    let _ = run_tool(path, &["convert", "in.ftrace", "-o", "two.json", "--pid", "20"]);
    let two = read_file(&path.join("two.json")).unwrap();
    assert_eq!((two.slice_count(), two.counters.len(), two.threads.len()), (3, 3, 1));
    let said = refused(path, &["convert", "in.ftrace", "-o", "no.json", "--process", "none"]);
    assert!(
        said.contains(
            "no input has a process named \"none\"; it has 10 (m.example.first), 20 (second)"
        ),
        "{said}"
    );
    assert!(!path.join("no.json").exists());
    let said = refused(path, &["convert", "in.ftrace", "-o", "no.json", "--pid", "7"]);
    assert!(said.contains("no input has a process 7"), "{said}");
}

#[test]
fn a_report_is_of_the_process_that_is_named_and_names_it_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "in.ftrace", phone().as_bytes());
    write(path, "ps.txt", DUMP);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Of two apps the first, and the others are a choice.
    let (text, _) = run_tool(path, &["report", "in.ftrace"]);
    assert!(text.starts_with("m.example.first (pid 10)"), "{text}");
    let others = "Other processes that draw, for --pid or --app: second (pid 20, 3 frames) ";
    assert!(words(&text).contains(others), "{text}");
    for chosen in [["--app", "com.example.second"], ["--process", "com.example.second"]] {
        let (text, _) = run_tool(path, &["report", "in.ftrace", "ps.txt", chosen[0], chosen[1]]);
        assert!(text.starts_with("com.example.second (pid 20)"), "{text}");
        assert!(words(&text).contains("com.example.first (pid 10, 3 frames)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
    let (page, _) = run_tool(path, &["report", "in.ftrace", "--pid", "20", "--format", "html"]);
    assert!(page.contains("\"app\":\"second\""), "the page is of the second app");
}

#[test]
fn files_that_are_no_traces_are_named_as_what_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::create_dir(path.join("run.trace")).unwrap();
    write(
        path,
        "a.zip",
        b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0a.txt",
    );
    write(path, "perf.data", b"PERFILE2\x68\0\0\0");
    write(path, "heap.hprof", b"JAVA PROFILE 1.0.2\0");
    write(path, "x.xml", b"<?xml version=\"1.0\"?>\n<trace-toc><run number=\"1\">");
    for (name, reason) in [
        ("run.trace", "is not a trace: it is a directory, a bundle of Apple's Instruments"),
        ("a.zip", "is not a trace: it is a ZIP archive (as a bug report or an APK) in which"),
        ("perf.data", "is invalid at byte 8: the header is damaged, or perf wrote to a pipe"),
        ("heap.hprof", "is not a trace: it is a heap dump (HPROF)"),
        ("x.xml", "is not a trace: it is an export of Apple's Instruments"),
    ] {
        for arguments in [&["convert", name, "-o", "out.json"][..], &["report", name]] {
            let said = refused(path, arguments);
            assert!(said.contains(&format!("{name} {reason}")), "{arguments:?}: {said}");
        }
    }
    assert!(!path.join("out.json").exists());
}
