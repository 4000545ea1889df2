//! `tracetee run --stream`: the trace is there while the program runs, and has each record once, however the program ends.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tracetee_tests::{fixture, run, stderr, trace, tracetee, writer};

/// Names of the sections in the order of their begins.
fn begins(lines: &[trace::Line]) -> Vec<&str> {
    let begins = lines.iter().filter(|line| line.payload.starts_with("B|"));
    begins.map(|line| line.payload.rsplit('|').next().unwrap()).collect()
}

#[test]
fn a_record_is_there_while_the_program_runs_and_after_its_kill_each_is_there_once() {
    let (directory, _) = writer();
    let program = fixture(directory.path(), "endless", &[]);
    let output = directory.path().join("out.ftrace");
    let started = directory.path().join("started");
    let child = Command::new(tracetee())
        .args(["run", "--stream", "-o"])
        .args([&output, Path::new("--"), &program, &started])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    let mut sections = 0;
    while sections < 3000 {
        assert!(Instant::now() < patience, "{sections} sections while it runs");
        std::thread::sleep(Duration::from_millis(20));
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        sections = text.matches("tracing_mark_write: B|").count();
    }
    let pid: i32 = std::fs::read_to_string(&started).unwrap().trim().parse().unwrap();
    // SAFETY: the process that this test has started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let result = child.wait_with_output().unwrap();
    assert_eq!(result.status.code(), Some(128 + 9), "{}", stderr(&result));
    let lines = trace::records(&output);
    let names = begins(&lines);
    assert!(names.len() > sections, "{} sections, {sections} of them while it ran", names.len());
    let expected: Vec<String> = (0..names.len()).map(|number| format!("n{number}")).collect();
    assert_eq!(names, expected);
    assert!(stderr(&result).contains("1 of 1 processes were killed"), "{}", stderr(&result));
}

#[test]
fn every_process_is_in_it_forked_ones_too_and_frames_are_compressed() {
    let (directory, writer) = writer();
    let forks = fixture(directory.path(), "forks", &[]);
    let [writer, forks] = [writer, forks].map(|path| path.display().to_string());
    let script = format!("{writer} 1 10; {forks}; sleep 1.5; exec {writer} 2 20");
    for name in ["out.ftrace", "out.ftrace.zst"] {
        let output = directory.path().join(name);
        let result = run(&["--stream"], &output, &["sh", "-c", &script]);
        let lines = trace::records(&output);
        let count = |name: &str| lines.iter().filter(|line| line.payload.contains(name)).count();
        assert_eq!((count("before"), count("parent"), count("child")), (1, 500, 500), "{name}");
        // A begin and an end of each, and the writers' 10 and 40 records.
        assert_eq!(lines.len(), 2 * 1001 + 10 + 40, "{name}: {}", stderr(&result));
        let times: Vec<_> = lines.iter().map(|line| line.time_us).collect();
        assert!(times.is_sorted(), "{name}");
        // Without the option the trace is the same.
        let whole = directory.path().join("whole.ftrace");
        run(&[], &whole, &["sh", "-c", &script]);
        assert_eq!(trace::records(&whole).len(), lines.len(), "{name}");
    }
}

#[test]
fn records_that_the_recorder_has_no_room_for_are_counted_and_the_others_are_there() {
    let (directory, writer) = writer();
    let output = directory.path().join("out.ftrace");
    let options = ["--stream", "--capacity", "1"];
    let result = run(&options, &output, &[writer.to_str().unwrap(), "1", "200000"]);
    let said = stderr(&result);
    let count = |event: &str| -> usize {
        let line = said.lines().find(|line| line.contains(event)).unwrap_or("0");
        let number = line.trim_start_matches("tracetee: ").split(' ').next().unwrap();
        number.replace(',', "").parse().unwrap()
    };
    let (dropped, closed) = (count("records dropped"), count("sections without an end"));
    assert!(dropped > 0, "{said}");
    assert_eq!(trace::records(&output).len() - closed + dropped, 200_000, "{said}");
}

#[test]
fn a_reader_that_goes_away_ends_the_trace_and_not_the_program() {
    let (directory, _) = writer();
    let program = fixture(directory.path(), "endless", &[]);
    let fifo = directory.path().join("fifo");
    let started = directory.path().join("started");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let child = Command::new(tracetee())
        .args(["run", "--stream", "-o"])
        .args([&fifo, Path::new("--"), &program, &started])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = std::fs::File::open(&fifo).unwrap();
    let mut text = vec![0; 4096];
    reader.read_exact(&mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().starts_with("# tracer: nop\n"));
    drop(reader);
    let pid: i32 = std::fs::read_to_string(&started).unwrap().trim().parse().unwrap();
    // Some rounds later the program still runs, or its status would be another one.
    std::thread::sleep(Duration::from_millis(1000));
    // SAFETY: the process that this test has started.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let result = child.wait_with_output().unwrap();
    assert_eq!(result.status.code(), Some(128 + 15), "{}", stderr(&result));
    assert!(stderr(&result).contains("Broken pipe"), "{}", stderr(&result));
}

#[test]
fn atrace_streams_a_program_to_stdout_and_says_why_not_a_process() {
    let (_directory, writer) = writer();
    let output = Command::new(tracetee())
        .args(["atrace", "--stream", "--"])
        .args([writer.to_str().unwrap(), "1", "30"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Behind the program's own line.
    assert!(text.starts_with("30\n# tracer: nop\n"), "{text}");
    assert_eq!(text.matches("tracing_mark_write: B|").count(), 15, "{text}");
    let refused = Command::new(tracetee()).args(["atrace", "--stream"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr(&refused).contains("--stream needs a program to run"), "{}", stderr(&refused));
}
