//! The fast path gives the same trace as the `write` path, record for record.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::collections::BTreeMap;
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, preloaded, stderr, trace};

/// Payloads by thread name, with the process id taken out.
type Threads = BTreeMap<String, Vec<String>>;

fn run(api: u32, options: &[&str], name: &str, arguments: &[&str], fast_path: bool) -> Threads {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), api, options);
    let program = fixture(directory.path(), name, &[&format!("-DATRACE_API={api}")]);
    let output = directory.path().join("out.ftrace");
    let config = json!({"output": output, "fast_path": fast_path, "pass_on": "never"});
    let agent = library(directory.path());
    let result = preloaded(&program, &agent, &config).args(arguments).output().unwrap();
    assert!(result.status.success() && stderr(&result).is_empty(), "{}", stderr(&result));
    let mut threads = Threads::new();
    for line in trace::records(&output) {
        let payload = line.payload.replacen(&format!("|{}", line.tgid), "|PID", 1);
        // A thread whose name is empty is called by its id.
        let name = if line.name.starts_with("Thread-") { "Thread".to_owned() } else { line.name };
        threads.entry(name).or_default().push(payload);
    }
    threads
}

#[test]
fn every_kind_and_every_hostile_name_comes_out_the_same() {
    for api in [33, 34, 35] {
        for (fixture, arguments) in
            [("writer", &["3", "999", "all"][..]), ("hostile_names", &[][..])]
        {
            let slow = run(api, &[], fixture, arguments, false);
            let fast = run(api, &[], fixture, arguments, true);
            assert_eq!(slow, fast, "API {api}, {fixture}");
            assert!(slow.values().map(Vec::len).sum::<usize>() > 80);
        }
    }
}

#[test]
fn records_do_not_need_the_write_that_follows() {
    let arguments = ["2", "900", "all"];
    let missed = run(34, &["-DATRACE_RAW_WRITE"], "writer", &arguments, false);
    assert!(missed.is_empty());
    let taken = run(34, &["-DATRACE_RAW_WRITE"], "writer", &arguments, true);
    assert_eq!(taken, run(34, &[], "writer", &arguments, false));
}

#[test]
fn without_the_release_known_the_symbol_whose_arguments_changed_is_left_to_the_write_path() {
    let arguments = ["1", "90", "all"];
    let hidden = ["-DATRACE_NO_RELEASE"];
    assert_eq!(
        run(34, &hidden, "writer", &arguments, true),
        run(34, &[], "writer", &arguments, false)
    );
}
