//! A system trace on the same device sees the app's records while it wants them, and the tags are
//! the system's again afterwards.

use serde_json::json;
use tempfile::TempDir;
use tracetee_tests::device::{Device, sections};
use tracetee_tests::{Tracefs, fixture, libcutils, library, run_traced, trace, writer};

/// Records in the kernel's buffer and in ours after a run of 100 records.
fn counts(tracefs: &Tracefs, pass_on: &str, property: &str) -> (usize, usize) {
    let (directory, program) = writer();
    let output = directory.path().join("out.ftrace");
    tracefs.start(1024);
    let property = format!("ATRACE_PROPERTY={property}");
    let command = ["env", &property, program.to_str().unwrap(), "1", "100"];
    run_traced(tracefs, &["--pass-on", pass_on], &output, &command);
    let kernel = trace::parse_kernel(&tracefs.stop());
    (kernel.len(), trace::records(&output).len())
}

#[test]
fn records_go_on_to_the_kernel_while_a_system_trace_has_tags_of_its_own() {
    let Some(tracefs) = Tracefs::open() else { return };
    // 0x1000: the app tag; 0 and 1 (always): nobody traces.
    assert_eq!(counts(&tracefs, "auto", "0"), (0, 100));
    assert_eq!(counts(&tracefs, "auto", "1"), (0, 100));
    assert_eq!(counts(&tracefs, "auto", "0x1000"), (100, 100));
    assert_eq!(counts(&tracefs, "always", "0"), (100, 100));
    assert_eq!(counts(&tracefs, "never", "0x1000"), (0, 100));
}

#[test]
fn a_system_trace_that_begins_during_a_capture_gets_the_records_from_then_on() {
    let Some(tracefs) = Tracefs::open() else { return };
    for api in [29, 34] {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), api, &[]);
        let define = format!("-DATRACE_API={api}");
        let program = fixture(directory.path(), "system_session", &[&define]);
        let output = directory.path().join("out.ftrace");
        tracefs.start(1024);
        run_traced(&tracefs, &[], &output, &[program]);
        let kernel: Vec<_> =
            trace::parse_kernel(&tracefs.stop()).into_iter().map(|(_, _, p)| p).collect();
        let ours: Vec<_> = trace::records(&output).into_iter().map(|line| line.payload).collect();
        assert_eq!(ours.len(), 4, "API {api}: {ours:?}");
        assert_eq!(kernel, ours[2..], "API {api}");
    }
}

#[test]
fn at_the_stop_the_tags_are_what_the_system_has_then() {
    for api in [28, 34] {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), api, &[]);
        let agent = library(directory.path());
        let include = format!("-I{}", directory.path().display());
        let define = format!("-DATRACE_API={api}");
        let program =
            fixture(directory.path(), "give_back", &[&include, &define, agent.to_str().unwrap()]);
        let output =
            std::process::Command::new(program).env("ATRACE_MARKER", "/dev/null").output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            // Before; while forced; after; and after a capture in which the system began a trace.
            "0x1 0xfffffff 0x1 0x9\n",
            "API {api}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_system_session_misses_nothing_whenever_it_begins_and_ends_in_a_window() {
    const SESSIONS: usize = 12;
    let Some(tracefs) = Tracefs::open() else { return };
    for api in [29, 34] {
        let mut device = Device::new(api);
        device.environment.push(("ATRACE_MARKER".into(), tracefs.marker()));
        device.configure(json!({"seq": 1, "windows": [{"id": "w", "opens": "app_start"}]}));
        // They begin and end at moments that fall anywhere between the looks at the tags.
        let mut script = "burst idle 10 sleep 100 ".to_owned();
        for round in 0..SESSIONS {
            let (on, off) = (round * 37 % 400, round * 53 % 400);
            let session =
                format!("property 0x8 burst system 20 sleep {on} burst system 20 property 0");
            script.push_str(&format!("{session} burst idle 5 sleep {off} burst idle 5 "));
        }
        script.push_str("sleep 600 section {forced again} 1 health");
        tracefs.start(4096);
        let ran = device.run(&script);
        let text = tracefs.stop();
        let written = text.lines().find(|line| line.contains("entries-written"));
        let kernel = trace::parse_kernel(&text);
        let system = |payload: &str| payload.ends_with("|system");
        let of_kernel = kernel.iter().filter(|(.., payload)| system(payload)).count();
        assert_eq!(of_kernel, SESSIONS * 40, "API {api}: {written:?}");

        let capture = device.capture();
        let sections = sections(&capture, "script");
        assert_eq!(sections.iter().filter(|(name, ..)| name == "system").count(), SESSIONS * 40);
        assert_eq!(sections.last().unwrap().0, "forced again");
        // Each session begins within a gap that the trace tells, which two sessions between two checks share.
        let gaps = trace::sections_us(&trace::text(&capture), "tracetee: tags taken");
        for (_, begin_us, _) in sections.iter().filter(|(name, ..)| name == "system").step_by(40) {
            // The program may be preempted between its session and its first section.
            let is_within =
                |(from_us, to_us): &(u64, u64)| (*from_us..=to_us + 20_000).contains(begin_us);
            assert!(gaps.iter().any(is_within), "API {api}: {begin_us}, {gaps:?}");
        }
        let lines = trace::read(&capture);
        let is_gap =
            |line: &&trace::Line| line.payload.contains("tracetee: the system set the tags");
        let notes = lines.iter().filter(is_gap).count();
        assert_eq!(notes, gaps.len());
        assert!((1..=2 * SESSIONS).contains(&gaps.len()), "API {api}: {gaps:?}");
        assert_eq!(ran.health["control"]["tag_resets"], notes);
    }
}

#[test]
fn when_a_window_closes_the_tags_are_what_the_system_has_then() {
    for api in [29, 34] {
        let device = Device::new(api);
        device.configure(json!({"seq": 1, "windows": [{"id": "w", "opens": "manual"}]}));
        let ran = device.run(
            "section x 1 open w await \"state\":\"open\" tags property 0x8 section x 1 await \"tag_resets\":1 \
             tags close w await \"captures\":1 tags property 0 section x 1 tags",
        );
        let said = String::from_utf8_lossy(&ran.output.stdout).into_owned();
        let words: Vec<_> = said.split_whitespace().collect();
        assert_eq!(words, ["0xfffffff", "0xfffffff", "0x9", "0x1"], "API {api}");
    }
}
