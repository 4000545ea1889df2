//! A report of selected captures is the report of a store that has no others.

use super::*;
use crate::capture;
use crate::report::fleet::{Ask, FleetReport};
use crate::rows::{About, Rows, from_loss_report};
use crate::selection::Since;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracetee_protocol::LossReport;
use tracetee_simulate::Plan;

/// Rows of a fleet of fast and of slow devices with two API levels, whose captures were made on three days, every third at the second half of its day.
fn rows() -> Vec<Rows> {
    let class = |slowness_percent: u64, api: u64| {
        let json = serde_json::json!({
            "name": api.to_string(), "share": 1, "models": ["m"], "apis": [api],
            "slowness_percent": slowness_percent, "causes_percent": 100, "update_hours": 1,
        });
        serde_json::from_value(json).unwrap()
    };
    let classes = vec![class(100, 34), class(300, 30)];
    let plan = Plan { frames: 40, classes, ..Plan::default() };
    let captures = (0..30).flat_map(|device| plan.device(7, device).0);
    let rows = captures.zip(0u64..).map(|(captured, number)| {
        let about = About {
            capture_id: captured.id.to_string(),
            day: format!("2026-09-2{}", 1 + number % 3),
            meta: captured.meta.clone(),
            ..About::default()
        };
        let text = Cursor::new(captured.text);
        let mut rows = capture::rows(text, &about, None, &capture::Limits::default()).unwrap();
        let row = rows.capture.as_mut().unwrap();
        // 2026-09-21 is 1,789,948,800 s.
        let hour = if number % 2 == 0 { 6 } else { 18 };
        row.made_ms = (1_789_948_800 + (number % 3) * 86_400 + hour * 3_600) * 1000;
        rows
    });
    rows.collect()
}

fn store(rows: &[Rows]) -> Database {
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    database.insert(rows).unwrap();
    database
}

fn report(database: &Database, ask: &Ask) -> serde_json::Value {
    let mut report = FleetReport::from_database(database, ask).unwrap();
    (report.since, report.version, report.api, report.device_ms) = (None, None, None, None);
    serde_json::to_value(report).unwrap()
}

/// The classes of all devices: two of a factor of two, 0 around 16.7 ms.
fn classes(database: &Database) -> BTreeMap<String, i32> {
    let sql = "SELECT device, sum(quick_ns) / sum(frames) / 1e6 FROM device_traits GROUP BY device";
    let mut statement = database.connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        #[allow(clippy::cast_possible_truncation, reason = "a small whole number")]
        Ok((row.get(0)?, (2.0 * (row.get::<_, f64>(1)? * 60.0 / 1000.0).log2()).round() as i32))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_report_of_selected_captures_is_that_of_a_store_without_the_others() {
    let all = rows();
    let database = store(&all);
    let since = Since::parse("2026-09-22T12:00Z").unwrap();
    let is_since = |rows: &Rows| rows.capture.as_ref().unwrap().made_ms.cast_signed() >= since.ms;
    let is_version = |rows: &Rows| rows.capture.as_ref().unwrap().ver == "2.1";
    let api = all[0].capture.as_ref().unwrap().api;
    let is_api = |rows: &Rows| rows.capture.as_ref().unwrap().api == api;
    let classes = classes(&database);
    let &class = classes.values().next().unwrap();
    let is_class = |rows: &Rows| classes[&*rows.capture.as_ref().unwrap().device] == class;
    let screen = Some("Feed".to_owned());
    for (ask, is_selected) in [
        (Ask { since: Some(since.clone()), ..Ask::default() }, &is_since as &dyn Fn(&Rows) -> bool),
        (Ask { version: Some("2.1".to_owned()), screen, ..Ask::default() }, &is_version),
        (Ask { api, ..Ask::default() }, &is_api),
        (Ask { class: Some(class), ..Ask::default() }, &is_class),
        (
            Ask { version: Some("2.1".to_owned()), since: Some(since.clone()), ..Ask::default() },
            &|rows| is_since(rows) && is_version(rows),
        ),
        (
            Ask {
                since: Some(since.clone()),
                compare: Some(("2.0".to_owned(), "2.1".to_owned())),
                ..Ask::default()
            },
            &is_since,
        ),
    ] {
        let selected: Vec<Rows> = all.iter().filter(|rows| is_selected(rows)).cloned().collect();
        assert!(!selected.is_empty() && selected.len() < all.len());
        let alone = Ask { since: None, version: None, api: None, class: None, ..ask.clone() };
        assert_eq!(report(&database, &ask), report(&store(&selected), &alone), "{ask:?}");
    }
}

#[test]
fn losses_are_selected_by_time_and_have_no_version() {
    let mut database = store(&rows());
    for (at_ms, day) in [(1_790_071_200_000_i64, "2026-09-22"), (1_790_035_200_000, "2026-09-22")] {
        let json = serde_json::json!({
            "app": "com.example.shop", "install_id": "d", "lost": [{"id": "x", "label": "w", "reason": "rejected"}],
        });
        let report = LossReport::from_json(json.to_string().as_bytes()).unwrap();
        let id = format!("{}-7000-8000-000000000000", first_id(at_ms));
        database.insert(&[from_loss_report(&id, day, None, &report)]).unwrap();
    }
    let lost = |ask: Ask| {
        let report = FleetReport::from_database(&database, &ask).unwrap();
        report.apps[0].losses.iter().map(|loss| loss.captures).sum::<u64>()
    };
    let since = |text| Since::parse(text).ok();
    assert_eq!(lost(Ask { since: since("2026-09-22"), ..Ask::default() }), 2);
    assert_eq!(lost(Ask { since: since("2026-09-22T09:00Z"), ..Ask::default() }), 1);
    assert_eq!(lost(Ask { since: since("2026-09-22T15:00Z"), ..Ask::default() }), 0);
    assert_eq!(lost(Ask { version: Some("2.1".to_owned()), ..Ask::default() }), 0);
}

#[test]
fn an_unknown_version_is_said_and_a_selection_ends_in_its_time() {
    let database = store(&rows());
    let ask = Ask {
        version: Some("9".to_owned()),
        since: Since::parse("2026-09-22").ok(),
        ..Ask::default()
    };
    let error = FleetReport::from_database(&database, &ask).unwrap_err().to_string();
    assert_eq!(error, "the store has no captures, version 9, since 2026-09-22T00:00:00Z");
    let ask = Ask { since: Since::parse("2030-01-01").ok(), ..Ask::default() };
    assert!(FleetReport::from_database(&database, &ask).unwrap().apps.is_empty());
    let is_unwanted = Some(Arc::new(AtomicBool::new(true)));
    let ask = Ask { since: Since::parse("2026-09-22").ok(), is_unwanted, ..Ask::default() };
    assert!(matches!(FleetReport::from_database(&database, &ask), Err(Error::Stopped(_))));
}
