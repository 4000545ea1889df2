//! `tracetee demo`: a sample app with the agent installed, and a collector, the real way, in half a
//! minute.
//!
//! The app's first start has its configuration from the collector; at its second one that opens and
//! closes the window at the start, and arms the flight recorder for the jank that follows. Both
//! captures go to the collector, which is where the demo's traces are taken from.
//!
//! The app plants late frames of known causes: sections, a function that only samples of the callstack show (the app
//! samples itself, as the Android library does), and a frame that the compositor made late. Linux has no compositor to ask,
//! so the app itself says so of that frame, through the API by which the Android library passes on JankData.
//!
//! The sample app and the stand-in libcutils that it calls are C programs of ours under `tests/`,
//! compiled by `build.rs` and carried inside a release of this program.

mod store;

use crate::agent_library;
use crate::args::DemoArgs;
use crate::commands::doctor;
use crate::embedded;
use crate::terminal::print;
use crate::units::{bytes, grouped};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_fleet::capture::{Capture, read_file};
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::report::html::{self, Captures, Timeline};
use tracetee_fleet::report::single::SingleReport;
use tracetee_fleet::report::timeline;
use tracetee_protocol::{CaptureReport, Health, HealthReport, Summary};
use tracetee_server::{Options, Server, StoredCapture, tables_of};

/// Running time of the sample app: until it has its configuration; then the start-up window, and a capture behind it in
/// which each kind of its late frames has room, on a busy machine, too.
const FIRST_SECONDS: &str = "3";
const SECONDS: &str = "10";
/// Number of further starts, until a capture of jank has come.
const MORE_STARTS: usize = 2;
/// The address that the collector listens on.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Records of one cost measurement, and how many there are: the least counts, which other programs have disturbed least.
const COST_RECORDS: &str = "200000";
const COST_RUNS: usize = 5;

/// Configuration that a fleet's owner would serve: a window at the start, then a flight recorder.
const REMOTE_CONFIG: &str = r#"{
  "schema": 1,
  "seq": 1,
  "windows": [
    {"id": "start-up", "opens": "app_start", "max_s": 3, "frame_counters": true, "recorder": {"capacity_kb": 16384}},
    {"id": "jank", "cool_down_s": 3, "frame_counters": true, "stacks": {"percent": 100}, "recorder": {"capacity_kb": 4096},
     "opens": {"triggers": {"any": [{"jank": {"over_ms": 40}}], "before_s": 1, "after_s": 2.5}}}
  ]
}
"#;

/// Runs the demo.
pub(crate) fn demo(args: &DemoArgs) -> Result<()> {
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot create {}", args.output.display()))?;
    let library = agent_library::install()?;
    let app = SampleApp::unpack()?;

    let config = app.directory.path().join("remote-config.json");
    std::fs::write(&config, REMOTE_CONFIG)?;
    let store = args.output.join("store");
    store::make(&store)?;
    let options = Options { config: Some(config), ..Options::local(&store) };
    let collector = Server::start(ANY_PORT, options)?;
    let url = format!("http://{}", collector.address);
    print(&format!("1. A collector listens on {url}.\n"));

    print("2. The sample app starts for the first time, with the agent installed …\n");
    app.run_installed(&library, &url, FIRST_SECONDS)?;
    print(&format!("3. It starts again and runs for {SECONDS} s …\n"));
    let mut captures = app.run_installed(&library, &url, SECONDS)?;
    let is_start_up = |capture: &CaptureReport| capture.window == "start-up";
    // A busy machine may have left no time to keep both captures, and to send that of jank.
    for _ in 0..MORE_STARTS {
        if captures.iter().any(is_start_up) && collector.captures().iter().any(is_of_jank) {
            break;
        }
        print("   It starts once more, because a capture is missing …\n");
        captures.extend(app.run_installed(&library, &url, SECONDS)?);
    }
    let Some(start_up) = captures.iter().find(|capture| is_start_up(capture)) else {
        bail!(
            "the start-up window produced no capture; run `tracetee doctor -- PROGRAM` to find out why"
        );
    };
    let collected = collector.captures();
    collector.settle();
    collector.stop();
    print(&format!("   the collector has stored {} captures\n", collected.len()));
    let start_ups = collected.iter().filter(|capture| !is_of_jank(capture));
    for capture in start_ups.chain(longest_of_jank(&collected)) {
        keep(capture, &args.output)?;
    }

    print("4. Measuring the cost of a record in the app …\n");
    print(&app.costs(&library)?);

    let (plain, zipped) = (args.output.join("demo.ftrace"), args.output.join("demo.ftrace.zst"));
    let mut text = format!(
        "5. The traces are in\n     {} ({})\n     {} ({})\n",
        plain.display(),
        bytes(start_up.summary.text_bytes),
        zipped.display(),
        bytes(start_up.summary.file_bytes),
    );
    if let Some(jank) =
        collected.iter().rev().find(|capture| capture.meta.window.as_deref() == Some("jank"))
    {
        let path = args.output.join("demo-jank.ftrace.zst");
        let size = bytes(path.metadata()?.len());
        let why = jank.meta.why.as_deref().unwrap_or_default();
        let _ = writeln!(text, "     {} ({size}): {why}", path.display());
    }
    let _ = writeln!(text, "   and in the collector's store, {}", store.display());
    push_report(&mut text, &store, &args.output, &collected)?;
    text.push_str(
        "   For a timeline open https://ui.perfetto.dev, choose \"Open trace file\" and any of them (.zst: since\n   \
         Perfetto v58; press W and S to zoom, A and D to move). The janky frames are the long\n   \
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
        let marker = doctor::marker(atrace);
        let _ =
            writeln!(text, "   found libcutils ({}), enabled its tags; {marker}", atrace.found_by);
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
    for line in crate::commands::run::losses(summary) {
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
        let _ = writeln!(text, "     … and {more} binder and worker threads that have exited");
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
        let embedded = embedded::sample_app()?;
        std::fs::write(&program, embedded.program)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        std::fs::write(directory.path().join("libcutils.so"), embedded.libcutils)?;
        Ok(Self { directory, program })
    }

    /// Runs the app with the agent installed in it, and tells what the configuration makes it do.
    /// Gives what the agent says of its captures.
    fn run_installed(
        &self,
        library: &Path,
        url: &str,
        seconds: &str,
    ) -> Result<Vec<CaptureReport>> {
        let install = serde_json::json!({
            "directory": self.directory.path().join("files"),
            "app": "com.example.app",
            "version_code": 1,
            "upload": {"url": url},
        });
        let started = Instant::now();
        let mut app = Command::new(&self.program)
            .arg(seconds)
            .current_dir(self.directory.path())
            .env("LD_PRELOAD", library)
            .env("TRACETEE_INSTALL", install.to_string())
            .spawn()
            .context("cannot start the sample app")?;
        let mut seen = Seen::default();
        loop {
            let ended = app.try_wait()?;
            if let Some(stats) = doctor::health(app.id()) {
                seen.tell(&stats, started.elapsed());
            }
            match ended {
                Some(status) if status.success() => return Ok(seen.captures),
                Some(status) => bail!("the sample app exited with {status}"),
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// ns of processor time of a record in the app's loop: untraced, with the agent, and as the platform does it.
    fn costs(&self, library: &Path) -> Result<String> {
        let config = r#"{"pass_on":"never","recorder":{"capacity_kb":65536}}"#;
        let off = self.least_cost(&[])?;
        let agent = self.least_cost(&[
            ("LD_PRELOAD", library.as_os_str()),
            ("TRACETEE_CONFIG", OsStr::new(config)),
        ])?;
        let marker = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"]
            .into_iter()
            .find(|path| std::fs::OpenOptions::new().write(true).open(path).is_ok());
        let mut text = String::new();
        let _ = writeln!(
            text,
            "   {off:.0} ns with tracing off, {agent:.0} ns teed by the agent, of processor time (with the \
             formatting in libcutils)"
        );
        match marker {
            Some(_) => {
                let kernel = self.least_cost(&[("ATRACE_PROPERTY", OsStr::new("8"))])?;
                let _ = writeln!(
                    text,
                    "   {kernel:.0} ns written to the kernel's trace_marker, as the platform's own tracing does: \
                     {:.1} times as much",
                    kernel / agent
                );
            }
            None => text.push_str(
                "   (no comparison with the kernel: its trace_marker is missing or not writable)\n",
            ),
        }
        Ok(text)
    }

    fn least_cost(&self, environment: &[(&str, &OsStr)]) -> Result<f64> {
        let mut costs: Vec<f64> = Vec::new();
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
        costs.into_iter().min_by(f64::total_cmp).context("no measurement")
    }
}

/// Facts of the app's health report printed so far.
#[derive(Default)]
struct Seen {
    state: String,
    has_recorded: bool,
    config: Option<u64>,
    delivered: u64,
    captures: Vec<CaptureReport>,
}

impl Seen {
    /// Says what is new.
    fn tell(&mut self, stats: &HealthReport, after: Duration) {
        let Some(control) = &stats.control else { return };
        let at = format!("{:>4.1} s", after.as_secs_f64());
        let config = control.config.as_ref().map(|config| config.seq);
        if config != self.config {
            print(&format!("   {at}  configuration {} is in force\n", config.unwrap_or(0)));
            self.config = config;
        }
        if let Some(capture) = &control.last_capture
            && self.captures.last().is_none_or(|last| last.path != capture.path)
        {
            let CaptureReport { window, why, .. } = capture;
            print(&format!("   {at}  window {window} is kept: {why}\n"));
            if window == "start-up" {
                print(&what_it_saw(&capture.summary));
            }
            self.captures.push(capture.clone());
        }
        if control.state != self.state {
            // Only the agent itself was loaded before the first recording.
            if control.state != "off" && !std::mem::replace(&mut self.has_recorded, true) {
                print(&what_it_hooked(&stats.health));
            }
            print(&format!("   {at}  {}: {}\n", control.state, control.reason));
            self.state.clone_from(&control.state);
        }
        if control.upload.delivered > self.delivered
            && let Some(last) = &control.upload.last
        {
            let (window, size) = (&last.window, bytes(last.bytes));
            print(&format!("   {at}  window {window} ({size}) is uploaded: {}\n", last.outcome));
            self.delivered = control.upload.delivered;
        }
    }
}

/// Reports of the collector's captures: the one that jank triggered is printed, all become pages.
fn push_report(
    text: &mut String,
    store: &Path,
    out: &Path,
    collected: &[StoredCapture],
) -> Result<()> {
    let page = out.join("report.html");
    let report = FleetReport::from_database(&Database::read(&tables_of(store))?, &Ask::default())?;
    std::fs::write(&page, html::fleet(&report, Captures::At("store/"), &BTreeMap::new()))?;
    let pages = ["report-jank.html", "timeline-jank.html"].map(|name| out.join(name));
    // The end of a start may have cut the others short.
    let Some(jank) = longest_of_jank(collected) else {
        // Those of an earlier demo.
        pages.iter().for_each(|page| drop(std::fs::remove_file(page)));
        let _ = writeln!(
            text,
            "6. No capture of jank has come to the collector; run the demo again when the machine is less busy. Fleet report: {}",
            page.display()
        );
        return Ok(());
    };
    let capture = read_file(&jank.path, &tracetee_jank::Options::default())?;
    let of_it = SingleReport::from_capture(&capture);
    let [page_of_it, timeline] = pages;
    let name = "demo-jank.ftrace.zst";
    let Capture { trace, analysis } = &capture;
    timeline::write(name, trace, analysis, &mut File::create(&timeline)?)?;
    let bytes = std::fs::read(&jank.path)?;
    let packed = timeline::compressed(name, trace, analysis)?;
    std::fs::write(
        &page_of_it,
        html::single(&of_it, Some((name, &bytes)), Timeline::Embedded(&packed), None),
    )?;
    let _ = writeln!(
        text,
        "6. The report of the jank that fired, as `tracetee report` prints it (fleet report: {}; this report as a page: \
         {}; timeline: {}):\n",
        page.display(),
        page_of_it.display(),
        timeline.display()
    );
    for line in of_it.to_text().lines() {
        let _ = writeln!(text, "     {line}");
    }
    text.push_str(
        "\n   The app plants these causes. com.example.app.Price.format has no section: the app samples its callstack while a\n   \
         frame is late (on Android the library does, with \"stacks\"). \"system\" is a frame that the compositor made late; Linux\n   \
         has none to ask, so the app says so itself, where on a phone Android's JankData does.\n",
    );
    Ok(())
}

fn longest_of_jank(collected: &[StoredCapture]) -> Option<&StoredCapture> {
    let bytes =
        |capture: &&StoredCapture| std::fs::metadata(&capture.path).map_or(0, |file| file.len());
    collected.iter().filter(|capture| is_of_jank(capture)).max_by_key(bytes)
}

fn is_of_jank(capture: &StoredCapture) -> bool {
    capture.meta.window.as_deref() == Some("jank")
}

/// Copies a capture to where the demo leaves it; that of the start-up as plain text too.
fn keep(capture: &StoredCapture, out: &Path) -> Result<()> {
    if is_of_jank(capture) {
        std::fs::copy(&capture.path, out.join("demo-jank.ftrace.zst"))?;
        return Ok(());
    }
    std::fs::copy(&capture.path, out.join("demo.ftrace.zst"))?;
    let plain = File::create(out.join("demo.ftrace"))?;
    zstd::stream::copy_decode(File::open(&capture.path)?, plain)?;
    Ok(())
}
