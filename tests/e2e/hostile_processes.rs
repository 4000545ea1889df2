//! Processes that are made, confined or ended past the usual ways.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, preloaded, stderr, trace};

#[test]
fn a_child_made_by_clone_itself_writes_nothing_into_its_parents_recorder() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "raw_clone", &[]);
    let agent = library(directory.path());
    let pools = directory.path().join("pools");
    std::fs::create_dir(&pools).unwrap();
    let output = directory.path().join("out.ftrace");
    let config = json!({"output": output, "recorder": {
        "mode": "ring", "capacity_kb": 8192, "directory": pools,
    }});
    let ran = preloaded(&program, &agent, &config).output().unwrap();
    assert!(ran.status.success() && stderr(&ran).is_empty(), "{:?} {}", ran.status, stderr(&ran));
    let lines = trace::records(&output);
    for who in ["before", "parent"] {
        for round in 0..4 {
            let name = format!("|{who} {round} ");
            let of_round = lines.iter().filter(|line| line.payload.contains(&name));
            assert_eq!(of_round.count(), 3000, "{name}");
        }
    }
    assert_eq!(lines.len(), 24_000, "none of the children's");
    assert_eq!(std::fs::read_dir(&pools).unwrap().count(), 1);
}

#[test]
fn a_program_that_enters_seccomps_strict_mode_is_not_killed() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "strict_seccomp", &[]);
    let agent = library(directory.path());
    let ran = preloaded(&program, &agent, &json!({})).output().unwrap();
    assert_eq!(ran.status.code(), Some(5), "{:?} {}", ran.status, stderr(&ran));
    assert_eq!(ran.stdout.len(), 10 + 5000);
}

#[test]
fn a_process_whose_main_thread_has_exited_ends_with_its_last_thread() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "main_exits", &[]);
    let agent = library(directory.path());
    let files = directory.path().join("agent");
    let config = directory.path().join("config.json");
    std::fs::write(
        &config,
        json!({"schema": 1, "seq": 1, "windows": [
            {"id": "start", "opens": "app_start", "max_s": 600}
        ]})
        .to_string(),
    )
    .unwrap();
    let installed = json!({"directory": files, "config_file": config});
    let streamed = json!({"output": directory.path().join("out.ftrace"),
                          "recorder": {"mode": "endless"}});
    for (variable, value) in [("TRACETEE_INSTALL", installed), ("TRACETEE_CONFIG", streamed)] {
        let mut child = Command::new(&program)
            .env("LD_PRELOAD", &agent)
            .env(variable, value.to_string())
            .env("ATRACE_MARKER", "none")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It takes a second; without an end it takes forever.
        let patience = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > patience {
                child.kill().unwrap();
                panic!("{variable}: it goes on for ever");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{variable}: {:?} {}", ran.status, stderr(&ran));
        assert_eq!(stderr(&ran), "", "{variable}");
        let said = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(said, "the last thread ends\nexit handlers run\n", "{variable}");
    }
    let lines = trace::records(&directory.path().join("out.ftrace"));
    assert_eq!(lines.iter().filter(|line| line.payload.ends_with("|after main")).count(), 1);
    // The window that was open is kept.
    let ready = files.join("spool/ready");
    assert_eq!(std::fs::read_dir(&ready).unwrap().count(), 1, "{}", ready.display());
}
