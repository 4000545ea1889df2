//! `tracetee demo`: what its first-time user gets.

use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::device::sections;
use tracetee_tests::{trace, tracetee};

#[test]
fn the_demo_leaves_a_trace_of_an_app_like_process_and_says_what_it_saw() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("new/demo-out");
    let output = Command::new(tracetee()).args(["demo", "-o"]).arg(&out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "0 dropped",
        "RenderThread",
        "A collector listens on http://127.0.0.1:",
        "configuration 1 is in force",
        "window start-up is kept: app start",
        "is uploaded: delivered (201)",
        "armed: the flight recorder runs",
        "window jank is kept: jank: ",
        "ns teed by the agent",
        "ui.perfetto.dev",
        "demo.ftrace.zst",
        "report-jank.html",
        "timeline-jank.html",
        "frames at 60 Hz",
        "Causes of the late frames",
        "inflate",
        // The frame that the compositor made late.
        "Judged by the platform's verdicts",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let lines = trace::records(&out.join("demo.ftrace"));
    assert_eq!(lines, trace::records(&out.join("demo.ftrace.zst")));
    for kind in ["B|", "E|", "S|", "F|", "C|", "I|", "N|", "G|", "H|"] {
        assert!(lines.iter().any(|line| line.payload.starts_with(kind)), "{kind}");
    }
    // Names of threads that ended long before the trace was written.
    for name in ["com.example.app", "RenderThread", "binder:app_0", "worker-0", "worker-3"] {
        assert!(lines.iter().any(|line| line.name == name), "{name}");
    }
    // Each frame, some of them long.
    let mut open = Vec::new();
    let mut frames = Vec::new();
    for line in lines.iter().filter(|line| line.name == "com.example.app") {
        if let Some(name) = line.payload.strip_prefix("B|") {
            open.push((name.contains("Choreographer#doFrame"), line.time_us));
        } else if line.payload.starts_with("E|")
            && let (true, begin_us) = open.pop().unwrap()
        {
            frames.push(line.time_us - begin_us);
        }
    }
    assert!(open.is_empty() && frames.len() > 50, "{} frames", frames.len());
    let janky = frames.iter().filter(|&&us| us > 25_000).count();
    assert!((1..frames.len() / 2).contains(&janky), "{janky} of {}", frames.len());

    // Around the frame that fired: it, the second before it, and half a second more.
    let jank = out.join("demo-jank.ftrace.zst");
    let frames: Vec<_> = sections(&jank, "com.example.app")
        .into_iter()
        .filter(|(name, ..)| name.starts_with("Choreographer#doFrame"))
        .collect();
    let long = frames.iter().find(|(_, from, to)| to - from > 40_000).unwrap();
    assert!(frames.iter().filter(|frame| frame.2 < long.1).count() > 20, "{frames:?}");
}
