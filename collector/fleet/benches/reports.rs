//! Time of a fleet's report over tables of a given size: `tests/fleet/reports` runs it. The rows are those of some
//! simulated devices, repeated with other ids, devices and days.
//!
//! Prints a line of JSON for each size: captures, devices, rows of sums that the report reads, bytes of the tables,
//! and processor seconds of the insertion, of the report, and of a comparison beside it.

use std::error::Error;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use tracetee_fleet::capture::{self, Limits};
use tracetee_fleet::database::Database;
use tracetee_fleet::parquet;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::rows::{About, Rows};
use tracetee_simulate::{Plan, PlannedClass};

/// Devices that are simulated.
const SIMULATED: u64 = 300;
/// Captures of a transaction, and of a converter's batch.
const BATCH: usize = 1000;
const DAYS: usize = 7;

/// Processor time of this thread, seconds.
fn processor_s() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e9
}

fn templates(frames: u64) -> Vec<Rows> {
    let class = PlannedClass {
        name: "phones".to_owned(),
        share: 1,
        models: vec!["Phone 1".to_owned(), "Phone 2".to_owned()],
        apis: vec![33, 34],
        slowness_percent: 100,
        causes_percent: 100,
        update_hours: 0,
    };
    let plan = Plan { frames, classes: vec![class], ..Plan::default() };
    let captures = (0..SIMULATED).flat_map(|number| plan.device(1, number).0);
    captures
        .filter_map(|capture| {
            let about = About { meta: capture.meta.clone(), bytes: 2700, ..About::default() };
            capture::rows(Cursor::new(capture.text), &about, None, &Limits::default()).ok()
        })
        .collect()
}

/// The rows of a capture: those of a template. Four captures in five are of a device of their own.
fn capture_rows(templates: &[Rows], number: usize) -> Rows {
    let mut rows = templates.get(number % templates.len()).cloned().unwrap_or_default();
    if let Some(row) = &mut rows.capture {
        row.capture_id = format!("01a0c505-44c0-7f82-96cd-{number:012x}").into();
        row.device =
            format!("{:032x}", (number - number % 5 + (number % 5).min(3)) * 0x9e37_79b9).into();
        row.dt = format!("2026-09-{:02}", 1 + number * 31 / 7 % DAYS).into();
        row.raw_key = format!(
            "raw/v1/app={}/dt={}/ver={}/{}.ftrace.zst",
            row.app, row.dt, row.ver, row.capture_id
        )
        .into();
    }
    rows
}

/// Makes the tables, measures, and deletes them unless the options have `keep`.
fn run(
    captures: usize,
    frames: u64,
    options: &[&str],
    directory: &Path,
) -> Result<(), Box<dyn Error>> {
    let templates = templates(frames);
    let parts = options.contains(&"parts").then(|| directory.join(format!("{captures}.parquet")));
    let path = directory.join(format!("{captures}.sqlite"));
    let _ = fs::remove_file(&path);
    let mut database = Database::open(&path)?;
    let (mut insertion_s, mut done) = (0.0, 0);
    while done < captures {
        let end = (done + BATCH).min(captures);
        let batch: Vec<Rows> = (done..end).map(|number| capture_rows(&templates, number)).collect();
        let began = processor_s();
        for some in batch.chunks(200) {
            database.insert(some)?;
        }
        insertion_s += processor_s() - began;
        if let Some(parts) = &parts {
            for part in parquet::parts(&batch)? {
                let path = parts.join(part.path);
                write(&path, &part.bytes)?;
            }
        }
        done = end;
    }
    drop(database);
    if let Some(parts) = &parts {
        for part in parquet::empty()? {
            let path = parts.join(part.path);
            write(&path, &part.bytes)?;
        }
    }
    let began = processor_s();
    let database = Database::read(&path)?;
    let report = FleetReport::from_database(&database, &Ask::default())?;
    assert!(serde_json::to_string(&report)?.len() > 1000);
    let report_s = processor_s() - began;
    let began = processor_s();
    let compare = Some(("2.0".to_owned(), "2.1".to_owned()));
    let report = FleetReport::from_database(&database, &Ask { compare, ..Ask::default() })?;
    let compared = report.apps.iter().filter_map(|app| app.comparison.as_ref());
    let compared: u64 = compared.map(|comparison| comparison.coverage.compared).sum();
    let comparison_s = processor_s() - began - report_s;
    let count = |table: &str| {
        let counts = database.rows::<u64>(&format!("SELECT COUNT(*) FROM {table}"));
        counts.map_or(0, |counts| counts[0])
    };
    let read = [
        "capture_rollups",
        "frame_rollups",
        "startup_rollups",
        "cause_rollups",
        "stack_rollups",
        "loss_rollups",
        "cause_examples",
        "reach",
    ];
    let line = serde_json::json!({
        "captures": captures, "device_rows": count("device_rollups"),
        "rollup_rows": read.map(count).iter().sum::<u64>(),
        "bytes": fs::metadata(&path).map_or(0, |metadata| metadata.len()),
        "insertion_s": insertion_s, "report_s": report_s,
        "compared_devices": compared, "comparison_s": comparison_s,
    });
    writeln!(std::io::stdout(), "{line}")?;
    if !options.contains(&"keep") {
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, bytes)
}

/// `reports DIRECTORY FRAMES CAPTURES[,parts][,keep]...`; `keep` leaves the tables in the directory.
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let usage = "usage: reports DIRECTORY FRAMES CAPTURES[,parts][,keep]...";
    let directory = PathBuf::from(arguments.next().ok_or(usage)?);
    let frames: u64 = arguments.next().ok_or(usage)?.parse()?;
    for size in arguments {
        let mut options = size.split(',');
        let captures: usize = options.next().ok_or(usage)?.parse()?;
        let options: Vec<&str> = options.collect();
        run(captures, frames, &options, &directory)?;
    }
    Ok(())
}
