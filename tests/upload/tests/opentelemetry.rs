//! The OpenTelemetry Collector with the configuration of `collector/README.md`: it scrapes `/metrics` with a token, and exports the frames
//! of a simulated fleet as OTLP.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tempfile::TempDir;
use tracetee_tests::root;
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN};
use tracetee_tests_upload::validators::validator;

/// Sums by app, version and screen.
type Sums = BTreeMap<[String; 3], u64>;

/// The OpenTelemetry Collector, ended when it is dropped.
struct Scraper(Child);

impl Drop for Scraper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a stand-in for an endpoint of OTLP that takes all. Returns its address, and the bodies.
fn endpoint() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| receive(stream.unwrap(), &sender));
    });
    (url, bodies)
}

fn receive(stream: TcpStream, bodies: &Sender<Value>) {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).unwrap() > 2 {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    stream.get_mut().write_all(head.as_bytes()).unwrap();
    let _ = bodies.send(serde_json::from_slice(&body).unwrap());
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

fn attribute(of: &Value, key: &str) -> String {
    let found = list(of, "attributes").find(|each| each["key"] == key);
    found.and_then(|of| of["value"]["stringValue"].as_str()).unwrap_or_default().to_owned()
}

/// Reads a sum's points.
fn sums_of(body: &Value, name: &str) -> Sums {
    let scopes = list(body, "resourceMetrics").flat_map(|resource| list(resource, "scopeMetrics"));
    let metrics = scopes.flat_map(|scope| list(scope, "metrics")).filter(|of| of["name"] == name);
    let points = metrics.flat_map(|metric| list(&metric["sum"], "dataPoints"));
    let pair = |point: &Value| {
        let labels = ["app", "version", "screen"].map(|label| attribute(point, label));
        let value = point["asDouble"].as_f64().unwrap();
        (labels, format!("{value:.0}").parse().unwrap())
    };
    points.map(pair).collect()
}

/// The same of the collector's own answer.
fn sums(collector: &Collector, name: &str) -> Sums {
    let metrics = collector.metrics();
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let pair = |line: &str| {
        let (labels, value) = line.rsplit_once("} ").unwrap();
        let values: Vec<_> = labels.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        (values.try_into().unwrap(), value.parse().unwrap())
    };
    lines.map(pair).collect()
}

#[test]
fn the_open_telemetry_collector_scrapes_the_metrics_with_a_token() {
    let Some(mut otelcol) = validator("otelcol") else { return };
    let directory = TempDir::new().unwrap();
    let tokens = format!("com.example.shop {TOKEN}\n* {METRICS} metrics\n");
    fs::write(directory.path().join("tokens"), tokens).unwrap();
    let collector = Collector::start_in(directory, &["--token-file", "tokens"]);
    collector.simulate(12, 60, &["--token-file", "tokens"]);
    let expected = sums(&collector, "tracetee_slow_frames_total");
    assert!(expected.len() > 1, "{expected:?}");

    let own = TempDir::new().unwrap();
    let text = fs::read_to_string(root().join("collector/README.md")).unwrap();
    let (_, text) = text.split_once("  ```yaml\n  receivers:").unwrap();
    let mut text = format!("  receivers:{}", text.split_once("  ```").unwrap().0);
    let token = own.path().join("token");
    fs::write(&token, METRICS).unwrap();
    let (endpoint, bodies) = endpoint();
    for (documented, here) in [
        ("/etc/otelcol/tracetee-token", token.to_str().unwrap()),
        ("traces.example.com:8440", collector.url.trim_start_matches("http://")),
        ("scheme: https", "scheme: http\n            scrape_interval: 1s"),
        ("https://otlp.example.com", &endpoint),
    ] {
        assert!(text.contains(documented), "{documented}");
        text = text.replace(documented, here);
    }
    fs::write(own.path().join("otelcol.yaml"), text).unwrap();
    // JSON, so that it can be read here; and no port of its own for its metrics.
    let more = json!({
        "exporters": {"otlp_http": {"encoding": "json", "compression": "none"}},
        "service": {"telemetry": {"metrics": {"level": "none"}}},
    });
    fs::write(own.path().join("more.yaml"), more.to_string()).unwrap();
    let log = fs::File::create(own.path().join("log")).unwrap();
    let process = otelcol
        .args(["--config", "otelcol.yaml", "--config", "more.yaml"])
        .current_dir(own.path())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let _scraper = Scraper(process);
    let said = || fs::read_to_string(own.path().join("log")).unwrap();
    // The receiver needs two scrapes for a sum.
    loop {
        let body = bodies.recv_timeout(Duration::from_secs(120));
        let body = body.unwrap_or_else(|_| panic!("nothing comes: {}", said()));
        if sums_of(&body, "tracetee_slow_frames_total") == expected {
            break;
        }
    }
}
