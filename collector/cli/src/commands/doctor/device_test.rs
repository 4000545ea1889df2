//! `tracetee device-test`: checks that the agent works on a device. Installs the sample app of a release there, has it do
//! each scenario, and compares what comes to a collector on this machine with what the app did. A scenario that the
//! device cannot show is not covered; it never counts as passed.

use super::adb;
use super::app::Visit;
use crate::args::DeviceTestArgs;
use crate::terminal::{note, print};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tracetee_protocol::{HealthReport, control_socket};
use tracetee_server::{Options, Server};
use tracetee_trace::shown;

/// The sample app, and the receiver in it.
const PACKAGE: &str = "dev.tracetee.sample";
/// Sections that the app writes, and the end of their records.
const MARKERS: u32 = 5000;
const SECTION: &str = "|device-test";
/// Number of runs of each kind over which the cost is measured.
const ROUNDS: u32 = 2;
/// Time limit of the installation: the device may compile the app.
const INSTALL_TIME: Duration = Duration::from_secs(300);
/// Seconds for a state or a capture to come.
const PATIENCE_S: u32 = 30;
/// Life of a process after which its end is not a crash to the agent, which two crashes in a row would switch off.
const LIFE: Duration = Duration::from_secs(2);
/// Time after which the capture of a start has ended.
const START_TIME: Duration = Duration::from_secs(5);
/// The configuration of the test; its `seq` is above that of the app's own one.
const CONFIGURATION: &str = r#"{"schema": 1, "seq": 100, "crash_loop": {"within_s": 1}, "budget": {"captures_per_hour": 1000, "captures_per_day": 1000},
 "upload": {"network": "any", "metered_bytes_per_day": 100000000},
 "windows": [{"id": "start", "opens": "app_start", "max_s": 3, "cool_down_s": 0},
   {"id": "test", "opens": "manual", "max_s": 3600, "cool_down_s": 0,
    "recorder": {"mode": "ring", "crash_proof": true, "capacity_kb": 16384}}]}"#;

/// Result of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Passed,
    Failed,
    Measured,
    NotCovered,
}

/// A row of the table.
#[derive(Debug, Serialize)]
struct Row {
    scenario: &'static str,
    outcome: Outcome,
    detail: String,
}

type Found = Result<(Outcome, String)>;
type Scenario<'a> = fn(&mut Test<'a>) -> Found;

/// Tests a device; the exit status is 1 unless each scenario has passed or was measured.
pub(crate) fn device_test(args: &DeviceTestArgs) -> Result<ExitCode> {
    let mut visit = Visit::new(PACKAGE);
    visit.device()?;
    ensure!(args.apk.is_file(), "--apk {}: no such file", args.apk.display());
    let directory = tempfile::tempdir()?;
    let (config, store) = (directory.path().join("remote.json"), directory.path().join("store"));
    std::fs::write(&config, CONFIGURATION)?;
    let options = Options { config: Some(config), ..Options::local(&store) };
    let collector = Server::start(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), options)?;
    let mut test = Test { args, collector, visit, measured: json!({}), may_end: Instant::now() };
    let scenarios: [(_, Scenario<'_>); 9] = [
        ("install", Test::install),
        ("doctor", Test::doctor),
        ("windows", Test::windows),
        ("markers", Test::markers),
        ("late libraries", Test::late_libraries),
        ("kill and recovery", Test::kill),
        ("uploads", Test::uploads),
        ("overhead", Test::overhead),
        ("start", Test::start_times),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (scenario, run) in scenarios {
        note(&format!("{scenario} …"));
        let found = match rows.first() {
            Some(Row { outcome: Outcome::Failed, .. }) => {
                Ok((Outcome::NotCovered, "the app does not run".to_owned()))
            }
            _ => run(&mut test),
        };
        let (outcome, detail) =
            found.unwrap_or_else(|error| (Outcome::Failed, format!("{error:#}")));
        rows.push(Row { scenario, outcome, detail });
    }
    let port = test.port();
    let _ = adb::run(&["reverse", "--remove", &format!("tcp:{port}")]);
    let _ = adb::run(&["uninstall", PACKAGE]);
    let mut text = String::new();
    for Row { scenario, outcome, detail } in &rows {
        let outcome = match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Measured => "measured",
            Outcome::NotCovered => "not covered",
        };
        text += &format!("{outcome:<12} {scenario:<18} {}\n", shown(detail));
    }
    print(&text);
    let report: Option<Value> =
        test.visit.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok());
    let file = json!({"version": env!("CARGO_PKG_VERSION"), "scenarios": rows, "measured": test.measured,
        "found": test.visit.lines, "missing": test.visit.missing, "health": report});
    std::fs::write(&args.output, serde_json::to_string_pretty(&file)? + "\n")
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    print(&format!("\n{} has all of it, without captures\n", args.output.display()));
    test.collector.stop();
    let is_shown = |row: &Row| matches!(row.outcome, Outcome::Passed | Outcome::Measured);
    Ok(if rows.iter().all(is_shown) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Test<'a> {
    args: &'a DeviceTestArgs,
    collector: Server,
    visit: Visit<'a>,
    /// Numbers behind the rows.
    measured: Value,
    /// Time from which the app's process may be ended.
    may_end: Instant,
}

impl Test<'_> {
    fn port(&self) -> u16 {
        self.collector.address.port()
    }

    // ---- the app ----

    /// Has the app run a command. Returns its answer.
    fn tell(&self, run: &str, number: u32) -> Result<String> {
        // To the foreground's queue, and to an app that was stopped.
        let said = adb::shell(&format!(
            "am broadcast -f 0x10000020 -n {PACKAGE}/.DeviceTest --es run {run} --ei n {number}"
        ))?;
        let answer = said.split_once("data=\"").and_then(|(_, data)| data.rsplit_once('"'));
        let (answer, _) = answer.with_context(|| format!("no answer to {run}: {}", said.trim()))?;
        Ok(answer.to_owned())
    }

    /// Has the app run a command that it must be able to.
    fn must(&self, run: &str, number: u32) -> Result<()> {
        let answer = self.tell(run, number)?;
        ensure!(answer == "ok", "{run}: {answer}");
        Ok(())
    }

    /// Restarts the app, with the agent or without it. Returns the ms until its first frame.
    fn start(&mut self, has_agent: bool) -> Result<u32> {
        self.must("port", if has_agent { self.port().into() } else { 0 })?;
        let ms = self.start_again()?;
        if !has_agent {
            self.may_end = Instant::now();
        }
        Ok(ms)
    }

    fn start_again(&mut self) -> Result<u32> {
        sleep(self.may_end.saturating_duration_since(Instant::now()));
        let said = adb::shell(&format!("am start -S -W -n {PACKAGE}/.JankActivity"))?;
        self.may_end = Instant::now() + LIFE;
        let mut lines = said.lines();
        let time = lines.find_map(|line| line.trim().strip_prefix("TotalTime:"));
        let time =
            time.filter(|_| said.contains("Status: ok")).and_then(|ms| ms.trim().parse().ok());
        time.with_context(|| format!("the app does not start: {}", said.trim()))
    }

    fn health(&self) -> Result<HealthReport> {
        Ok(control_socket::read_health(self.tell("health", 0)?.as_bytes())?)
    }

    /// Opens the manual window, after the capture of the start has ended.
    fn open(&self) -> Result<()> {
        for _ in 0..PATIENCE_S {
            if !self.health()?.recording {
                return self.must("open", 0);
            }
            sleep(Duration::from_secs(1));
        }
        bail!("the capture of the start does not end");
    }

    /// Waits for the text of a window's capture that comes after the first `known` ones.
    fn text_of(&self, window: &str, known: usize) -> Result<String> {
        let mut said = String::new();
        for _ in 0..PATIENCE_S {
            said = self.tell("upload", 0)?;
            let captures = self.collector.captures();
            let mut later = captures.iter().skip(known);
            if let Some(found) = later.find(|one| one.meta.window.as_deref() == Some(window)) {
                let text = zstd::stream::decode_all(std::fs::File::open(&found.path)?)?;
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            sleep(Duration::from_secs(1));
        }
        bail!("no capture of the window {window} came: {said}");
    }

    // ---- the scenarios ----

    fn install(&mut self) -> Found {
        let apk = self.args.apk.to_str().context("--apk: not UTF-8")?;
        // One with another key could not be updated.
        let _ = adb::run(&["uninstall", PACKAGE]);
        let installed = adb::run_within(&["install", apk], INSTALL_TIME)?;
        let said = format!("{}\n{}", installed.text, installed.complaint());
        let last = said.trim().lines().last().unwrap_or_default();
        ensure!(installed.text.contains("Success"), "adb install: {last}");
        let port = format!("tcp:{}", self.port());
        let reversed = adb::run(&["reverse", &port, &port])?;
        ensure!(reversed.is_ok, "adb reverse {port}: {}", reversed.complaint());
        self.start_again()?;
        self.start(true)?;
        // The first start fetches the configuration, the second one has it.
        let said = self.tell("upload", 0)?;
        self.start(true)?;
        let control = self.health()?.control.context("the agent is not installed")?;
        ensure!(control.config.is_some(), "no configuration came: {said}");
        passed("the app runs, with the configuration of this machine's collector")
    }

    fn doctor(&mut self) -> Found {
        self.visit = Visit::new(PACKAGE);
        self.visit.run()?;
        ensure!(self.visit.missing.is_empty(), "{}", self.visit.missing.join("; "));
        passed("nothing is missing, and the agent answers on its socket")
    }

    fn windows(&mut self) -> Found {
        let known = self.collector.captures().len();
        self.start(true)?;
        sleep(START_TIME);
        let text = self.text_of("start", known)?;
        let [_, others] = count(&text);
        ensure!(others > 0, "the capture of a start has no section of the platform");
        passed(format!("the capture of a start has {others} sections of the platform"))
    }

    fn markers(&mut self) -> Found {
        let known = self.collector.captures().len();
        self.open()?;
        self.must("markers", MARKERS)?;
        self.must("close", 0)?;
        all_sections(&self.text_of("test", known)?)
    }

    fn late_libraries(&mut self) -> Found {
        let known = self.collector.captures().len();
        self.open()?;
        let before = self.health()?.health.libraries;
        let before: BTreeSet<String> = before.into_iter().map(|library| library.path).collect();
        let loaded = self.tell("late", 0)?;
        // Android 7 learns of them within a quarter of a second.
        sleep(Duration::from_secs(1));
        let mut later = self.health()?.health.libraries;
        self.must("close", 0)?;
        // The next capture of the window is that of the next scenario.
        self.text_of("test", known)?;
        let knows = |name: &&str| {
            let file = format!("/lib{name}.so");
            later.iter().any(|library| library.path.ends_with(&file))
        };
        let unknown: Vec<&str> = loaded.split(' ').filter(|name| !knows(name)).collect();
        ensure!(
            loaded.is_empty() || unknown.is_empty(),
            "unknown to the agent: {}",
            unknown.join(", ")
        );
        later.retain(|library| !before.contains(&library.path));
        let with_slots = later.iter().filter(|library| library.slots > 0).count();
        let text =
            format!("libraries that came later: {}, with hooked slots: {with_slots}", later.len());
        Ok((if with_slots > 0 { Outcome::Passed } else { Outcome::NotCovered }, text))
    }

    fn kill(&mut self) -> Found {
        let known = self.collector.captures().len();
        self.open()?;
        self.must("markers", MARKERS)?;
        sleep(self.may_end.saturating_duration_since(Instant::now()));
        // A process that kills itself cannot answer.
        let _ = self.tell("kill", 0);
        self.start_again()?;
        all_sections(&self.text_of("recovered", known)?)
    }

    fn uploads(&mut self) -> Found {
        let said = self.tell("upload", 0)?;
        let upload = self.health()?.control.context("no agent")?.upload;
        let came = self.collector.captures().len();
        let lost: u64 = upload.lost.values().sum();
        let text = format!("{came} captures came, {} wait, {lost} were lost", upload.waiting);
        ensure!(came > 0 && upload.waiting == 0 && upload.lost.is_empty(), "{text}: {said}");
        passed(text)
    }

    /// Measures the processor time of the app's frames: without the agent, with it, and while it records.
    fn overhead(&mut self) -> Found {
        let kinds =
            [("without", false, false), ("installed", true, false), ("recording", true, true)];
        let mut sums = [[0.0; 2]; 3];
        for _ in 0..ROUNDS {
            for ((_, has_agent, records), sums) in kinds.iter().zip(&mut sums) {
                self.start(*has_agent)?;
                sleep(START_TIME);
                if *records {
                    self.open()?;
                }
                let seconds = self.args.seconds.div_ceil(ROUNDS);
                self.must("work", seconds)?;
                sleep(Duration::from_secs(u64::from(seconds) + 1));
                let cost = self.tell("cost", 0)?;
                let parts: Vec<f64> =
                    cost.split(' ').filter_map(|part| part.parse().ok()).collect();
                let [ms, frames] = parts[..] else { bail!("cost: {cost}") };
                ensure!(frames > 0.0, "the device draws no frames; is its screen on?");
                *sums = [sums[0] + ms, sums[1] + frames];
                if *records {
                    self.must("close", 0)?;
                }
            }
        }
        let of_frame = sums.map(|[ms, frames]| ms / frames);
        let texts = kinds.iter().zip(sums).zip(of_frame);
        let texts = texts.map(|(((name, ..), [ms, frames]), each)| {
            self.measured["overhead"][name] = json!({"processor_ms": ms, "frames": frames});
            format!("{each:.3} ms {name}")
        });
        let texts: Vec<String> = texts.collect();
        Ok((
            Outcome::Measured,
            format!("processor time of a frame with 100 sections: {}", texts.join(", ")),
        ))
    }

    /// Measures the time from the start to the first frame, with the agent and its capture of the start, and without it.
    fn start_times(&mut self) -> Found {
        let mut times: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        let starts = self.args.starts;
        for _ in 0..starts {
            times[0].push(self.start(false)?);
            times[1].push(self.start(true)?);
        }
        self.measured["start_ms"] = json!({"without": times[0], "with": times[1]});
        let [without, with] = times.map(|mut times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        });
        Ok((
            Outcome::Measured,
            format!(
                "to the first frame {without} ms without the agent, {with} ms with it (medians of {starts})"
            ),
        ))
    }
}

fn passed(detail: impl Into<String>) -> Found {
    Ok((Outcome::Passed, detail.into()))
}

/// Counts the begins of the app's own sections in a capture's text, and of others.
fn count(text: &str) -> [u32; 2] {
    let mut counts = [0, 0];
    for line in text.lines().filter(|line| line.contains(": B|")) {
        counts[usize::from(!line.ends_with(SECTION))] += 1;
    }
    counts
}

/// A capture must have all sections that the app wrote.
fn all_sections(text: &str) -> Found {
    let [own, others] = count(text);
    let detail = format!("{own} of {MARKERS} sections of the app, {others} of others");
    ensure!(own == MARKERS, "{detail}");
    passed(detail)
}
