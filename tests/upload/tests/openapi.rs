//! schemathesis tries the collector's OpenAPI document on a collector: each route with valid and with wrong requests, with and without
//! a token. What the document does not have is a failure: a status, a header, a media type, a body of another form.

use serde_json::Value;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::root;
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN, run};
use tracetee_tests_upload::validators::validator;

const ADMIN: &str = "a-token-of-who-administrates";
/// Captures whose content is a whole one.
const CAPTURE: &str = "# tracer: nop\n app-1 (1) [000] .... 1.000000: tracing_mark_write: B|1|x\n\
                        app-1 (1) [000] .... 1.001000: tracing_mark_write: E|1\n";

/// Tries a document. Returns whether schemathesis is content, and its report.
fn tried(
    collector: &Collector,
    document: &str,
    token: &str,
    choice: [&str; 2],
) -> Option<(bool, String)> {
    let hooks = root().join("tests/upload/validators");
    let output = validator("st")?
        .arg("--config-file")
        .arg(hooks.join("schemathesis.toml"))
        .args(["run", document, "--url", &collector.url])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(choice)
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "50", "--seed", "1"])
        .args(["--request-timeout", "60", "--generation-database", "none", "--warnings", "off"])
        .env("PYTHONPATH", &hooks)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("CAPTURE", collector.directory.path().join("capture.zst"))
        .current_dir(collector.directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.success(), said + &tracetee_tests::stderr(&output)))
}

#[test]
fn the_collector_does_as_its_open_api_says() {
    let directory = TempDir::new().unwrap();
    let own = directory.path().to_owned();
    run(Command::new(tracetee_tests::tracetee()).current_dir(&own).args([
        "init",
        "--app",
        "com.example",
        "--url",
        "http://127.0.0.1",
        "-o",
        "new",
    ]));
    let tokens = format!("com.example {TOKEN}\ncom.example {ADMIN} admin\n* {METRICS} metrics\n");
    fs::write(own.join("tokens"), tokens).unwrap();
    fs::write(own.join("capture.zst"), zstd::bulk::compress(CAPTURE.as_bytes(), 1).unwrap())
        .unwrap();
    let collector = Collector::start_in(
        directory,
        &["--token-file", "tokens", "--config", "new/server/remote.json", "--app-rate", "1000000"],
    );
    let served = format!("{}/v1/openapi.json", collector.url);
    // `/mcp` is tried by its protocol's own client (tests/fleet/tests/mcp.rs); schemathesis cannot make parts of ledgers
    // (tests/fleet/tests/ledgers.rs).
    let others = "mappings|report.(json|md)|metrics|^/$|^/captures|^/mcp$|ledgers";
    let of_devices = ["--exclude-path-regex", others];
    let Some((is_right, said)) = tried(&collector, &served, TOKEN, of_devices) else { return };
    assert!(is_right, "{said}");
    // The id of which schemathesis.toml asks the pages.
    let stored = "/v1/captures/019a1fd7-2955-7cfa-a44a-a7427d9591d5";
    assert_eq!(collector.put(stored, &[], &fs::read(own.join("capture.zst")).unwrap()), 201);
    collector.settle();
    let of_people = ["--include-path-regex", "mappings|report.(json|md)|^/$|^/captures"];
    let (is_right, said) = tried(&collector, &served, ADMIN, of_people).unwrap();
    assert!(is_right, "{said}");
    let of_prometheus = ["--include-path-regex", "metrics"];
    let (is_right, said) = tried(&collector, &served, METRICS, of_prometheus).unwrap();
    assert!(is_right, "{said}");
    // Each route was reached, and answered what it is for.
    let metrics = collector.metrics();
    for (route, status) in [
        ("captures", 201),
        ("captures", 401),
        ("losses", 201),
        ("mappings", 201),
        ("config", 200),
        ("config", 304),
    ] {
        let series = format!("tracetee_requests_total{{route=\"{route}\",status=\"{status}\"}}");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }

    // It can say no: to a status that the document does not have, and to a report with a field that its schema does not have.
    let document = fs::read_to_string(root().join("collector/server/api/openapi.json")).unwrap();
    let schema =
        fs::read_to_string(root().join("collector/fleet/schema/report.schema.json")).unwrap();
    let wrong = own.join("openapi.json");
    fs::write(&wrong, document.replace("\"415\"", "\"418\"")).unwrap();
    fs::write(own.join("report.schema.json"), &schema).unwrap();
    let wrong = wrong.to_str().unwrap();
    let (is_right, said) =
        tried(&collector, wrong, TOKEN, ["--include-path-regex", "v1/captures"]).unwrap();
    assert!(!is_right && said.contains("Undocumented status code"), "{said}");
    fs::write(
        own.join("report.schema.json"),
        schema.replace("\"quantile_errors\"", "\"quantile\""),
    )
    .unwrap();
    let (is_right, said) =
        tried(&collector, wrong, ADMIN, ["--include-path-regex", "report.json"]).unwrap();
    assert!(!is_right && said.contains("quantile_errors"), "{said}");
}

/// Collects the references in a document.
fn references<'a>(part: &'a Value, found: &mut Vec<&'a str>) {
    match part {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn each_reference_of_the_file_leads_to_a_part_of_it_or_of_a_file_beside_it() {
    let file = root().join("collector/server/api/openapi.json");
    let read = |path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let document = read(file.clone());
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.iter().any(|reference| !reference.starts_with('#')));
    for reference in found {
        let (name, pointer) = reference.split_once('#').unwrap();
        let other =
            if name.is_empty() { document.clone() } else { read(file.with_file_name(name)) };
        assert!(other.pointer(pointer).is_some(), "{reference}");
    }
}
