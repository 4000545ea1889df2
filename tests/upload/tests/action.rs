//! The GitHub action's script against a live collector and a stand-in for GitHub's comments: one comment, which a later run replaces; its
//! status says what is worse. The action itself was not run; its file and the compose file are valid by their schemas.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tracetee_tests::root;
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN};
use tracetee_tests_upload::rollout;
use tracetee_tests_upload::validators::{script, validator};

const READER: &str = "a-token-that-reads-reports";

/// The stand-in, ended when it is dropped.
struct GitHub {
    process: std::process::Child,
    url: String,
}

impl GitHub {
    fn start(out: &Path) -> Option<Self> {
        let mut process = script("github.py")?.arg(out).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Some(Self { process, url: url.trim().to_owned() })
    }
}

impl Drop for GitHub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_comparison_is_one_comment_and_its_status_says_what_is_worse() {
    let own = TempDir::new().unwrap();
    let out = own.path().join("github.json");
    let Some(github) = GitHub::start(&out) else { return };
    let directory = TempDir::new().unwrap();
    let tokens =
        format!("com.example.shop {TOKEN}\ncom.example.shop {READER} read\n* {METRICS} metrics\n");
    std::fs::write(directory.path().join("tokens"), tokens).unwrap();
    let collector = Collector::start_in(directory, &["--token-file", "tokens"]);
    rollout::simulate(&collector, &["--token-file", "tokens"]);
    let run = |from: &str, token: &str, fail_on: &str| {
        let output = Command::new("python3")
            .arg(root().join("collector/packaging/action/comment.py"))
            .env("COLLECTOR", &collector.url)
            .env("COLLECTOR_TOKEN", READER)
            .env("APP", "com.example.shop")
            .env("FROM", from)
            .env("TO", "2.1")
            .env("PULL_REQUEST", "7")
            .env("FAIL_ON", fail_on)
            .env("GITHUB_TOKEN", token)
            .env("GITHUB_API_URL", &github.url)
            .env("GITHUB_REPOSITORY", "o/r")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said + &tracetee_tests::stderr(&output))
    };
    let state = || -> Value { serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap() };
    let (status, said) = run("2.0", "github", "worse");
    assert_eq!(status, Some(1), "the plan makes 2.1 worse: {said}");
    assert!(said.starts_with("wrote the comment; 2.1 is worse than 2.0"), "{said}");
    let first = state();
    let body = first["comments"][0]["body"].as_str().unwrap();
    assert!(
        body.starts_with("<!-- tracetee com.example.shop -->\n") && body.contains("| **worse** |"),
        "{body}"
    );
    // The stand-in has a full page of comments of others before it.
    let (status, said) = run("2.0", "github", "never");
    assert_eq!((status, said.starts_with("replaced the comment")), (Some(0), true), "{said}");
    let second = state();
    assert_eq!(second["comments"].as_array().unwrap().len(), 1, "{second}");
    let last = second["requests"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last[0], &last[1]), (&"PATCH".into(), &"/repos/o/r/issues/comments/100".into()));

    let (status, said) = run("2.0", "stranger", "never");
    assert_eq!((status, said.contains("status 401")), (Some(1), true), "{said}");
    let (status, said) = run("1.0", "github", "never");
    assert_eq!((status, said.contains("no app has both versions")), (Some(1), true), "{said}");
}

#[test]
fn the_action_and_the_compose_file_are_valid_by_their_schemas() {
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
    ] {
        let text = std::fs::read_to_string(root().join("collector/packaging").join(path)).unwrap();
        let Some((is_valid, said)) = check(schema, &text) else { return };
        assert!(is_valid, "{path}: {said}");
        // It can say no.
        assert!(!check(schema, &text.replace(was, wrong)).unwrap().0, "{path}");
    }
}
