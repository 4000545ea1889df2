//! `collect --guard`: Debian's Alertmanager, and a stand-in for Slack that refuses twice, have one message of a finding and one of its
//! end, over a restart of the collector, and from two collectors of one bucket, of which one is killed.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tracetee_fleet::capture::{Limits, rows};
use tracetee_fleet::database::Database;
use tracetee_fleet::rows::{About, Rows};
use tracetee_fleet::simulate::{Plan, PlannedRollout};
use tracetee_tests_upload::collector::{Collector, put_capture};
use tracetee_tests_upload::s3::Bucket;
use tracetee_tests_upload::servers::{Server, free_port, server};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Request, Transport};

const SECRET: &str = "a secret of both";
/// Requests that the stand-in refuses.
const REFUSED: usize = 2;

/// The plan of a fleet whose later version has the cause `Feed.bind`.
fn plan() -> Plan {
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 72,
        captures: 6,
    };
    Plan { rollout: Some(rollout), days: 8, frames: 240, ..Plan::default() }
}

/// Fills a store with such a fleet, at which the guard looks each day.
fn fill(store: &Path) {
    let plan = plan();
    let mut days: BTreeMap<u64, Vec<Rows>> = BTreeMap::new();
    for capture in (0..100).flat_map(|number| plan.device(4, number).0) {
        let day = capture.meta.made_ms.unwrap() / 86_400_000;
        let about = About {
            capture_id: capture.id.to_string(),
            day: format!("day {day}"),
            meta: capture.meta,
            raw_key: capture.id.to_string(),
            ..About::default()
        };
        let rows = rows(Cursor::new(capture.text), &about, None, &Limits::default()).unwrap();
        days.entry(day).or_default().push(rows);
    }
    fs::create_dir(store).unwrap();
    let mut database = Database::open(&store.join("tables.sqlite")).unwrap();
    for rows in days.values() {
        database.insert(rows).unwrap();
        // The guard looks each day: later days must show a rise again.
        let mut look = std::process::Command::new(tracetee_tests::tracetee());
        look.args(["guard", "--app", &plan.app, "--from", "2.0", "--to", "2.1", "--store"])
            .arg(store);
        assert_ne!(look.output().unwrap().status.code(), Some(125));
    }
}

/// A body that the stand-in got, and its signature.
type Message = (String, Vec<u8>);

/// Starts a stand-in for Slack that refuses some requests at first. Returns its address, and what it accepts.
fn slack(refused: usize) -> (String, Arc<Mutex<Vec<Message>>>) {
    let taken: Arc<Mutex<Vec<Message>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/services/T/B/x", listener.local_addr().unwrap());
    let takes = Arc::clone(&taken);
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            receive(stream.unwrap(), &takes, count < refused);
        }
    });
    (url, taken)
}

/// The texts of messages.
fn texts(messages: &[Message]) -> Vec<String> {
    let text = |(_, body): &Message| serde_json::from_slice::<Value>(body).unwrap()["text"].clone();
    messages.iter().map(|message| text(message).as_str().unwrap().to_owned()).collect()
}

fn receive(stream: TcpStream, taken: &Mutex<Vec<Message>>, is_refused: bool) {
    let mut stream = BufReader::new(stream);
    let (mut length, mut signature, mut line) = (0, String::new(), String::new());
    while stream.read_line(&mut line).unwrap() > 2 {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        match &*name.to_lowercase() {
            "content-length" => length = value.trim().parse().unwrap(),
            "x-tracetee-signature" => signature = value.trim().to_owned(),
            _ => {}
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let status = if is_refused {
        "503 Service Unavailable"
    } else {
        taken.lock().unwrap().push((signature, body));
        "200 OK"
    };
    write!(
        stream.get_mut(),
        "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    )
    .unwrap();
}

fn get(url: &str) -> Option<Value> {
    let request = Request {
        method: "GET",
        url: url.to_owned(),
        headers: Vec::new(),
        body: Body::None,
        timeout: Duration::from_secs(5),
        max_answer_bytes: 1 << 20,
        stop: &AtomicBool::new(false),
    };
    serde_json::from_slice(&Http::new(None).unwrap().send(&request).ok()?.body).ok()
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1800 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} does not come");
}

#[test]
fn a_finding_is_told_once_and_its_end_once_over_failures_and_a_restart() {
    let Some(program) = server("usr/bin/prometheus-alertmanager") else { return };
    let directory = TempDir::new().unwrap();
    fill(&directory.path().join("store"));
    let (slack, taken) = slack(REFUSED);
    let own = TempDir::new().unwrap();
    fs::write(own.path().join("am.yml"), "route: {receiver: none}\nreceivers: [{name: none}]\n")
        .unwrap();
    let at = format!("127.0.0.1:{}", free_port());
    let listen = format!("--web.listen-address={at}");
    let arguments =
        ["--config.file=am.yml", "--storage.path=data", "--cluster.listen-address=", &listen];
    let _alertmanager = Server::start(&program, &arguments, own.path());
    let alerts = || get(&format!("http://{at}/api/v2/alerts"))?.as_array().cloned();
    until("Alertmanager", alerts);

    fs::write(directory.path().join("secret"), format!("{SECRET}\n")).unwrap();
    let file = |rollouts: Value| {
        json!({
            "rollouts": rollouts,
            "every_s": 1,
            "page": "https://traces.example.com",
            "webhooks": [
                {"url": slack, "form": "slack", "secret_file": "secret"},
                {"url": format!("http://{at}/api/v2/alerts"), "form": "alertmanager"},
            ],
        })
        .to_string()
    };
    let rollouts = json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]);
    fs::write(directory.path().join("guard.json"), file(rollouts)).unwrap();
    let collector = Collector::start_in(directory, &["--guard", "guard.json"]);
    let alert = until("the alert", || alerts()?.pop());
    assert_eq!(alert["status"]["state"], "active", "{alert}");
    for (name, value) in [
        ("alertname", "TraceteeRegression"),
        ("screen", "Feed"),
        ("key", "Feed.bind"),
        ("to", "2.1"),
    ] {
        assert_eq!(alert["labels"][name], value, "{alert}");
    }
    assert_eq!(alert["generatorURL"], "https://traces.example.com/");
    until("the message", || (taken.lock().unwrap().len() == 1).then_some(()));
    assert!(collector.log().contains("status 503"), "{}", collector.log());

    // Nothing new after a restart; the end comes when the rollout is guarded no longer.
    let collector = Collector::start_in(collector.into_directory(), &["--guard", "guard.json"]);
    fs::write(collector.directory.path().join("guard.json"), "{").unwrap();
    until("the refusal", || collector.log().contains("kept the rollouts").then_some(()));
    fs::write(collector.directory.path().join("guard.json"), file(json!([]))).unwrap();
    until("the end", || (taken.lock().unwrap().len() > 1).then_some(()));
    until("the end", || alerts()?.is_empty().then_some(()));
    let taken = taken.lock().unwrap();
    let texts = texts(&taken);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].starts_with("com.example.shop: 2.1 is worse than 2.0\nFeed: section Feed.bind"),
        "{texts:?}"
    );
    assert!(texts[1].starts_with("com.example.shop: ended, 2.1 against 2.0\n"), "{texts:?}");
    for (signature, body) in taken.iter() {
        let mac = hmac_sha256::HMAC::mac(body, SECRET.as_bytes());
        let expected: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(*signature, format!("sha256={expected}"));
    }
}

#[test]
fn of_the_collectors_of_a_bucket_one_at_a_time_tells_findings() {
    let bucket = Bucket::default();
    let own = TempDir::new().unwrap();
    let store = own.path().join("store");
    fill(&store);
    // The guard has looked at the bucket, which has some of the devices, each day.
    let in_bucket = bucket.directory.path().join("s3/fleet/traces");
    fs::create_dir_all(&in_bucket).unwrap();
    fs::copy(store.join("guard.sqlite"), in_bucket.join("guard.sqlite")).unwrap();
    let (slack, taken) = slack(0);
    let file = own.path().join("guard.json");
    let write = |rollouts: Value| {
        let webhooks = json!([{"url": slack, "form": "slack"}]);
        let text = json!({"rollouts": rollouts, "every_s": 1, "webhooks": webhooks}).to_string();
        fs::write(&file, text).unwrap();
    };
    write(json!([{"app": "com.example.shop", "from": "2.0", "to": "2.1"}]));
    let options = ["--guard", file.to_str().unwrap()];
    // A file of the working directory is nobody's state.
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("alerts.json"), "{").unwrap();
    let mut collectors = vec![bucket.collector_in(elsewhere, &options), bucket.collector(&options)];
    for (number, capture) in (0..8).flat_map(|number| plan().device(4, number).0).enumerate() {
        let meta = serde_json::from_str(&capture.meta.to_json()).unwrap();
        let (url, id) = (&collectors[number % 2].url, capture.id.to_string());
        assert_eq!(put_capture(url, &id, &meta, &capture.body().unwrap()), Some(201));
    }
    until("the message", || (taken.lock().unwrap().len() == 1).then_some(()));
    let state_has = |nothing: &[&str]| {
        let state: Value =
            serde_json::from_slice(&fs::read(in_bucket.join("alerts.json")).ok()?).ok()?;
        nothing.iter().all(|name| state[name] == json!([])).then_some(())
    };
    // A collector that is killed before it has written that a message has left sends it again.
    until("the first state", || state_has(&["pending"]));
    let looks = |collector: &Collector| collector.log().contains("the guard found: ");
    let teller = collectors.iter().position(looks).unwrap();
    drop(collectors.remove(teller));
    write(json!([]));
    // Once the lease of the one that was killed has ended.
    until("the end", || (taken.lock().unwrap().len() > 1).then_some(()));
    until("the state", || state_has(&["pending", "open"]));
    assert!(!looks(&collectors[0]), "{}", collectors[0].log());
    let texts = texts(&taken.lock().unwrap());
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("com.example.shop: 2.1 is worse than 2.0\n"), "{texts:?}");
    assert!(texts[1].starts_with("com.example.shop: ended, 2.1 against 2.0\n"), "{texts:?}");
}
