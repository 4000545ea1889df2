//! The platform's verdicts about frames in the agent's filters and rules of redaction, and which samples of callstacks it wants.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use tracetee_tests::device::Device;
use tracetee_tests::{trace, tracetee};

const JANK: &str = "vsync=1000000 jank=1 allowed_ns=16666667 total_ns=12345678";
/// The vsync of the verdicts: shortly before the frame, which is a damaged one if it was due an hour before.
static DUE: LazyLock<String> = LazyLock::new(|| {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    format!("vsync=1000000 intended_ns={:.0} mono_ns=987654321 allowed_ns=16666667", seconds * 1e9)
});
static METRICS: LazyLock<String> = LazyLock::new(|| format!("{} total_ns=21000000", *DUE));

/// Records a frame and three verdicts about it with these members of a window, and these of a configuration.
fn capture(device: &Device, window: Value, document: Value) -> std::path::PathBuf {
    let mut of_window = json!({"id": "w", "opens": "app_start"});
    of_window.as_object_mut().unwrap().extend(window.as_object().unwrap().clone());
    let mut configuration = json!({"seq": 1, "windows": [of_window]});
    configuration.as_object_mut().unwrap().extend(document.as_object().unwrap().clone());
    device.configure(configuration);
    device.run(&format!(
        "frames 1 30 verdict jank_data {{{JANK}}} verdict frame_metrics {{{}}} verdict vsync {{{}}} \
         section {{order 16666667}} 1",
        *METRICS, *DUE
    ));
    device.capture()
}

/// The verdicts in a trace: source and frame.
fn verdicts(capture: &Path) -> Vec<(String, String)> {
    let (mut details, mut found) = (Value::Null, Vec::new());
    for line in trace::text(capture).lines() {
        if let Some(json) = line.strip_prefix("#@ ") {
            details = serde_json::from_str(json).unwrap();
        } else if line.ends_with("|frame verdict") {
            let text = |key: &str| details["args"][key].as_str().unwrap_or("none").to_owned();
            found.push((text("source"), text("frame")));
        }
    }
    found
}

/// Evidence of the frame, and how many verdicts fit none.
fn judged(capture: &Path) -> (String, u64) {
    let output = Command::new(tracetee())
        .args(["report", "--format", "json"])
        .arg(capture)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let evidence = report["worst"][0]["evidence"].as_str().unwrap_or("none").to_owned();
    (evidence, report["verdicts_left_out"].as_u64().unwrap_or_default())
}

fn all() -> Vec<(String, String)> {
    let all = [("jank_data", JANK), ("frame_metrics", &**METRICS), ("vsync", &**DUE)];
    all.map(|(source, frame)| (source.to_owned(), frame.to_owned())).to_vec()
}

#[test]
fn the_default_rules_leave_the_numbers_of_verdicts_and_no_others() {
    let device = Device::new(34);
    let capture = capture(&device, json!({}), json!({}));
    assert_eq!(verdicts(&capture), all());
    assert!(trace::text(&capture).contains("|order <digits>"));
    assert_eq!(judged(&capture), ("platform".to_owned(), 0));
}

#[test]
fn rules_drop_verdicts_and_one_that_changes_them_leaves_verdicts_that_judge_nothing() {
    let rules = |pattern: &str, action: Value| json!({"redaction": {"rules": [{"pattern": pattern, "action": action}]}});
    let device = Device::new(34);
    let dropped = capture(&device, json!({}), rules("^frame verdict$", json!("drop")));
    assert_eq!(verdicts(&dropped), []);
    assert_eq!(judged(&dropped), ("markers".to_owned(), 0));

    let device = Device::new(34);
    let changed = capture(
        &device,
        json!({}),
        rules("(vsync|total_ns)=[0-9]+", json!({"replace": {"with": "$"}})),
    );
    assert_eq!(verdicts(&changed)[0].1, "$ jank=1 allowed_ns=16666667 $");
    assert_eq!(judged(&changed), ("markers".to_owned(), 3));
}

#[test]
fn a_window_of_the_main_thread_alone_has_its_deadlines_and_no_verdicts_of_other_threads() {
    let device = Device::new(34);
    let of_main = capture(&device, json!({"main_thread_only": true}), json!({}));
    assert_eq!(verdicts(&of_main), all()[2..]);
    // A verdict is an instant: it has no time that could be too short.
    let device = Device::new(34);
    let long = json!({"min_slice_us": {"main": 50_000, "render": 50_000, "other": 50_000}});
    let long = capture(&device, long, json!({}));
    assert_eq!(verdicts(&long), all());
    assert!(!trace::text(&long).contains("doFrame"));
}

#[test]
fn samples_of_callstacks_are_wanted_while_a_window_with_them_records() {
    let wanted = |stacks: Value| {
        let device = Device::new(34);
        device.configure(
            json!({"seq": 1, "windows": [{"id": "w", "opens": "manual", "stacks": stacks}]}),
        );
        let ran = device.run_any("refresh 100 stacks open w await \"state\":\"open\" stacks close w await \"captures\":1 stacks");
        String::from_utf8_lossy(&ran.output.stdout).into_owned()
    };
    let after = "stacks 0 0 0\n";
    assert_eq!(wanted(json!({"percent": 100})), format!("{after}stacks 1 20 1000\n{after}"));
    assert_eq!(
        wanted(json!({"percent": 100, "after_ms": 50, "max": 9})),
        format!("{after}stacks 1 50 9\n{after}")
    );
    assert_eq!(wanted(json!({"percent": 0})), after.repeat(3));
}
