//! The GitHub action's scripts against a live collector: what becomes the comment, and a status that says what is worse. The action
//! itself was not run; its file and the compose file are valid by their schemas.

use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::root;
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN};
use tracetee_tests_upload::rollout;
use tracetee_tests_upload::validators::{scripts, validator};

const READER: &str = "a-token-that-reads-reports";

#[test]
fn a_comparison_becomes_a_comment_and_the_status_says_what_is_worse() {
    let directory = TempDir::new().unwrap();
    let tokens =
        format!("com.example.shop {TOKEN}\ncom.example.shop {READER} read\n* {METRICS} metrics\n");
    std::fs::write(directory.path().join("tokens"), tokens).unwrap();
    let collector = Collector::start_in(directory, &["--token-file", "tokens"]);
    rollout::simulate(&collector, &["--token-file", "tokens"]);
    let [ask, judge] = scripts("action");
    let own = TempDir::new().unwrap();
    let run = |script: &str, from: &str, token: &str, fail_on: &str| {
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .env("RUNNER_TEMP", own.path())
            .env("COLLECTOR", &collector.url)
            .env("COLLECTOR_TOKEN", token)
            .env("APP", "com.example.shop")
            .env("FROM", from)
            .env("TO", "2.1")
            .env("FAIL_ON", fail_on)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said + &tracetee_tests::stderr(&output))
    };
    let (succeeded, said) = run(&ask, "2.0", READER, "worse");
    assert!(succeeded, "{said}");
    let comment = std::fs::read_to_string(own.path().join("comment.md")).unwrap();
    assert!(comment.contains("  WORSE\n"), "{comment}");
    let (succeeded, said) = run(&judge, "2.0", READER, "worse");
    assert!(!succeeded && !said.contains("in 0 rows"), "the plan makes 2.1 worse: {said}");
    let (succeeded, said) = run(&judge, "2.0", READER, "never");
    assert!(succeeded, "{said}");

    for (from, token, fail_on, reason) in [
        ("2.0", "a-stranger", "never", "error: 401"),
        ("1.0", READER, "never", "no app has both versions"),
        ("2.0", READER, "often", "fail-on: often is not worse or never"),
    ] {
        let (succeeded, said) = run(&ask, from, token, fail_on);
        assert!(!succeeded && said.contains(reason), "{said}");
    }
}

#[test]
fn the_actions_and_the_compose_file_are_valid_by_their_schemas() {
    let check = |schema: &str, text: &str| {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("file.yml");
        std::fs::write(&file, text).unwrap();
        let output = validator("check-jsonschema")?
            .args(["--builtin-schema", schema])
            .arg(file)
            .output()
            .unwrap();
        Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    for (schema, path, was, wrong) in [
        ("vendor.compose-spec", "compose/compose.yml", "healthcheck:", "healthchecks:"),
        ("vendor.github-actions", "action/action.yml", "using: composite", "using: composed"),
        ("vendor.github-actions", "gate-action/action.yml", "using: composite", "using: composed"),
    ] {
        let text = std::fs::read_to_string(root().join("collector/packaging").join(path)).unwrap();
        let Some((is_valid, said)) = check(schema, &text) else { return };
        assert!(is_valid, "{path}: {said}");
        // It can say no.
        assert!(!check(schema, &text.replace(was, wrong)).unwrap().0, "{path}");
    }
}
