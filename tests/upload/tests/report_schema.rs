//! The JSON schema of reports: jsonschema takes reports of recorded traces, of the demo, of simulated fleets and a comparison, and
//! refuses one with a field that the schema does not have.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tracetee_tests::{root, skip, tracetee};
use tracetee_tests_upload::collector::{Collector, run};
use tracetee_tests_upload::validators::script;

/// Validates files. Returns whether they are valid, and what is wrong.
fn validated(schema: &Path, files: &[PathBuf]) -> Option<(bool, String)> {
    let output = script("schema.py")?.arg(schema).args(files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.success(), said + &tracetee_tests::stderr(&output)))
}

fn traces(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

#[test]
fn reports_are_as_their_schema_says() {
    let schema = root().join("collector/fleet/schema/report.schema.json");
    let collector = Collector::start(&[]);
    let own = collector.directory.path();
    let report = |name: &str, arguments: &[&str]| {
        let output = own.join(name);
        let mut command = Command::new(tracetee());
        command.current_dir(own).args(["report", "--format", "json", "-o", name]).args(arguments);
        command.output().unwrap().status.success().then_some(output)
    };
    // Recorded traces, each by itself and all together.
    let mut files = Vec::new();
    let recorded =
        [traces(&root().join("tests/traces")), traces(&root().join("../shared/traces"))].concat();
    for (number, trace) in recorded.iter().enumerate() {
        files.extend(report(&format!("trace-{number}.json"), &[trace.to_str().unwrap()]));
    }
    assert!(files.len() > 8, "{} reports of {} traces", files.len(), recorded.len());
    // The demo's captures.
    let demo = Command::new(tracetee()).args(["demo", "-o", "demo"]).current_dir(own).output();
    if demo.unwrap().status.success() {
        for (number, capture) in traces(&own.join("demo")).iter().enumerate() {
            if capture.to_string_lossy().ends_with(".ftrace.zst") {
                files.push(
                    report(&format!("demo-{number}.json"), &[capture.to_str().unwrap()]).unwrap(),
                );
            }
        }
    } else {
        skip("this program has no demo");
    }
    // Fleets.
    let plan = run(Command::new(tracetee()).args(["simulate", "--print-plan"]));
    let mut plan: Value = serde_json::from_str(&plan).unwrap();
    plan["rollout"] = json!({"from": "2.0", "to": "2.1", "release_hour": 24, "captures": 2});
    fs::write(own.join("plan.json"), plan.to_string()).unwrap();
    for devices in [30, 60] {
        let (seed, devices) = (devices.to_string(), devices.to_string());
        collector.tracetee(&[
            "simulate",
            "--url",
            &collector.url,
            "--plan",
            "plan.json",
            "--devices",
            &devices,
            "--seed",
            &seed,
        ]);
        collector.settle();
        let name = |kind: &str| format!("{kind}-{devices}.json");
        let compare = ["--store", "store", "--compare", "2.0", "2.1"];
        files.push(report(&name("fleet"), &["--store", "store"]).unwrap());
        files.push(report(&name("feed"), &["--store", "store", "--screen", "Feed"]).unwrap());
        files.push(report(&name("compared"), &compare).unwrap());
    }
    let Some((is_valid, said)) = validated(&schema, &files) else { return };
    assert!(is_valid, "{said}");

    // It can say no, at any depth.
    let fleet: Value =
        serde_json::from_slice(&fs::read(own.join("compared-60.json")).unwrap()).unwrap();
    for pointer in
        ["", "/apps/0", "/apps/0/causes/0", "/apps/0/comparison/coverage", "/apps/0/fixes/rows/0"]
    {
        let mut wrong = fleet.clone();
        wrong.pointer_mut(pointer).unwrap()["new_field"] = json!(1);
        let path = own.join("wrong.json");
        fs::write(&path, wrong.to_string()).unwrap();
        let (is_valid, said) = validated(&schema, &[path]).unwrap();
        assert!(!is_valid && said.contains("new_field"), "{pointer}: {said}");
    }
}
