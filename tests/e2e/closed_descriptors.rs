//! An app that closes the agent's descriptors, as daemons do, and reuses their numbers: the agent's calls return, and the
//! app's files are untouched.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, stderr};

struct App {
    directory: TempDir,
    program: PathBuf,
}

impl App {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), 34, &[]);
        let agent = library(directory.path());
        let include = format!("-I{}", directory.path().display());
        let program = fixture(directory.path(), "closes_all", &[&include, agent.to_str().unwrap()]);
        Self { directory, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Without files of the app's own, and with 100.
    fn goes_on(&self, verb: &str, config: &Value) {
        for count in ["0", "100"] {
            let own = self.path(&format!("{verb}-{count}"));
            std::fs::create_dir(&own).unwrap();
            let output = Command::new(&self.program)
                .args([verb, &config.to_string(), own.to_str().unwrap(), count])
                .output()
                .unwrap();
            assert!(output.status.success(), "{count}: {:?} {}", output.status, stderr(&output));
            std::fs::remove_dir_all(&own).unwrap();
        }
    }
}

#[test]
fn an_agent_whose_socket_was_closed_is_uninstalled() {
    let app = App::new();
    let window = json!({"id": "w", "opens": "app_start", "cool_down_s": 0, "max_s": 60, "crash_proof": true});
    let document = json!({"schema": 1, "seq": 1, "windows": [window],
        "budget": {"captures_per_hour": 100, "captures_per_day": 100}});
    std::fs::write(app.path("remote.json"), document.to_string()).unwrap();
    app.goes_on(
        "install",
        &json!({"directory": app.path("agent"), "config_file": app.path("remote.json"),
            "start_wait_ms": 10_000}),
    );
}

#[test]
fn a_recorder_whose_file_was_closed_takes_no_space_in_another_file() {
    let app = App::new();
    let recorder = json!({"mode": "startup", "directory": app.directory.path()});
    app.goes_on("start", &json!({"recorder": recorder}));
}

#[test]
fn a_streamed_trace_whose_file_was_closed_does_not_go_on_in_another_file() {
    let app = App::new();
    let output = app.path("out.ftrace");
    app.goes_on("start", &json!({"output": output, "recorder": {"mode": "endless"}}));
}
