//! The fast path gives the same trace as the `write` path, record for record.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::collections::BTreeMap;
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, preloaded, stderr, trace};

/// Payloads by thread name, with the process id taken out.
type Threads = BTreeMap<String, Vec<String>>;

/// The records of one process, and the digits of its id.
struct Run {
    threads: Threads,
    digits: usize,
}

/// Fails if two programs write different records. A name is cut with the process id in its record; ids of other digits,
/// where the kernel starts over with small ones, get another try.
fn assert_same(one: impl Fn() -> Run, other: impl Fn() -> Run, about: &str) -> Threads {
    let mut both = (one(), other());
    if both.0.digits != both.1.digits {
        both = (one(), other());
    }
    assert_eq!(both.0.threads, both.1.threads, "{about}");
    both.0.threads
}

fn run(api: u32, options: &[&str], name: &str, arguments: &[&str], fast_path: bool) -> Run {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), api, options);
    let program = fixture(directory.path(), name, &[&format!("-DATRACE_API={api}")]);
    let output = directory.path().join("out.ftrace");
    let config = json!({"output": output, "fast_path": fast_path, "pass_on": "never"});
    let agent = library(directory.path());
    let result = preloaded(&program, &agent, &config).args(arguments).output().unwrap();
    assert!(result.status.success() && stderr(&result).is_empty(), "{}", stderr(&result));
    let (mut threads, mut digits) = (Threads::new(), 0);
    for line in trace::records(&output) {
        let payload = line.payload.replacen(&format!("|{}", line.tgid), "|PID", 1);
        digits = line.tgid.to_string().len();
        // A thread whose name is empty is called by its id.
        let name = if line.name.starts_with("Thread-") { "Thread".to_owned() } else { line.name };
        threads.entry(name).or_default().push(payload);
    }
    Run { threads, digits }
}

#[test]
fn every_kind_and_every_hostile_name_comes_out_the_same() {
    for api in [33, 34, 35] {
        for (fixture, arguments) in
            [("writer", &["3", "999", "all"][..]), ("hostile_names", &[][..])]
        {
            let [slow, fast] =
                [false, true].map(|is_fast| move || run(api, &[], fixture, arguments, is_fast));
            let threads = assert_same(slow, fast, &format!("API {api}, {fixture}"));
            assert!(threads.values().map(Vec::len).sum::<usize>() > 80);
        }
    }
}

#[test]
fn records_do_not_need_the_write_that_follows() {
    let arguments = ["2", "900", "all"];
    let missed = run(34, &["-DATRACE_RAW_WRITE"], "writer", &arguments, false);
    assert!(missed.threads.is_empty());
    assert_same(
        || run(34, &["-DATRACE_RAW_WRITE"], "writer", &arguments, true),
        || run(34, &[], "writer", &arguments, false),
        "without a write",
    );
}

#[test]
fn without_the_release_known_the_symbol_whose_arguments_changed_is_left_to_the_write_path() {
    let arguments = ["1", "90", "all"];
    let hidden = ["-DATRACE_NO_RELEASE"];
    assert_same(
        || run(34, &hidden, "writer", &arguments, true),
        || run(34, &[], "writer", &arguments, false),
        "without a release",
    );
}
