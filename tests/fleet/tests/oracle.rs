//! Reports are made of sums; the oracle is SQL over the rows of the same captures (`tests/fleet/sql`), by DuckDB. The captures are
//! of simulated devices and of real phones, varied at random; some are deleted and analyzed again before.

use fastrand::Rng;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::Path;
use tracetee_fleet::capture::{self, Limits};
use tracetee_fleet::change::Series;
use tracetee_fleet::change::observations::Fleet;
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::ReportKey;
use tracetee_fleet::parquet;
use tracetee_fleet::queries::{Query, SET};
use tracetee_fleet::rows::{About, Rows, from_loss_report};
use tracetee_fleet::schema::{DeathRow, Text};
use tracetee_fleet::sums::Contribution;
use tracetee_fleet::sums::schema::{FLEET_ROLLUPS, ROLLUPS};
use tracetee_ledger::{RowKey, Source};
use tracetee_protocol::LossReport;
use tracetee_simulate::Plan;
use tracetee_simulate::ledger::DeviceDay;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_fleet::{answers, compare, rows_of_day};

/// Rows of simulated captures and of those of phones (`tests/traces/README.md`), as of many devices, days, and versions.
fn captures(rng: &mut Rng) -> Vec<Rows> {
    let plan = Plan { frames: 20, triggered_percent: 50, ..Plan::default() };
    let simulated = (0..30).flat_map(|number| plan.device(23, number).0);
    let mut all: Vec<Rows> = simulated
        .map(|captured| {
            let about = About { meta: captured.meta.clone(), ..About::default() };
            let text = Cursor::new(captured.text);
            capture::rows(text, &about, None, &Limits::default()).unwrap()
        })
        .collect();
    for name in ["list-jank.ftrace.txt.gz", "flutter-app.ftrace.txt.gz"] {
        let Some(path) = phone_trace(name) else { continue };
        let file = fs::File::open(path).unwrap();
        let rows = capture::rows(file, &About::default(), None, &Limits::default()).unwrap();
        all.extend((0..5).map(|_| rows.clone()));
    }
    for (number, rows) in all.iter_mut().enumerate() {
        let row = rows.capture.as_mut().unwrap();
        row.app = ["com.a", "com.b"][rng.usize(0..10) / 8].into();
        row.dt = format!("2026-09-0{}", 1 + rng.u8(0..3)).into();
        row.ver = ["1.9", "2.0", "2.1"][rng.usize(0..3)].into();
        row.capture_id = format!("capture {number}").into();
        row.raw_key = format!("raw {number}").into();
        row.device = format!("device {}", rng.u8(0..20)).into();
        row.model = rng.bool().then(|| format!("model {}", rng.u8(0..3)).into());
        row.api = rng.bool().then(|| rng.u64(29..36));
        row.period_ns = [0, 8_333_333, 11_111_111, 16_666_667][rng.usize(0..4)];
        (row.debuggable, row.emulator) = (rng.u8(0..5) == 0, rng.u8(0..5) == 0);
        row.version_code = rng.bool().then(|| rng.u64(1..9));
        row.counted = rng.u8(0..5) > 0;
        row.over_budget = rng.u8(0..5) == 0;
        row.recovered = rng.u8(0..5) == 0;
        row.startup_ns = rng.bool().then(|| rng.u64(1..1 << 34));
        row.anrs = rng.u64(0..3);
        row.lost_records = rng.u64(0..100);
        row.slow_session_20fps = rng.bool();
        row.slow_session_30fps = rng.bool();
        if number % 3 > 0 {
            rows.deaths = vec![death(&mut Rng::with_seed(number as u64))];
        }
        let levels = ["best", "normal", "middle", "high", "frozen"];
        for frame in &mut rows.frames {
            frame.pipeline = ["views", "flutter", "vsync_callback"][rng.usize(0..3)].into();
            frame.level = levels[rng.usize(0..5)].into();
        }
    }
    all
}

/// A death at random: few names, so that devices and versions share them.
fn death(rng: &mut Rng) -> DeathRow {
    let mut any = |names: &[&str]| names[rng.usize(0..names.len())].into();
    DeathRow {
        reason: any(&["anr", "crash_native", "other"]),
        cause: any(&["lock", "section", "frozen"]),
        cause_key: any(&["", "a held by b", "parse json"]),
        noticed_by: any(&["user", "background", "frozen"]),
        screen: any(&["", "Feed", "Map"]),
        pss_kb: rng.u64(0..1 << 20),
        rss_kb: rng.u64(0..1 << 20),
        // Some are alike: the capture's id decides then.
        waited_ns: rng.u64(0..3) * 1_000_000_000,
        ..DeathRow::default()
    }
}

fn losses() -> impl Iterator<Item = Rows> {
    (0..6).map(|number| {
        let report = serde_json::json!({"app": "com.a", "install_id": format!("d{}", number % 3),
            "lost": [{"id": format!("x{number}"), "label": "jank", "reason": "age", "unconfirmed": number == 2}],
            "by_reason": {"older": number}});
        let report = LossReport::from_json(report.to_string().as_bytes()).unwrap();
        from_loss_report(&format!("report {number}"), "2026-09-01", None, &report)
    })
}

/// Parts of ledgers, some of the same device-day.
fn ledgers(rng: &mut Rng) -> Vec<Rows> {
    let mut all = Vec::new();
    for number in 0..60 {
        let (app, device) = (["com.a", "com.b"][rng.usize(0..10) / 8], format!("d{}", number % 7));
        let numbers = [20_698 + rng.u32(0..3), 19 + rng.u32(0..2), number];
        let mut made = DeviceDay::new(rng, [app, &device], numbers, 200, 15);
        let sums = &mut made.part.sums;
        let (key, row) = sums.rows()[0].clone();
        // Some devices have more frames of another source.
        for _ in 0..number % 7 * 3 {
            sums.row(RowKey { source: Source::JankData, ..key.clone() }).merge(&row);
        }
        sums.exits.record("memory_limiter", u64::from(number) % 2);
        sums.visible_exits.record(["crash", "user_requested"][rng.usize(0..2)], rng.u64(0..3));
        all.push(rows_of_day(&made));
    }
    all
}

fn write(all: &[Rows], directory: &Path) {
    for part in parquet::parts(all).unwrap().into_iter().chain(parquet::empty().unwrap()) {
        let path = directory.join(part.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, part.bytes).unwrap();
    }
}

#[test]
fn reports_of_sums_are_those_that_duckdb_makes_of_rows() {
    let mut rng = Rng::with_seed(31);
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
    let mut there: BTreeMap<String, Rows> = BTreeMap::new();
    for rows in captures(&mut rng) {
        there.insert(rows.capture.as_ref().unwrap().raw_key.to_string(), rows);
    }
    let ledgers = ledgers(&mut rng);
    let all: Vec<Rows> =
        there.values().cloned().chain(losses()).chain(ledgers.iter().cloned()).collect();
    all.chunks(7).for_each(|some| database.insert(some).unwrap());
    // A later analysis finds other times in some; others are deleted.
    let (mut again, mut deleted) = (Vec::new(), Vec::new());
    for (key, rows) in &mut there {
        match rng.u8(0..6) {
            0 => {
                for slice in &mut rows.frame_slices {
                    slice.self_ns = rng.u64(1..50_000_000);
                    slice.carried_ns = rng.u64(0..2) * rng.u64(1..50_000_000);
                }
                rows.frames.pop();
                rows.deaths = vec![death(&mut Rng::with_seed(key.len() as u64 + 52))];
                again.push(rows.clone());
            }
            1 => deleted.push(key.clone()),
            _ => {}
        }
    }
    assert!(!again.is_empty() && !deleted.is_empty());
    let again: Vec<Contribution> = again.iter().map(Contribution::from).collect();
    database.replace(&again).unwrap();
    database.delete(&deleted).unwrap();
    let (gone, ledgers) = ledgers.split_at(9);
    let key = |rows: &Rows| ReportKey::parse(&Contribution::from(rows).key().unwrap()).unwrap();
    database.delete_reports(&gone.iter().map(key).collect::<Vec<_>>()).unwrap();
    there.retain(|key, _| !deleted.contains(key));
    let left: Vec<Rows> =
        there.into_values().chain(losses()).chain(ledgers.iter().cloned()).collect();
    write(&left, directory.path());
    let tables = directory.path().join("tables/v3");
    let Some(answers) = answers("duckdb", tables.to_str().unwrap(), "", &[]) else { return };
    compare(&answers, &database);
    for app in ["com.a", "com.b"] {
        let counted = counted(&answers["comparison"], app);
        assert!(counted.len() > 20, "{app}: {counted:?}");
        let segment = Segment::default();
        let fleet = database.fleets(app, COMPARED, &segment, true).unwrap().remove(0);
        assert_eq!(observed(&fleet), counted, "{app}");
        let fleets = database.ledger_fleets(app, COMPARED, "", &segment, true).unwrap();
        let counted = counted_of_ledgers(&answers["ledger_comparison"], app);
        assert_eq!(fleets.each_ref().map(observed), counted, "{app}");
        let deaths = counted[1].iter().filter(|(name, _)| !name[4].is_empty());
        assert!(counted[0].len() > 20 && (app == "com.b" || deaths.count() > 0), "{counted:?}");
    }
}

/// The versions that are compared.
const COMPARED: [&str; 2] = ["1.9", "2.0"];

/// Frames (without a cause) and ns by version, day, screen, cause and key.
type Observations = BTreeMap<[String; 5], [u64; 2]>;

/// Sums what a comparison of two versions reads, over devices.
fn observed(fleet: &Fleet) -> Observations {
    let mut found = Observations::new();
    let nth = |all: &[Text], number: u32| all[number as usize].to_string();
    for device in &fleet.devices {
        for (version, sums) in COMPARED.iter().zip(&device.days) {
            for row in sums {
                let day = nth(&fleet.days, row.day);
                let mut add = |[screen, cause, key]: [String; 3], [frames, ns]: [u64; 2]| {
                    let name = [version.to_string(), day.clone(), screen, cause, key];
                    let sum = found.entry(name).or_default();
                    *sum = [sum[0] + frames, sum[1] + ns];
                };
                for &(screen, frames) in &row.frames {
                    add([nth(&fleet.screens, screen), String::new(), String::new()], [frames, 0]);
                }
                for &(series, ns) in &row.times {
                    let Series { screen, cause, key } = fleet.series[series as usize].clone();
                    add([screen.unwrap(), cause, key].map(|text| text.to_string()), [0, ns]);
                }
            }
        }
    }
    found
}

/// Sums the same of DuckDB's rows: of days of devices with frames.
fn counted(answer: &Value, app: &str) -> Observations {
    let text = |row: &Value, column: usize| row[column].as_str().unwrap().to_owned();
    let rows = answer["rows"].as_array().unwrap();
    let of_app = |row: &&Value| row[0] == app && COMPARED.iter().any(|version| row[1] == *version);
    let day = |row: &Value| [1, 2, 3].map(|column| text(row, column));
    let with_frames = rows.iter().filter(of_app).filter(|row| row[7].as_u64() > Some(0));
    let days: BTreeSet<[String; 3]> = with_frames.map(day).collect();
    let mut found = Observations::new();
    for row in rows.iter().filter(of_app).filter(|row| days.contains(&day(row))) {
        let sum = found.entry([1, 3, 4, 5, 6].map(|column| text(row, column))).or_default();
        *sum = [7, 8].map(|column| sum[column - 7] + row[column].as_u64().unwrap());
    }
    found
}

/// Sums the same of DuckDB's rows of ledgers: frames, and deaths. Of a device, the source with most frames counts.
fn counted_of_ledgers(answer: &Value, app: &str) -> [Observations; 2] {
    let text = |row: &Value, column: usize| row[column].as_str().unwrap().to_owned();
    let rows = answer["rows"].as_array().unwrap();
    let of_app = |row: &&Value| row[0] == app && COMPARED.iter().any(|version| row[1] == *version);
    let mut by_source: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for row in rows.iter().filter(of_app).filter(|row| row[4] != "deaths") {
        let frames = by_source.entry(text(row, 2)).or_default().entry(text(row, 4)).or_default();
        *frames += row[7].as_u64().unwrap();
    }
    let mut found = [const { Observations::new() }; 2];
    for row in rows.iter().filter(of_app) {
        let (of_device, source) = (&by_source[&text(row, 2)], text(row, 4));
        let most = of_device.iter().max_by_key(|(_, frames)| **frames).unwrap();
        let (kind, cause) = match (&*source == "deaths", text(row, 6).is_empty()) {
            (true, false) => (1, "death"),
            (true, true) => (1, ""),
            (false, _) if source == *most.0 => (0, ""),
            (false, _) => continue,
        };
        let name = [text(row, 1), text(row, 3), text(row, 5), cause.to_owned(), text(row, 6)];
        let sum = found[kind].entry(name).or_default();
        *sum = [7, 8].map(|column| sum[column - 7] + row[column].as_u64().unwrap());
    }
    found
}

/// [`compare`] finds a sum that a query reads and the oracle does not count. Queries pass on all sums of frames and causes; the sums of
/// `device_rollups` are those of `reach`; comparisons read the traits and values of devices as they are.
#[test]
fn a_query_reads_each_sum() {
    let queries: Vec<String> = SET.iter().map(Query::text).collect();
    for rollup in ROLLUPS.iter().chain(FLEET_ROLLUPS) {
        let table = rollup.table.name;
        if table.starts_with("device_") || ["frame_rollups", "cause_rollups"].contains(&table) {
            continue;
        }
        for sum in &rollup.table.columns[rollup.keys..] {
            let read = Regex::new(&format!(r"\.{}\b", sum.name)).unwrap();
            let is_read = queries.iter().any(|query| query.contains(table) && read.is_match(query));
            assert!(is_read, "no query reads {} of {table}", sum.name);
        }
    }
}
