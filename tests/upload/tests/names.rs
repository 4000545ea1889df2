//! Names from captures, files and requests reach a terminal and a log without a control character: none of them moves the cursor, rings
//! the bell, reverses text or forges a line.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tracetee_tests::tracetee;
use tracetee_tests_upload::collector::{Collector, ID, put_capture};

/// A name that clears the screen, rings, forges a line and a message, and reverses the text after it.
const NAME: &str = "evil\u{1b}[2J\u{7}\r\nFORGED\ntracetee: FORGED\u{9b}31m\u{202e}\u{2066}\u{7f}";

fn check(stream: &str, printed: &[u8]) {
    let text = std::str::from_utf8(printed).unwrap_or_else(|error| panic!("{stream}: {error}"));
    // Tabs and line breaks are the program's.
    let is_unsafe = |char: char| {
        (char.is_control() && !matches!(char, '\n' | '\t'))
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(is_unsafe), "{stream}: {text:?}");
    for line in text.lines() {
        // A long line is broken between words, and indented.
        let line = line.trim_start_matches("tracetee: ");
        assert!(!line.starts_with("FORGED"), "{stream}: {text:?}");
    }
}

/// Runs a command and checks what it prints. Returns its output if it has the name.
fn run(directory: &Path, arguments: &[&str]) -> bool {
    let output = Command::new(tracetee()).args(arguments).current_dir(directory).output().unwrap();
    let command = arguments.join(" ");
    check(&format!("stdout of {command:?}"), &output.stdout);
    check(&format!("stderr of {command:?}"), &output.stderr);
    [output.stdout, output.stderr].iter().any(|said| String::from_utf8_lossy(said).contains("evil"))
}

/// A trace with late frames of a process, threads and sections of this name.
fn trace() -> Value {
    let meta = |kind, id: u32| json!({"ph": "M", "name": kind, "pid": id, "tid": id, "args": {"name": NAME}});
    let mut events = vec![meta("process_name", 7), meta("thread_name", 7), meta("process_name", 9)];
    for frame in 0..5_u32 {
        let ts = frame * 100_000;
        for (name, pid, dur) in
            [("Choreographer#doFrame", 7, 60_000), (NAME, 7, 50_000), (NAME, 9, 10)]
        {
            events.push(json!({"ph": "X", "name": name, "pid": pid, "tid": pid, "ts": ts, "dur": dur, "cat": NAME}));
        }
    }
    json!({"traceEvents": events})
}

#[test]
fn names_of_a_file_are_escaped_in_reports_profiles_and_messages() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("trace.json"), trace().to_string()).unwrap();
    fs::write(directory.join("text.ftrace"), format!("# tracer: nop\n{NAME}\n{NAME}\n")).unwrap();
    fs::write(directory.join(format!("{}.bin", NAME.replace('/', ""))), "what").unwrap();
    let bin = format!("{}.bin", NAME.replace('/', ""));
    let mut named = 0;
    for arguments in [
        &["report", "trace.json", "--pid", "7"][..],
        &["report", "trace.json"],
        &["report", "trace.json", "--app", NAME],
        &["report", "trace.json", "--app", "other"],
        &["report", "trace.json", "--pid", "7", "--format", "markdown"],
        &["report", "trace.json", "--pid", "7", "--format", "json"],
        &["report", "text.ftrace"],
        &["report", &bin],
        &["convert", "trace.json", "-o", "out.ftrace"],
        &["convert", "trace.json", "--process", NAME, "-o", "out.trace"],
        &["convert", "trace.json", "--process", "other", "-o", "out.html"],
        &["convert", "text.ftrace", "-o", "out.html"],
        &["convert", "trace.json", "-o", &format!("{NAME}.unknown")],
        &["convert", &bin, "-o", "out.html"],
        &["dmtracedump", "trace.json"],
        &["dmtracedump", "-o", "trace.json"],
        &["dmtracedump", "text.ftrace"],
        &["atrace", NAME],
        &["config", "check", &bin],
    ] {
        named += u32::from(run(directory, arguments));
    }
    assert!(named > 12, "the name is printed: {named}");
}

#[test]
fn names_of_uploads_are_escaped_in_reports_of_the_store_and_in_the_log() {
    let collector = Collector::start(&[]);
    collector.simulate(8, 12, &[]);
    let meta = json!({"app": NAME, "version_name": NAME, "install_id": NAME, "window": NAME, "why": NAME, "model": NAME,
                      "opens": "schedule"});
    let meta = meta.as_object().unwrap();
    let body = |text: &str| zstd::encode_all(text.as_bytes(), 0).unwrap();
    let section = NAME.replace(['\n', '\r'], " ");
    let frame = format!(
        "# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|Choreographer#doFrame\n \
         app-5 (5) [000] ...1 1.000100: tracing_mark_write: B|5|{section}\n \
         app-5 (5) [000] ...1 1.090000: tracing_mark_write: E|5\n \
         app-5 (5) [000] ...1 1.100000: tracing_mark_write: E|5\n"
    );
    assert_eq!(put_capture(&collector.url, ID, meta, &body(&frame)), Some(201));
    // Refused, with its first line in the reason.
    assert_eq!(put_capture(&collector.url, &ID.replace('0', "1"), meta, &body(NAME)), Some(422));
    let losses = json!({"app": NAME, "install_id": "i", "by_reason": {NAME: 3}}).to_string();
    collector.send("PUT", &format!("/v1/losses/{ID}"), &[], losses.as_bytes());
    for path in ["/v1/captures/%1b%5b2J%0aFORGED", "/%0aFORGED%1b", "/captures/%0aFORGED%c2%9b"] {
        collector.send("PUT", path, &[("Content-Type", "a\u{9b}b")], b"x");
        collector.send("GET", path, &[], b"");
    }
    collector.settle();
    let directory = collector.directory.path();
    let mut named = 0;
    for arguments in [
        &["report", "--store", "store"][..],
        &["report", "--store", "store", "--app", NAME],
        &["report", "--store", "store", "--app", "evil"],
        &["report", "--store", "store", "--format", "markdown"],
        &["report", "--store", "store", "--format", "json"],
        &["report", "--store", "store", "--compare", NAME, "2.0", "--app", NAME],
        &["guard", "--store", "store", "--app", NAME, "--from", NAME, "--to", "2.0"],
        &["bisect", "--store", "store", "--app", NAME],
        &["store", "tables", "--store", "store", "--list"],
        &["store", "backup", "--store", "store", "-o", NAME],
        &["store", "forget", NAME, "--store", "store"],
        &["store", "rebuild", "--store", NAME],
        &["store", "mapping", "upload", "--url", NAME, NAME],
    ] {
        named += u32::from(run(directory, arguments));
    }
    assert!(named > 6, "the name is printed: {named}");
    let log = collector.log();
    check("the log", log.as_bytes());
    assert!(log.contains("evil") || log.contains("FORGED"), "{log}");
}
