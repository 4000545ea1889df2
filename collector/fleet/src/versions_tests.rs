//! Tests that a change of the tables, the sums or the analysis raises its version. `tests/versions/digests.txt` has what each
//! version made of the fixtures: the layout of `tables.sqlite`, its sums, and the rows of captures.

use crate::capture::{Limits, rows};
use crate::database::Database;
use crate::ledger::stored;
use crate::object_keys::{ReportKey, ReportKind};
use crate::rows::{About, Rows, from_loss_report};
use crate::schema::ANALYSIS;
use crate::stored_report::from_report;
use crate::sums::schema::{FILE_VERSION, FLEET_ROLLUPS, ROLLUPS};
use fastrand::Rng;
use std::fmt::{Debug, Write};
use std::fs;
use std::path::Path;
use tracetee_protocol::LossReport;
use tracetee_simulate::ledger::DeviceDay;
use twox_hash::XxHash64;

/// A row of a table, by column.
type Row = serde_json::Map<String, serde_json::Value>;

/// Accepts what a raised version makes; it refuses changes under the same version.
const BLESS: &str = "TRACETEE_BLESS=1 cargo test -p tracetee-fleet --lib versions";

fn digest(content: &impl Debug) -> String {
    format!("{:016x}", XxHash64::oneshot(0, format!("{content:?}").as_bytes()))
}

/// Rows of the fixtures, as of two devices, and of a loss report.
fn fixtures() -> Vec<Rows> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let traces = [
        "collector/fleet/tests/versions/frames.ftrace.txt",
        "tests/traces/atrace-small.txt",
        "tests/traces/older-agent.ftrace.zst",
        "tests/traces/perfetto-sdk.pftrace",
    ];
    let mut all: Vec<Rows> = traces
        .iter()
        .enumerate()
        .map(|(number, path)| {
            let about = About {
                capture_id: format!("capture {number}"),
                day: "2026-09-01".to_owned(),
                app: Some("com.example".to_owned()),
                raw_key: format!("raw {number}"),
                ..About::default()
            };
            let trace = fs::File::open(directory.join(path)).unwrap();
            let mut rows = rows(trace, &about, None, &Limits::default()).unwrap();
            let row = rows.capture.as_mut().unwrap();
            row.device = format!("device {}", number % 2).into();
            row.counted = number < 2;
            rows
        })
        .collect();
    let report = serde_json::json!({"app": "com.example", "install_id": "device 0", "by_reason": {"older": 3},
        "lost": [{"id": "x", "label": "jank", "reason": "age", "unconfirmed": true}]});
    let report = LossReport::from_json(report.to_string().as_bytes()).unwrap();
    all.push(from_loss_report("report", "2026-09-01", None, &report));
    let made =
        DeviceDay::new(&mut Rng::with_seed(52), ["com.example", "device 0"], [0, 21, 0], 50, 20);
    let key =
        ReportKey::new(ReportKind::Ledger, "2026-09-01".to_owned(), "id", Some("com.example"));
    all.push(from_report(&key, &stored(&made.meta, &made.part.encode().unwrap())).unwrap());
    all
}

/// Each digest: its name, the versions that it belongs to, and the constant to raise.
fn digests() -> [(&'static str, String, String, &'static str); 3] {
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
    let rows = fixtures();
    database.insert(&rows).unwrap();
    let layout = "SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name";
    let layout = database.rows::<Row>(layout).unwrap();
    let tables = ROLLUPS.iter().chain(FLEET_ROLLUPS).map(|rollup| rollup.table.name);
    let sums = tables.map(|table| {
        let all = database.rows::<Row>(&format!("SELECT * FROM {table}")).unwrap();
        let mut all: Vec<String> = all.iter().map(|row| format!("{row:?}")).collect();
        all.sort();
        (table, all)
    });
    let sums: Vec<_> = sums.collect();
    let file = "FILE_VERSION in collector/fleet/src/sums/schema.rs";
    // A new analysis finds other rows, and so other sums.
    let both = format!("{FILE_VERSION}.{ANALYSIS}");
    [
        ("layout", FILE_VERSION.to_string(), digest(&layout), file),
        ("sums", both, digest(&sums), file),
        ("rows", ANALYSIS.to_string(), digest(&rows), "ANALYSIS in collector/fleet/src/schema.rs"),
    ]
}

#[test]
fn a_change_of_tables_sums_or_rows_raises_its_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions/digests.txt");
    let known = fs::read_to_string(&path).unwrap_or_default();
    let mut now = String::new();
    // The rows first: other rows make other sums.
    for (name, version, digest, constant) in digests().into_iter().rev() {
        let line = format!("{name} {version} {digest}");
        let _ = writeln!(now, "{line}");
        let is_raised = !known.contains(&format!("{name} {version} "));
        let is_known = known.lines().any(|known| known == line);
        assert!(is_raised || is_known, "the {name} changed: raise {constant}, then {BLESS}");
    }
    if std::env::var_os("TRACETEE_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, now, "a version was raised: {BLESS}");
}
