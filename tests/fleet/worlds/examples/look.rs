//! Time of a guard's look at the tables of a large fleet: `look FILE [DEVICES]`. Makes the file if it does not exist: tables of so many
//! devices (1,000,000), each with captures of six days.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use tracetee_fleet::change::answer::answer;
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Database;
use tracetee_worlds::{Rollout, Scenario, VERSIONS};

const APP: &str = "com.example";
/// Devices of a rollout, and rows of a statement.
const AT_ONCE: usize = 50_000;
const ROWS: usize = 500;

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

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rest @ ..] = &*arguments else { panic!("usage: look FILE [DEVICES]") };
    let devices = rest.first().map_or(1_000_000, |text| text.parse().expect("a number"));
    if !Path::new(file).exists() {
        let mut database = Database::open(Path::new(file)).unwrap();
        for seed in 0..devices / AT_ONCE {
            fill(&database, &Scenario::default().rollout(seed as u64, AT_ONCE, 14));
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
