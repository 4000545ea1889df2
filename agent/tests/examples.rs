//! The examples run, and their traces hold their sections: in Rust with the crate, in C with the
//! library and its header.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "runs on Linux, beside what cargo has built")]

use std::path::{Path, PathBuf};
use std::process::Command;

const EXPECTED: [&str; 15] = [
    "B|work",
    r##"#@ {"args":{"last":1000},"cat":"math"}"##,
    "B|sum",
    "E",
    "C|sum|500500",
    r##"#@ {"args":{"last":2000},"cat":"math"}"##,
    "B|sum",
    "E",
    "C|sum|2001000",
    r##"#@ {"args":{"last":3000},"cat":"math"}"##,
    "B|sum",
    "E",
    "C|sum|4501500",
    "E",
    "I|done",
];

/// The directory that cargo has put this test and the library into; the examples lie beside it.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs an example; the text of its trace, and its output.
fn run_to_trace(program: &mut Command, directory: &Path) -> (String, String) {
    let path = directory.join("trace.ftrace");
    let output = program.arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (std::fs::read_to_string(path).unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Runs an example; its records without process ids, and their details.
fn run(program: &mut Command, directory: &Path) -> Vec<String> {
    let (text, _) = run_to_trace(program, directory);
    let payload =
        |line| str::split_once(line, ": tracing_mark_write: ").map(|(_, payload)| payload);
    let details = |line: &&str| line.starts_with("#@ ");
    let records = text
        .lines()
        .filter_map(|line| payload(line).or(Some(line).filter(details)))
        .filter(|payload: &&str| !payload.starts_with("trace_event"));
    let without_pid = |payload: &str| {
        let mut fields: Vec<_> = payload.split('|').collect();
        fields.drain(1..fields.len().min(2));
        fields.join("|")
    };
    records.map(without_pid).collect()
}

#[test]
fn the_rust_example_writes_its_sections() {
    let directory = tempfile::tempdir().unwrap();
    let program = built().with_file_name("examples").join("capture");
    assert_eq!(run(&mut Command::new(program), directory.path()), EXPECTED);
}

/// Compiles an example in C.
fn c_example(name: &str, directory: &Path) -> Command {
    let program = directory.join(name);
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(package.join(format!("examples/c/{name}.c")))
        .arg(format!("-I{}", package.join("include").display()))
        .arg(format!("-L{}", built().display()))
        .args(["-ltracetee", "-lpthread"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut program = Command::new(program);
    program.env("LD_LIBRARY_PATH", built());
    program
}

#[test]
fn the_c_example_writes_its_sections() {
    let directory = tempfile::tempdir().unwrap();
    let mut records = run(&mut c_example("capture", directory.path()), directory.path());
    let of_function = records.iter().position(|record| record == "B|spin").unwrap();
    assert_eq!(records.drain(of_function..of_function + 2).nth(1).as_deref(), Some("E"));
    assert_eq!(records, EXPECTED);
}

#[test]
fn the_c_example_hears_its_own_trace_while_it_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, heard) = run_to_trace(&mut c_example("listen", directory.path()), directory.path());
    // It may have begun to listen after the first block.
    assert!(trace.ends_with(&heard) && heard.contains("|work\n"), "{heard}");
    assert!(heard.lines().any(|line| line.ends_with("|done")), "{heard}");
}
