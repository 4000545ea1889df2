//! Profiles of Android's own beside captures: stored, one trace with their capture, and counted once.

use serde_json::{Map, Value, json};
use std::path::Path;
use tracetee_tests_upload::collector::{Collector, ID, file, put_capture};
use tracetee_tests_upload::s3::Bucket;

/// A trace of one late frame, with a section of 30 ms that begins at `from_ms`.
fn text(section: &str, from_ms: u32) -> String {
    let mut text = "# tracer: nop\n".to_owned();
    for (ms, payload) in [
        (0, "B|5|Choreographer#doFrame 1".to_owned()),
        (from_ms, format!("B|5|{section}")),
        (from_ms + 30, "E|5".to_owned()),
        (75, "E|5".to_owned()),
    ] {
        text += &format!(" app-5 (5) [000] ...1 1.{ms:03}000: tracing_mark_write: {payload}\n");
    }
    text
}

fn meta(window: &str) -> Map<String, Value> {
    let meta =
        json!({"app": "com.example", "version_name": "1", "install_id": "d", "window": window});
    meta.as_object().unwrap().clone()
}

/// The text as Android would hand it over: Perfetto's packets, compressed for the upload.
fn profile(collector: &Collector, section: &str) -> Vec<u8> {
    let directory = collector.directory.path();
    let path = file(directory, "profile.ftrace", &text(section, 40)).display().to_string();
    collector.tracetee(&["convert", &path, "-o", "profile.pftrace"]);
    zstd::bulk::compress(&std::fs::read(directory.join("profile.pftrace")).unwrap(), 1).unwrap()
}

fn page(collector: &Collector, path: &str) -> String {
    let answer = collector.send("GET", path, &[], b"");
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn path_of(collector: &Collector, id: &str) -> String {
    let name = format!("{id}.ftrace.zst");
    let mut files = collector.files("raw").into_iter();
    let found = files.find(|path| path.file_name() == Some(Path::new(&name).as_os_str()));
    found.unwrap().display().to_string()
}

/// Sends a profile and its capture, which have one page. Returns the profile's id.
fn shown_as_one(collector: &Collector) -> String {
    let of_profile = ID.replace("-7cfa-", "-8cfa-");
    let body = zstd::bulk::compress(text("Feed.ours", 2).as_bytes(), 1).unwrap();
    // The profile comes first, and from the version after the update.
    let mut later = meta("system_trace.jank");
    later["version_name"] = json!("2");
    let of_system = profile(collector, "Feed.system");
    assert_eq!(put_capture(&collector.url, &of_profile, &later, &of_system), Some(201));
    assert_eq!(put_capture(&collector.url, ID, &meta("jank"), &body), Some(201));
    collector.settle();
    for id in [ID, &of_profile] {
        for view in ["", "/timeline"] {
            let page = page(collector, &format!("/captures/{id}{view}"));
            let is_in = |name: &str| page.contains(name);
            assert!(is_in("Feed.ours") || view.is_empty(), "{id}{view}: {page}");
            assert!(view.is_empty() || is_in("Feed.system"), "{id}{view}: {page}");
        }
    }
    let about = page(collector, &format!("/captures/{ID}"));
    let link = format!(
        "{{\"at\":\"{of_profile}.ftrace.zst\",\"is_joined\":true,\"kind\":\"system_trace\"}}"
    );
    assert!(about.contains(&link), "{about}");
    let saved = collector.send("GET", &format!("/captures/{of_profile}.ftrace.zst"), &[], b"");
    assert_eq!(saved.body, of_system);
    of_profile
}

#[test]
fn a_capture_and_its_system_trace_are_one_trace_and_count_once() {
    let collector = Collector::start(&[]);
    let of_profile = shown_as_one(&collector);
    let bucket = Bucket::default();
    let remote = bucket.collector(&[]);
    shown_as_one(&remote);
    let report = bucket.command(&["report", &path_of(&collector, ID), "--format", "json"]).output();
    let report: Value = serde_json::from_slice(&report.unwrap().stdout).unwrap();
    assert_eq!(report["totals"]["frames"], 1, "{report}");
    let causes = report["causes"].to_string();
    assert!(causes.contains("Feed.ours") && causes.contains("Feed.system"), "{causes}");
    // Causes of the fleet lead to the capture.
    let fleet = page(&collector, "/report.json");
    assert!(fleet.contains(ID) && !fleet.contains(&of_profile), "{fleet}");
}

#[test]
fn a_heap_dump_is_stored_and_linked_and_not_opened() {
    let bucket = Bucket::default();
    [Collector::start(&[]), bucket.collector(&[])].iter().for_each(heap_is_linked);
}

fn heap_is_linked(collector: &Collector) {
    let of_profile = ID.replace("-7cfa-", "-8cfa-");
    let body = zstd::bulk::compress(text("Feed.ours", 2).as_bytes(), 1).unwrap();
    let dump = profile(collector, "Feed.dumped");
    assert_eq!(put_capture(&collector.url, ID, &meta("oom"), &body), Some(201));
    let hostile = "java_heap_dump<script>.oom";
    assert_eq!(put_capture(&collector.url, &of_profile, &meta(hostile), &dump), Some(201));
    collector.settle();
    let of_capture = page(collector, &format!("/captures/{ID}"));
    assert!(of_capture.contains("\"is_joined\":false"), "{of_capture}");
    let timeline = page(collector, &format!("/captures/{ID}/timeline"));
    assert!(timeline.contains("Feed.ours") && !timeline.contains("Feed.dumped"));
    for view in ["", "/timeline"] {
        let own = page(collector, &format!("/captures/{of_profile}{view}"));
        assert!(own.contains("not opened here") && !own.contains("<script>"), "{own}");
    }
    let saved = collector.send("GET", &format!("/captures/{of_profile}.ftrace.zst"), &[], b"");
    assert_eq!(saved.body, dump);
}
