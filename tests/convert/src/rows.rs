//! Rows that the engine reads: which ones a table has, and texts to make tables of.

use crate::run_tool;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

/// The first lines of a text by the kernel.
pub const HEADER: &str = "# tracer: nop\n# TRACE:\n# tracer: nop\n\
    #           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n";

/// Returns a text of markers of some threads: name, thread, process, µs, payload.
#[must_use]
pub fn text(lines: &[(&str, u32, u32, u64, &str)]) -> String {
    let mut text = HEADER.to_owned();
    for (name, tid, pid, us, payload) in lines {
        let at = 1_000_000 + us;
        writeln!(
            text,
            "{name:>16}-{tid:<7} ({pid:5}) [000] ...1 {}.{:06}: tracing_mark_write: {payload}",
            at / 1_000_000,
            at % 1_000_000
        )
        .unwrap();
    }
    text
}

/// Converts files of a directory. Returns the messages.
pub fn converted(directory: &Path, inputs: &[&str], output: &str) -> String {
    let arguments: Vec<&str> =
        ["convert"].iter().chain(inputs).chain(&["-o", output]).copied().collect();
    run_tool(directory, &arguments).1
}

/// Returns the rows that are compared.
pub fn without(rows: &[String], is_left: impl Fn(&str) -> bool) -> Vec<&String> {
    rows.iter().filter(|row| !is_left(row)).collect()
}

/// Asserts that both tables have the same rows; names the first ones that only one has.
#[track_caller]
pub fn assert_same(label: &str, found: &[&String], expected: &[&String]) {
    let only = |a: &[&String], b: &[&String]| {
        let known: HashSet<_> = b.iter().collect();
        a.iter()
            .filter(|row| !known.contains(row))
            .take(5)
            .map(|row| row.to_string())
            .collect::<Vec<_>>()
    };
    assert!(
        found == expected,
        "{label}: {} rows for {}; only there {:?}, only in the original {:?}",
        found.len(),
        expected.len(),
        only(found, expected),
        only(expected, found)
    );
}

/// Returns true if the engine made a slice of the kernel's events, which JSON cannot represent.
#[must_use]
pub fn is_of_kernel(slice: &str) -> bool {
    slice.contains("\"binder ")
}

/// Returns true if a slice ends when it begins.
#[must_use]
pub fn has_no_duration(row: &str) -> bool {
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    let at = row.as_array().unwrap().len().min(5) - 3;
    row[at] == row[at + 1]
}

/// Returns the thread of a row of slices.
#[must_use]
pub fn tid(row: &str) -> &str {
    row.split(',').nth(1).unwrap()
}

/// Returns the threads of which `is` is true, by their rows.
#[must_use]
pub fn tids(threads: &[String], is: impl Fn(&str) -> bool) -> HashSet<String> {
    let rows = threads.iter().filter(|row| is(row));
    rows.map(|row| row[1..].split(',').next().unwrap().to_owned()).collect()
}
