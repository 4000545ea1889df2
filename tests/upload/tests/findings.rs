//! `collect --guard`: a finding begins once and ends once, in the log, in `/metrics` and for the command of `--on-finding`, over failures
//! and a restart of the collector, and of two collectors of one bucket, of which one is killed; whatever the command does, the collector
//! ends.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_fleet::database::Database;
use tracetee_tests_upload::collector::{Collector, put_capture};
use tracetee_tests_upload::rollout::{DEVICES, days, plan};
use tracetee_tests_upload::s3::Bucket;

/// Fills a store with the fleet of the rollout.
fn fill(store: &Path) {
    fs::create_dir(store).unwrap();
    let mut database = Database::open(&store.join("tables.sqlite")).unwrap();
    for rows in days().values() {
        database.insert(rows).unwrap();
    }
}

fn until<T>(expected: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1800 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{expected} does not come");
}

/// Counts the lines of a collector's log in which the guard has found something: while captures come, all jank may be sure before a
/// cause is.
fn found(collector: &Collector) -> usize {
    collector.log().matches("the guard found: ").count()
}

const END: &str = "ended, or guarded no longer: ";

/// Reads the messages that a command has appended to a file, each with an end of line.
fn messages(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_finding_begins_once_and_ends_once_over_failures_and_a_restart() {
    let directory = TempDir::new().unwrap();
    fill(&directory.path().join("store"));
    let file = |rollouts: Value| json!({"rollouts": rollouts, "every_s": 1}).to_string();
    let rollouts = json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]);
    fs::write(directory.path().join("guard.json"), file(rollouts)).unwrap();
    // The command refuses at first, and what it says is not in the log.
    let command = "echo A SECRET; echo A SECRET >&2; test -e accepts && cat >>told && echo >>told";
    let options = ["--guard", "guard.json", "--on-finding", command];
    let collector = Collector::start_in(directory, &options);
    until("the finding", || (found(&collector) == 1).then_some(()));
    let has = |collector: &Collector, line: &str| {
        collector.metrics().lines().any(|metric| metric == line)
    };
    let series = "tracetee_guard_finding{app=\"com.example.shop\",from=\"2.0\",to=\"2.1\",segment=\"\",screen=\"Feed\",\
                  cause=\"section\",key=\"Feed.bind\"} 1";
    until("the series", || has(&collector, series).then_some(()));
    let failures =
        |count: &str| has(&collector, &format!("tracetee_finding_failures_total {count}"));
    until("two failures", || (!failures("0") && !failures("1")).then_some(()));
    let failed = "--on-finding: exit status: 1";
    assert_eq!(collector.log_with(failed).matches(failed).count(), 1);
    fs::write(collector.directory.path().join("accepts"), "").unwrap();
    let told = |collector: &Collector| messages(&collector.directory.path().join("told"));
    until("the message", || (told(&collector).len() == 1).then_some(()));
    until("its count", || has(&collector, "tracetee_finding_commands_total 1").then_some(()));
    let state = || fs::read_to_string(collector.store().join("findings.json")).ok();
    until("the state", || state().filter(|state| state.contains("Feed.bind")));

    // Nothing new after a restart; the end comes when the rollout is guarded no longer.
    let collector = Collector::start_in(collector.into_directory(), &options);
    until("the series", || has(&collector, series).then_some(()));
    fs::write(collector.directory.path().join("guard.json"), "{").unwrap();
    collector.log_with("kept the rollouts");
    fs::write(collector.directory.path().join("guard.json"), file(json!([]))).unwrap();
    collector.log_with(END);
    until("its message", || (told(&collector).len() == 2).then_some(()));
    assert!(!collector.metrics().contains("tracetee_guard_finding{"), "{}", collector.metrics());
    assert_eq!(found(&collector), 0, "{}", collector.log());
    assert!(!collector.log().contains("SECRET"), "{}", collector.log());
    let told = told(&collector);
    assert_eq!((&told[0]["event"], &told[1]["event"]), (&json!("begin"), &json!("end")));
    for message in &told {
        assert_eq!((&message["screen"], &message["key"]), (&json!("Feed"), &json!("Feed.bind")));
    }
}

/// True if a process group has a process that is no zombie.
fn has_processes(group: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let words: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
        Some(words[0] != "Z" && words[2] == group)
    });
    processes.into_iter().any(|is_there| is_there)
}

#[test]
fn a_command_that_never_ends_holds_up_no_look_and_no_end() {
    let directory = TempDir::new().unwrap();
    fill(&directory.path().join("store"));
    let rollouts = json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]);
    let file = json!({"rollouts": rollouts, "every_s": 1}).to_string();
    fs::write(directory.path().join("guard.json"), file).unwrap();
    let command = "trap '' TERM INT HUP; echo $$ >>runs; sleep 3600 & while :; do wait; done";
    let mut collector =
        Collector::start_in(directory, &["--guard", "guard.json", "--on-finding", command]);
    let runs = collector.directory.path().join("runs");
    let pids = || fs::read_to_string(&runs).unwrap_or_default();
    // The first run is killed, the second one runs when the collector ends.
    until("the second run", || (pids().lines().count() == 2).then_some(()));
    collector.log_with("--on-finding: killed after 10 s");
    let pid = i32::try_from(collector.process.id()).unwrap();
    // SAFETY: a process of ours.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    assert!(collector.process.wait().unwrap().success());
    for pid in pids().lines() {
        until("the end of the group", || (!has_processes(pid)).then_some(()));
    }
    let state = fs::read_to_string(collector.store().join("findings.json")).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["pending"].as_array().unwrap().len(), 1, "it comes after the next start");
}

/// The command of the documentation, with a stand-in for Slack that is a program of curl's.
#[test]
fn the_documented_command_sends_slack_a_text_without_markup() {
    let text = fs::read_to_string(tracetee_tests::root().join("docs/COMPARE.md")).unwrap();
    let (_, rest) = text.split_once("--on-finding '").unwrap();
    let command = rest.split_once("'\n").unwrap().0;
    let own = TempDir::new().unwrap();
    let curl = own.path().join("curl");
    fs::write(&curl, "#!/bin/sh\nprintf '%s\\n' \"$@\" >arguments\ncat >body\n").unwrap();
    fs::set_permissions(&curl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", own.path().display(), std::env::var("PATH").unwrap());
    fs::write(own.path().join("input"), json!({"text": "a: <!channel> & b\nc"}).to_string())
        .unwrap();
    let status = std::process::Command::new("sh")
        .args(["-c", &command.replace("/etc/tracetee/slack", "slack")])
        .current_dir(own.path())
        .env("PATH", path)
        .stdin(fs::File::open(own.path().join("input")).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    let body: Value = serde_json::from_slice(&fs::read(own.path().join("body")).unwrap()).unwrap();
    assert_eq!(body, json!({"text": "a: &lt;!channel&gt; &amp; b\nc"}));
    let arguments = fs::read_to_string(own.path().join("arguments")).unwrap();
    assert!(
        arguments.contains("--config\nslack\n") && !arguments.contains("hooks."),
        "{arguments}"
    );
}

#[test]
fn of_the_collectors_of_a_bucket_one_at_a_time_reports_findings() {
    let bucket = Bucket::default();
    let own = TempDir::new().unwrap();
    let in_bucket = bucket.directory.path().join("s3/fleet/traces");
    fs::create_dir_all(&in_bucket).unwrap();
    let file = own.path().join("guard.json");
    let write = |rollouts: Value| {
        fs::write(&file, json!({"rollouts": rollouts, "every_s": 1}).to_string()).unwrap();
    };
    write(json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]));
    let options = ["--guard", file.to_str().unwrap()];
    // A file of the working directory is nobody's state.
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("findings.json"), "{").unwrap();
    let mut collectors = vec![bucket.collector_in(elsewhere, &options), bucket.collector(&options)];
    let plan = plan();
    for (number, capture) in
        (0..u64::from(DEVICES)).flat_map(|number| plan.device(4, number).0).enumerate()
    {
        let meta = serde_json::from_str(&capture.meta.to_json()).unwrap();
        let (url, id) = (&collectors[number % 2].url, capture.id.to_string());
        assert_eq!(put_capture(url, &id, &meta, &capture.body().unwrap()), Some(201));
    }
    let finder =
        until("the finding", || collectors.iter().position(|collector| found(collector) > 0));
    let state = || -> Option<Value> {
        serde_json::from_slice(&fs::read(in_bucket.join("findings.json")).ok()?).ok()
    };
    // A collector that is killed before it has written a finding reports it again.
    until("the first state", || (state()?["open"] != json!([])).then_some(()));
    drop(collectors.remove(finder));
    write(json!([]));
    // Once the lease of the one that was killed has ended.
    collectors[0].log_with(END);
    until("the state", || (state()?["open"] == json!([])).then_some(()));
    assert_eq!(found(&collectors[0]), 0, "{}", collectors[0].log());
}
