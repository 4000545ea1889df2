//! The tags during a capture: forced again when the system resets them, left to a session of
//! Perfetto's SDK, and what `tracetee_is_recording` says of them.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use tracetee_tests::device::{Device, about, sections};
use tracetee_tests::{compile, fixture, libcutils, library, source, trace};

/// A fixture that calls the agent's C API, beside the stand-in libcutils of that release.
fn program(directory: &Path, name: &str, api: u32, arguments: &[&str]) -> PathBuf {
    libcutils(directory, api, &[]);
    let agent = library(directory);
    let include = format!("-I{}", directory.display());
    let define = format!("-DATRACE_API={api}");
    let mut all = vec![&*include, &*define, agent.to_str().unwrap(), "-ldl"];
    all.extend_from_slice(arguments);
    fixture(directory, name, &all)
}

/// The stand-in for the platform's library, beside the stand-in libcutils.
fn tracing_perfetto(directory: &Path, api: u32, arguments: &[&str]) {
    let define = format!("-DATRACE_API={api}");
    let path = format!("-L{}", directory.display());
    let mut all = vec![
        "-shared",
        "-fPIC",
        "-Wl,-soname,libtracing_perfetto.so",
        &*path,
        "-lcutils",
        &*define,
    ];
    all.extend_from_slice(arguments);
    let sources = [source("libcutils/tracing_perfetto.c")];
    compile(&directory.join("libtracing_perfetto.so"), &sources, &all);
}

fn lines(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {said}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn named(text: &str, name: &str) -> usize {
    text.match_indices(&format!("|{name}")).count()
}

#[test]
fn a_capture_by_hand_forces_the_tags_again_and_notes_the_gap() {
    for api in [28, 34] {
        let directory = TempDir::new().unwrap();
        let program = program(directory.path(), "tag_reset", api, &[]);
        tracing_perfetto(directory.path(), api, &[]);
        let (output, marker) =
            (directory.path().join("out.ftrace"), directory.path().join("marker"));
        std::fs::write(&marker, "").unwrap();
        let ran = Command::new(program)
            .arg(&output)
            .env("ATRACE_MARKER", &marker)
            .env("LD_LIBRARY_PATH", directory.path())
            .output()
            .unwrap();
        let said = lines(&ran);
        assert_eq!(said[0], "0x1009 forced 0x100b forced 0x1009 0x1", "API {api}");

        let text = trace::text(&output);
        for name in ["first", "during", "after"] {
            assert_eq!(named(&text, name), 1000, "API {api}: {name}");
        }
        let gaps = named(&text, "tracetee: the system set the tags to ");
        assert_eq!(gaps, 2, "API {api}");
        let health: Value = serde_json::from_str(&said[1]).unwrap();
        assert_eq!(health["health"]["tag_resets"], 2, "API {api}");
        // Between which times, and whose they were, in the trace and in the report.
        let sessions =
            ["a trace of the system with the tags gfx", "a trace of the system has ended"];
        assert_eq!(named(&text, "tracetee: tags taken"), 2, "API {api}");
        let taken: Vec<&str> = text.lines().filter(|line| line.starts_with("#@")).collect();
        let line_of = |session: &str| format!(r##"#@ {{"args":{{"session":"{session}"}}}}"##);
        assert_eq!(taken, sessions.map(line_of), "API {api}");
        let gaps = health["health"]["tag_gaps"].as_array().unwrap();
        let told: Vec<_> = gaps.iter().map(|gap| gap["session"].as_str().unwrap()).collect();
        assert_eq!(told, sessions, "API {api}");
        let ns = |gap: &Value, name: &str| gap[name].as_u64().unwrap();
        for gap in gaps {
            let took_ns = ns(gap, "to_ns") - ns(gap, "from_ns");
            assert!((1..20_000_000_000).contains(&took_ns), "API {api}: {took_ns}");
        }
        assert!(ns(&gaps[0], "to_ns") <= ns(&gaps[1], "from_ns"), "API {api}");
        // The sections in the trace have the times of the report.
        let sections = trace::sections_us(&text, "tracetee: tags taken");
        assert_eq!(sections.len(), gaps.len(), "API {api}");
        for (&(begin_us, end_us), gap) in sections.iter().zip(gaps) {
            let (from_us, to_us) = (ns(gap, "from_ns") / 1000, ns(gap, "to_ns") / 1000);
            // The text is rounded to microseconds.
            assert!(begin_us.abs_diff(from_us) <= 1, "API {api}: {begin_us}, {gap}");
            assert!(end_us.abs_diff(to_us) <= 1, "API {api}: {end_us}, {gap}");
        }
        let atrace = &health["health"]["atrace"][0];
        assert_eq!((&atrace["tags_forced"], &atrace["tags_now"]), (&json!("0x0"), &json!("0x1")));

        // The system's trace has had its own records, from its begin to its end, and no others of ours
        // but those of its time.
        let marked = std::fs::read_to_string(&marker).unwrap();
        assert_eq!(named(&marked, "system"), 2000, "API {api}");
        assert_eq!((named(&marked, "first"), named(&marked, "after")), (0, 0), "API {api}");
        assert_eq!(named(&text, "system"), 2000, "API {api}");
    }
}

#[test]
fn the_thread_that_watches_the_tags_keeps_no_process_alive() {
    let directory = TempDir::new().unwrap();
    let program = program(directory.path(), "watched_exit", 34, &[]);
    let run = |how: &str| Command::new(&program).arg(how).output().unwrap();
    assert_eq!(lines(&run("pthread")), ["own thread ends"]);
    assert_eq!(run("system").status.code(), Some(7));
}

#[test]
fn is_recording_is_true_only_while_the_tags_are_forced() {
    let directory = TempDir::new().unwrap();
    let agent = library(directory.path());
    let include = format!("-I{}", directory.path().display());
    let program = directory.path().join("is_recording");
    let runtime_path = format!("-Wl,-rpath,{}", directory.path().display());
    compile(
        &program,
        &[source("fixtures/is_recording.c")],
        &[&include, agent.to_str().unwrap(), "-rdynamic", "-lpthread", &runtime_path],
    );
    let ran = Command::new(program).arg(directory.path()).output().unwrap();
    let expected = "open 1, measured 1 wrong 0, given back 1 wrong 0, seen 1 wrong 0";
    assert_eq!(lines(&ran), [expected]);
}

#[test]
fn after_a_window_the_health_report_has_the_tags_that_the_system_has() {
    let device = Device::new(34);
    device.configure(json!({"seq": 1, "windows": [
        {"id": "w", "opens": "app_start", "max_s": 0.2, "tags": ["view", "app"]}]}));
    let ran = device.run("section x 1 await \"captures\":1 section y 1 health");
    assert_eq!(ran.health["recording"], false);
    let atrace = &ran.health["health"]["atrace"][0];
    assert_eq!((&atrace["tags_forced"], &atrace["tags_now"]), (&json!("0x0"), &json!("0x1")));
    assert_eq!(sections(&device.capture(), "script").len(), 1);
    assert_eq!(about(&device.capture())["tag_resets"], 0);
}

/// Result of `fixtures/perfetto_session.c`.
struct Sessions {
    steps: Vec<String>,
    /// The SDK in the health report.
    report: Value,
    text: String,
}

impl Sessions {
    fn run(api: u32, library: &[&str], arguments: &[&str], prefer_sdk: &str) -> Self {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), api, &[]);
        tracing_perfetto(directory.path(), api, library);
        let program = program(directory.path(), "perfetto_session", api, &["-ltracing_perfetto"]);
        let output = directory.path().join("out.ftrace");
        let ran = Command::new(program)
            .arg(&output)
            .args(arguments)
            .env("ATRACE_MARKER", "none")
            .env("ATRACE_PREFER_SDK", prefer_sdk)
            .output()
            .unwrap();
        let mut steps = lines(&ran);
        let health: Value = serde_json::from_str(&steps.pop().unwrap()).unwrap();
        let report = health["health"]["perfetto"].clone();
        Self { steps, report, text: trace::text(&output) }
    }

    fn notes(&self, name: &str) -> usize {
        named(&self.text, &format!("tracetee: {name}"))
    }
}

#[test]
fn tags_of_a_session_of_the_sdk_are_left_to_it_while_it_lasts() {
    let ran = Sessions::run(35, &[], &["auto"], "0");
    let expected = [
        "before 0x1 200",
        "started 0x1003 200",
        "ended 0x100b 0",
        "begun 0x1009 200",
        "stopped 0x1 0",
    ];
    assert_eq!(ran.steps, expected);
    assert_eq!(named(&ran.text, "of the s"), 0);
    assert_eq!((named(&ran.text, "ours again"), named(&ran.text, "ours")), (100, 200));
    assert_eq!(ran.notes("tags 0x8 are left to a Perfetto session"), 1, "{}", ran.text);
    assert_eq!(ran.notes("the Perfetto session that tags 0x8 were left to has ended"), 1);
    assert_eq!(ran.notes("tags 0x2 are left to a Perfetto session"), 1);
    assert_eq!(ran.report, json!({"tags_left": "0x2", "prefer_sdk": "0x0"}));

    // A library that shows less: a session cannot be seen that begins for a tag that is forced; and
    // that atrace goes before the SDK is known by the release alone.
    let hidden = ["-DHIDES_INTERNALS"];
    let ran = Sessions::run(36, &hidden, &["auto", "one session"], "0");
    assert_eq!(ran.steps[..3], expected[..3]);
    let ran = Sessions::run(35, &hidden, &["auto", "one session"], "0");
    assert_eq!(ran.steps[1..3], ["started 0x100b 0", "ended 0x100b 0"]);
}

#[test]
fn tags_are_forced_where_that_takes_nothing_from_the_sdk_or_was_asked_for() {
    // The system has said that the SDK goes first for view: it gets the events all the same.
    let ran = Sessions::run(35, &[], &["auto", "one session"], "0x8");
    assert_eq!(ran.steps[1..3], ["started 0x100b 200", "ended 0x100b 0"]);
    assert_eq!(ran.report, json!({"tags_left": "0x0", "prefer_sdk": "0x8"}));
    assert_eq!(ran.notes("tags"), 0);
    // It does so always in the first Android 15.
    let ran = Sessions::run(35, &["-DPREFERS_SDK"], &["auto", "one session"], "0");
    assert_eq!(ran.steps[1..3], ["started 0x100b 200", "ended 0x100b 0"]);
    assert_eq!(ran.report, Value::Null);
    // All records are wanted here, whoever else wants them.
    let ran = Sessions::run(35, &[], &["never", "one session"], "0");
    assert_eq!(ran.steps[1..3], ["started 0x100b 0", "ended 0x100b 0"]);
    assert_eq!(named(&ran.text, "of the session"), 100);
}
