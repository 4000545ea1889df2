//! `tracetee doctor`: the probable cause of an empty trace, in words, for each thing that can be
//! wrong.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tracetee_tests::device::Device;
use tracetee_tests::fake_agent::{FakeAgent, OTHER_VERSIONS};
use tracetee_tests::tracetee;

fn doctor(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(tracetee()).arg("doctor").args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Returns the doctor's report of a running process once it contains `awaited`.
fn wait_for(child: &Child, awaited: &str) -> String {
    let begun = Instant::now();
    loop {
        let (_, text) = doctor(&[&child.id().to_string()]);
        if text.contains(awaited) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{awaited}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_installed_agent_is_reported_with_its_state_and_reason() {
    let device = Device::new(34);
    device.configure(json!({"seq": 7, "colour": "red", "windows": [
        {"id": "jank", "opens": {"triggers": {"any": [{"jank": {}}, {"custom": {"name": "x"}}],
                                              "after_s": 0}}, "cool_down_s": 3600},
        {"id": "never", "opens": "app_start", "sampling": {"percent": 0}},
    ]}));
    let script = "sleep 1500 burst x 100 sleep 1500 trigger x sleep 20000";
    let mut app = device.command(script).spawn().unwrap();
    let text = wait_for(
        &app,
        "no records: the tags are enabled, but nothing in this process calls atrace",
    );
    for part in [
        "libcutils     found by ",
        " before, 0xfffffff enabled by the agent, 0xfffffff now; no trace_marker open",
        "/libtracetee.so: is the agent",
        "hooks         1 slots of write in 1 libraries",
        "configuration seq 7",
        "warning       colour: unknown, ignored",
        "state         armed: the flight recorder runs",
        "window        jank: armed",
        "window        never: not sampled: bucket ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = wait_for(&app, "healthy: recording, no records dropped");
    assert!(text.contains("records       200 (B 100, E 100)"), "{text}");
    assert!(text.contains("thread        script (tid "), "{text}");
    let text = wait_for(&app, "nothing is recorded now: jank: cool-down: 3");
    assert!(text.contains("last capture  jank (custom x): "), "{text}");

    // The kill switch, and a document that is wrong.
    device.configure(json!({"seq": 8, "kill": {"on": true}}));
    wait_for(&app, "nothing is recorded now: the kill switch is on");
    device.configure(json!({"seq": 9, "windows": 3}));
    wait_for(&app, "refused       windows: must be an array, not 3 (");

    let (ok, text) = doctor(&["--json", &app.id().to_string()]);
    let health: Value = serde_json::from_str(&text).unwrap();
    assert!(ok && health["control"]["config"]["seq"] == 8, "{text}");
    app.kill().unwrap();
    app.wait().unwrap();
}

#[test]
fn without_a_configuration_it_says_so() {
    let device = Device::new(34);
    let mut app = device.command("sleep 20000").spawn().unwrap();
    wait_for(&app, "nothing is recorded now: there is no configuration yet");
    device.configure_raw("{}");
    wait_for(&app, "the one that was offered is refused: schema: is missing");
    app.kill().unwrap();
    app.wait().unwrap();
}

#[test]
fn a_capture_that_was_lost_is_the_headline_until_the_end() {
    let device = Device::new(34);
    let windows = |id: &str| json!([{"id": id, "opens": "manual", "cool_down_s": 0}]);
    device.configure(json!({"seq": 1, "windows": windows("checkout")}));
    let mut app = device.command("open checkout frames 100000 5").spawn().unwrap();
    let text = wait_for(&app, "healthy");
    assert!(text.contains("window        checkout: open"), "{text}");
    // A file lies where captures are begun; another configuration closes the window.
    let spool = device.directory().join("spool");
    std::fs::rename(spool.join("rec"), spool.join("gone")).unwrap();
    std::fs::write(spool.join("rec"), "in the way").unwrap();
    device.configure(json!({"seq": 2, "windows": [
        {"id": "jank", "opens": {"triggers": {"any": [{"jank": {}}]}}}]}));
    let text = wait_for(&app, "state         armed");
    // The report begins with the lost capture, although the next window is armed already.
    let lost = "a capture was lost: checkout (asked for): cannot ";
    assert!(text.starts_with(lost), "{text}");
    assert!(text.lines().next().unwrap().contains("spool/rec"), "{text}");
    assert!(!text.contains("healthy"), "{text}");
    assert!(text.contains("captures      0 kept and 1 lost by this process"), "{text}");

    // The report that the app gets leads with it, too.
    let (_, json) = doctor(&["--json", &app.id().to_string()]);
    assert!(json.starts_with(&format!("{{\"headline\":\"{lost}")), "{json}");

    // It stays the headline when later captures are kept.
    std::fs::remove_file(spool.join("rec")).unwrap();
    std::fs::rename(spool.join("gone"), spool.join("rec")).unwrap();
    device.configure(json!({"seq": 3, "windows": [
        {"id": "daily", "opens": {"schedule": {"every_s": 86400}}, "max_s": 0.1, "cool_down_s": 0}]}));
    let text = wait_for(&app, "1 kept and 1 lost");
    assert!(text.starts_with(lost), "{text}");
    app.kill().unwrap();
    app.wait().unwrap();
}

#[test]
fn the_recorder_of_a_process_under_tracetee_run_is_read() {
    let device = Device::new(34);
    let script = device.root.path().join("script");
    let mut run = Command::new(tracetee())
        .args(["run", "-q", "-o"])
        .arg(device.root.path().join("out.ftrace"))
        .arg("--")
        .arg(script)
        .args(["section", "x", "1", "sleep", "5000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The program is its only child.
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let begun = Instant::now();
    let text = loop {
        let child = std::fs::read_to_string(&children).unwrap();
        let (ok, text) =
            child.split_whitespace().next().map(|pid| doctor(&[pid])).unwrap_or_default();
        // It may come between the begin and the end.
        if ok && text.contains("records       2 (B 1, E 1)") {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(text.starts_with("healthy"), "{text}");
    assert!(run.wait().unwrap().success());
}

#[test]
fn a_process_without_an_agent_is_reported_with_what_is_missing() {
    let mut other = Command::new("sleep").arg("20").spawn().unwrap();
    let (ok, text) = doctor(&[&other.id().to_string()]);
    assert!(!ok && text.contains("the agent is not loaded in process"), "{text}");
    other.kill().unwrap();
    other.wait().unwrap();
    let (ok, text) = doctor(&["4194304"]);
    assert!(!ok && text.contains("there is no process 4194304"), "{text}");
    let (ok, text) = doctor(&["/nonexistent"]);
    assert!(!ok && text.contains("cannot read /nonexistent"), "{text}");
}

#[test]
fn an_agent_of_another_version_is_reported_as_that_and_not_diagnosed() {
    let fake = FakeAgent::listen();
    let pid = std::process::id().to_string();
    for (answer, version) in OTHER_VERSIONS {
        fake.answer(answer);
        let expected = format!(
            "tracetee: error: process {pid}: agent of another version: {version}; this program reads version 1\n"
        );
        for arguments in [&[&*pid][..], &["--json", &pid]] {
            assert_eq!(doctor(arguments), (false, expected.clone()), "{answer}");
        }
    }
}
