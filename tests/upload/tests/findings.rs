//! `collect --guard`: a finding begins once and ends once, in the log and in `/metrics`, over a restart of the collector, and of two collectors
//! of one bucket, of which one is killed.

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

const END: &str = "ended, or is no longer guarded: ";

#[test]
fn a_finding_begins_once_and_ends_once_over_a_restart() {
    let directory = TempDir::new().unwrap();
    fill(&directory.path().join("store"));
    let file = |rollouts: Value| json!({"rollouts": rollouts, "every_s": 1}).to_string();
    let rollouts = json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]);
    fs::write(directory.path().join("guard.json"), file(rollouts)).unwrap();
    let options = ["--guard", "guard.json"];
    let collector = Collector::start_in(directory, &options);
    until("the finding", || (found(&collector) == 1).then_some(()));
    let has = |collector: &Collector, line: &str| {
        collector.metrics().lines().any(|metric| metric == line)
    };
    let series = "tracetee_guard_finding{app=\"com.example.shop\",from=\"2.0\",to=\"2.1\",segment=\"\",screen=\"Feed\",\
                  cause=\"section\",key=\"Feed.bind\"} 1";
    until("the series", || has(&collector, series).then_some(()));
    let state = || fs::read_to_string(collector.store().join("findings.json")).ok();
    until("the state", || state().filter(|state| state.contains("Feed.bind")));

    // Nothing new after a restart; the end comes when the rollout is guarded no longer.
    let collector = Collector::start_in(collector.into_directory(), &options);
    until("the series", || has(&collector, series).then_some(()));
    fs::write(collector.directory.path().join("guard.json"), "{").unwrap();
    collector.log_with("kept the rollouts");
    fs::write(collector.directory.path().join("guard.json"), file(json!([]))).unwrap();
    collector.log_with(END);
    assert!(!collector.metrics().contains("tracetee_guard_finding{"), "{}", collector.metrics());
    assert_eq!(found(&collector), 0, "{}", collector.log());
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
