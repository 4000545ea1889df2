//! A process that is killed at any moment leaves a trace of all that it had recorded.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, numbered, preloaded, stderr, trace};

const THREADS: usize = 4;

struct Setup {
    directory: TempDir,
    program: PathBuf,
    agent: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), 34, &[]);
        let program = fixture(directory.path(), "recorder", &[]);
        let agent = library(directory.path());
        std::fs::create_dir(directory.path().join("pools")).unwrap();
        Self { directory, program, agent }
    }

    /// The same, with a fixture that calls the agent.
    fn with_agent() -> Self {
        let mut setup = Self::new();
        let include = format!("-I{}", setup.directory.path().display());
        let options = ["-DWITH_AGENT", &include, setup.agent.to_str().unwrap()];
        setup.program = fixture(setup.directory.path(), "recorder", &options);
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, recorder: &serde_json::Value) -> Command {
        let mut recorder = recorder.clone();
        recorder["directory"] = json!(self.path("pools"));
        preloaded(&self.program, &self.agent, &json!({ "recorder": recorder }))
    }

    /// The next start: recovers what is in the directory, and waits until it is done.
    fn next_start(&self) -> Vec<PathBuf> {
        let recorder = json!({"recover_to": self.path("recovered")});
        // The process has to live until its background thread is done.
        let mut command = self.command(&recorder);
        let page = self.path("page-of-the-next");
        let _ = std::fs::remove_file(&page);
        let mut child =
            command.args(["publish".as_ref(), page.as_os_str(), "1".as_ref()]).spawn().unwrap();
        let started = Instant::now();
        wait_for_records(&page);
        while self.pools().len() > 1 && started.elapsed() < Duration::from_secs(600) {
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for left in self.pools() {
            std::fs::remove_file(left).unwrap();
        }
        files(&self.path("recovered"))
    }

    fn pools(&self) -> Vec<PathBuf> {
        let mut pools = files(&self.path("pools"));
        pools.retain(|path| path.extension().unwrap() == "pool");
        pools
    }
}

/// Waits until the writer with that page has started.
fn wait_for_records(page: &Path) {
    while published(page)[0] == 0 {
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Reads the last number that each thread had published, by index.
fn published(page: &Path) -> Vec<u64> {
    let bytes = std::fs::read(page).unwrap_or_default();
    (0..THREADS)
        .map(|thread| {
            bytes
                .get(thread * 64..thread * 64 + 8)
                .map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
        })
        .collect()
}

/// Runs the writer `runs` times, each killed at another moment, then recovers all at the next
/// start. Returns what each process had published, and the trace that was recovered of it.
fn traces(
    setup: &Setup,
    recorder: &Value,
    mode: &str,
    runs: u64,
) -> Vec<(Vec<u64>, Option<PathBuf>)> {
    let mut pages = BTreeMap::new();
    for run in 0..runs {
        let page = setup.path(&format!("page-{run}"));
        let mut command = setup.command(recorder);
        command.arg(mode).arg(&page).arg(THREADS.to_string());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        // From before the first instruction on; most when there are records.
        if !run.is_multiple_of(4) {
            wait_for_records(&page);
        }
        std::thread::sleep(Duration::from_micros(run * run % 5_000));
        child.kill().unwrap();
        child.wait().unwrap();
        pages.insert(child.id(), page);
    }
    assert_eq!(pages.len() as u64, runs, "process ids came twice");
    let mut traces: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for path in setup.next_start() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let pid = name.strip_prefix("recovered-").unwrap().split('-').next().unwrap();
        traces.insert(pid.parse().unwrap(), path.clone());
    }
    pages.into_iter().map(|(pid, page)| (published(&page), traces.remove(&pid))).collect()
}

/// The same with numbered records: what was recovered, by thread.
fn killed(setup: &Setup, recorder: &Value, runs: u64) -> Vec<(Vec<u64>, Vec<Vec<u64>>)> {
    let numbers = |path: PathBuf| numbered::by_thread(&path).into_values().collect();
    let traces = traces(setup, recorder, "publish", runs).into_iter();
    traces.map(|(published, path)| (published, path.map(numbers).unwrap_or_default())).collect()
}

/// Reads the numbers of a trace's samples of callstacks, and counts the frames whose function is not in it. Panics at a sample
/// that the fixture cannot have written.
fn samples(path: &Path) -> (Vec<u64>, u64) {
    let (mut functions, mut args) = (HashMap::new(), Value::Null);
    let (mut numbers, mut unnamed) = (Vec::new(), 0);
    for line in trace::text(path).lines() {
        if let Some(details) = line.strip_prefix("#@ ") {
            args = serde_json::from_str::<Value>(details).unwrap()["args"].take();
        } else if line.ends_with("|tracetee: stack names") {
            let named = args.as_object().unwrap();
            assert_eq!(named.len(), 16, "torn: {args}");
            for (code, function) in named {
                assert_eq!(function.as_str(), Some(&*format!("com.app.{code}.run")), "torn");
                functions.insert(code.clone(), function.clone());
            }
        } else if line.ends_with("|tracetee: stack") {
            let number = args["for_us"].as_u64().unwrap();
            let code = |position: u64| {
                let code = u32::try_from((number / 7 * 5 + position) % 676).unwrap();
                let letter = |n: u32| char::from_u32(u32::from('a') + n).unwrap();
                format!("{}{}", letter(code / 26), letter(code % 26))
            };
            let codes: Vec<_> = (0..=number % 16).map(code).collect();
            assert_eq!(args["stack"].as_str(), Some(&*codes.join(" ")), "torn: {args}");
            unnamed += codes.iter().filter(|code| !functions.contains_key(*code)).count() as u64;
            numbers.push(number);
        }
    }
    (numbers, unnamed)
}

/// Reads the numbers of a trace's verdicts about frames. Panics at one that the fixture cannot have written.
fn verdicts(path: &Path) -> Vec<u64> {
    let (mut details, mut numbers) = (Value::Null, Vec::new());
    for line in trace::text(path).lines() {
        if let Some(json) = line.strip_prefix("#@ ") {
            details = serde_json::from_str(json).unwrap();
        } else if line.ends_with("|frame verdict") {
            let frame = details["args"]["frame"].as_str().unwrap();
            let number = frame["vsync=".len()..].split(' ').next().unwrap().parse::<u64>().unwrap();
            let (ns, total_ns) = (number * 16_666_667, number % 9973 + 1);
            let rest = usize::try_from(number % 12).unwrap();
            let rest = &" gpu_ns=1234"[..rest];
            let whole = format!(
                "vsync={number} intended_ns={ns} mono_ns={} total_ns={total_ns}{rest}",
                ns + 5
            );
            let source = ["jank_data", "frame_metrics", "vsync", "undrawn"][(number % 4) as usize];
            let expected =
                json!({"args": {"source": source, "frame": whole}, "cat": "tracetee.frame"});
            assert_eq!(details, expected, "torn");
            numbers.push(number);
        }
    }
    numbers
}

#[test]
fn a_hundred_kills_while_verdicts_are_recorded_leave_all_that_were_published() {
    let setup = Setup::with_agent();
    let recorder = json!({"capacity_kb": 262_144, "block_kb": 8});
    let mut with_verdicts = 0;
    for (published, path) in traces(&setup, &recorder, "verdicts", 100) {
        let numbers = path.map(|path| verdicts(&path)).unwrap_or_default();
        let got = numbers.len() as u64;
        assert!(numbers.iter().copied().eq(0..got), "no prefix");
        assert!(got == published[0] || got == published[0] + 1, "{got} of {published:?}");
        with_verdicts += u64::from(got > 0);
    }
    assert!(with_verdicts > 50, "{with_verdicts} processes recorded any");
}

#[test]
fn two_hundred_kills_while_callstacks_are_sampled_leave_all_that_were_published() {
    let setup = Setup::with_agent();
    let recorder = json!({"capacity_kb": 262_144, "block_kb": 8});
    let mut with_samples = 0;
    for (published, path) in traces(&setup, &recorder, "stacks", 200) {
        let (numbers, unnamed) = path.map(|path| samples(&path)).unwrap_or_default();
        let got = numbers.len() as u64;
        assert!(numbers.iter().copied().eq(0..got), "no prefix");
        assert!(got == published[0] || got == published[0] + 1, "{got} of {published:?}");
        assert_eq!(unnamed, 0);
        with_samples += u64::from(got > 0);
    }
    assert!(with_samples > 100, "{with_samples} processes sampled anything");
}

#[test]
fn fifty_kills_of_a_flight_recorder_leave_the_last_callstacks_with_the_names_of_their_rows() {
    let setup = Setup::with_agent();
    let recorder = json!({"mode": "ring", "capacity_kb": 64, "block_kb": 8});
    let mut lapped = 0;
    for (published, path) in traces(&setup, &recorder, "stacks", 50) {
        let Some(path) = path else { continue };
        let (numbers, unnamed) = samples(&path);
        let Some(last) = numbers.last() else { continue };
        assert!(numbered::is_contiguous(&numbers), "a gap");
        assert!(last + 1 == published[0] || *last == published[0], "{last} of {published:?}");
        lapped += u64::from(numbers[0] > 0);
        // Only the row at which the recording begins may lack its names.
        assert!(unnamed <= 6 * 16, "{unnamed} frames without a name");
    }
    // How many depends on the speed of the machine.
    assert!(lapped > 0, "no ring was lapped");
}

#[test]
fn five_hundred_kills_leave_a_prefix_of_every_thread_with_all_that_was_published() {
    let setup = Setup::new();
    let recorder = json!({"capacity_kb": 262_144, "block_kb": 8});
    let mut with_records = 0;
    for (published, mut recovered) in killed(&setup, &recorder, 500) {
        // The threads of the trace are not told apart by their place: the longest goes with the
        // one that published most, as none is more than a record ahead of its page.
        let mut published = published;
        published.sort_unstable();
        recovered.sort_by_key(Vec::len);
        recovered.splice(0..0, vec![Vec::new(); THREADS - recovered.len()]);
        for (published, numbers) in published.into_iter().zip(recovered) {
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "no prefix");
            let got = numbers.len() as u64;
            assert!(got == published || got == published + 1, "{got} of {published}");
            with_records += u64::from(got > 0);
        }
    }
    assert!(with_records > 400, "{with_records} threads recorded anything");
}

#[test]
fn a_hundred_kills_of_a_flight_recorder_leave_the_last_records_of_every_thread() {
    let setup = Setup::new();
    let recorder = json!({"mode": "ring", "capacity_kb": 256, "block_kb": 8});
    let mut lapped = 0;
    for (published, recovered) in killed(&setup, &recorder, 100) {
        for numbers in &recovered {
            assert!(numbered::is_contiguous(numbers), "{} numbers with a gap", numbers.len());
            lapped += u64::from(numbers[0] > 0);
            let last = numbers.last().unwrap() + 1;
            assert!(
                published.iter().any(|&count| last == count || last == count + 1),
                "{last} of {published:?}"
            );
        }
    }
    assert!(lapped > 50, "{lapped} rings were lapped");
}

#[test]
fn an_abort_and_a_segfault_leave_their_traces_marked_as_recovered_with_the_threads_name() {
    let setup = Setup::new();
    for how in ["abort", "segv"] {
        let output = setup.command(&json!({})).args(["crash", how, "1000"]).output().unwrap();
        assert!(!output.status.success());
        let recovered = setup.next_start();
        let [path] = &recovered[..] else { panic!("{recovered:?}") };
        let lines = trace::read(path);
        assert!(lines.iter().any(|line| line.payload.ends_with("|tracetee: recovered")), "{how}");
        let records = trace::records(path);
        assert_eq!(records.len(), 1000);
        assert!(records.iter().all(|line| line.name == "doomed"), "{:?}", records[0]);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn files_that_cannot_be_trusted_are_set_aside_and_harm_nothing() {
    let setup = Setup::new();
    let output = setup.command(&json!({})).args(["crash", "abort", "1000"]).output().unwrap();
    assert!(!output.status.success());
    let [pool] = &setup.pools()[..] else { panic!() };
    let good = std::fs::read(pool).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(setup.path("pools").join(name), bytes).unwrap();
    };
    write("1-empty.pool", b"");
    write("2-short.pool", &good[..good.len().min(5000)]);
    write("3-other.pool", &vec![b'x'; 300_000]);
    let mut version = good.clone();
    version[8] = 99;
    write("4-version.pool", &version);
    // Cut in the blocks, and blocks full of nonsense: what can be read is.
    write("5-cut.pool", &good[..278_528 + 8192]);
    let mut nonsense = good.clone();
    for (index, byte) in nonsense[278_528 + 2048..].iter_mut().enumerate() {
        *byte = u8::try_from(index * 31 % 251).unwrap();
    }
    write("6-nonsense.pool", &nonsense);

    let recovered = setup.next_start();
    let mut aside: Vec<_> = files(&setup.path("pools"))
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    aside.sort();
    let expected: Vec<_> = ["1-empty", "2-short", "3-other", "4-version"]
        .iter()
        .map(|name| format!("{name}.pool.damaged"))
        .collect();
    assert_eq!(aside, expected);
    // All three come from one process, and so have one name; the last one stays.
    assert_eq!(recovered.len(), 1, "{recovered:?}");
    assert!(!trace::read(&recovered[0]).is_empty());
}

#[test]
fn a_streamed_trace_that_was_cut_by_a_kill_goes_on_where_it_stopped() {
    let setup = Setup::new();
    for run in 0..20u64 {
        let page = setup.path(&format!("page-{run}"));
        let output = setup.path("streamed.ftrace.zst");
        let config = json!({
            "output": output,
            "recorder": {
                "mode": "endless", "capacity_kb": 4096, "block_kb": 8,
                "directory": setup.path("pools"), "drain_cpu_percent": 100,
            },
        });
        let mut command = preloaded(&setup.program, &setup.agent, &config);
        // So slow that the recorder, which holds 60,000, is never full, and some rounds are made.
        let mut child = command.arg("publish").arg(&page).args(["1", "1000"]).spawn().unwrap();
        wait_for_records(&page);
        std::thread::sleep(Duration::from_millis(run * 67 % 700));
        child.kill().unwrap();
        child.wait().unwrap();
        setup.next_start();
        let threads = numbered::by_thread(&output);
        let [numbers] = &threads.into_values().collect::<Vec<_>>()[..] else { panic!("threads") };
        let published = published(&page)[0];
        let count = numbers.len() as u64;
        assert!(numbers.iter().copied().eq(0..count), "lost or doubled in {count}");
        assert!(count == published || count == published + 1, "{count} of {published}");
        std::fs::remove_file(&output).unwrap();
    }
}

#[test]
fn a_recorder_of_a_living_process_is_left_alone() {
    let setup = Setup::new();
    let page = setup.path("page-living");
    let mut living = setup.command(&json!({}));
    let mut living = living.arg("publish").arg(&page).arg("1").spawn().unwrap();
    while published(&page)[0] < 100 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let recorder = json!({"recover_to": setup.path("recovered")});
    let other = setup.command(&recorder).args(["churn", "1", "1"]).output().unwrap();
    assert!(other.status.success(), "{}", stderr(&other));
    assert!(!setup.pools().is_empty());
    assert_eq!(files(&setup.path("recovered")).len(), 0);
    living.kill().unwrap();
    living.wait().unwrap();
}
