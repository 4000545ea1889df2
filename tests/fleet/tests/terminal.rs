//! A terminal shows tables as wide as it is, and the progress of a command that takes long; a file and a pipe get neither.

use std::process::Command;
use tracetee_tests::tracetee;
use tracetee_tests_upload::collector::{Collector, run};

/// Columns of the terminal.
const COLUMNS: usize = 150;

/// Runs the program on a terminal, by script(1) of Debian's essential packages, and returns what is written to it.
fn on_terminal(arguments: &str) -> String {
    let command = format!("stty rows 50 cols {COLUMNS}; exec {} {arguments}", tracetee().display());
    run(Command::new("script").args(["--quiet", "--return", "--command", &command, "/dev/null"]))
}

#[test]
fn a_report_is_as_wide_as_the_terminal_and_has_80_columns_in_a_pipe() {
    let collector = Collector::start(&[]);
    collector.simulate(12, 30, &[]);
    collector.settle();
    let store = collector.store();
    let widest =
        |text: &str| text.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    let shown = widest(&on_terminal(&format!("report --store {}", store.display())));
    assert!((81..=COLUMNS).contains(&shown), "{shown}");
    let piped = widest(&run(Command::new(tracetee()).arg("report").arg("--store").arg(store)));
    assert!(piped <= 80, "{piped}");
}

#[test]
fn a_long_simulation_counts_its_devices_on_a_terminal() {
    let collector = Collector::start(&["--app-rate", "100000"]);
    let arguments =
        format!("simulate --devices 1000 --connections 1 --frames 30 --url {}", collector.url);
    let shown = on_terminal(&arguments);
    assert!(shown.contains("sending devices") && shown.contains(" of 1000"), "{shown}");
    let mut piped = Command::new(tracetee());
    piped.args(["simulate", "--devices", "3", "--url", &collector.url]);
    assert_eq!(run(&mut piped).lines().count(), 2);
}
