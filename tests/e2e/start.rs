//! The app's first milliseconds: all that is recorded from the return of `tracetee_install` on is in the capture of the
//! app_start window, and nothing that the stored configuration forbids is kept anywhere.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use tracetee_tests::busy::with_busy_loops;
use tracetee_tests::device::{Device, Ran, app_start_window, sections};
use tracetee_tests::slow_disk::SlowDisk;
use tracetee_tests::{compile, files_below, source, trace};

const COUNT: usize = 1000;
/// Words of the script that wait until the agent has decided.
const OPEN: &str = r#"await "state":"open""#;
const OFF: &str = r#"await "state":"off""#;

/// Number of sections of that name in the only capture.
fn count(device: &Device, name: &str) -> usize {
    sections(&device.capture(), "script").iter().filter(|section| section.0 == name).count()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn late(ran: &Ran) -> &Value {
    &ran.health["control"]["late_start"]
}

/// Runs the app once; gives the counts of own sections and of libcutils'.
fn start(device: &Device) -> (usize, usize, Ran) {
    let ran =
        device.run(&format!("install owns own 1000 burst atrace 1000 {OPEN} health uninstall"));
    println!("{}late start: {}", stdout(&ran.output), late(&ran));
    (count(device, "own"), count(device, "atrace"), ran)
}

/// Asserts that no own section is lost, and libcutils' only if the report says so.
fn assert_complete_or_said(device: &Device) {
    let (own, atrace, ran) = start(device);
    assert_eq!(own, COUNT);
    assert!(atrace == COUNT || late(&ran)["ms"].as_u64().is_some(), "{atrace}");
    println!("{own} own sections, {atrace} of libcutils");
}

#[test]
fn sections_from_the_calls_return_on_are_in_the_capture() {
    assert_complete_or_said(&Device::with_app_start_window());
    let mut patient = Device::with_app_start_window();
    patient.install["start_wait_ms"] = json!(10_000);
    let (own, atrace, ran) = start(&patient);
    assert_eq!((own, atrace, late(&ran)), (COUNT, COUNT, &Value::Null));
}

#[test]
fn sections_beside_a_busy_loop_on_each_processor_are_in_the_capture() {
    let device = Device::with_app_start_window();
    with_busy_loops(|| assert_complete_or_said(&device));
}

#[test]
fn own_sections_on_a_disk_of_50_ms_are_in_the_capture_and_it_says_that_others_are_missing() {
    let device = Device::with_app_start_window();
    let Some(disk) = SlowDisk::over(&device.directory()) else { return };
    disk.delay(Duration::from_millis(50));
    let ran = device.run(&format!(
        "install owns own 1000 burst early 1000 traced burst late 1000 {OPEN} health uninstall"
    ));
    drop(disk);
    assert_eq!([count(&device, "own"), count(&device, "late")], [COUNT, COUNT]);
    let reason = late(&ran)["reason"].as_str().unwrap();
    let text = trace::text(&device.capture());
    assert!(text.contains(&format!("tracetee: {reason}")), "{text}");
}

#[test]
fn the_recorder_of_the_window_is_used_from_the_start_on() {
    for recorder in [json!({"mode": "ring", "capacity_kb": 1024}), json!({"capacity_kb": 8192})] {
        let mut device = Device::new(34);
        let mut window = app_start_window();
        window["recorder"] = recorder;
        device.configure(json!({"seq": 1, "windows": [window]}));
        device.run("section earlier 1");
        std::fs::remove_file(device.capture()).unwrap();
        device.installs_itself = true;
        let ran = device.run(&format!("install burst atrace 1000 {OPEN} health uninstall"));
        assert_eq!((count(&device, "atrace"), late(&ran)), (COUNT, &Value::Null));
    }
}

fn find(directory: &Path, bytes: &[u8]) -> Vec<String> {
    let has = |path: &PathBuf| {
        std::fs::read(path).unwrap().windows(bytes.len()).any(|part| part == bytes)
    };
    files_below(directory).into_iter().filter(has).map(|path| path.display().to_string()).collect()
}

#[test]
fn nothing_is_kept_of_what_the_configuration_turns_out_to_forbid() {
    let never = json!({"percent": 0});
    let cases = [
        (
            "the kill switch is on",
            json!({"seq": 2, "windows": [app_start_window()], "kill": {"on": true}}),
        ),
        ("not sampled", json!({"seq": 2, "windows": [app_start_window()], "sampling": never})),
        ("no window is due", json!({"seq": 2, "windows": []})),
        ("no window is due", json!({"seq": 2, "windows": [{"id": "by-hand", "opens": "manual"}]})),
        (
            "it expired",
            json!({"schema": 1, "seq": 2, "windows": [app_start_window()], "not_after": 1}),
        ),
        ("there is no configuration yet", Value::Null),
        ("the user does not consent", Value::Null),
        (
            "over",
            json!({"seq": 2, "windows": [app_start_window()], "budget": {"captures_per_day": 1}}),
        ),
    ];
    for (reason, document) in cases {
        let mut device = Device::with_app_start_window();
        let (stored, start_file) =
            (device.directory().join("config.json"), device.directory().join("start"));
        let left = std::fs::read(&start_file).unwrap();
        match reason {
            "the user does not consent" => {
                device.install["consent"] = json!(false);
                device.run(&format!("install {OFF} uninstall"));
                device.install = json!({});
            }
            "it expired" => std::fs::write(&stored, document.to_string()).unwrap(),
            "there is no configuration yet" => std::fs::remove_file(&stored).unwrap(),
            _ => device.configure(document),
        }
        // The last start has not learnt of it.
        std::fs::write(&start_file, left).unwrap();
        device.install["start_wait_ms"] = json!(10_000);
        let ran = device.run(&format!(
            "install owns forbidden 100 burst forbidden 100 {OFF} health tags uninstall"
        ));
        let control = &ran.health["control"];
        println!("{reason}: {} {}", control["reason"], control["last_refused"]);
        assert_eq!(ran.health["recording"], json!(false), "{reason}");
        assert_eq!(ran.health["health"]["hooked_slots"], 0, "{reason}");
        assert_eq!(find(&device.directory(), b"forbidden"), [""; 0], "{reason}");
        assert!(device.captures().is_empty(), "{reason}");
        let tags = stdout(&ran.output);
        assert!(tags.ends_with("\n0\n") || tags.ends_with("\n0x1\n"), "{reason}: {tags}");
    }
}

#[test]
fn a_librarys_constructor_that_installs_the_agent_need_not_return_before_something_is_recorded() {
    for is_first in [false, true] {
        let mut device = Device::with_app_start_window();
        device.install["start_wait_ms"] = json!(10_000);
        if is_first {
            device.configure(json!({"seq": 2, "windows": [app_start_window()]}));
            std::fs::remove_dir_all(device.directory()).unwrap();
        }
        let path = device.root.path().join("libconstructor.so");
        let here = format!("-L{}", device.root.path().display());
        let arguments = ["-shared", "-fPIC", "-DATRACE_API=34", &here, "-lcutils"];
        compile(&path, &[source("fixtures/constructor.c")], &arguments);
        let ran = device.run(&format!("load {} uninstall", path.display()));
        assert_eq!(stdout(&ran.output), "installed 0\n");
        assert_eq!(count(&device, "in the constructor"), COUNT);
    }
}
