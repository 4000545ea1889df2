//! Time of parts of ledgers from their bytes to the tables, and of a report of them. `cargo bench -p tracetee-fleet --bench ledgers`.
//!
//! Prints for each size of a transaction the parts a second of one processor that reads them and of one that inserts them, the bytes
//! of the tables for each part, and the seconds of a report and of a comparison. Seconds are those of the thread on a processor.

use fastrand::Rng;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tracetee_fleet::database::Database;
use tracetee_fleet::ledger::{id_of, stored};
use tracetee_fleet::object_keys::{ReportKey, ReportKind};
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::rows::Ledger;
use tracetee_fleet::rows::Rows;
use tracetee_fleet::sums::Contribution;
use tracetee_simulate::ledger::DeviceDay;

/// Parts that are made; each has 8 screens.
const PARTS: u32 = 20_000;
/// Frames of a device-day, of which an eighth is late.
const FRAMES: usize = 2_000;
const DAYS: u32 = 14;

/// The time of this thread on a processor since it began, s.
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = text.split(' ').next().ok_or("no time")?.parse()?;
    Ok(ns / 1e9)
}

/// Reads the parts on two threads, as the collector does, while this one inserts what they have read, 5,000 at a time.
fn piped(
    parts: &[(ReportKey, Vec<u8>)],
    path: &std::path::Path,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let mut database = Database::open(path)?;
    let next = AtomicUsize::new(0);
    let (began, of_thread) = (Instant::now(), processor_s()?);
    std::thread::scope(|scope| {
        let (sender, made) = std::sync::mpsc::sync_channel(5_000);
        let (next, mut processor) = (&next, 0.0);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(move || {
                    while let Some((key, content)) = parts.get(next.fetch_add(1, Relaxed)) {
                        let ledger = Ledger::read(key, content).ok();
                        let rows = Rows { ledger, ..Rows::default() };
                        let _ = sender.send(Contribution::from(&rows));
                    }
                    processor_s().unwrap_or(f64::NAN)
                })
            })
            .collect();
        drop(sender);
        while let Ok(first) = made.recv() {
            let mut batch = vec![first];
            while batch.len() < 5_000
                && let Ok(one) = made.recv_timeout(Duration::from_millis(200))
            {
                batch.push(one);
            }
            database.insert_stored(&batch, &|_| true)?;
        }
        for reader in readers {
            processor += reader.join().unwrap_or(f64::NAN);
        }
        let writer = processor_s()? - of_thread;
        let s = began.elapsed().as_secs_f64();
        writeln!(
            out,
            "read on two threads, inserted on a third: {:.0} a second; {:.0} on two processors that do nothing else \
             (readers {processor:.2} s, writer {writer:.2} s of a processor)",
            f64::from(PARTS) / s,
            f64::from(PARTS) / ((processor + writer) / 2.0).max(writer),
        )?;
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    let mut rng = Rng::with_seed(52);
    let templates: Vec<DeviceDay> = (0..200)
        .map(|number| DeviceDay::new(&mut rng, ["com.example", "d"], [0, 0, number], FRAMES, 12))
        .collect();
    let mut parts = Vec::new();
    let mut bytes = 0;
    for (number, DeviceDay { meta, part, .. }) in (0..PARTS).zip(templates.iter().cycle()) {
        let (mut meta, mut part) = (meta.clone(), part.clone());
        let device = format!("{:032x}", number / DAYS);
        (part.day, part.part) = (20_697 + number % DAYS, 0);
        let version =
            if (number / DAYS).is_multiple_of(2) && number % DAYS > 6 { "2.1" } else { "2.0" };
        meta.version_name = Some(version.to_owned());
        meta.install_id = Some(device.clone());
        let day = format!("2026-09-{:02}", 1 + number % DAYS);
        let key =
            ReportKey::new(ReportKind::Ledger, day, &id_of(&device, &part), Some("com.example"));
        let content = stored(&meta, &part.encode().ok_or("no part")?);
        bytes += content.len();
        parts.push((key, content));
    }
    // The parts of a day come on the day after it.
    parts.sort_by(|(a, _), (b, _)| a.day.cmp(&b.day));
    writeln!(out, "{PARTS} parts of {} bytes", bytes / parts.len())?;
    let began = processor_s()?;
    let mut all = Vec::new();
    for (key, content) in &parts {
        let rows = Rows { ledger: Some(Ledger::read(key, content)?), ..Rows::default() };
        all.push(Contribution::from(&rows));
    }
    let per_s = f64::from(PARTS) / (processor_s()? - began);
    writeln!(out, "read: {per_s:.0} a second")?;
    let directory = tempfile::tempdir()?;
    for batch in [200, 2_000, 5_000] {
        let path = directory.path().join(format!("{batch}.sqlite"));
        let mut database = Database::open(&path)?;
        let began = processor_s()?;
        for some in all.chunks(batch) {
            database.insert_stored(some, &|_| true)?;
        }
        let per_s = f64::from(PARTS) / (processor_s()? - began);
        drop(database);
        let bytes = path.metadata()?.len() / u64::from(PARTS);
        writeln!(out, "inserted {batch} at a time: {per_s:.0} a second, {bytes} bytes each")?;
    }
    piped(&parts, &directory.path().join("piped.sqlite"), &mut out)?;
    let database = Database::read(&directory.path().join("200.sqlite"))?;
    for compare in [None, Some(("2.0".to_owned(), "2.1".to_owned()))] {
        let began = processor_s()?;
        let report = FleetReport::from_database(&database, &Ask { compare, ..Ask::default() })?;
        let found: u64 =
            report.apps.iter().flat_map(|app| &app.ledgers.versions).map(|one| one.parts).sum();
        writeln!(out, "report of {found} parts: {:.2} s", processor_s()? - began)?;
    }
    Ok(())
}
