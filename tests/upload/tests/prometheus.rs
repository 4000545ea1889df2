//! `/metrics` as Prometheus reads it, and the rules for its alerts: Debian's promtool parses and lints them, and says when they fire.
//! Alertmanager sends one with the documented configuration to a stand-in for Slack.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tracetee_tests_upload::collector::Collector;
use tracetee_tests_upload::servers::{Server, server};

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

const RULES: &str = "collector/packaging/prometheus/tracetee.rules.yml";

#[test]
fn a_finding_of_the_guard_is_an_alert() {
    let Some(promtool) = server("usr/bin/promtool") else { return };
    let own = TempDir::new().unwrap();
    let series = |name: &str, labels: &str, values: &str| json!({"series": format!("{name}{{instance=\"a\"{labels}}}"), "values": values});
    let labels = json!({
        "alertname": "TraceteeRegression", "severity": "warning", "app": "com.example", "from": "2.0", "to": "2.1",
        "screen": "Feed", "cause": "section", "key": "bind",
    });
    let annotations = json!({"summary": "com.example: 2.1 is worse than 2.0", "description": "Feed: section bind"});
    let alert = json!({"exp_labels": labels, "exp_annotations": annotations});
    let silent = json!({
        "exp_labels": {"alertname": "TraceteeGuardSilent", "severity": "warning"},
        "exp_annotations": {"summary": "no collector has looked at the rollouts for an hour"},
    });
    let finding = ",app=\"com.example\",from=\"2.0\",to=\"2.1\",segment=\"\",screen=\"Feed\",cause=\"section\",key=\"bind\"";
    let alerts_at = |time: &str, name: &str, alerts: &[&Value]| json!({"eval_time": time, "alertname": name, "exp_alerts": alerts});
    let tests = |rules: &str| {
        json!({
            "rule_files": [rules],
            "evaluation_interval": "1m",
            "tests": [{
                "interval": "1m",
                // It ends after ten minutes; the guard looks for the last time after thirty.
                "input_series": [
                    series("tracetee_guard_finding", finding, "1x10 stale"),
                    series("tracetee_guard_timestamp_seconds", "", "0+60x30 1800x90"),
                ],
                "alert_rule_test": [
                    alerts_at("9m", "TraceteeRegression", &[&alert]),
                    alerts_at("12m", "TraceteeRegression", &[&alert]),
                    alerts_at("20m", "TraceteeRegression", &[]),
                    alerts_at("60m", "TraceteeGuardSilent", &[]),
                    alerts_at("100m", "TraceteeGuardSilent", &[&silent]),
                ],
            }],
        })
    };
    let check = |name: &str, text: &str| {
        let rules = own.path().join(name);
        std::fs::write(&rules, text).unwrap();
        // JSON is YAML.
        let file = own.path().join("test.yml");
        std::fs::write(&file, tests(rules.to_str().unwrap()).to_string()).unwrap();
        let output = Command::new(&promtool).args(["test", "rules"]).arg(file).output().unwrap();
        (output.status.success(), format!("{output:?}"))
    };
    let text = std::fs::read_to_string(tracetee_tests::root().join(RULES)).unwrap();
    let (is_right, said) = check("rules.yml", &text);
    assert!(is_right, "{said}");
    // It can say no.
    assert!(!check("wrong.yml", &text.replace("tracetee_guard_finding", "tracetee_finding")).0);
    assert!(!check("wrong.yml", &text.replace("> 3600", "> 36000")).0);
}

/// The body of the first request that comes.
fn body(listener: &TcpListener) -> Value {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0);
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        .unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn the_documented_alertmanager_sends_a_finding_to_slack() {
    let Some(alertmanager) = server("usr/bin/prometheus-alertmanager") else { return };
    let Some(amtool) = server("usr/bin/amtool") else { return };
    let own = TempDir::new().unwrap();
    let page = std::fs::read_to_string(tracetee_tests::root().join("docs/MONITORING.md")).unwrap();
    let (_, rest) = page.split_once("```yaml\n  route:").unwrap();
    let text = format!("  route:{}", rest.split_once("  ```").unwrap().0);
    let path = own.path().join("alertmanager.yml");
    let check = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Command::new(&amtool).arg("check-config").arg(&path).output().unwrap().status.success()
    };
    assert!(!check(&text.replace("send_resolved", "resolved")), "it can say no");

    let slack = TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = own.path().join("slack");
    std::fs::write(&secret, format!("http://{}/services/T/B/x", slack.local_addr().unwrap()))
        .unwrap();
    let text = text.replace("/etc/alertmanager/slack", secret.to_str().unwrap());
    assert!(check(&text.replace("receiver: slack,", "receiver: slack, group_wait: 0s,")));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = [
        format!("--config.file={}", path.display()),
        format!("--web.listen-address={free}"),
        "--cluster.listen-address=".to_owned(),
        "--storage.path=data".to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _server = Server::start(&alertmanager, &arguments, own.path());
    let url = format!("--alertmanager.url=http://{free}");
    let add = [
        &*url,
        "alert",
        "add",
        "alertname=TraceteeRegression",
        "app=com.example",
        "--annotation=summary=com.example: 2.1 is worse than 2.0",
        "--annotation=description=Feed: section <bind>",
    ];
    let is_added = || Command::new(&amtool).args(add).output().unwrap().status.success();
    assert!((0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        is_added()
    }));
    let sent = &body(&slack)["attachments"][0];
    assert_eq!(sent["title"], "com.example: 2.1 is worse than 2.0");
    assert_eq!(sent["text"].as_str().unwrap().trim_end(), "Feed: section <bind>");
}
