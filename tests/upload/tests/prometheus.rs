//! `/metrics` as Prometheus reads it: Debian's promtool parses and lints it.

use std::io::Write;
use std::process::{Command, Stdio};
use tracetee_tests_upload::collector::Collector;
use tracetee_tests_upload::servers::server;

#[test]
fn promtool_finds_no_fault_in_the_metrics() {
    let Some(promtool) = server("usr/bin/promtool") else { return };
    let collector = Collector::start(&["--keep-days", "9"]);
    collector.simulate(3, 10, &[]);
    let metrics = collector.metrics();
    let check = |text: &str| {
        let mut process = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check(&metrics), (true, String::new()), "{metrics}");
    for series in
        ["tracetee_build_info{", "tracetee_request_seconds_bucket{", "tracetee_free_disk_bytes "]
    {
        assert!(metrics.contains(series), "{series}");
    }
    // It can say no.
    assert!(!check(&metrics.replace("_total counter", "_total histogram")).0);
}
