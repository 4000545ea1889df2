//! `tracetee demo`: a sample app with the agent installed, the real way, in half a minute.
//!
//! A remote configuration in a file opens and closes the window at its start, and arms the flight
//! recorder for the jank that follows.
//!
//! The sample app and the stand-in libcutils that it calls are C programs of ours under `tests/`,
//! compiled by `build.rs` and carried inside this program.

use crate::agent_library::Agent;
use crate::cli::{DemoArgs, print};
use crate::recovered::{Capture, Health, Summary, bytes, grouped};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SAMPLE_APP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sample-app"));
const LIBCUTILS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcutils.so"));

/// How long the sample app runs: the start-up window, and some frames that jank behind it.
const SECONDS: &str = "8";
/// Records of one cost measurement, and how many there are: the median counts.
const COST_RECORDS: &str = "200000";
const COST_RUNS: usize = 5;

/// What a fleet's owner would serve: a window at the start, and a flight recorder behind it.
const REMOTE_CONFIG: &str = r#"{
  "schema": 1,
  "seq": 1,
  "windows": [
    {"id": "start-up", "opens": "app_start", "max_s": 3, "recorder": {"capacity_kb": 16384}},
    {"id": "jank", "cool_down_s": 3600, "recorder": {"capacity_kb": 4096},
     "opens": {"triggers": {"any": [{"jank": {"over_ms": 40}}], "before_s": 1, "after_s": 0.5}}}
  ]
}
"#;

/// Runs the demo.
pub(crate) fn demo(args: &DemoArgs) -> Result<()> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let agent = Agent::load()?;
    let app = SampleApp::unpack()?;

    print(&format!("1. Running a sample app for {SECONDS} s with the agent installed …\n"));
    let captures = app.run_installed(agent.path(), &args.out)?;
    let Some(start_up) = captures.iter().find(|capture| capture.window == "start-up") else {
        bail!("the start-up window left no capture; `tracetee doctor -- PROGRAM` may say more");
    };

    print("2. Measuring what a record costs the app …\n");
    print(&app.costs(agent.path())?);

    let (plain, zipped) = (args.out.join("demo.ftrace"), args.out.join("demo.ftrace.zst"));
    let mut text = format!(
        "3. The traces are in\n     {} ({})\n     {} ({})\n",
        plain.display(),
        bytes(start_up.summary.text_bytes),
        zipped.display(),
        bytes(start_up.summary.file_bytes),
    );
    if let Some(jank) = captures.iter().find(|capture| capture.window == "jank") {
        let path = args.out.join("demo-jank.ftrace.zst");
        let size = bytes(jank.summary.file_bytes);
        let _ = writeln!(text, "     {} ({size}): {}", path.display(), jank.why);
    }
    text.push_str(
        "   Open https://ui.perfetto.dev, choose \"Open trace file\" and take any of them\n   \
         (press W and S to zoom, A and D to move). The janky frames are the long\n   \
         Choreographer#doFrame slices of com.example.app.\n",
    );
    print(&text);
    Ok(())
}

fn what_it_hooked(health: &Health) -> String {
    let mut text = format!(
        "   hooked {} slots of write in {} libraries\n",
        health.hooked_slots, health.hooked_libraries
    );
    for atrace in &health.atrace {
        let marker = atrace.marker();
        let _ =
            writeln!(text, "   libcutils found ({}), tags forced on, {marker}", atrace.found_by);
    }
    text
}

fn what_it_saw(summary: &Summary) -> String {
    let mut text = format!(
        "   {} records over {}.{} s from {} threads, {} dropped\n",
        grouped(summary.recorded()),
        summary.duration_ns / 1_000_000_000,
        summary.duration_ns / 100_000_000 % 10,
        summary.threads.len(),
        grouped(summary.lost()),
    );
    push_kinds(&mut text, summary);
    push_threads(&mut text, summary);
    for line in crate::run::losses(summary) {
        let _ = writeln!(text, "   {line}");
    }
    text
}

fn push_kinds(text: &mut String, summary: &Summary) {
    const NAMES: [(char, &str); 9] = [
        ('B', "begin"),
        ('E', "end"),
        ('S', "async begin"),
        ('F', "async end"),
        ('C', "counter"),
        ('I', "instant"),
        ('N', "instant on a track"),
        ('G', "async begin on a track"),
        ('H', "async end on a track"),
    ];
    for (kind, name) in NAMES {
        let count = summary.records.get(&kind).copied().unwrap_or(0);
        let _ = writeln!(text, "     {kind}  {name:<24}{:>8}", grouped(count));
    }
}

fn push_threads(text: &mut String, summary: &Summary) {
    const SHOWN: usize = 6;
    let mut threads: Vec<_> = summary.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.records));
    for thread in threads.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "     {:<16} tid {:<8}{:>12} records",
            thread.name,
            thread.tid,
            grouped(thread.records)
        );
    }
    if threads.len() > SHOWN {
        let more = threads.len() - SHOWN;
        let _ = writeln!(text, "     … and {more} binder and worker threads that have ended");
    }
}

/// The sample app, unpacked into a directory that goes when it is dropped.
struct SampleApp {
    directory: TempDir,
    program: PathBuf,
}

impl SampleApp {
    fn unpack() -> Result<Self> {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let program = directory.path().join("sample-app");
        std::fs::write(&program, SAMPLE_APP)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        std::fs::write(directory.path().join("libcutils.so"), LIBCUTILS)?;
        Ok(Self { directory, program })
    }

    /// Runs the app with the agent installed in it, and tells what the configuration makes it do.
    /// Leaves the captures in `out`; gives what the agent says of them.
    fn run_installed(&self, library: &Path, out: &Path) -> Result<Vec<Capture>> {
        let config = self.directory.path().join("remote-config.json");
        std::fs::write(&config, REMOTE_CONFIG)?;
        let install = serde_json::json!({
            "directory": self.directory.path().join("files"),
            "config_file": config,
        });
        let started = Instant::now();
        let mut app = Command::new(&self.program)
            .arg(SECONDS)
            .current_dir(self.directory.path())
            .env("LD_PRELOAD", library)
            .env("TRACETEE_INSTALL", install.to_string())
            .spawn()
            .context("cannot start the sample app")?;
        let mut captures: Vec<Capture> = Vec::new();
        let mut last_state = String::new();
        loop {
            let ended = app.try_wait()?;
            if let Some(stats) = crate::doctor::health(app.id())
                && let Some(control) = stats.control
            {
                let at = format!("{:>4.1} s", started.elapsed().as_secs_f64());
                if let Some(capture) = control.last_capture
                    && captures.last().is_none_or(|last| last.path != capture.path)
                {
                    print(&format!(
                        "   {at}  window {} is kept: {}\n",
                        capture.window, capture.why
                    ));
                    keep(&capture, out)?;
                    if capture.window == "start-up" {
                        print(&what_it_saw(&capture.summary));
                    }
                    captures.push(capture);
                }
                if control.state != last_state {
                    if last_state.is_empty() {
                        print(&what_it_hooked(&stats.health));
                    }
                    print(&format!("   {at}  {}: {}\n", control.state, control.reason));
                    last_state = control.state;
                }
            }
            match ended {
                Some(status) if status.success() => return Ok(captures),
                Some(status) => bail!("the sample app ended with {status}"),
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// ns a record in the app's loop: untraced, with the agent, and as the platform does it.
    fn costs(&self, library: &Path) -> Result<String> {
        let config = r#"{"pass_on":"never","recorder":{"capacity_kb":65536}}"#;
        let off = self.median_cost(&[])?;
        let agent = self.median_cost(&[
            ("LD_PRELOAD", library.as_os_str()),
            ("TRACETEE_CONFIG", OsStr::new(config)),
        ])?;
        let marker = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"]
            .into_iter()
            .find(|path| std::fs::OpenOptions::new().write(true).open(path).is_ok());
        let mut text = String::new();
        let _ = writeln!(
            text,
            "   {off:.0} ns with tracing off, {agent:.0} ns teed by the agent (libcutils' own \
             formatting included)"
        );
        match marker {
            Some(_) => {
                let kernel = self.median_cost(&[("ATRACE_PROPERTY", OsStr::new("8"))])?;
                let _ = writeln!(
                    text,
                    "   {kernel:.0} ns written to the kernel's trace_marker, as the platform's own \
                     tracing does: {:.1} times as much",
                    kernel / agent
                );
            }
            None => text
                .push_str("   (no kernel trace_marker that may be written here to compare with)\n"),
        }
        Ok(text)
    }

    fn median_cost(&self, environment: &[(&str, &OsStr)]) -> Result<f64> {
        let mut costs = Vec::new();
        for _ in 0..COST_RUNS {
            let output = Command::new(&self.program)
                .args(["--cost", COST_RECORDS])
                .current_dir(self.directory.path())
                .envs(environment.iter().copied())
                .output()
                .context("cannot start the sample app")?;
            let text = String::from_utf8_lossy(&output.stdout);
            costs.push(text.trim().parse::<f64>().context("the sample app printed no cost")?);
        }
        costs.sort_by(f64::total_cmp);
        costs.get(COST_RUNS / 2).copied().context("no measurement")
    }
}

/// Copies a capture to where the demo leaves it; that of the start-up as plain text too.
fn keep(capture: &Capture, out: &Path) -> Result<()> {
    let Some(path) = &capture.path else {
        bail!("the capture was not kept: {}", capture.error.as_deref().unwrap_or_default());
    };
    if capture.window == "jank" {
        std::fs::copy(path, out.join("demo-jank.ftrace.zst"))?;
        return Ok(());
    }
    std::fs::copy(path, out.join("demo.ftrace.zst"))?;
    let plain = File::create(out.join("demo.ftrace"))?;
    zstd::stream::copy_decode(File::open(path)?, plain)?;
    Ok(())
}
