//! `collect --guard`: a finding begins once and ends once, over a restart of the collector, and of two collectors of one bucket, of which
//! one is killed.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_fleet::capture::{Limits, rows};
use tracetee_fleet::database::Database;
use tracetee_fleet::rows::{About, Rows};
use tracetee_fleet::simulate::{Plan, PlannedRollout};
use tracetee_tests_upload::collector::{Collector, put_capture};
use tracetee_tests_upload::s3::Bucket;

/// The plan of a fleet whose later version has the cause `Feed.bind`.
fn plan() -> Plan {
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 72,
        captures: 6,
    };
    Plan { rollout: Some(rollout), days: 8, frames: 240, ..Plan::default() }
}

/// Fills a store with such a fleet, at which the guard looks each day.
fn fill(store: &Path) {
    let plan = plan();
    let mut days: BTreeMap<u64, Vec<Rows>> = BTreeMap::new();
    for capture in (0..100).flat_map(|number| plan.device(4, number).0) {
        let day = capture.meta.made_ms.unwrap() / 86_400_000;
        let about = About {
            capture_id: capture.id.to_string(),
            day: format!("day {day}"),
            meta: capture.meta,
            raw_key: capture.id.to_string(),
            ..About::default()
        };
        let rows = rows(Cursor::new(capture.text), &about, None, &Limits::default()).unwrap();
        days.entry(day).or_default().push(rows);
    }
    fs::create_dir(store).unwrap();
    let mut database = Database::open(&store.join("tables.sqlite")).unwrap();
    for rows in days.values() {
        database.insert(rows).unwrap();
        // The guard looks each day: later days must show a rise again.
        let mut look = std::process::Command::new(tracetee_tests::tracetee());
        look.args(["guard", "--app", &plan.app, "--from", "2.0", "--to", "2.1", "--store"])
            .arg(store);
        assert_ne!(look.output().unwrap().status.code(), Some(125));
    }
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1800 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} does not come");
}

/// Counts the lines of a collector's log in which the guard has found something.
fn found(collector: &Collector) -> usize {
    collector.log().matches("the guard found: Feed: section Feed.bind").count()
}

const END: &str = "ended, or guarded no longer: Feed: section Feed.bind";

#[test]
fn a_finding_begins_once_and_ends_once_over_a_restart() {
    let directory = TempDir::new().unwrap();
    fill(&directory.path().join("store"));
    let file = |rollouts: Value| json!({"rollouts": rollouts, "every_s": 1}).to_string();
    let rollouts = json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]);
    fs::write(directory.path().join("guard.json"), file(rollouts)).unwrap();
    let collector = Collector::start_in(directory, &["--guard", "guard.json"]);
    until("the finding", || (found(&collector) == 1).then_some(()));
    let state = || fs::read_to_string(collector.store().join("findings.json")).ok();
    until("the state", || state().filter(|state| state.contains("Feed.bind")));

    // Nothing new after a restart; the end comes when the rollout is guarded no longer.
    let collector = Collector::start_in(collector.into_directory(), &["--guard", "guard.json"]);
    fs::write(collector.directory.path().join("guard.json"), "{").unwrap();
    until("the refusal", || collector.log().contains("kept the rollouts").then_some(()));
    fs::write(collector.directory.path().join("guard.json"), file(json!([]))).unwrap();
    until("the end", || collector.log().contains(END).then_some(()));
    assert_eq!(found(&collector), 0, "{}", collector.log());
}

#[test]
fn of_the_collectors_of_a_bucket_one_at_a_time_reports_findings() {
    let bucket = Bucket::default();
    let own = TempDir::new().unwrap();
    let store = own.path().join("store");
    fill(&store);
    // The guard has looked at the bucket, which has some of the devices, each day.
    let in_bucket = bucket.directory.path().join("s3/fleet/traces");
    fs::create_dir_all(&in_bucket).unwrap();
    fs::copy(store.join("guard.sqlite"), in_bucket.join("guard.sqlite")).unwrap();
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
    for (number, capture) in (0..8).flat_map(|number| plan().device(4, number).0).enumerate() {
        let meta = serde_json::from_str(&capture.meta.to_json()).unwrap();
        let (url, id) = (&collectors[number % 2].url, capture.id.to_string());
        assert_eq!(put_capture(url, &id, &meta, &capture.body().unwrap()), Some(201));
    }
    let finder = until("the finding", || collectors.iter().position(|of| found(of) > 0));
    let state = || -> Option<Value> {
        serde_json::from_slice(&fs::read(in_bucket.join("findings.json")).ok()?).ok()
    };
    // A collector that is killed before it has written a finding reports it again.
    until("the first state", || (state()?["open"] != json!([])).then_some(()));
    drop(collectors.remove(finder));
    write(json!([]));
    // Once the lease of the one that was killed has ended.
    until("the end", || collectors[0].log().contains(END).then_some(()));
    until("the state", || (state()?["open"] == json!([])).then_some(()));
    assert_eq!(found(&collectors[0]), 0, "{}", collectors[0].log());
}
