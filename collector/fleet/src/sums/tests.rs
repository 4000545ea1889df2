//! Sums are those of a rebuild, whatever was inserted, deleted and analyzed again before.

use super::Sums;
use super::schema::{FLEET_ROLLUPS, ROLLUPS};
use crate::capture::{self, Limits};
use crate::database::Database;
use crate::ledger::stored;
use crate::object_keys::{ReportKey, ReportKind};
use crate::report::fleet::{Ask, FleetReport};
use crate::rows::{About, Rows, from_loss_report};
use crate::schema::{CAPTURES, DeathRow, LEDGER_DAYS};
use crate::stored_report::from_report;
use crate::sums::Contribution;
use crate::table::Table;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use tracetee_protocol::LossReport;
use tracetee_simulate::Plan;
use tracetee_simulate::ledger::DeviceDay;

/// A row of a table, by column.
type Row = serde_json::Map<String, serde_json::Value>;

/// Rows of captures of several devices, days, apps and versions, some counted and some not, and of loss reports.
pub(crate) fn pool() -> Vec<Rows> {
    let plan = Plan { frames: 15, triggered_percent: 50, ..Plan::default() };
    let mut rng = Rng::with_seed(23);
    let mut all = Vec::new();
    for number in 0..24 {
        for capture in plan.device(23, number % 16).0 {
            let day = 1 + rng.u8(0..3);
            let about = About {
                capture_id: format!("{}-{number}", capture.id),
                day: format!("2026-09-0{day}"),
                app: Some(["com.a", "com.b"][rng.usize(0..10) / 9].to_owned()),
                meta: capture.meta.clone(),
                bytes: 1,
                raw_key: format!("raw {} {number}", capture.id),
                dump: None,
            };
            let text = Cursor::new(capture.text);
            let mut rows = capture::rows(text, &about, None, &Limits::default()).unwrap();
            let row = rows.capture.as_mut().unwrap();
            row.startup_ns = rng.bool().then(|| rng.u64(1..1 << 34));
            row.over_budget = rng.u8(0..5) == 0;
            row.version_code = row.version_code.filter(|_| rng.bool());
            row.period_ns = [16_666_667, 8_333_333, 11_111_111][rng.usize(0..3)];
            row.ttfd_ns = rng.bool().then(|| rng.u64(1..1 << 34));
            row.anrs = rng.u64(0..3);
            row.model = rng.bool().then(|| "a model".into());
            (row.debuggable, row.emulator) = (rng.u8(0..5) == 0, rng.u8(0..5) == 0);
            row.lost_records = rng.u64(0..100);
            if rng.bool() {
                rows.deaths.push(DeathRow {
                    reason: ["anr", "other"][rng.usize(0..2)].into(),
                    cause: ["lock", "idle"][rng.usize(0..2)].into(),
                    noticed_by: ["user", "frozen"][rng.usize(0..2)].into(),
                    screen: ["", "Feed"][rng.usize(0..2)].into(),
                    rss_kb: rng.u64(0..1 << 20),
                    ..DeathRow::default()
                });
            }
            for frame in &mut rows.frames {
                frame.pipeline = ["views", "flutter", "vsync_callback"][rng.usize(0..3)].into();
            }
            all.push(rows);
        }
    }
    for number in 0..6 {
        let report = serde_json::json!({"app": "com.a", "install_id": format!("d{}", number % 3),
            "lost": [{"id": format!("x{number}"), "label": "jank", "reason": "age", "unconfirmed": number == 2}],
            "by_reason": {"older": number}});
        let report = LossReport::from_json(report.to_string().as_bytes()).unwrap();
        let day = format!("2026-09-0{}", 1 + number % 3);
        all.push(from_loss_report(&format!("report {number}"), &day, None, &report));
    }
    // Devices have several parts of a day, under two versions.
    for number in 0..40 {
        let (app, device) = (["com.a", "com.b"][rng.usize(0..10) / 9], format!("d{}", number % 5));
        let numbers = [20_698 + rng.u32(0..3), 20 + rng.u32(0..2), number];
        all.push(ledger(&DeviceDay::new(&mut rng, [app, &device], numbers, 60, 20)));
    }
    all
}

/// Rows of a part of a ledger, of the days of the captures.
fn ledger(made: &DeviceDay) -> Rows {
    let DeviceDay { meta, part, .. } = made;
    let day = format!("2026-09-0{}", part.day - 20_697);
    let id = crate::ledger::id_of(meta.install_id.as_deref().unwrap(), part);
    let key = ReportKey::new(ReportKind::Ledger, day, &id, meta.app.as_deref());
    from_report(&key, &stored(meta, &part.encode().unwrap())).unwrap()
}

/// All rows of a table, sorted.
fn content(database: &Database, table: &str, columns: &str) -> Vec<String> {
    let found = database.rows::<Row>(&format!("SELECT {columns} FROM {table}")).unwrap();
    let mut rows: Vec<String> = found.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// All rows of all tables.
fn contents(path: &Path) -> BTreeMap<&'static str, Vec<String>> {
    let database = Database::read(path).unwrap();
    let rollups = ROLLUPS.iter().chain(FLEET_ROLLUPS).map(|rollup| rollup.table.name);
    let tables = ["captures", "losses", "ledger_days"].into_iter().chain(rollups);
    // The number of a capture depends on the order of insertions.
    let names = |table: &Table| {
        table.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",")
    };
    let (of_captures, of_ledgers) = (names(&CAPTURES), names(&LEDGER_DAYS));
    let columns = |name| match name {
        "captures" => &*of_captures,
        "ledger_days" => &*of_ledgers,
        _ => "*",
    };
    tables.map(|name| (name, content(&database, name, columns(name)))).collect()
}

#[test]
fn a_snapshot_shows_one_state_of_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.sqlite");
    let (mut writer, pool) = (Database::open(&path).unwrap(), pool());
    writer.insert(&pool[..5]).unwrap();
    let reader = Database::read(&path).unwrap();
    let count = || reader.rows::<u64>("SELECT COUNT(*) FROM captures").unwrap()[0];
    let snapshot = reader.snapshot().unwrap();
    let before = count();
    writer.insert(&pool[5..10]).unwrap();
    assert_eq!(count(), before);
    drop(snapshot);
    assert!(count() > before);
    // A report leaves neither a snapshot nor relations.
    let _ = FleetReport::from_database(&reader, &Ask::default()).unwrap();
    let before = count();
    writer.insert(&pool[10..15]).unwrap();
    assert!(count() > before);
    assert!(reader.rows::<Row>("SELECT * FROM frame_sums").is_err());
}

/// The id, the device and the day of a capture or a report.
fn facts(rows: &Rows) -> [String; 3] {
    let texts = match (&rows.capture, rows.losses.first(), &rows.ledger) {
        (Some(row), ..) => [&row.capture_id, &row.device, &row.dt],
        (None, Some(row), _) => [&row.report_id, &row.device, &row.dt],
        (None, None, ledger) => {
            let row = &ledger.as_ref().unwrap().day;
            [&row.ledger_id, &row.device, &row.dt]
        }
    };
    texts.map(ToString::to_string)
}

fn id_of(rows: &Rows) -> String {
    facts(rows)[0].clone()
}

/// The key of a report.
fn report_key(rows: &Rows) -> Option<ReportKey> {
    rows.capture
        .is_none()
        .then(|| ReportKey::parse(&Contribution::from(rows).key().unwrap()).unwrap())
}

/// Does something at random to tables and to `there`, what is to be in them.
fn step(database: &mut Database, there: &mut BTreeMap<String, Rows>, pool: &[Rows], rng: &mut Rng) {
    let keys = |stored: &BTreeMap<String, Rows>, is_it: &dyn Fn(&Rows) -> bool| -> Vec<String> {
        let captures =
            stored.values().filter(|rows| is_it(rows)).filter_map(|rows| rows.capture.as_ref());
        captures.map(|capture| capture.raw_key.to_string()).collect()
    };
    match rng.u8(0..10) {
        // Intake, of captures that may be there already.
        0..=4 => {
            let batch: Vec<Rows> =
                (0..rng.usize(1..12)).map(|_| pool[rng.usize(..pool.len())].clone()).collect();
            database.insert(&batch).unwrap();
            for rows in batch {
                there.entry(id_of(&rows)).or_insert(rows);
            }
        }
        // Another analysis of a version's captures finds other times.
        5 | 6 => {
            let ver = ["2.0", "2.1"][rng.usize(0..2)];
            database.outdate("com.a", ver).unwrap();
            let mut again = Vec::new();
            for rows in there.values_mut() {
                let is_of = |app: &str, version: &str| app == "com.a" && version == ver;
                if rows.capture.as_ref().is_some_and(|capture| is_of(&capture.app, &capture.ver)) {
                    for slice in &mut rows.frame_slices {
                        slice.self_ns = rng.u64(1..50_000_000);
                        slice.carried_ns = rng.u64(0..20_000_000);
                        slice.cause_key = format!("{}'", slice.cause_key).into();
                    }
                    rows.frames.pop();
                    again.push(rows.clone());
                }
            }
            database.insert(&again).unwrap();
        }
        // Forgets a device.
        7 => {
            let devices: Vec<String> = there.values().map(|rows| facts(rows)[1].clone()).collect();
            let Some(device) = rng.choice(&devices) else { return };
            let keys = database.raw_keys_for_device(device).unwrap();
            database.delete(&keys).unwrap();
            database.delete_reports_of(device).unwrap();
            there.retain(|_, rows| facts(rows)[1] != *device);
        }
        // Retention by age.
        8 => {
            let first = format!("2026-09-0{}", rng.u8(1..4));
            let day = |rows: &Rows| facts(rows)[2].clone();
            database.delete(&keys(there, &|rows| day(rows) < first)).unwrap();
            let reports = there.values().filter(|rows| day(rows) < first).filter_map(report_key);
            database.delete_reports(&reports.collect::<Vec<_>>()).unwrap();
            there.retain(|_, rows| day(rows) >= first);
        }
        // Retention by size.
        _ => {
            let some: Vec<String> = keys(there, &|_| true).into_iter().take(3).collect();
            database.delete(&some).unwrap();
            there.retain(|_, rows| {
                rows.capture
                    .as_ref()
                    .is_none_or(|capture| !some.iter().any(|key| *key == capture.raw_key))
            });
        }
    }
}

#[test]
fn sums_are_those_of_a_rebuild_after_any_sequence_of_changes() {
    let pool = pool();
    for seed in 0..12 {
        let mut rng = Rng::with_seed(seed);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tables.sqlite");
        let mut there = BTreeMap::new();
        let mut database = Database::open(&path).unwrap();
        for number in 0..rng.usize(1..14) {
            step(&mut database, &mut there, &pool, &mut rng);
            if number % 4 == 3 {
                // As a collector that is killed and started again.
                database = Database::open(&path).unwrap();
            }
        }
        database.check_all().unwrap();
        let rebuilt = directory.path().join("rebuilt.sqlite");
        let mut other = Database::open(&rebuilt).unwrap();
        let all: Vec<Rows> = there.into_values().collect();
        for batch in all.chunks(7) {
            other.insert(batch).unwrap();
        }
        let (found, expected) = (contents(&path), contents(&rebuilt));
        for (table, rows) in found {
            assert_eq!(rows, expected[table], "seed {seed}: {table}");
        }
    }
}

#[test]
fn nothing_is_left_of_what_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.sqlite");
    let mut database = Database::open(&path).unwrap();
    let pool = pool();
    database.insert(&pool).unwrap();
    assert!(contents(&path).values().all(|rows| !rows.is_empty()));
    let keys: Vec<String> = database.by_age().unwrap().into_iter().map(|(key, ..)| key).collect();
    database.delete(&keys).unwrap();
    let reports: Vec<ReportKey> = pool.iter().filter_map(report_key).collect();
    database.delete_reports(&reports).unwrap();
    for (table, rows) in contents(&path) {
        assert!(rows.is_empty(), "{table}: {rows:?}");
    }
}

#[test]
fn a_device_with_endless_names_costs_a_bounded_time_and_is_subtracted_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let [path, other] = ["tables", "other"].map(|name| directory.path().join(name));
    let pool = pool();
    let hostile = |number: usize| {
        let mut rows = pool[0].clone();
        rows.capture.as_mut().unwrap().capture_id = format!("hostile {number}").into();
        rows.capture.as_mut().unwrap().raw_key = format!("hostile {number}").into();
        // Fewer of a day than the limit of a day's names.
        rows.capture.as_mut().unwrap().dt = format!("2026-09-0{}", 1 + (number / 2).min(1)).into();
        let slice = pool.iter().find_map(|rows| rows.frame_slices.first()).unwrap();
        rows.frame_slices = (0..330)
            .map(|name| {
                let cause_key = format!("{} of {number}", name * 379 % 401).into();
                crate::schema::FrameSliceRow { cause_key, ..slice.clone() }
            })
            .collect();
        rows
    };
    let mut database = Database::open(&path).unwrap();
    for number in 0..4 {
        database.insert(&[hostile(number)]).unwrap();
    }
    let reached = || content(&Database::read(&path).unwrap(), "reach", "*").len();
    let most = reached();
    database.insert(&[hostile(4)]).unwrap();
    assert_eq!(reached(), most, "more names are not counted");
    database.delete(&["hostile 0".to_owned(), "hostile 4".to_owned()]).unwrap();
    let mut rebuilt = Database::open(&other).unwrap();
    rebuilt.insert(&[hostile(3), hostile(1), hostile(2)]).unwrap();
    let (found, expected) = (contents(&path), contents(&other));
    for (table, rows) in found {
        assert!(rows == expected[table], "{table}");
    }
}

#[test]
fn packed_sums_are_those_that_were_packed_and_damaged_ones_are_none() {
    let mut of_all = Sums::default();
    for rows in pool() {
        let mut sums = Sums::default();
        sums.add_capture(&rows);
        let packed = sums.pack();
        let mut unpacked = Sums::unpack(&packed).unwrap();
        of_all.merge(&unpacked, 1);
        of_all.merge(&sums, -1);
        for rollup in ROLLUPS {
            assert_eq!(unpacked.take(rollup), sums.take(rollup), "{}", rollup.table.name);
        }
        assert!(Sums::unpack(&packed[..packed.len() / 2]).is_none());
        let mut flipped = packed.clone();
        let position = packed.len() / 2;
        flipped[position] ^= 4;
        assert!(Sums::unpack(&flipped).is_none());
    }
    for rollup in ROLLUPS {
        assert!(of_all.take(rollup).iter().all(|(_, sums)| sums.iter().all(|&sum| sum == 0)));
    }
    assert!(Sums::unpack(b"").is_none());
}
