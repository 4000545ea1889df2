//! The exit status of `tracetee guard` is its verdict, and `tracetee bisect` names the version; in a store with a simulated fleet.

use std::process::{Command, Output};
use tracetee_fleet::database::Database;
use tracetee_fleet::report::grouped;
use tracetee_tests_upload::rollout::{days, plan};

fn tracetee(arguments: &[&str]) -> Output {
    Command::new(tracetee_tests::tracetee()).args(arguments).output().unwrap()
}

#[test]
fn the_exit_status_of_the_guard_is_its_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan();
    let mut database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
    let store = directory.path().to_str().unwrap();
    let guard = |from: &str, more: &[&str]| {
        let app = &*plan.app;
        let mut arguments =
            vec!["guard", "--store", store, "--app", app, "--from", from, "--to", "2.1"];
        arguments.extend(more);
        let output = tracetee(&arguments);
        let [out, error] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), out, error)
    };
    let mut looks = Vec::new();
    for rows in days().values() {
        database.insert(rows).unwrap();
        looks.push(guard("2.0", &[]));
    }
    let (status, text, error) = looks.pop().unwrap();
    assert!(looks.iter().any(|look| look.0 == Some(2)), "{looks:?}");
    assert_eq!(status, Some(1), "{text}{error}");
    assert!(text.starts_with("stop: the later version is worse\n"), "{text}");
    assert!(text.contains("finding 1: Feed: section Feed.bind"), "{text}");
    let is_example = |line: &&str| {
        line.starts_with("  example: ") && line.ends_with("/timeline#cause=section%7CFeed.bind")
    };
    assert!((1..=10).contains(&text.lines().filter(is_example).count()), "{text}");
    let (_, json, _) = guard("2.0", &["--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let root = &answer["findings"][0]["root"];
    // As the score of the change says, without the factors of the mixture.
    let (one_in, score) =
        (root["false_alarm_one_in"].as_u64().unwrap(), root["score"].as_f64().unwrap());
    assert!([100, 1_000, 10_000, 100_000, 1_000_000].contains(&one_in), "{json}");
    assert!((one_in as f64).ln() < score * score / 2.0, "{json}");
    let said = format!("devices, chance of a false alarm less than 1 in {}\n", grouped(one_in));
    let finding = text.split_inclusive('\n').find(|line| line.starts_with("finding 1: ")).unwrap();
    assert!(finding.ends_with(&said), "{finding}");
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
    assert!(text.starts_with("2.0 -> 2.1: section Feed.bind new, "), "{text}");
    assert_eq!(text.lines().count(), 1);
}
