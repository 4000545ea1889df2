//! The recorder's modes, threads that come and go, names, filters: as a user of the library sees
//! them.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tracetee_tests::{Tracefs, fixture, libcutils, library, numbered, preloaded, stderr, trace};

struct Setup {
    directory: TempDir,
    agent: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), 34, &[]);
        let agent = library(directory.path());
        Self { directory, agent }
    }

    /// Runs the fixture with the agent preloaded; the trace that it leaves.
    fn run(&self, config: Value, arguments: &[&str]) -> PathBuf {
        let program = fixture(self.directory.path(), "recorder", &[]);
        self.run_program(&program, config, arguments)
    }

    /// The fixture, linked with the agent.
    fn with_agent(&self) -> PathBuf {
        let include = format!("-I{}", self.directory.path().display());
        let options = ["-DWITH_AGENT", &include, self.agent.to_str().unwrap()];
        fixture(self.directory.path(), "recorder", &options)
    }

    fn run_program(&self, program: &Path, mut config: Value, arguments: &[&str]) -> PathBuf {
        let output = self.directory.path().join("out.ftrace");
        config["output"] = json!(output);
        let result = preloaded(program, &self.agent, &config).args(arguments).output().unwrap();
        assert!(result.status.success() && stderr(&result).is_empty(), "{}", stderr(&result));
        output
    }
}

#[test]
fn a_ring_keeps_the_last_records_whatever_came_before() {
    let setup = Setup::new();
    let config = json!({"recorder": {"mode": "ring", "capacity_kb": 64, "block_kb": 8}});
    let trace = setup.run(config, &["churn", "1", "200000"]);
    let threads = numbered::by_thread(&trace);
    let numbers = threads.values().next().unwrap();
    assert!(numbered::is_contiguous(numbers));
    assert_eq!(*numbers.last().unwrap(), 199_999);
    // Seven whole blocks at least, of records of 32 to 80 bytes.
    assert!(numbers.len() > 7 * 8000 / 80 && numbers.len() < 65_536 / 24, "{}", numbers.len());
}

#[test]
fn thousands_of_short_threads_share_blocks_and_keep_their_names() {
    let setup = Setup::new();
    for mode in ["startup", "ring"] {
        // 3,000 threads with ten records each: a block each would take 24 MB.
        let config = json!({"recorder": {"mode": mode, "capacity_kb": 4096, "block_kb": 8}});
        let trace = setup.run(config, &["churn", "3000", "10"]);
        let lines = trace::records(&trace);
        assert_eq!(lines.len(), 30_000, "{mode}");
        for line in &lines {
            assert_eq!(line.name, format!("short-{}", line.tid % 1000), "{mode}");
        }
    }
}

#[test]
fn a_new_name_shows_from_then_on() {
    let setup = Setup::new();
    let trace = setup.run(json!({}), &["rename"]);
    let lines = trace::records(&trace);
    let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "third", "fourth"]);
    for line in &lines {
        assert!(line.payload.ends_with(&format!("as {}", line.name)), "{line:?}");
    }
}

#[test]
fn blocks_of_idle_threads_are_taken_over_and_the_threads_go_on_in_others() {
    let setup = Setup::new();
    // 32 blocks, 25 held by threads that wait.
    let config = json!({"recorder": {"mode": "ring", "capacity_kb": 256, "block_kb": 8}});
    let trace = setup.run(config, &["idle", "25", "20000"]);
    let lines = trace::records(&trace);
    let awake = lines.iter().filter(|line| line.payload.ends_with("|awake")).count();
    // As each takes a block again, the last may take the first's in a ring this small.
    assert!(awake >= 15, "{awake} of {} lines", lines.len());
    let last = lines.iter().rfind(|line| !line.payload.ends_with('e')).unwrap();
    assert!(last.payload.contains("|19999 "), "{last:?}");
    // More than the one block that was left to it.
    let of_writer = lines.iter().filter(|line| line.tid == line.tgid).count();
    assert!(of_writer > 150, "{of_writer}");
}

#[test]
fn an_endless_capture_streams_many_times_what_the_recorder_holds() {
    let setup = Setup::new();
    let config = json!({"recorder": {
        "mode": "endless", "capacity_kb": 1024, "block_kb": 8, "drain_cpu_percent": 100,
    }});
    // 100 threads, 1,000 records each: 6 MB, through a recorder that holds 17,000.
    let trace = setup.run(config, &["paced", "100", "1000"]);
    let threads = numbered::by_thread(&trace);
    for numbers in threads.values() {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1] || pair[1] == 0));
    }
    let total: usize = threads.values().map(Vec::len).sum();
    // All of them, unless the machine has no time for the streaming thread.
    println!("{total} of 100,000 were streamed");
    assert!(total > 60_000, "{total}");
    assert!(
        !std::fs::read_dir(setup.directory.path())
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().ends_with(".part") })
    );
}

#[test]
fn in_mode_systrace_the_records_go_to_the_kernel_and_nowhere_else() {
    let Some(tracefs) = Tracefs::open() else { return };
    let setup = Setup::new();
    let program = fixture(setup.directory.path(), "writer", &[]);
    let config = json!({"recorder": {"mode": "systrace"}});
    tracefs.start(1024);
    // It writes only where the tag is on: nobody else has set it.
    let result = preloaded(&program, &setup.agent, &config)
        .env("ATRACE_MARKER", tracefs.marker())
        .args(["1", "100"])
        .output()
        .unwrap();
    let kernel = trace::parse_kernel(&tracefs.stop());
    assert!(result.status.success(), "{}", stderr(&result));
    assert_eq!(kernel.len(), 100);
    assert!(!setup.directory.path().join("out.ftrace").exists());
}

#[test]
fn dumps_of_a_running_flight_recorder_are_whole_and_hold_up_nobody() {
    let setup = Setup::new();
    let program = setup.with_agent();
    let dumps = setup.directory.path().join("dumps");
    std::fs::create_dir(&dumps).unwrap();
    let status = std::process::Command::new(program)
        .env("ATRACE_MARKER", "none")
        .args(["snapshots".as_ref(), dumps.as_os_str(), "200".as_ref()])
        .status();
    assert!(status.unwrap().success());
    let (mut last, mut with_records, mut whole) = (0, 0, 0);
    for number in 0..200 {
        let threads = numbered::by_thread(&dumps.join(format!("{number}.ftrace")));
        for numbers in threads.values() {
            // A dump that is interrupted for long is overtaken by the writers, and says where.
            whole += usize::from(numbered::is_contiguous(numbers));
            assert!(numbers.is_sorted());
            with_records += 1;
        }
        let newest = threads.values().filter_map(|numbers| numbers.last()).max();
        last = *newest.unwrap_or(&last);
    }
    // Both writers have begun before the first dump.
    assert!(with_records >= 200 && last > 10_000, "{with_records}, {last}");
    assert!(whole > with_records / 2, "{whole} of {with_records} have no gap");
}

#[test]
fn a_process_that_forbids_reading_the_clock_goes_on_and_keeps_what_was_recorded() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let setup = Setup::new();
    let trace = setup.run(json!({}), &["notsc"]);
    let threads = numbered::by_thread(&trace);
    assert_eq!(threads.into_values().collect::<Vec<_>>(), [(0..10).collect::<Vec<_>>()]);
}

#[test]
fn lost_records_are_counted_exactly_for_each_thread() {
    let setup = Setup::new();
    let program = setup.with_agent();
    for (mode, loss) in [("ring", "overwritten"), ("startup", "dropped")] {
        let output = std::process::Command::new(&program)
            .env("ATRACE_MARKER", "none")
            .args(["counted", mode, "30000"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let health: Value = serde_json::from_slice(&output.stdout).unwrap();
        let threads = health["summary"]["threads"].as_array().unwrap();
        assert_eq!(threads.len(), 4, "{mode}: {threads:?}");
        for thread in threads {
            let count = |field: &str| thread[field].as_u64().unwrap_or(0);
            assert_eq!(count("records") + count(loss), 30_000, "{mode}: {thread}");
            assert!(count(loss) > 10_000, "{mode}: {thread}");
            assert!(thread["name"].as_str().unwrap().starts_with("short-"), "{thread}");
        }
    }
}

#[test]
fn short_sections_and_other_threads_are_left_out_when_asked_for() {
    let setup = Setup::new();
    let count = |text: Value| {
        let trace = setup.run(json!({ "text": text }), &["short"]);
        let mut lines = trace::records(&trace);
        lines.retain(|line| !line.payload.ends_with("|passer-by"));
        let count = |name: &str| lines.iter().filter(|line| line.payload.ends_with(name)).count();
        (count("|long"), count("|short"), count("|inside"), lines.len())
    };
    assert_eq!(count(json!({})), (20, 20, 20, 100));
    let all = json!({"min_slice_us": {"main": 50_000, "other": 50_000}});
    assert_eq!(count(all), (20, 0, 20, 60));
    assert_eq!(count(json!({"min_slice_us": {"other": 50_000}})), (20, 10, 20, 80));
    assert_eq!(count(json!({"main_thread_only": true})), (10, 10, 10, 50));
}
