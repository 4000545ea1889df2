//! `tracetee demo`: what its first-time user gets.

use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::busy::with_busy_loops;
use tracetee_tests::device::sections;
use tracetee_tests::tools::{chromium, rendered};
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

    // Around the frame that fired: it, the second before it, and two seconds and a half more.
    let jank = out.join("demo-jank.ftrace.zst");
    let frames: Vec<_> = sections(&jank, "com.example.app")
        .into_iter()
        .filter(|(name, ..)| name.starts_with("Choreographer#doFrame"))
        .collect();
    let long = frames.iter().rfind(|(_, from, to)| to - from > 40_000).unwrap();
    assert!(frames.iter().filter(|frame| frame.2 < long.1).count() > 20, "{frames:?}");

    let [by_method, by_compositor, inflated] = planted_causes_come_first(&jank);
    assert!(
        by_method > 0 && by_compositor > 0 && inflated > 0,
        "{by_method} {by_compositor} {inflated}: {said}"
    );
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for cause in [&format!("code: {METHOD}"), "system: (compositor)"] {
        assert!(words.contains(cause), "{cause}: {said}");
    }

    // The fleet's page makes the point at once: rate, cause, device, sentence, action.
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let data = page.split("type=\"application/json\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let cause = &data["report"]["apps"][0]["causes"][0];
    let [name, key, id, model] = [
        &cause["cause"],
        &cause["key"],
        &cause["examples"][0]["capture_id"],
        &cause["examples"][0]["model"],
    ]
    .map(|text| text.as_str().unwrap());
    let sentence = data["sentences"][format!("{id}|{name}|{key}")].as_str().unwrap();
    assert_eq!(model, "this Linux machine");
    let Some(chromium) = chromium() else { return };
    let page = rendered(&chromium, &format!("file://{}", out.join("report.html").display()));
    let answer = page.split("aria-label=\"Answer\"").nth(1).unwrap();
    let answer = answer.split("</section>").next().unwrap();
    for part in [
        " frames (",
        " on 1 device with captures by schedule.",
        "causes make ",
        &format!("The worst frame by {name}: {key} (version 1, this Linux machine, "),
        &format!(" UTC): {sentence}. What to do: "),
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
}

#[test]
fn the_planted_causes_come_first_beside_a_busy_loop_on_each_processor() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("demo-out");
    let mut demo = Command::new(tracetee());
    demo.args(["demo", "-o"]).arg(&out);
    let output = with_busy_loops(|| demo.output().unwrap());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // The seconds of the capture may pass while the app waits for a processor: not each of the causes comes.
    let seen = planted_causes_come_first(&out.join("demo-jank.ftrace.zst"));
    assert!(seen.iter().sum::<u32>() > 0, "{said}");
}

/// The app plants these; no section, and no time of the app, says them.
const METHOD: &str = "com.example.app.Price.format";

/// Checks the cause of each frame that has a planted one. Returns the number of frames by method, compositor and inflation.
fn planted_causes_come_first(jank: &Path) -> [u32; 3] {
    let report =
        Command::new(tracetee()).args(["report", "--format", "json"]).arg(jank).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    // Frames of which the app has said that the compositor made them late.
    let text = trace::text(jank);
    let judged: HashSet<&str> = text
        .lines()
        .filter(|line| line.contains(r#""source":"jank_data""#))
        .filter_map(|line| line.split("vsync=").nth(1)?.split(' ').next())
        .collect();
    let lines = trace::read(jank);
    let samples = lines.iter().filter(|line| line.payload.ends_with("|tracetee: stack"));
    let sampled_us: Vec<u64> = samples.map(|line| line.time_us).collect();
    let sections = sections(jank, "com.example.app");
    // A frame that the capture begins or ends in has a part of its samples.
    let begin = sections.iter().map(|&(_, from, _)| from).min().unwrap();
    let end = sections.iter().map(|&(_, _, to)| to).max().unwrap();
    let (mut by_method, mut by_compositor, mut inflated) = (0, 0, 0);
    for frame in report["explanations"].as_array().unwrap() {
        let begun = frame["ui_start_ns"].as_u64().unwrap() / 1000;
        let id = |name: &str| name.strip_prefix("Choreographer#doFrame ").map(str::to_owned);
        let mut found = sections.iter().filter(|(_, from, _)| *from == begun);
        let (id, from, to) =
            found.find_map(|(name, from, to)| Some((id(name)?, *from, *to))).unwrap();
        let has = |name: &str| {
            sections.iter().any(|(other, time, _)| other == name && (from..to).contains(time))
        };
        let first = &frame["causes"][0];
        let (cause, key) = (first["cause"].as_str().unwrap(), first["key"].as_str().unwrap());
        if from == begin || to == end {
            continue;
        } else if has("RV OnBindView") {
            // A busy machine may not have run the sampler before the frame's end.
            if !sampled_us.iter().any(|at_us| (from..to).contains(at_us)) {
                continue;
            }
            assert_eq!((cause, key), ("code", METHOD), "{frame}");
            by_method += 1;
        } else if has("inflate") {
            assert_eq!(cause, "inflate", "{frame}");
            inflated += 1;
        } else if judged.contains(&*id) {
            // On a busy machine the app was late with it, too.
            let causes = frame["causes"].as_array().unwrap().iter();
            let own = causes.filter(|one| one["cause"] != "system");
            let own_ns: u64 = own.map(|one| one["self_ns"].as_u64().unwrap()).sum();
            let [start_ns, deadline_ns] =
                ["start_ns", "deadline_ns"].map(|time| frame[time].as_u64().unwrap());
            if own_ns > deadline_ns - start_ns {
                continue;
            }
            assert_eq!((cause, frame["outcome"].as_str()), ("system", Some("system")), "{frame}");
            by_compositor += 1;
        }
    }
    [by_method, by_compositor, inflated]
}
