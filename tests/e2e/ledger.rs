//! The ledger of an app: its counts are those of the trace, it outlives kills, and ends with the user's consent.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracetee_ledger::{Histogram, Part, Source};
use tracetee_tests::device::{Device, sections};
use tracetee_uploader::{Now, Spool};

/// A flight recorder that looks back over the whole run, and the ledger.
fn document(ledger: Value) -> Value {
    json!({"seq": 1, "ledger": ledger, "windows": [{
        "id": "flight", "cool_down_s": 0, "recorder": {"capacity_kb": 8192},
        "opens": {"triggers": {"any": [{"custom": {"name": "end"}}], "before_s": 60, "after_s": 0}},
    }]})
}

fn spool(device: &Device) -> PathBuf {
    device.directory().join("spool")
}

fn files(device: &Device, directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(spool(device).join(directory)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The part of the processes that have ended.
fn part(directory: &Path) -> Option<Part> {
    Spool::open(directory).unwrap().open_ledger(|_| true, Now::default()).unwrap().1
}

/// Frames of a screen: number, late ones and their overrun; and those of which the trace's µs cannot say whether they are
/// late.
type Frames = (u64, u64, Histogram, u64);

/// Counts the main thread's parts of frames in a trace, by the screen at their end.
fn frames_of_trace(capture: &Path, period_us: u64) -> BTreeMap<String, Frames> {
    let mut screens: BTreeMap<String, Frames> = BTreeMap::new();
    let shown: Vec<(u64, String)> = tracetee_tests::trace::read(capture)
        .into_iter()
        .filter_map(|line| Some((line.time_us, line.payload.split_once("screen:")?.1.to_owned())))
        .collect();
    for (name, begin_us, end_us) in sections(capture, "script") {
        if !name.starts_with("Choreographer#doFrame") {
            continue;
        }
        let screen = shown.iter().rfind(|(from_us, _)| *from_us <= end_us);
        let screen = screen.map_or(String::new(), |screen| screen.1.clone());
        let (frames, late, overrun, borderline) = screens.entry(screen).or_default();
        *frames += 1;
        let took_us = end_us - begin_us;
        *borderline += u64::from(took_us.abs_diff(period_us) <= 2);
        if took_us > period_us {
            *late += 1;
            overrun.record(took_us - period_us);
        }
    }
    screens
}

/// The value that `per_mille` of all values do not exceed, in the middle of its bucket; `None` without a value.
fn quantile(all: &Histogram, per_mille: u32) -> Option<u64> {
    let rank = (u128::from(all.count()) * u128::from(per_mille)).div_ceil(1000).max(1);
    let mut below = 0;
    all.buckets().find_map(|(low, high, count)| {
        below += u128::from(count);
        (below >= rank).then_some(low + (high - low) / 2)
    })
}

#[test]
fn counts_equal_those_of_the_trace() {
    let mut device = Device::new(34);
    device.install = json!({"version_code": 7, "segment": {"plan": "premium"}});
    device.configure(document(json!({"on": true})));
    device.run(
        "refresh 50 screen Feed frames 150 5 frames 7 50 screen {Chat with 12345678} frames 60 30 frames 2 10 \
         sleep 600 trigger end await \"captures\":1",
    );
    let of_trace = frames_of_trace(&device.capture(), 20_000);
    let part = part(&spool(&device)).unwrap();
    assert_eq!((part.version_code, &part.segment), (7, &vec![("plan".into(), "premium".into())]));
    let rows = part.sums.rows();
    let keys: Vec<_> = rows.iter().map(|(key, _)| (&*key.screen, key.refresh_mhz)).collect();
    // The capture's rules of redaction.
    assert_eq!(keys, [("Chat with <digits>", 50_000), ("Feed", 50_000)]);
    for (key, row) in rows {
        assert_eq!(key.source, Source::Markers);
        let (frames, late, overrun, _) = &of_trace[&key.screen];
        assert_eq!((row.frames, row.late, row.frozen), (*frames, *late, 0), "{}", key.screen);
        let quantiles = [500, 900, 990].map(|per_mille| {
            let [exact, found] =
                [overrun, &row.overrun_us].map(|all| quantile(all, per_mille).unwrap());
            exact.abs_diff(found) as f64 / exact as f64
        });
        // The trace has its times in µs, so that a value may lie in the next bucket.
        assert!(quantiles.iter().all(|error| *error <= 0.07), "{quantiles:?}");
        // Each time is cut to a µs.
        assert!(overrun.sum().abs_diff(row.overrun_us.sum()) <= 2 * late, "{overrun:?} {row:?}");
    }
    assert_eq!(rows.iter().map(|row| row.1.frames).sum::<u64>(), 219);
    assert!(part.sums.own_cost_us > 0 && part.sums.observed_s >= 3, "{part:?}");
}

/// A source of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// Devices at a time, which sleep mostly.
const WORKERS: u64 = 48;

/// The app's day on a device: screens, refresh rates, and frames of which some are late.
fn script_of_day(random: &mut Random) -> (String, u64) {
    let mut script = String::new();
    for screen in 0..1 + random.below(8) {
        script += &format!("screen Screen{} ", (screen + random.below(3)) % 8);
        for _ in 0..1 + random.below(3) {
            let ms = [0, 1, 3, 9, 12, 30, 60][usize::try_from(random.below(7)).unwrap()];
            script += &format!("frames {} {ms} ", 1 + random.below(5));
        }
    }
    let hz = [60, 90, 120][usize::try_from(random.below(3)).unwrap()];
    (format!("refresh {hz} {script}sleep 600 trigger end await \"captures\":1"), hz)
}

/// A device-day of its own process, whose capture has all of its records. 1,000 by hand: `TRACETEE_LEDGER_DAYS=1000`.
#[test]
fn device_days_have_the_counts_of_their_traces() {
    let days = std::env::var("TRACETEE_LEDGER_DAYS").map_or(8, |days| days.parse().unwrap());
    let (mut counted, mut late_frames, mut bytes) = (0, 0, Vec::new());
    let workers: Vec<_> = (0..WORKERS.min(days))
        .map(|worker| {
            std::thread::spawn(move || {
                let device = Device::new(34);
                let mut document = document(json!({"on": true}));
                document["budget"] = json!({"captures_per_hour": 1000, "captures_per_day": 1000});
                device.configure(document);
                let mut found = Vec::new();
                for day in (worker..days).step_by(usize::try_from(WORKERS).unwrap()) {
                    let (script, hz) = script_of_day(&mut Random(day + 1));
                    device.run(&script);
                    let capture = device.capture();
                    let of_trace = frames_of_trace(&capture, 1_000_000 / hz);
                    found.push((day, of_trace, part(&spool(&device)).unwrap()));
                    std::fs::remove_file(capture).unwrap();
                    std::fs::remove_dir_all(device.directory().join("spool/ledger")).unwrap();
                }
                found
            })
        })
        .collect();
    for (day, of_trace, part) in workers.into_iter().flat_map(|worker| worker.join().unwrap()) {
        let rows = part.sums.rows();
        assert_eq!(rows.len(), of_trace.len(), "{day}: {rows:?}");
        for (key, row) in rows {
            let (frames, late, overrun, borderline) = &of_trace[&key.screen];
            let is_near = row.late.abs_diff(*late) <= *borderline;
            assert!(row.frames == *frames && is_near, "{day}: {key:?}: {row:?} {frames} {late}");
            for per_mille in [500, 900, 990] {
                let quantile = |all: &Histogram| quantile(all, per_mille).unwrap_or(0);
                let [exact, found] = [quantile(overrun), quantile(&row.overrun_us)];
                // A bucket's width, and the µs of begin, end and period.
                assert!(exact.abs_diff(found) <= exact / 15 + 3, "{day}: {exact} {found}");
            }
            assert!(overrun.sum().abs_diff(row.overrun_us.sum()) <= 3 * late + 3, "{day}: {row:?}");
            (counted, late_frames) = (counted + row.frames, late_frames + row.late);
        }
        bytes.push(zstd::bulk::compress(&part.encode().unwrap(), 1).unwrap().len());
    }
    bytes.sort_unstable();
    println!(
        "{days} device-days, {counted} frames, {late_frames} late: as in the traces; {} bytes at the median, {} at most",
        bytes[bytes.len() / 2],
        bytes[bytes.len() - 1]
    );
}

/// Processor time of the agent's thread, ns, of an app that makes 60 frames a second for so long, beside a follower of its
/// records.
fn agent_time_ns(ledger: &Value, seconds: u64) -> u64 {
    let mut device = Device::new(34);
    device.configure(document(ledger.clone()));
    device.install = json!({"version_code": 7});
    let script = format!("refresh 60 screen Feed frames {} 14", seconds * 60 + 600);
    let mut app = device.command(&script).spawn().unwrap();
    let tasks = PathBuf::from(format!("/proc/{}/task", app.id()));
    let sum = || -> u64 {
        let threads = std::fs::read_dir(&tasks).unwrap().flatten().map(|task| task.path());
        let agents = threads.filter(|task| {
            std::fs::read_to_string(task.join("comm"))
                .is_ok_and(|name| name.starts_with("tracetee"))
        });
        let times = |task: PathBuf| std::fs::read_to_string(task.join("schedstat")).unwrap();
        agents.map(|task| times(task).split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    std::thread::sleep(Duration::from_secs(3));
    let before = sum();
    std::thread::sleep(Duration::from_secs(seconds));
    let took = sum() - before;
    app.kill().unwrap();
    app.wait().unwrap();
    took
}

/// By hand, with a program that is compiled for speed: `TRACETEE_LEDGER_COST_S=60`.
#[test]
fn the_ledger_costs_at_most_a_thousandth_of_a_processor_beside_a_follower() {
    let seconds = std::env::var("TRACETEE_LEDGER_COST_S").map_or(4, |s| s.parse().unwrap());
    let percent = |ledger| agent_time_ns(&ledger, seconds) as f64 / (seconds as f64 * 1e7);
    let [off, on] = [json!({}), json!({"on": true})].map(percent);
    println!("the agent's threads: {off:.3} % of a processor, {on:.3} % with the ledger");
    // Ten times as much for code that is not optimized, beside other tests.
    assert!(on - off <= if seconds < 60 { 1.0 } else { 0.1 }, "{off} {on}");
}

#[test]
fn a_process_goes_on_with_the_part_of_the_one_before_and_closes_that_of_another_version() {
    let mut device = Device::new(34);
    device.configure(document(json!({"on": true})));
    for _ in 0..3 {
        device.run("frames 10 5 sleep 1500");
    }
    assert_eq!((files(&device, "ledger").len(), files(&device, "parts").len()), (1, 0));
    device.install = json!({"version_code": 8});
    device.run("frames 10 5 sleep 1500");
    assert_eq!((files(&device, "ledger").len(), files(&device, "parts").len()), (1, 1));
    assert_eq!(part(&spool(&device)).unwrap().sums.rows()[0].1.frames, 10);
    std::fs::remove_file(&files(&device, "ledger")[0]).unwrap();
    let closed = files(&device, "parts").remove(0);
    std::fs::rename(&closed, spool(&device).join("ledger/again")).unwrap();
    let first = part(&spool(&device)).unwrap();
    assert_eq!((first.version_code, first.sums.rows()[0].1.frames), (0, 30));
}

#[test]
fn nothing_is_counted_unless_the_configuration_says_so_and_the_user_consents() {
    let mut device = Device::new(34);
    for ledger in [json!({}), json!({"on": true, "sampling": {"percent": 0}})] {
        device.configure(document(ledger));
        device.run("frames 10 5 sleep 1500");
        assert_eq!(files(&device, "ledger").len(), 0);
    }
    // Without any window, and on a device that does not record.
    let counts = |kill: bool| {
        device.configure(json!({"seq": 2 + u32::from(kill), "ledger": {"on": true},
            "kill": {"on": kill}, "sampling": {"percent": 0}}));
        device.run("frames 10 5 sleep 2500");
        (files(&device, "ledger").len(), files(&device, "parts").len())
    };
    assert_eq!(counts(false), (1, 0));
    assert!(part(&spool(&device)).unwrap().sums.observed_s > 0);
    // A process that counts again gets the earlier counts.
    let before = part(&spool(&device));
    assert_eq!(counts(true), (1, 0));
    assert_eq!(part(&spool(&device)), before);
    device.install = json!({"consent": false});
    let again = document(json!({"on": true}));
    device.configure(json!({"seq": 4, "ledger": again["ledger"], "windows": again["windows"]}));
    device.run("frames 10 5 sleep 1500");
    assert_eq!((files(&device, "ledger").len(), files(&device, "parts").len()), (0, 0));
}

/// Kills an app that makes frames of 1 to 9 ms, and compares its ledger with what it had recorded into a crash-proof
/// recorder.
#[test]
fn a_kill_loses_at_most_a_second_and_leaves_no_wrong_sum() {
    let kills = std::env::var("TRACETEE_LEDGER_KILLS").map_or(24, |kills| kills.parse().unwrap());
    let mut device = Device::new(34);
    device.install = json!({"start_wait_ms": 10_000});
    let mut document = document(json!({"on": true}));
    document["windows"][0]["recorder"]["crash_proof"] = json!(true);
    document["crash_loop"] = json!({"within_s": 0});
    document["budget"] =
        json!({"captures_per_hour": 1000, "captures_per_day": 1000, "bytes_per_day": 1 << 30});
    device.configure(document);
    let script: String = (0..500).map(|frame| format!("frames 3 {} ", 1 + frame * 7 % 9)).collect();
    let (mut without, mut longest_us) = (0, 0);
    for kill in 0..kills {
        let mut app = device.command(&format!("refresh 200 {script}")).spawn().unwrap();
        // Any moment of a second, and more often the one at which the file is written.
        std::thread::sleep(Duration::from_micros(1_300_000 + kill * 104_729 % 1_100_000));
        app.kill().unwrap();
        app.wait().unwrap();
        let part = part(&spool(&device)).unwrap();
        std::fs::remove_file(&files(&device, "ledger")[0]).unwrap();
        // The next start brings the recorder's frames.
        std::fs::rename(device.config_file(), device.root.path().join("kept")).unwrap();
        for _ in 0..60 {
            if device.captures().is_empty() {
                device.run("sleep 300");
            }
        }
        std::fs::rename(device.root.path().join("kept"), device.config_file()).unwrap();
        for file in files(&device, "ledger") {
            std::fs::remove_file(file).unwrap();
        }
        let capture = device.capture();
        let frames = ended_frames(&capture);
        std::fs::remove_file(capture).unwrap();
        let counted =
            part.sums.rows().first().map_or(0, |(_, row)| usize::try_from(row.frames).unwrap());
        assert!(counted <= frames.len(), "{counted} of {}", frames.len());
        // The part has the first frames.
        let late: Vec<u64> =
            frames[..counted].iter().map(|frame| frame.1).filter(|us| *us > 5_000).collect();
        let row = part.sums.rows().first().map(|(_, row)| row.clone()).unwrap_or_default();
        let borderline =
            frames[..counted].iter().filter(|frame| frame.1.abs_diff(5_000) <= 1).count();
        assert!(row.late.abs_diff(late.len() as u64) <= borderline as u64, "{row:?} {late:?}");
        let sum: u64 = late.iter().map(|us| us - 5_000).sum();
        assert!(row.overrun_us.sum().abs_diff(sum) <= 2 * row.late + borderline as u64, "{row:?}");
        if let Some(last) = frames.last() {
            let first_lost_us = frames.get(counted).map_or(last.0, |frame| frame.0);
            longest_us = longest_us.max(last.0 - first_lost_us);
        }
        without += u64::from(counted == 0);
    }
    println!("{kills} kills: at most {} ms lost, {without} without any frame", longest_us / 1000);
    // A second, and what a machine that others load adds.
    assert!(longest_us <= 1_300_000, "{longest_us}");
}

/// The main thread's frames of a trace whose end is cut: end and duration, µs.
fn ended_frames(capture: &Path) -> Vec<(u64, u64)> {
    let (mut open, mut frames) = (Vec::new(), Vec::new());
    for line in tracetee_tests::trace::records(capture) {
        if line.name != "script" {
            continue;
        }
        if let Some(name) = line.payload.strip_prefix("B|") {
            open.push((name.contains("Choreographer#doFrame"), line.time_us));
        } else if line.payload.starts_with('E')
            && let Some((true, begin_us)) = open.pop()
        {
            frames.push((line.time_us, line.time_us - begin_us));
        }
    }
    frames
}
