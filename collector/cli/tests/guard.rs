//! The exit status of `tracetee guard` is its verdict, and `tracetee bisect` names the version; in a store with a simulated fleet.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io::Cursor;
use std::process::{Command, Output};
use tracetee_fleet::capture::{Limits, rows};
use tracetee_fleet::database::Database;
use tracetee_fleet::rows::{About, Rows};
use tracetee_simulate::{Plan, PlannedChange, PlannedClass, PlannedRollout};

const DEVICES: u64 = 300;

/// The rows of a fleet whose later version has the cause `Feed.bind`, by day.
fn days(plan: &Plan) -> BTreeMap<String, Vec<Rows>> {
    let mut days: BTreeMap<String, Vec<Rows>> = BTreeMap::new();
    for capture in (0..DEVICES).flat_map(|number| plan.device(4, number).0) {
        let day = format!("day {:06}", capture.meta.made_ms.unwrap() / 86_400_000);
        let about = About {
            capture_id: capture.id.to_string(),
            day: day.clone(),
            meta: capture.meta,
            raw_key: capture.id.to_string(),
            ..About::default()
        };
        let rows = rows(Cursor::new(capture.text), &about, None, &Limits::default()).unwrap();
        days.entry(day).or_default().push(rows);
    }
    days
}

fn tracetee(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracetee")).args(arguments).output().unwrap()
}

#[test]
fn the_exit_status_of_the_guard_is_its_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 120,
        captures: 14,
    };
    let phones = PlannedClass {
        name: "phones".to_owned(),
        share: 1,
        models: vec!["A".to_owned()],
        apis: vec![34],
        slowness_percent: 100,
        causes_percent: 100,
        update_hours: 240,
    };
    let worse = PlannedChange {
        version: "2.1".to_owned(),
        slice: "Feed.bind".to_owned(),
        screens: Vec::new(),
        classes: Vec::new(),
        rate_percent: 100,
        time_percent: 300,
    };
    let plan = Plan {
        rollout: Some(rollout),
        classes: vec![phones],
        changes: vec![worse],
        days: 14,
        frames: 240,
        ..Plan::default()
    };
    let mut database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
    let store = directory.path().to_str().unwrap();
    let guard = |from: &str, more: &[&str]| {
        let app = &*plan.app;
        let mut arguments =
            vec!["guard", "--store", store, "--app", app, "--from", from, "--to", "2.1"];
        arguments.extend(more);
        let output = tracetee(&arguments);
        let [out, error] = [output.stdout, output.stderr].map(|of| String::from_utf8(of).unwrap());
        (output.status.code(), out, error)
    };
    let mut looks = Vec::new();
    for rows in days(&plan).values() {
        database.insert(rows).unwrap();
        looks.push(guard("2.0", &[]));
    }
    let (status, text, error) = looks.pop().unwrap();
    assert!(looks.iter().any(|look| look.0 == Some(2)), "{looks:?}");
    assert_eq!(status, Some(1), "{text}{error}");
    assert!(text.starts_with("stop: the later version is worse\n"), "{text}");
    assert!(text.contains("finding 1: Feed: section Feed.bind"), "{text}");
    // There are no captures to open.
    assert!(error.contains("left out an example"), "{error}");
    let (status, text, _) = guard("2.0", &["--segment", "screen=Settings", "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &answer["verdict"]), (Some(2), &"not_yet".into()));
    assert!(answer["power"]["needed"].as_u64() > answer["power"]["devices"].as_u64(), "{text}");
    // A rise so large that it would have been found.
    let (status, text, _) = guard("2.0", &["--segment", "screen=Settings", "--rise", "1000"]);
    assert_eq!(status, Some(0), "{text}");
    let (status, _, error) = guard("1.0", &[]);
    assert_eq!(status, Some(125), "{error}");
    assert!(error.contains("no device of com.example.shop with version 1.0"), "{error}");
    let (status, _, error) = guard("2.0", &["--segment", "colour=red"]);
    assert_eq!(status, Some(125), "{error}");
    assert!(error.contains("is not screen=SCREEN"), "{error}");
    assert_eq!(tracetee(&["guard"]).status.code(), Some(125));
    assert_eq!(tracetee(&["guard", "--help"]).status.code(), Some(0));
    let bisect =
        tracetee(&["bisect", "--store", store, "--app", &plan.app, "--cause", "Feed.bind"]);
    let text = String::from_utf8(bisect.stdout).unwrap();
    assert!(text.starts_with("2.0 -> 2.1: section Feed.bind +"), "{text}");
    assert_eq!(text.lines().count(), 1);
}
