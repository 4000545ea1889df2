//! A cause that grows makes the collector ask real agents for a window, within what the document allows: ten devices capture
//! it, each capture is explained, and the collector asks no longer. Prints the polls of the devices and their bytes.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_fleet::database::Database;
use tracetee_protocol::http;
use tracetee_tests::device::Device;
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN};
use tracetee_tests_upload::rollout::{DEVICES, days, plan};

const WANTED: usize = 10;

/// True if a device is in a share of all. The agent computes it in the same way, of the same ids.
fn is_in(install_id: &str, salt: &str, percent: f64) -> bool {
    let mut hash = hmac_sha256::Hash::new();
    hash.update(install_id);
    hash.update(salt);
    let digest = hash.finalize();
    let number = u32::from_be_bytes(*digest.first_chunk().unwrap());
    f64::from(number) * 100.0 / f64::from(u32::MAX) < percent
}

/// The requests beside the configuration.
fn poll(collector: &Collector) -> Value {
    let bearer = format!("Bearer {TOKEN}");
    let answer = collector.send("GET", http::CONFIG, &[("Authorization", &bearer)], b"");
    let Some(header) = answer.header(http::ASKS) else { return Value::Null };
    serde_json::from_str::<Value>(header).unwrap()["asks"].clone()
}

/// The bytes of the answer to a device that has the document, and those of the requests in it.
fn poll_bytes(collector: &Collector) -> [usize; 2] {
    let bearer = format!("Bearer {TOKEN}");
    let whole = collector.send("GET", http::CONFIG, &[("Authorization", &bearer)], b"");
    let etag = whole.header(http::ETAG).unwrap();
    let address = collector.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {bearer}\r\nIf-None-Match: {etag}\r\nConnection: close\r\n\r\n",
        http::CONFIG
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 304 "), "{answer}");
    let name = http::ASKS.to_ascii_lowercase();
    let asks = answer.lines().find(|line| line.to_ascii_lowercase().starts_with(&name));
    [answer.len(), asks.map_or(0, |line| line.len() + 2)]
}

/// Requests for the configuration until now.
fn polls(collector: &Collector) -> u64 {
    let metrics = collector.metrics();
    let count =
        metrics.lines().find_map(|line| line.strip_prefix("tracetee_config_requests_total "));
    count.unwrap().parse().unwrap()
}

fn until<T>(expected: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..900 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{expected} does not come");
}

/// Forgets when a device asked for the configuration: as if its hour were over.
fn let_poll(directory: &Path) {
    for entry in fs::read_dir(directory.join("spool/state")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("asked") {
            fs::remove_file(path).unwrap();
        }
    }
}

/// Installations of one app, each in its own directory.
struct Phones<'a> {
    device: Device,
    collector: &'a Collector,
    version_code: u64,
    /// Their requests for the configuration.
    polls: u64,
}

impl Phones<'_> {
    /// Runs the app with late frames on these installations, all at once, until they have sent what they have.
    fn run(&mut self, ids: &[String], version_name: &str) {
        let script = "sleep 6000 frames 5 5 begin {Choreographer#doFrame 9} section Feed.bind 150 end frames 2 150 sleep 8000";
        let before = polls(self.collector);
        let url = &self.collector.url;
        let runs = ids.iter().map(|id| {
            self.device.install = json!({
                "directory": self.directory(id), "install_id": id, "app": plan().app,
                "version_name": version_name, "version_code": self.version_code,
                "upload": {"url": url, "token": TOKEN},
            });
            self.device.command(script).stdout(Stdio::null()).spawn().unwrap()
        });
        let runs: Vec<_> = runs.collect();
        for mut run in runs {
            assert!(run.wait().unwrap().success());
        }
        self.collector.settle();
        self.polls += polls(self.collector) - before;
    }

    /// Checks that a report of each capture of the window names the section that was planted in a frame. Returns their
    /// number.
    fn explained(&self) -> usize {
        let is_asked = |path: &std::path::PathBuf| {
            path.extension().is_some_and(|extension| extension == "json")
                && fs::read_to_string(path).unwrap().contains(r#""window":"more""#)
        };
        let captures = self.collector.files("raw").into_iter().filter(is_asked);
        let captures = captures.inspect(|path| {
            let capture = path.with_extension("ftrace.zst");
            let text = self.collector.tracetee(&["report", capture.to_str().unwrap()]);
            assert!(
                text.lines().any(|line| line.contains("section") && line.contains("Feed.bind")),
                "{text}"
            );
        });
        captures.count()
    }

    fn directory(&self, id: &str) -> std::path::PathBuf {
        self.device.root.path().join(id)
    }

    /// Devices of the window in the collector's tables.
    fn captured(&self) -> Vec<String> {
        let sql = "SELECT DISTINCT device FROM captures WHERE window_id = 'more' ORDER BY device";
        let tables = self.collector.store().join("tables.sqlite");
        let said = std::process::Command::new("sqlite3").arg(tables).arg(sql).output().unwrap();
        String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_cause_that_grows_is_captured_on_ten_devices_and_no_more_are_asked() {
    let directory = TempDir::new().unwrap();
    let store = directory.path().join("store");
    fs::create_dir(&store).unwrap();
    let mut database = Database::open(&store.join("tables.sqlite")).unwrap();
    days().values().for_each(|rows| database.insert(rows).unwrap());
    drop(database);
    let plan = plan();
    let metas = (0..u64::from(DEVICES)).flat_map(|number| plan.device(4, number).0);
    let later = metas.map(|capture| capture.meta);
    let later = later.filter(|meta| meta.version_name.as_deref() == Some("2.1"));
    let version_code = later.filter_map(|meta| meta.version_code).next().unwrap();

    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let app = &plan.app;
    write(
        "tokens",
        &format!("{app} {TOKEN}\ncom.other other-token-0123456789\n* {METRICS} metrics\n"),
    );
    let rollouts = json!([{"app": app, "from": "2.0", "to": "2.1"}]);
    write("guard.json", &json!({"rollouts": rollouts, "every_s": 1}).to_string());
    let triggers = json!({"any": [{"jank": {"over_ms": 100}}], "before_s": 2, "after_s": 0.5});
    let window = json!({"id": "more", "cool_down_s": 3600, "opens": {"triggers": triggers}});
    let document = |on_demand: Value, seq: u64| json!({"schema": 1, "seq": seq, "upload": {"network": "any"}, "on_demand": on_demand});
    let allowed = json!([
        {"causes": ["death"], "window": {"id": "never"}},
        {"causes": ["section"], "devices": WANTED, "window": window},
    ]);
    write("remote.json", &document(json!([]), 1).to_string());
    let options = ["--token-file", "tokens", "--guard", "guard.json", "--config", "remote.json"];
    let collector = Collector::start_in(directory, &options);
    let series = "tracetee_guard_finding{";
    until("the finding", || collector.metrics().contains(series).then_some(()));
    assert_eq!(poll(&collector), Value::Null, "the document allows nothing");
    let [without, _] = poll_bytes(&collector);
    let remote = collector.directory.path().join("remote.json");
    fs::write(&remote, document(allowed, 2).to_string()).unwrap();
    let asks = until("the request", || poll(&collector).as_array().cloned());
    assert_eq!(asks.len(), 1, "{asks:?}");
    let (id, percent) = (asks[0]["id"].as_str().unwrap(), asks[0]["percent"].as_f64().unwrap());
    assert_eq!(
        (&asks[0]["window"], &asks[0]["version_code"]),
        (&json!("more"), &json!([version_code, version_code]))
    );
    // Not all of the fleet has updated.
    assert!((3.0..10.0).contains(&percent), "{percent} of {DEVICES} devices");
    let other = [("Authorization", "Bearer other-token-0123456789")];
    let others = collector.send("GET", http::CONFIG, &other, b"");
    assert_eq!((others.status, others.header(http::ASKS)), (200, None), "of another app");

    let ids = |is_asked: bool| {
        let all = (0..).map(|number| format!("phone-{number}"));
        all.filter(move |install_id| is_in(install_id, id, percent) == is_asked)
    };
    let chosen: Vec<String> = ids(true).take(WANTED + 1).collect();
    let (mut first, late) = (chosen[..WANTED].to_vec(), chosen[WANTED].clone());
    first.sort();
    let mut phones =
        Phones { device: Device::new(34), collector: &collector, version_code, polls: 0 };
    phones.run(&ids(false).take(2).collect::<Vec<_>>(), "2.1");
    assert_eq!(phones.captured(), [""; 0], "they are not asked");
    phones.version_code += 1;
    phones.run(&first[..1], "2.2");
    assert_eq!(phones.captured(), [""; 0], "another version is not asked");
    phones.version_code -= 1;
    phones.run(&first[..WANTED - 1], "2.1");
    let_poll(&phones.directory(&first[0]));
    phones.run(&first[..1], "2.1");
    assert_eq!(phones.captured(), first[..WANTED - 1], "each that is asked, once");
    assert!(poll(&collector).is_array(), "one is missing");
    let [with, bytes] = poll_bytes(&collector);
    assert!(bytes > 0 && bytes < 200, "{bytes}");
    phones.run(&first[WANTED - 1..], "2.1");
    assert_eq!(phones.captured(), first);
    assert_eq!(phones.explained(), WANTED);
    until("the end", || poll(&collector).is_null().then_some(()));
    assert_eq!(poll_bytes(&collector), [without, 0]);
    println!(
        "{} polls of the devices until {WANTED} had captured it: answers of {without} bytes, {with} while it is asked for ({bytes} for it)",
        phones.polls
    );
    phones.run(&[late], "2.1");
    assert_eq!(phones.captured(), first, "enough came");
    // A device that knows the request learns with its next poll that it is over.
    let known = phones.directory(&first[0]).join("asks.json");
    assert!(fs::read_to_string(&known).unwrap().contains("more"));
    let_poll(&phones.directory(&first[0]));
    phones.run(&first[..1], "2.1");
    assert!(!fs::read_to_string(&known).unwrap().contains("more"));
}
