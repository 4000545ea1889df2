//! Triggers on the flight recorder: what fires, what does not, and what the capture holds then.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tracetee_tests::device::{Device, about, sections};
use tracetee_tests::trace;

fn flight(triggers: Value) -> Value {
    json!({"seq": 1, "windows": [{
        "id": "flight", "cool_down_s": 0, "recorder": {"capacity_kb": 2048},
        "opens": {"triggers": {"any": triggers, "before_s": 0.5, "after_s": 0.2}},
    }]})
}

#[test]
fn a_frame_over_the_limit_is_captured_whole_with_the_time_before_it() {
    let device = Device::new(34);
    device.configure(flight(json!([{"jank": {"over_ms": 300}}])));
    let ran = device.run("frames 100 5 frames 1 400 frames 100 5 await \"captures\":1 health");
    let capture = device.capture();
    let why = about(&capture)["why"].as_str().unwrap().to_owned();
    let took = why.strip_prefix("jank: ").and_then(|why| why.strip_suffix(" ms, over 300.0 ms"));
    let took: f64 = took.unwrap_or_else(|| panic!("{why}")).parse().unwrap();
    assert!(took >= 400.0, "{why}");
    let sections = sections(&capture, "script");
    let long: Vec<_> = sections
        .iter()
        .filter(|(name, from, to)| {
            name.starts_with("Choreographer#doFrame ") && to - from > 300_000
        })
        .collect();
    assert_eq!(long.len(), 1, "{sections:?}");
    let &(_, from_us, to_us) = long[0];
    // The capture has the frame's inner section, and the half second before the frame.
    let is_inner = |section: &&(String, u64, u64)| section.1 >= from_us && section.2 <= to_us;
    assert!(sections.iter().filter(is_inner).any(|section| section.0 == "traversal"));
    let first_us = sections.iter().map(|section| section.1).min().unwrap();
    let last_us = sections.iter().map(|section| section.2).max().unwrap();
    // A busy machine may stop the app for a while at the window's start.
    assert!((100_000..=505_000).contains(&(from_us - first_us)), "{}", from_us - first_us);
    assert!(last_us - to_us >= 100_000, "{}", last_us - to_us);
    // The window ends before the app does.
    let is_after = |section: &&(String, u64, u64)| {
        section.0.starts_with("Choreographer#doFrame ") && section.1 >= to_us
    };
    let after = sections.iter().filter(is_after).count();
    assert!((1..95).contains(&after), "{after} frames after it");
    // A note in the trace says what fired, at the time at which it was noticed.
    let notes: Vec<_> =
        trace::read(&capture).into_iter().filter(|line| line.name == "tracetee").collect();
    assert!(notes.iter().any(|note| note.payload.contains("tracetee: jank: ")), "{notes:?}");
    assert_eq!(ran.health["control"]["state"], "armed");
    assert_eq!(ran.health["control"]["captures"], 1);
}

#[test]
fn a_capture_says_what_reports_ask_for() {
    let device = Device::new(34);
    device.configure(flight(json!([{"jank": {"over_ms": 300}}])));
    device.run(
        "refresh 120 screen Feed frames 100 5 screen Detail frames 1 400 await \"captures\":1",
    );
    let capture = device.capture();
    let about = about(&capture);
    assert_eq!(about["opens"], "triggers");
    assert_eq!(about["refresh_hz"], 120.0);
    // The header has the screen at the begin of the span; later screens are in the trace.
    assert_eq!(about["screen"], "Feed");
    let lines = trace::read(&capture);
    assert!(lines.iter().any(|line| line.payload.ends_with("|screen:Detail")));
}

#[test]
fn a_thousand_normal_frames_give_no_capture() {
    let device = Device::new(34);
    device.configure(flight(json!([{"jank": {"over_ms": 500}}, {"blocked": {"over_s": 3}}])));
    let ran = device.run("frames 1000 2 sleep 300 health");
    assert_eq!(device.captures().len(), 0);
    assert_eq!(ran.health["control"]["state"], "armed");
    assert!(ran.health["summary"]["records"]["E"].as_u64().unwrap() >= 2000);
}

#[test]
fn the_limit_in_refresh_periods_follows_the_display() {
    let device = Device::new(34);
    device.configure(flight(json!([{"jank": {"over_periods": 3}}])));
    // 3 periods: 300 ms at 10 Hz, 50 ms at 60 Hz.
    device.run("refresh 10 frames 3 60 sleep 500");
    assert_eq!(device.captures().len(), 0);
    device.run("frames 3 100 await \"captures\":1");
    assert!(!device.captures().is_empty());
}

#[test]
fn a_main_thread_that_is_blocked_is_captured_while_it_is() {
    let device = Device::new(34);
    device.configure(flight(json!([{"blocked": {"over_s": 1}}])));
    device.run("frames 20 5 section {stuck in binder} 2500 await \"captures\":1");
    let capture = device.capture();
    let why = about(&capture)["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("main thread blocked for 1"), "{why}");
    let sections = sections(&capture, "script");
    assert!(sections.iter().any(|section| section.0 == "stuck in binder"), "{sections:?}");
    assert!(sections.iter().any(|section| section.0 == "traversal"), "and what came before");
}

#[test]
fn a_main_loop_that_does_not_answer_is_blocked_without_any_section() {
    let device = Device::new(34);
    device.configure(flight(json!([{"blocked": {"over_s": 1}}])));
    let ran = device.run("watch-main sleep 2500 health");
    assert_eq!(ran.health["control"]["captures"], 0, "it answers");
    device.run("watch-main frames 5 5 sleep 300 hang 3500");
    let why = about(&device.capture())["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("main thread blocked for 1"), "{why}");
}

#[test]
fn a_process_that_is_stopped_in_a_frame_fires_nothing_and_its_capture_says_how_long_it_stood_still()
{
    let device = Device::new(34);
    let triggers = [
        json!({"jank": {"over_ms": 1_000}}),
        json!({"blocked": {"over_s": 2}}),
        json!({"custom": {"name": "now"}}),
    ];
    let mut config = flight(json!(triggers));
    // On a busy machine the frames after the stop take longer.
    config["windows"][0]["opens"]["triggers"]["before_s"] = json!(3);
    device.configure(config);
    let script = "frames 50 5 begin {Choreographer#doFrame 1} stop end frames 50 5 trigger now await \"captures\":1";
    let mut app = device.command(script).spawn().unwrap();
    let stat = format!("/proc/{}/stat", app.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Time that passes for everybody else.
    std::thread::sleep(Duration::from_secs(4));
    let id = app.id().to_string();
    assert!(Command::new("kill").args(["-CONT", &id]).status().unwrap().success());
    assert!(app.wait().unwrap().success());
    let capture = device.capture();
    assert_eq!(about(&capture)["why"], "custom now");
    let notes: Vec<_> =
        trace::read(&capture).into_iter().filter(|line| line.name == "tracetee").collect();
    let still = notes.iter().find_map(|note| {
        let (_, ms) = note.payload.split_once("tracetee: stood still: ")?;
        ms.strip_suffix(" ms")?.parse::<u64>().ok()
    });
    assert!(still.is_some_and(|ms| ms > 3_000), "{notes:?}");
}

#[test]
fn the_app_fires_by_name_and_so_do_a_section_and_low_memory() {
    let device = Device::new(34);
    for (seq, (trigger, script, why)) in (1u64..).zip([
        (json!({"custom": {"name": "rage-tap"}}), "trigger rage-tap", "custom rage-tap"),
        (
            json!({"section": {"name": "loadAd*", "thread": "any"}}),
            "thread {loadAd 7} 5",
            "section loadAd 7",
        ),
        (
            json!({"low_memory": {"available_percent": 0}}),
            "low-memory",
            "low memory: the system says so",
        ),
    ]) {
        let mut document = flight(json!([trigger]));
        document["seq"] = json!(seq);
        device.configure(document);
        device
            .run(&format!("frames 30 5 trigger nothing {script} frames 30 5 await \"captures\":1"));
        let captures = device.captures();
        assert_eq!(captures.len() as u64, seq, "{why}");
        let capture = captures.last().unwrap();
        assert_eq!(about(capture)["why"], why);
        assert!(sections(capture, "script").len() > 20, "{why}");
    }
}

#[test]
fn several_janks_together_and_what_fired_meanwhile() {
    let device = Device::new(34);
    let jank = json!({"jank": {"over_ms": 50, "count": 3, "within_s": 5}});
    device.configure(flight(json!([jank, {"custom": {"name": "x"}}])));
    device.run("frames 2 60 sleep 400");
    assert_eq!(device.captures().len(), 0);
    device.run("frames 3 60 trigger x await \"captures\":1");
    let said = about(&device.capture());
    // Which of the two was seen first is a matter of milliseconds.
    let all = format!("{} {}", said["why"], said["also"]);
    assert!(all.contains("3 of them") && all.contains("custom x"), "{said}");
}

#[test]
fn sections_open_at_the_start_of_a_capture_begin_there() {
    let device = Device::new(34);
    device.configure(flight(json!([{"custom": {"name": "x"}}])));
    device.run("begin outer sleep 900 section inner 5 trigger x await \"captures\":1 end");
    let sections = sections(&device.capture(), "script");
    let outer = sections.iter().find(|section| section.0 == "outer").unwrap();
    let inner = sections.iter().find(|section| section.0 == "inner").unwrap();
    assert!(outer.1 < inner.1 && inner.2 < outer.2);
    assert!((600_000..=720_000).contains(&(outer.2 - outer.1)), "{}", outer.2 - outer.1);
}

#[test]
fn a_begin_that_is_moved_to_the_start_of_a_capture_has_no_processor_time() {
    let device = Device::new(34);
    device.configure(flight(json!([{"custom": {"name": "x"}}])));
    device.run(
        "begin-details outer sleep 900 begin-details inner trigger x await \"captures\":1 \
         end-details inner end-details outer",
    );
    let text = trace::text(&device.capture());
    let has_cpu = |name: &str| -> Vec<bool> {
        let of_name = format!(r#""cat":"{name}""#);
        let comments =
            text.lines().filter(|line| line.starts_with("#@") && line.contains(&of_name));
        comments.map(|line| line.contains("cpu_ns")).collect()
    };
    // A section, an asynchronous slice and one on a track.
    assert_eq!((has_cpu("outer"), has_cpu("inner")), (vec![false; 3], vec![true; 3]));
}
