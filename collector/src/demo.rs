//! `tracetee demo`: a sample app under the agent, the real way, in half a minute.
//!
//! The sample app and the stand-in libcutils that it calls are C programs of ours under `tests/`,
//! compiled by `build.rs` and carried inside this program.

use crate::agent_library::TextOptions;
use crate::cli::{DemoArgs, PassOn, Precision, print};
use crate::recovered::{Recovered, Summary, bytes, grouped};
use crate::run::{Ended, Session, Setup};
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SAMPLE_APP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sample-app"));
const LIBCUTILS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcutils.so"));

/// How long the sample app runs.
const SECONDS: &str = "4";
/// Records of one cost measurement, and how many there are: the median counts.
const COST_RECORDS: &str = "200000";
const COST_RUNS: usize = 5;

/// Runs the demo.
pub(crate) fn demo(args: &DemoArgs) -> Result<()> {
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let (plain, compressed) = (args.out.join("demo.ftrace"), args.out.join("demo.ftrace.zst"));
    let app = SampleApp::unpack()?;

    print(&format!("1. Running a sample app for {SECONDS} s with the agent preloaded …\n"));
    let session = Session::create(&plain, &quiet_setup())?;
    app.run_in(&session, &[SECONDS])?;
    let options = TextOptions { catapult_only: false, precision: Precision::Us };
    let write = |path: &Path| session.agent().recover(session.directory(), options, path);
    let recovered = write(&plain)?;
    let zipped = write(&compressed)?;
    if recovered.summary.recorded() == 0 {
        bail!("the sample app left no record; `tracetee run` on a program of yours may say more");
    }
    print(&what_it_saw(&recovered));

    print("2. Measuring what a record costs the app …\n");
    print(&app.costs(session.agent().path())?);

    print(&format!(
        "3. The trace is in\n     {} ({})\n     {} ({})\n   Open https://ui.perfetto.dev, choose \
         \"Open trace file\" and take either of them\n   (press W and S to zoom, A and D to move). \
         The janky frames are the long\n   Choreographer#doFrame slices of com.example.app.\n",
        plain.display(),
        bytes(recovered.summary.file_bytes),
        compressed.display(),
        bytes(zipped.summary.file_bytes),
    ));
    Ok(())
}

fn quiet_setup() -> Setup {
    Setup {
        tags: vec!["all".to_owned()],
        pass_on: PassOn::Auto,
        capacity_kb: 256 * 1024,
        seconds: None,
        show_progress: false,
    }
}

fn what_it_saw(recovered: &Recovered) -> String {
    let summary = &recovered.summary;
    let mut text = String::new();
    for health in &recovered.processes {
        let _ = writeln!(
            text,
            "   hooked {} slots of write in {} libraries",
            health.hooked_slots, health.hooked_libraries
        );
        for atrace in &health.atrace {
            let marker = match atrace.marker_fd {
                -1 => "no trace_marker here: its writes to -1 are teed".to_owned(),
                fd => format!("its trace_marker is descriptor {fd}"),
            };
            let _ = writeln!(
                text,
                "   libcutils found ({}), tags forced on, {marker}",
                atrace.found_by
            );
        }
    }
    let _ = writeln!(
        text,
        "   {} records over {}.{} s from {} threads, {} dropped",
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

    fn run_in(&self, session: &Session, arguments: &[&str]) -> Result<()> {
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        let name = OsStr::new("sample-app");
        match session.start(&self.program, name, &arguments)?.wait_for_end() {
            Ended::Exited(0) => Ok(()),
            ended => bail!("the sample app ended with {ended:?}"),
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
