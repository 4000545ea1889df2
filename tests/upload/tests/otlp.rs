//! `collect --otlp`: the OpenTelemetry Collector's own receiver has the events and the metrics of a simulated fleet, over its
//! absence and a collector's restart; and what it never gets is counted.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_tests_upload::collector::Collector;
use tracetee_tests_upload::s3::Bucket;
use tracetee_tests_upload::servers::free_port;
use tracetee_tests_upload::validators::validator;

/// The receiver, ended when it is dropped.
struct Receiver(std::process::Child);

impl Receiver {
    fn start(mut program: Command, at: &str, out: &Path) -> Self {
        Self(program.arg(at).arg(out).spawn().unwrap())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..900 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} does not come");
}

/// Value of a series.
fn count(collector: &Collector, series: &str) -> u64 {
    let metrics = collector.metrics();
    let line = metrics.lines().find(|line| line.starts_with(&format!("{series} ")));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
        .unwrap_or_else(|| panic!("{series}: {metrics}"))
}

/// Sum of a metric by app, version and screen.
fn sums(collector: &Collector, name: &str) -> BTreeMap<String, f64> {
    let metrics = collector.metrics();
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let pair = |line: &str| {
        let (labels, value) = line.split_once("{").unwrap().1.rsplit_once("} ").unwrap();
        (labels.to_owned(), value.parse().unwrap())
    };
    lines.map(pair).collect()
}

fn attribute<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    let found = of["attributes"].as_array()?.iter().find(|each| each["key"] == key)?;
    found["value"].as_object()?.values().next()
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

#[test]
fn the_open_telemetry_collector_gets_jank_events_and_metrics() {
    let Some(program) = validator("otlp-receiver") else { return };
    let at = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{at}");
    let own = TempDir::new().unwrap();
    let out = own.path().join("out.json");
    let collector = Collector::start(&["--otlp", &url]);
    let simulate =
        |collector: &Collector, seed: &str| collector.simulate(12, 60, &["--seed", seed]);
    // Nobody listens yet: events wait.
    simulate(&collector, "1");
    until("a failure", || count(&collector, "tracetee_otlp_failures_total") > 0);
    assert_eq!(count(&collector, "tracetee_otlp_events_total"), 0);
    let _receiver = Receiver::start(program, &at, &out);
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let records = || -> Vec<(String, Value)> {
        let mut records = Vec::new();
        for line in lines() {
            for resource in list(&line, "resourceLogs") {
                let app =
                    attribute(&resource["resource"], "service.name").unwrap().as_str().unwrap();
                for record in
                    list(resource, "scopeLogs").flat_map(|scope| list(scope, "logRecords"))
                {
                    records.push((app.to_owned(), record.clone()));
                }
            }
        }
        records
    };
    until("the events", || !records().is_empty());
    simulate(&collector, "2");
    let slow = sums(&collector, "tracetee_slow_frames_total");
    // All late frames of all captures, those that jank has triggered, too.
    let database = late_frames(&collector);
    until("all events", || {
        let late = |(_, record): &(String, Value)| {
            let threshold = attribute(record, "app.jank.threshold").unwrap().as_f64().unwrap();
            let frames = attribute(record, "app.jank.frame_count").unwrap().as_str().unwrap();
            if threshold < 0.7 { frames.parse::<u64>().unwrap() } else { 0 }
        };
        records().iter().map(late).sum::<u64>() == database
    });
    let records = records();
    assert_eq!(count(&collector, "tracetee_otlp_events_total"), records.len() as u64);
    for (app, record) in &records {
        assert_eq!(
            (&**app, record["eventName"].as_str()),
            ("com.example.shop", Some("app.jank")),
            "{record}"
        );
        let period = attribute(record, "app.jank.period").unwrap().as_f64().unwrap();
        assert!(period > 0.1 && period < 100.0, "{record}");
        assert!(attribute(record, "app.installation.id").is_some(), "{record}");
    }
    let causes: Vec<_> =
        records.iter().filter_map(|(_, record)| attribute(record, "tracetee.cause")).collect();
    assert!(causes.iter().any(|cause| *cause == "inflate"), "{causes:?}");

    // Metrics are the sums that Prometheus gets.
    assert!(!slow.is_empty());
    let received = || -> BTreeMap<String, f64> {
        let mut received = BTreeMap::new();
        for line in lines() {
            for resource in list(&line, "resourceMetrics") {
                let of = |key| attribute(&resource["resource"], key).unwrap().as_str().unwrap();
                let (app, version) = (of("service.name"), of("service.version"));
                let metrics =
                    list(resource, "scopeMetrics").flat_map(|scope| list(scope, "metrics"));
                for metric in metrics.filter(|metric| metric["name"] == "tracetee.frames.slow") {
                    assert_eq!(metric["sum"]["aggregationTemporality"], 2, "{metric}");
                    for point in list(&metric["sum"], "dataPoints") {
                        let screen = attribute(point, "app.screen.name").unwrap().as_str().unwrap();
                        let labels =
                            format!("app=\"{app}\",version=\"{version}\",screen=\"{screen}\"");
                        received.insert(labels, point["asInt"].as_str().unwrap().parse().unwrap());
                    }
                }
            }
        }
        received
    };
    until("the metrics", || received() == slow);

    // A collector of an object store sends the same events.
    let bucket = Bucket::default();
    let remote = bucket.collector(&["--otlp", &url]);
    for seed in ["1", "2"] {
        simulate(&remote, seed);
    }
    until("the events of an object store", || {
        count(&remote, "tracetee_otlp_events_total") == records.len() as u64
    });

    // What an endpoint refuses for good is lost, counted, and said: this one has no such route.
    let wrong = format!("{url}/wrong");
    let other = Collector::start(&["--otlp", &wrong]);
    simulate(&other, "1");
    until("the losses", || count(&other, "tracetee_otlp_events_lost_total") > 0);
    assert!(other.log().contains("lost events of the export by OTLP"), "{}", other.log());
}

/// Late frames in the tables of a collector.
fn late_frames(collector: &Collector) -> u64 {
    let tables = collector.directory.path().join("store/tables.sqlite");
    let text = tracetee_tests_upload::collector::run(
        Command::new("sqlite3").arg(tables).arg("SELECT SUM(slow) FROM captures"),
    );
    text.trim().parse().unwrap()
}
