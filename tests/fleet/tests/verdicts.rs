//! A comparison as a script uses it: the exit status, and Markdown for a pull request.

use std::process::Command;
use tracetee_tests::{stderr, tracetee};
use tracetee_tests_upload::collector::Collector;
use tracetee_tests_upload::rollout;

#[test]
fn a_comparison_fails_a_script_if_the_later_version_is_worse() {
    let collector = Collector::start(&[]);
    rollout::simulate(&collector, &[]);
    let report = |arguments: &[&str]| {
        let mut command = Command::new(tracetee());
        command.args(["report", "--store", "store"]).args(arguments);
        let output = command.current_dir(collector.directory.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap(), said + &stderr(&output))
    };
    let markdown = ["--format", "markdown", "--fail-on", "worse", "--compare"];
    let (status, text) = report(&[&markdown[..], &["2.0", "2.1"]].concat());
    assert_eq!(status, 1, "{text}");
    assert!(text.starts_with("~~~~~~text\ncom.example.shop\n"), "{text}");
    assert!(text.contains("2.1 is worse than 2.0: ") && text.contains("  WORSE\n"), "{text}");
    // The report is the same without the option, and the status is not.
    let without = ["--format", "markdown", "--compare", "2.0", "2.1"];
    assert_eq!(report(&without), (0, text));
    // Nobody went back from 2.1 to 2.0.
    let (status, text) = report(&[&markdown[..], &["2.1", "2.0"]].concat());
    assert!(status == 0 && text.contains("Cannot know whether 2.0 is worse than 2.1: "), "{text}");
    let unknown = ["--fail-on", "unknown", "--compare"];
    assert_eq!(report(&[&unknown[..], &["2.1", "2.0"]].concat()).0, 1);
    assert_eq!(report(&[&unknown[..], &["2.0", "2.1"]].concat()).0, 1);
    let (status, text) = report(&["--fail-on", "worse"]);
    assert!(status == 2 && text.contains("--compare"), "{text}");
    let (status, text) = report(&["--compare", "2.0", "9.9", "--fail-on", "worse"]);
    assert!(status == 125 && text.contains("no app has both versions"), "{text}");
}
