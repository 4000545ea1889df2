//! Planted regressions in macrobenchmarks: a lab and a field from one simulator, on different devices. The number of trials is that
//! of `TRACETEE_TRIALS`, by default as many as CI has time for.

use fastrand::Rng;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use tempfile::TempDir;
use tracetee_fleet::capture::{Capture, read_file};
use tracetee_gate::{Answer, Expected, Field, Gate};
use tracetee_jank::Options;
use tracetee_ledger::{Histogram, RowKey, Source};
use tracetee_simulate::Plan;
use tracetee_simulate::ledger::DeviceDay;
use tracetee_tests::{stderr, tracetee};
use tracetee_tests_upload::collector::{Collector, METRICS, file, packed};
use tracetee_tests_upload::validators::scripts;

const SEND: &str = "a-token-of-the-shop-that-sends";
const READ: &str = "a-token-of-the-shop-that-reads";
const OTHER: &str = "a-token-of-another-app-that-reads";
const PAIRS: u64 = 10;
const DEVICES: u64 = 60;

fn read(path: &Path) -> Result<Capture, tracetee_fleet::Error> {
    read_file(path, &Options::default())
}

/// A plan of one version, in which a section takes `percent` of its time.
fn plan(classes: &serde_json::Value, percent: u64, bind_ms: u64) -> Plan {
    let plan = json!({
        "app": "com.example.shop",
        "versions": [{"name": "1", "code": 1, "share": 1}],
        "screens": ["Feed"],
        "causes": [
            {"slice": "Feed.bind", "cause": "section", "key": "Feed.bind", "in_10000": 4000, "ms": bind_ms},
            {"slice": "inflate", "cause": "inflate", "key": "inflate", "in_10000": 500, "ms": 30},
        ],
        "changes": [{"version": "1", "slice": "Feed.bind", "time_percent": percent}],
        "classes": classes,
        "rollout": null,
        "frames": 240,
        "triggered_percent": 0,
        "days": 1,
        "from_s": 1_790_000_000,
    });
    let plan: Plan = serde_json::from_value(plan).unwrap();
    assert_eq!(plan.fault(), None);
    plan
}

/// Writes the results of an arm as a macrobenchmark does: `benchmarkData.json`, and a trace of each run.
fn arm(directory: &Path, plan: &Plan, seed: u64, minute: u64) -> PathBuf {
    std::fs::create_dir_all(directory).unwrap();
    let (mut runs, mut outputs) = (Vec::new(), Vec::new());
    for run in 0..PAIRS {
        let name = format!(
            "Feed_scroll_iter{run:03}_2026-11-28-10-{:02}-00.perfetto-trace",
            2 * run + minute
        );
        let captures = plan.device(seed, run).0;
        std::fs::write(directory.join(&name), &captures[0].text).unwrap();
        let frames = read(&directory.join(&name)).unwrap().analysis.frames;
        runs.push(frames.iter().map(|frame| frame.dur_ns as f64 / 1e6).collect::<Vec<_>>());
        outputs.push(json!({"type": "PerfettoTrace", "label": format!("Trace Iteration {run}"), "filename": name}));
    }
    let results = json!({"context": {}, "benchmarks": [{
        "name": "scroll", "params": {}, "className": "com.example.macrobenchmark.Feed",
        "totalRunTimeNs": 1, "metrics": {"frameCount": {"minimum": 1.0, "maximum": 1.0, "median": 1.0, "runs": [1.0]}},
        "sampledMetrics": {"frameDurationCpuMs": {"P50": 1.0, "P90": 1.0, "P95": 1.0, "P99": 1.0, "runs": runs}},
        "warmupIterations": 0, "repeatIterations": PAIRS, "thermalThrottleSleepSeconds": 0,
        "profilerOutputs": outputs,
    }]});
    let path = directory.join("com.example.macrobenchmark-benchmarkData.json");
    std::fs::write(&path, results.to_string()).unwrap();
    path
}

/// Captures of the field, with their device.
fn field(directory: &Path, plan: &Plan, seed: u64) -> Vec<(String, Capture)> {
    let path = directory.join("field.ftrace");
    let devices = (0..DEVICES).map(|device| {
        let captures = plan.device(seed, device).0;
        std::fs::write(&path, &captures[0].text).unwrap();
        (device.to_string(), read(&path).unwrap())
    });
    devices.collect()
}

/// Share of late frames, percent.
fn late(captures: &[(String, Capture)]) -> f64 {
    let frames = || captures.iter().flat_map(|(_, capture)| &capture.analysis.frames);
    100.0 * frames().filter(|frame| frame.slow).count() as f64 / frames().count() as f64
}

struct Trial {
    gate: Gate,
    expected: Option<Expected>,
    /// Change of the share of late frames in the field, points.
    truth: f64,
}

/// A build whose section takes `percent` of its time, in the lab and in the field.
fn trial(percent: u64, seed: u64) -> Trial {
    let directory = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(seed);
    let bind_ms = rng.u64(6..14);
    let lab = json!([{"name": "lab", "share": 1, "models": ["Pixel 9"], "slowness_percent": 60}]);
    let phones = json!([
        {"name": "a", "share": 2, "models": ["Pixel 8", "SM-S918B"], "slowness_percent": 80},
        {"name": "c", "share": 1, "models": ["moto e13"], "slowness_percent": 160},
    ]);
    let base = arm(&directory.path().join("base"), &plan(&lab, 100, bind_ms), rng.u64(..), 0);
    let head = arm(&directory.path().join("head"), &plan(&lab, percent, bind_ms), rng.u64(..), 1);
    let mut gate = Gate::compare(&[head], &[base], 5.0, read).unwrap();
    let seed = rng.u64(..);
    let before = field(directory.path(), &plan(&phones, 100, bind_ms), seed);
    let after = field(directory.path(), &plan(&phones, percent, bind_ms), seed);
    let mut known = Field::new(gate.sections_with_factor());
    for (device, capture) in &before {
        known.add(device, capture);
    }
    gate.translate(&known);
    let bind = gate.sections.iter().find(|section| section.section == "Feed.bind");
    let expected = bind.and_then(|section| section.field.clone());
    Trial { expected, truth: late(&after) - late(&before), gate }
}

fn trials(default: u64) -> u64 {
    std::env::var("TRACETEE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(default)
}

#[test]
fn planted_regressions_are_found_and_translated() {
    let all = trials(12);
    let (mut right, mut explained, mut near, mut covered) = (0, 0, 0, 0);
    for seed in 0..all {
        let percent = 120 + 5 * (seed % 10);
        let Trial { gate, expected, truth } = trial(percent, seed);
        right += u64::from(gate.answer == Answer::Worse);
        explained += u64::from(expected.is_some());
        if let Some(Expected { points, interval: Some([low, high]), .. }) = expected {
            near += u64::from(points >= truth / 2.0 && points <= truth * 2.0);
            covered += u64::from(low <= truth && truth <= high);
            println!("{percent} %: {points:.2} ({low:.2} to {high:.2}), truth {truth:.2}");
        } else {
            println!("{percent} %: {} {:?}, truth {truth:.2}", gate.to_text(), gate.metrics);
        }
    }
    println!(
        "of {all}: {right} worse, {explained} explained, {near} within a factor of 2, {covered} in the interval"
    );
    // With metrics alone 185 of 200 were right.
    assert!(right * 100 >= all * 98 && explained * 100 >= all * 98, "{right} {explained} of {all}");
    assert!(near * 100 >= explained * 90 && covered * 100 >= explained * 90, "{near} {covered}");
}

#[test]
fn a_build_without_a_change_passes() {
    let all = trials(12);
    let worse =
        (0..all).filter(|&seed| trial(100, 1000 + seed).gate.answer == Answer::Worse).count();
    println!("{worse} of {all} without a change fail");
    assert!(worse as u64 * 100 <= all.max(100), "{worse} of {all}");
}

#[test]
fn the_command_answers_a_pull_request() {
    let directory = TempDir::new().unwrap();
    let tokens = format!(
        "com.example.shop {SEND}\ncom.example.shop {READ} read\ncom.other {OTHER} read\n* {METRICS} metrics\n"
    );
    let _ = file(directory.path(), "tokens", &tokens);
    let _ = file(directory.path(), "other", &format!("com.other {OTHER} read\n"));
    let collector = Collector::start_in(directory, &["--token-file", "tokens"]);
    let directory = collector.directory.path();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let phones = json!([{"name": "a", "share": 1, "models": ["Pixel 8"], "slowness_percent": 90}]);
    let sent = Plan { from_s: (now / 86_400 - 1) * 86_400, ..plan(&phones, 100, 10) };
    let plan_file = file(directory, "plan.json", &serde_json::to_string(&sent).unwrap());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(tracetee());
        let output = command.args(arguments).current_dir(directory).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap(), said, stderr(&output))
    };
    collector.simulate(60, 240, &["--plan", plan_file.to_str().unwrap(), "--token-file", "tokens"]);
    let lab = json!([{"name": "lab", "share": 1, "models": ["Pixel 9"], "slowness_percent": 60}]);
    let [base, head] = [("base", 100, 0), ("head", 180, 1)].map(|(name, percent, minute)| {
        let path = arm(&directory.join(name), &plan(&lab, percent, 10), minute, minute);
        path.to_str().unwrap().to_owned()
    });
    let arms = ["gate", "--benchmark", &head, "--base", &base];
    let field = ["--app", "com.example.shop", "--field", "store"];
    let (status, text, said) = run(&[&arms[..], &field].concat());
    assert_eq!(status, 1, "{text} {said}");
    assert!(text.starts_with("worse: 1 worse of the metrics\n"), "{text}");
    assert!(text.contains("Feed.bind  ") && text.contains(" of 60 devices; expected +"), "{text}");
    // The collector's page gives what its store does, to whoever may read the app.
    let page = ["--app", "com.example.shop", "--field", &collector.url, "--token-file"];
    let (status, of_page, said) = run(&[&arms[..], &page, &["tokens"]].concat());
    assert!(status == 1 && of_page == text, "{of_page} {said}");
    let few = run(&[&arms[..], &page, &["tokens", "--field-captures", "7"]].concat()).1;
    assert_eq!(few, run(&[&arms[..], &field, &["--field-captures", "7"]].concat()).1);
    let none = run(&[&arms[..], &page, &["other"]].concat()).1;
    assert!(!none.contains("of 60 devices"), "{none}");
    let (status, _, said) = run(&[&arms[..], &page[..4]].concat());
    assert!(status == 125 && said.contains("the collector answered 401"), "{status} {said}");
    let (status, _, said) = run(&[&arms[..], &field, &["--token-file", "tokens"]].concat());
    assert!(status == 125 && said.contains("need a collector's address in --field"), "{said}");
    let (status, markdown, _) = run(&[&arms[..], &["--format", "markdown"]].concat());
    assert!(status == 1 && markdown.starts_with("**worse: "), "{markdown}");
    // The same results twice are no change, and not worse.
    let same = ["gate", "--benchmark", &base, "--base", &base, "--fail-on", "unknown"];
    let (status, text, _) = run(&same);
    assert!(status == 0 && text.starts_with("same: 1 same"), "{status} {text}");
    let (status, _, said) = run(&["gate", "--benchmark", "plan.json", "--base", &base]);
    assert!(status == 125 && said.contains("plan.json is no benchmarkData.json"), "{said}");
    // With ledgers, the rate of today is that of every device, of the source with most frames; of a version without, of the captures.
    assert!(of_page.contains(" %, from captures"), "{of_page}");
    let today = u32::try_from(now / 86_400).unwrap();
    let ids = ["com.example.shop", "d"];
    let mut made = DeviceDay::new(&mut Rng::with_seed(1), ids, [today, 20, 0], 900, 30);
    assert_eq!(collector.put_ledger(SEND, &made.meta, &packed(&made.part)), 201);
    let (key, mut row) = made.part.sums.rows()[0].clone();
    row.late = 0;
    row.overrun_us = Histogram::default();
    made.part.part += 1;
    made.part.sums.row(RowKey { source: Source::Markers, ..key }).merge(&row);
    assert_eq!(collector.put_ledger(SEND, &made.meta, &packed(&made.part)), 201);
    collector.settle();
    let late = made.frames.iter().filter(|(_, overrun_us)| *overrun_us > 0).count();
    let rate = format!(
        " to {:.1} %, from ledgers (frame_metrics)",
        100.0 * late as f64 / made.frames.len() as f64
    );
    let of_page = run(&[&arms[..], &page, &["tokens"]].concat()).1;
    assert!(of_page.contains(&rate), "{rate}: {of_page}");
    assert_eq!(run(&[&arms[..], &field].concat()).1, of_page);
    let of_version = run(&[&arms[..], &field, &["--field-version", "1"]].concat()).1;
    assert!(of_version.contains(" %, from captures"), "its ledgers are of 2.0: {of_version}");
    the_action_writes_the_summary(&collector, &head, &base);
}

/// Runs the steps of the GitHub action, with an archive as `./release` packs it.
fn the_action_writes_the_summary(collector: &Collector, head: &str, base: &str) {
    let temporary = TempDir::new().unwrap();
    let own = temporary.path();
    let archive = own.join("tracetee-0-x86_64-linux.tar.gz");
    let packed = own.join("pack/tracetee-0-x86_64-linux/bin");
    std::fs::create_dir_all(&packed).unwrap();
    std::os::unix::fs::symlink(tracetee(), packed.join("tracetee")).unwrap();
    let tar = ["--create", "--dereference", "--use-compress-program", "gzip -1", "--file"];
    let packed = Command::new("tar")
        .args(tar)
        .arg(&archive)
        .arg("-C")
        .arg(own.join("pack"))
        .arg("tracetee-0-x86_64-linux")
        .status();
    assert!(packed.unwrap().success());
    let digest = Command::new("sha256sum").arg(&archive).output().unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap()[..64].to_owned();
    let [fetch, gate] = scripts("gate-action");
    let summary = own.join("summary.md");
    let run = |script: &str, sha256: &str, head: &str, token: &str| {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        let variables = [
            ("RUNNER_TEMP", own.to_str().unwrap()),
            ("GITHUB_STEP_SUMMARY", summary.to_str().unwrap()),
            ("ARCHIVE", archive.to_str().unwrap()),
            ("SHA256", sha256),
            ("BENCHMARK", head),
            ("BASE", &format!("{base}\n")),
            ("APP", "com.example.shop"),
            ("FIELD", &collector.url),
            ("COLLECTOR_TOKEN", token),
            ("FAIL_ON", "worse"),
        ];
        let output = command.envs(variables).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    assert!(
        run(&fetch, &digest.replace(['0', '1'], "2"), head, READ).0 != Some(0),
        "another archive"
    );
    let (status, said) = run(&fetch, &digest, head, READ);
    assert!(status == Some(0), "{said}");
    let (status, said) = run(&gate, &digest, head, READ);
    let written = std::fs::read_to_string(&summary).unwrap();
    assert!(status == Some(1) && written.starts_with("**worse: "), "{status:?} {written} {said}");
    assert!(written.contains("Feed.bind") && written.contains("of 60 devices"), "{written}");
    assert!(!own.join("tokens").exists());
    assert_eq!(run(&gate, &digest, base, READ).0, Some(0));
    assert_eq!(run(&gate, &digest, head, "a-stranger").0, Some(125));
}
