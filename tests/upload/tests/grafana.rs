//! The dashboard for Grafana: Grafana's own types know each of its fields; Debian's Prometheus and sqlite3, with what a live
//! collector gives, have rows for each of its queries.

use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_tests::root;
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN, run};
use tracetee_tests_upload::servers::{Server, free_port, server};
use tracetee_tests_upload::validators::script;

const DASHBOARD: &str = "collector/packaging/grafana/tracetee.json";

#[test]
fn grafana_s_types_know_each_field() {
    let path = root().join(DASHBOARD);
    let check = |text: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let output = script("dashboard.py")?.arg(file.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Some((output.status.success(), said + &tracetee_tests::stderr(&output)))
    };
    let text = fs::read_to_string(path).unwrap();
    let Some((is_right, said)) = check(&text) else { return };
    assert!(is_right, "{said}");
    // It can say no.
    let (is_right, said) = check(&text.replace("\"includeAll\"", "\"includesAll\"")).unwrap();
    assert!(!is_right && said.contains("includesAll: unknown"), "{said}");
}

#[test]
fn each_query_has_rows() {
    let (Some(prometheus), Some(promtool)) =
        (server("usr/bin/prometheus"), server("usr/bin/promtool"))
    else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let tokens = format!("com.example.shop {TOKEN}\n* {METRICS} metrics\n");
    fs::write(directory.path().join("tokens"), tokens).unwrap();
    let token_file = ["--token-file", "tokens"];
    let collector =
        Collector::start_in(directory, &[&token_file[..], &["--keep-days", "9"]].concat());
    let own = TempDir::new().unwrap();
    let configuration = json!({
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{
            "job_name": "tracetee",
            "authorization": {"credentials": METRICS},
            "static_configs": [{"targets": [collector.url.trim_start_matches("http://")]}],
        }],
    });
    // JSON is YAML.
    fs::write(own.path().join("prometheus.yml"), configuration.to_string()).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let listen = format!("--web.listen-address={address}");
    let arguments = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", &listen];
    let _prometheus = Server::start(&prometheus, &arguments, own.path());
    let url = format!("http://{address}");
    let ask = |expression: &str| {
        let output =
            Command::new(&promtool).args(["query", "instant", &url, expression]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let rows_of = |expression: &str| {
        for seed in 0..60 {
            let (is_valid, rows) = ask(expression);
            if is_valid && !rows.trim().is_empty() && !rows.contains("=> NaN") {
                return rows;
            }
            // Rates need counts that grow between two scrapes.
            collector.simulate(4, 30, &[&token_file[..], &["--seed", &seed.to_string()]].concat());
            std::thread::sleep(Duration::from_millis(1500));
        }
        panic!("no rows: {expression}: {:?}", ask(expression));
    };
    let text = fs::read_to_string(root().join(DASHBOARD)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets: Vec<&Value> =
        targets.flat_map(|panel| panel["targets"].as_array().into_iter().flatten()).collect();
    let (mut expressions, mut queries) = (0, 0);
    for target in targets {
        if let Some(expression) = target["expr"].as_str() {
            rows_of(&expression.replace("$app", ".*").replace("$__rate_interval", "1m"));
            expressions += 1;
        } else {
            let tables = collector.directory.path().join("store/tables.sqlite");
            let sql = target["rawQueryText"].as_str().unwrap();
            assert_eq!(target["queryText"], sql);
            collector.settle();
            assert!(!run(Command::new("sqlite3").arg(tables).arg(sql)).trim().is_empty(), "{sql}");
            queries += 1;
        }
    }
    assert!(expressions >= 15 && queries >= 3, "{expressions} expressions, {queries} queries");
    // It can say no: a series that the collector does not have is not a row, a wrong expression an error.
    assert_eq!(ask("rate(tracetee_frame_total[1m])"), (true, "\n".to_owned()));
    assert!(!ask("rate(tracetee_frames_total)").0);
}
