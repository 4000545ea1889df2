//! A capture of an agent from before the protocol crate: its header is read as that of today's agent, and an
//! analysis finds the same with either.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::io::Read;
use std::path::Path;
use tracetee_jank::{Options, analyze};
use tracetee_protocol::{CaptureMeta, notes};

fn older() -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces/older-agent.ftrace.zst");
    let mut text = String::new();
    let body = std::fs::File::open(path).unwrap();
    tracetee_trace::open(body).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn header(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix(notes::COMMENT)).unwrap()
}

#[test]
fn the_header_of_an_older_agent_gives_the_same_analysis_as_that_of_a_new_one() {
    let older = older();
    let said = header(&older);
    assert!(said.contains("\"refresh_hz\":60.0,") && said.contains("\"span_ns\":null"), "{said}");
    let meta = CaptureMeta::from_json(said.as_bytes()).unwrap();
    assert_eq!(meta.refresh_hz.map(|hz| hz.to_f64()), Some(60.0));
    assert_eq!((meta.span_ns, meta.overhead_percent), (None, None));
    assert_eq!((meta.version_code, meta.opens.as_deref()), (Some(1200), Some("app_start")));

    let now = meta.to_json();
    assert!(now.contains("\"refresh_hz\":60,") && !now.contains("null"), "{now}");
    let newer = older.replace(said, &now);
    let of = |text: &str| {
        let trace = tracetee_trace::read(text.as_bytes()).unwrap();
        let analysis = analyze(&trace, &Options::default()).unwrap();
        assert_eq!((analysis.totals.frames, analysis.frame_budget.ns), (14, 16_666_667));
        format!("{analysis:?}")
    };
    assert_eq!(of(&older), of(&newer));
}

/// Older collectors read each member from serde_json's tree, by `as_f64`, `as_u64`, `as_str` or `as_bool`.
#[test]
fn an_older_collector_finds_the_same_values_in_the_header_of_a_new_agent() {
    let older = older();
    let said = header(&older);
    let now = CaptureMeta::from_json(said.as_bytes()).unwrap().to_json();
    let [older, newer] = [said, &now].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert!(newer.as_object().unwrap().keys().all(|key| older.get(key).is_some()));
    for (key, value) in older.as_object().unwrap() {
        let found = newer.get(key).unwrap_or(&Value::Null);
        assert_eq!(found.as_f64(), value.as_f64(), "{key}");
        assert_eq!((found.as_str(), found.as_bool()), (value.as_str(), value.as_bool()), "{key}");
        assert_eq!(found.as_array(), value.as_array(), "{key}");
        if value.is_u64() {
            assert_eq!(found.as_u64(), value.as_u64(), "{key}");
        }
    }
}
