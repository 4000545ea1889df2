//! One app, reader or address at a hundred times its share: what the others get. Counts and answers only; `tests/fleet/shares`
//! measures times.

use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tracetee_tests_upload::collector::{Collector, put_capture};

const A: &str = "token-of-app-a-00";
const B: &str = "token-of-app-b-00";
const READER: &str = "token-of-a-reader";
const ADMIN: &str = "token-of-an-admin";
const FRAME: &str = "# tracer: nop
 app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|Choreographer#doFrame
 app-5 (5) [000] ...1 1.010000: tracing_mark_write: E|5
";

fn id(number: usize) -> String {
    format!("019a1fd7-2955-7cfa-a44a-{number:012x}")
}

/// A collector of two apps, with somebody who reads the first one, and an admin.
fn of_two_apps(options: &[&str]) -> Collector {
    let directory = TempDir::new().unwrap();
    let tokens = format!("a {A}\nb {B}\na {READER} read\n* {ADMIN} admin\n");
    std::fs::write(directory.path().join("tokens"), tokens).unwrap();
    Collector::start_in(directory, &[&["--token-file", "tokens"], options].concat())
}

fn get(collector: &Collector, path: &str, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    collector.send("GET", path, &[("Authorization", &bearer)], b"").status
}

#[test]
fn a_reader_with_eighty_requests_keeps_nobody_from_reading() {
    let collector = of_two_apps(&[]);
    let is_over = AtomicBool::new(false);
    let answers: Vec<u16> = std::thread::scope(|scope| {
        for _ in 0..80 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    get(&collector, "/report.json", READER);
                }
            });
        }
        let answers = (0..15).map(|_| get(&collector, "/report.json", ADMIN)).collect();
        is_over.store(true, Ordering::Relaxed);
        answers
    });
    assert_eq!(answers, [200; 15]);
}

#[test]
fn refused_bodies_take_a_twentieth_of_the_store_and_none_from_another_app() {
    let collector = of_two_apps(&["--keep-gb", "1"]);
    let send = |number: usize, token: &str, body: &[u8]| {
        let bearer = format!("Bearer {token}");
        let path = format!("/v1/captures/{}", id(number));
        assert_eq!(collector.put(&path, &[("Authorization", &bearer)], body), 422);
    };
    send(0, B, b"of b");
    let body = vec![7; 5 << 20];
    (1..=20).for_each(|number| send(number, A, &body));
    let files = collector.files("quarantine");
    let bytes: u64 = files.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!((25 << 20..54 << 20).contains(&bytes), "{bytes}");
    let is_kept = |number| {
        let is_it = |name: &str| name.starts_with(&id(number)) && name.ends_with(".body");
        files.iter().any(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_it))
    };
    assert!(is_kept(0) && !is_kept(1) && is_kept(20), "{files:?}");
    let at_start = files.len();
    // They are counted when a collector starts, too.
    let collector = Collector::start_in(
        collector.into_directory(),
        &["--token-file", "tokens", "--keep-gb", "1", "--app-rate", "1000"],
    );
    let bearer = format!("Bearer {A}");
    let path = format!("/v1/captures/{}", id(21));
    // The first run of retention counts them.
    let admin = format!("Bearer {ADMIN}");
    let metrics = || collector.send("GET", "/metrics", &[("Authorization", &admin)], b"").body;
    let is_measured = || String::from_utf8(metrics()).unwrap().contains("tracetee_store_bytes ");
    assert!((0..100_000).any(|_| is_measured()));
    assert_eq!(collector.put(&path, &[("Authorization", &bearer)], &body), 422);
    assert_eq!(collector.files("quarantine").len(), at_start);
}

#[test]
fn an_app_that_presses_on_waits_for_its_turn_and_loses_nothing() {
    let collector = Collector::start(&["--app-rate", "10"]);
    let body = zstd::bulk::compress(FRAME.as_bytes(), 1).unwrap();
    let meta = json!({"app": "a", "version_name": "1", "install_id": "d", "opens": "schedule"});
    let send = |number| put_capture(&collector.url, &id(number), meta.as_object().unwrap(), &body);
    // The first 200 may come at once. Eight connections wait for less than a second.
    std::thread::scope(|scope| {
        for first in 0..8 {
            let send = &send;
            scope.spawn(move || {
                for number in (first..260).step_by(8) {
                    assert_eq!(send(number), Some(201), "{number}");
                }
            });
        }
    });
}

#[test]
fn versions_of_one_app_hide_none_of_another() {
    let collector = Collector::start(&[]);
    let body = zstd::bulk::compress(FRAME.as_bytes(), 1).unwrap();
    let send = |number: usize, app: &str, version: &str| {
        let meta =
            json!({"app": app, "version_name": version, "install_id": "d", "opens": "schedule"});
        let status = put_capture(&collector.url, &id(number), meta.as_object().unwrap(), &body);
        assert_eq!(status, Some(201));
    };
    (0..2_100).for_each(|number| send(number, "a", &number.to_string()));
    send(2_100, "b", "9.9");
    collector.settle();
    let metrics = collector.metrics();
    assert!(metrics.contains("tracetee_frames_total{app=\"b\",version=\"9.9\""), "{metrics}");
    let names = metrics.lines().filter(|line| line.starts_with("tracetee_frames_total{"));
    assert_eq!(names.count(), 2_000);
}

#[test]
fn wrong_tokens_are_few_a_minute_and_devices_at_the_same_address_go_on() {
    let collector = of_two_apps(&[]);
    assert_eq!(get(&collector, "/v1/config", A), 404, "no configuration is served");
    let wrong: Vec<u16> = (0..400)
        .map(|number| get(&collector, "/report.json", &format!("wrong-token-{number}")))
        .collect();
    assert_eq!(wrong.iter().filter(|status| **status == 401).count(), 300);
    assert_eq!(wrong[399], 429);
    assert_eq!(get(&collector, "/v1/config", B), 429, "a right guess is no use now");
    assert_eq!(get(&collector, "/v1/config", A), 404, "a token that was used here before");
}
