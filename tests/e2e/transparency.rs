//! A program that writes to everything but a marker cannot tell that the agent is there: the same
//! bytes, the same results, the same errno, with a capture on, off, and without the agent.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{compile, library, run, source, trace, writer};

/// Runs a program; returns its output, and the file that it wrote without the text of its signal handler.
fn behaviour(command: &mut Command, directory: &Path) -> (String, Vec<u8>) {
    let files = TempDir::new_in(directory).unwrap();
    let output = command.arg(files.path()).output().unwrap();
    assert!(
        output.status.success(),
        "{:?} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let file = std::fs::read(files.path().join("file")).unwrap();
    (String::from_utf8(output.stdout).unwrap(), file)
}

#[test]
fn results_errno_and_bytes_are_the_same_with_a_capture_on_off_and_without_the_agent() {
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("transparency");
    compile(
        &program,
        &[source("fixtures/transparency.c")],
        &["-lpthread", "-Wno-nonnull", "-Wno-stringop-overflow", "-Wno-stringop-overread"],
    );
    let agent = library(directory.path());

    let (expected, bytes) = behaviour(&mut Command::new(&program), directory.path());
    assert!(expected.contains("null pointer to a pipe: -1 14"), "{expected}");
    assert!(expected.contains("null pointer to /dev/null: 5 77"), "{expected}");
    assert!(expected.contains("cleanup ran: 1") && expected.contains("jumped out"), "{expected}");

    let mut off = Command::new(&program);
    assert_eq!(behaviour(off.env("LD_PRELOAD", &agent), directory.path()).0, expected);
    for pass_on in ["auto", "always", "never"] {
        let mut on = Command::new(&program);
        let config = format!(r#"{{"pass_on":"{pass_on}"}}"#);
        on.env("LD_PRELOAD", &agent).env("TRACETEE_CONFIG", config);
        let (text, file) = behaviour(&mut on, directory.path());
        assert_eq!(text, expected, "pass_on {pass_on}");
        assert_eq!(file, bytes, "pass_on {pass_on}");
    }
}

#[test]
fn a_swallowed_record_looks_like_a_successful_write_and_leaves_errno_alone() {
    let (directory, _) = writer();
    let program = tracetee_tests::fixture(directory.path(), "errno_kept", &[]);
    for marker in ["/dev/null", "none"] {
        let output = directory.path().join("out.ftrace");
        let command =
            ["env".to_owned(), format!("ATRACE_MARKER={marker}"), program.display().to_string()];
        let result = run(&[], &output, &command);
        let expected = if marker == "none" { "-1 9\n" } else { "8 77\n" };
        assert_eq!(String::from_utf8_lossy(&result.stdout), expected);
        assert_eq!(trace::records(&output).len(), 1 + 1, "the begin, and the end that closes it");
    }
}
