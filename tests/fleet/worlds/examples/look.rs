//! Time of a guard's look at the tables of a large fleet: `look FILE [DEVICES]`. Makes the file if it does not exist: tables
//! of this many devices (1,000,000), each with captures and ledgers of six days (8 GB).

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use tracetee_fleet::change::answer::answer;
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Database;
use tracetee_fleet::rows::{Histogram, Ledger, Rows};
use tracetee_fleet::schema::{LedgerDayRow, LedgerScreenRow};
use tracetee_fleet::sums::Contribution;
use tracetee_worlds::{DEATHS, Rollout, Row, Scenario, VERSIONS};

const APP: &str = "com.example";
/// Devices of a rollout, and rows of a statement.
const AT_ONCE: usize = 50_000;
const ROWS: usize = 500;
/// Ledgers of a transaction.
const LEDGERS: usize = 2_000;

fn insert(database: &Database, table: &str, rows: &[String]) {
    for rows in rows.chunks(ROWS) {
        database.run(&format!("INSERT INTO {table} VALUES {}", rows.join(","))).unwrap();
    }
}

fn fill(database: &Database, rollout: &Rollout) {
    let (mut values, mut traits) = (Vec::new(), Vec::new());
    let mut rows: Vec<_> = rollout.rows.iter().collect();
    rows.sort_by_key(|row| (row.device, row.version, row.day));
    for of_day in rows.chunk_by(|a, b| (a.device, a.version) == (b.device, b.version)) {
        let device = &rollout.devices[of_day[0].device];
        let head = format!("('{APP}','{}','{}',", VERSIONS[of_day[0].version], device.id);
        let frames: u64 = of_day.iter().flat_map(|row| &row.visits).map(|visit| visit.frames).sum();
        traits.push(format!(
            "{head}'{}',{},{},0,0,{},{frames},{})",
            device.model,
            device.api,
            device.hz,
            of_day.len(),
            of_day[0].quick_ns * frames
        ));
        for row in of_day.chunk_by(|a, b| a.day == b.day).map(|rows| rows[0]) {
            let day = Rollout::date(row.day);
            for visit in &row.visits {
                let screen = rollout.screens[visit.screen];
                let mut text = head.clone();
                let _ =
                    write!(text, "'{day}','{screen}','','',{},{})", visit.frames, visit.jank_ns);
                values.push(text);
            }
            for time in &row.times {
                let (series, ns) = (&rollout.series[time.series], time.ns);
                let (screen, cause, key) = (series.screen, series.cause, series.key);
                values.push(format!("{head}'{day}','{screen}','{cause}','{key}',0,{ns})"));
            }
        }
    }
    database.run("BEGIN").unwrap();
    insert(database, "device_traits", &traits);
    insert(database, "device_values", &values);
    database.run("COMMIT").unwrap();
}

/// Returns a row as the ledger of the device's day.
fn ledger(rollout: &Rollout, number: usize, row: &Row) -> Contribution {
    let device = &rollout.devices[row.device];
    let day = LedgerDayRow {
        app: APP.into(),
        dt: Rollout::date(row.day).as_str().into(),
        ver: VERSIONS[row.version].into(),
        ledger_id: format!("{number:032x}").as_str().into(),
        device: device.id.as_str().into(),
        version_code: 20 + row.version as u64,
        model: Some(device.model.as_str().into()),
        api: Some(device.api),
        sessions: row.sessions,
        ..LedgerDayRow::default()
    };
    let screen = |visit: &tracetee_worlds::Visit| LedgerScreenRow {
        screen: rollout.screens[visit.screen].into(),
        hz: device.hz,
        pipeline: "views".into(),
        source: "frame_metrics".into(),
        frames: visit.frames,
        late: visit.frames / 20,
        overrun_us: visit.jank_ns / 1000,
        ..LedgerScreenRow::default()
    };
    let death = |(reason, amount): (&str, u64)| Histogram {
        kind: if reason == "memory_limiter" { "exit" } else { "visible_exit" }.into(),
        name: reason.into(),
        buckets: vec![(0, amount)],
        ..Histogram::default()
    };
    let deaths = DEATHS.iter().zip(row.deaths).filter(|(_, amount)| *amount > 0);
    let ledger = Ledger {
        day,
        screens: row.visits.iter().map(screen).collect(),
        histograms: deaths.map(|((reason, _), amount)| death((reason, amount))).collect(),
    };
    Contribution::from(&Rows { ledger: Some(ledger), ..Rows::default() })
}

/// Adds the ledgers of the rollout's devices, and so many copies of them, of devices with other ids.
fn fill_ledgers(database: &mut Database, rollout: &Rollout, copies: usize) {
    let ledgers = rollout.rows.iter().enumerate().map(|(number, row)| ledger(rollout, number, row));
    let ledgers: Vec<Contribution> = ledgers.collect();
    for ledgers in ledgers.chunks(LEDGERS) {
        database.insert_stored(ledgers, &|_| true).unwrap();
    }
    let own = format!("WHERE ledger_number <= {}", ledgers.len());
    for copy in 1..=copies {
        let more = copy * ledgers.len();
        let other = |column: &str| format!("printf('%04x', {copy}) || substr({column}, 5)");
        let sql = format!(
            "BEGIN; CREATE TEMP TABLE copies AS SELECT * FROM ledger_days {own};
             UPDATE copies SET ledger_number = ledger_number + {more}, device = {}, ledger_id = {};
             INSERT INTO ledger_days SELECT * FROM copies; DROP TABLE copies;
             INSERT INTO ledger_contents SELECT ledger_number + {more}, content FROM ledger_contents {own}; COMMIT",
            other("device"),
            other("ledger_id")
        );
        database.run(&sql).unwrap();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rest @ ..] = &*arguments else { panic!("usage: look FILE [DEVICES]") };
    let devices = rest.first().map_or(1_000_000, |text| text.parse().expect("a number"));
    if !Path::new(file).exists() {
        let mut database = Database::open(Path::new(file)).unwrap();
        let rollout = |seed| Scenario::default().rollout(seed, AT_ONCE.min(devices), 14);
        fill_ledgers(&mut database, &rollout(0), devices.div_ceil(AT_ONCE) - 1);
        for seed in 0..devices.div_ceil(AT_ONCE) {
            fill(&database, &rollout(seed as u64));
        }
        // The digests are written at the end of a transaction of the collector's.
        database.delete(&[]).unwrap();
    }
    let began = Instant::now();
    let database = Database::read(Path::new(file)).unwrap();
    let fleet = database.fleets(APP, VERSIONS, &Segment::default(), false).unwrap();
    let read = began.elapsed();
    let answer = answer(&fleet, 10.0);
    println!(
        "read in {:.1} s, looked in {:.1} s",
        read.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    print!("{}", answer.to_text(VERSIONS));
}
