//! `tracetee demo`: runs a sample app with the agent installed and a real collector, in half a minute.
//!
//! The app's first start has its configuration from the collector, and one capture by schedule, from which the fleet's
//! report has its rates. At the second start the configuration opens and closes the window at the start, and arms the
//! flight recorder for the jank that follows. All captures go to the collector, which is where the demo's traces are
//! taken from.
//!
//! The app plants late frames of known causes: sections, a function that only samples of the callstack show (the app samples
//! itself, as the Android library does), and a frame that the compositor made late. Linux has no such compositor, so the app
//! itself reports that frame, through the API with which the Android library passes on JankData.
//!
//! The sample app and the stand-in libcutils that it calls are our C programs under `tests/`, compiled by the program's
//! `build.rs` and embedded in its releases.
//!
//! [`send`] is `tracetee simulate`: a simulated fleet sends its captures to a collector.

mod app;
mod progress;
pub mod send;
mod store;

pub use app::SampleApp;

use anyhow::{Context, Result, bail};
use app::RunningApp;
use std::fmt::Write;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tracetee_fleet::capture::{Capture, read_file, read_file_for_timeline};
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::report::grouped;
use tracetee_fleet::report::html::{self, Examples, Timeline};
use tracetee_fleet::report::single::SingleReport;
use tracetee_fleet::report::timeline;
use tracetee_protocol::health::TagReport;
use tracetee_protocol::{CaptureReport, HealthReport, Summary};
use tracetee_server::{Options, Server, StoredCapture, tables_of};

/// Running time of the sample app: at most until the scheduled capture, even on a busy machine; then the start-up window,
/// and a later capture with room for each kind of late frame.
const FIRST_SECONDS: &str = "60";
const SECONDS: &str = "10";
/// Maximum number of further starts until a capture of jank has arrived.
const MORE_STARTS: usize = 2;
/// The address that the collector listens on.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Configuration that a fleet's owner would serve: a window at the start, one by schedule, then a flight recorder.
const REMOTE_CONFIG: &str = r#"{
  "schema": 1,
  "seq": 1,
  "windows": [
    {"id": "start-up", "opens": "app_start", "max_s": 3, "frame_counters": true, "recorder": {"capacity_kb": 16384}},
    {"id": "sample", "opens": {"schedule": {"every_s": 86400}}, "max_s": 3, "frame_counters": true},
    {"id": "jank", "cool_down_s": 3, "frame_counters": true, "stacks": {"percent": 100}, "recorder": {"capacity_kb": 4096},
     "opens": {"triggers": {"any": [{"jank": {"over_ms": 40}}], "before_s": 1, "after_s": 2.5}}}
  ]
}
"#;

/// Parts of the program to which the demo belongs.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The agent's library, for LD_PRELOAD.
    pub library: &'a Path,
    /// The sample app.
    pub app: SampleApp,
    /// Prints to stdout.
    pub print: fn(&str),
    /// Asks the agent of a process for its health report.
    pub health: fn(pid: u32) -> Option<HealthReport>,
    /// Prints where the marker is open.
    pub marker: fn(&TagReport) -> String,
    /// Appends the contents and the gaps of a trace, one line each.
    pub push_summary: fn(&mut String, &Summary),
}

/// Runs the demo, and writes its traces and reports to a directory.
///
/// # Errors
/// A human-readable text.
pub fn demo(program: &Program<'_>, output: &Path) -> Result<()> {
    std::fs::create_dir_all(output)
        .with_context(|| format!("cannot create {}", output.display()))?;
    let print = program.print;
    let app = RunningApp::unpack(program)?;

    let config = app.directory().join("remote-config.json");
    std::fs::write(&config, REMOTE_CONFIG)?;
    let store = output.join("store");
    store::make(&store)?;
    let options = Options { config: Some(config), ..Options::local(&store) };
    let collector = Server::start(ANY_PORT, options)?;
    let url = format!("http://{}", collector.address);
    print(&format!("1. A collector listens on {url}.\n"));

    print("2. The sample app starts for the first time, with the agent installed …\n");
    app.run_installed(&url, FIRST_SECONDS, |progress| !progress.captures.is_empty())?;
    print(&format!("3. It starts again and runs for {SECONDS} s …\n"));
    let mut captures = app.run_installed(&url, SECONDS, |_| false)?;
    let is_start_up = |capture: &CaptureReport| capture.window == "start-up";
    // A busy machine may not have had time to keep both captures, and to send that of jank.
    for _ in 0..MORE_STARTS {
        if captures.iter().any(is_start_up) && collector.captures().iter().any(is_of_jank) {
            break;
        }
        print("   It starts once more, because a capture is missing …\n");
        captures.extend(app.run_installed(&url, SECONDS, |_| false)?);
    }
    let Some(start_up) = captures.iter().find(|capture| is_start_up(capture)) else {
        bail!(
            "the start-up window produced no capture; `tracetee run -- PROGRAM` says why a trace is empty"
        );
    };
    let collected = collector.captures();
    collector.settle();
    collector.stop();
    print(&format!("   the collector has stored {} captures\n", collected.len()));
    let start_ups = collected.iter().filter(|capture| is_of(capture, "start-up"));
    for capture in start_ups.chain(longest_of_jank(&collected)) {
        keep(capture, output)?;
    }

    print("4. Measuring the cost of a record in the app …\n");
    print(&app.costs()?);

    let (plain, zipped) = (output.join("demo.ftrace"), output.join("demo.ftrace.zst"));
    let mut text = format!(
        "5. The traces are in\n     {} ({})\n     {} ({})\n",
        plain.display(),
        bytes(start_up.summary.text_bytes),
        zipped.display(),
        bytes(start_up.summary.file_bytes),
    );
    if let Some(jank) = longest_of_jank(&collected) {
        let path = output.join("demo-jank.ftrace.zst");
        let size = bytes(path.metadata()?.len());
        let why = jank.meta.why.as_deref().unwrap_or_default();
        let _ = writeln!(text, "     {} ({size}): {why}", path.display());
    }
    let _ = writeln!(text, "   and in the collector's store, {}", store.display());
    push_report(&mut text, &store, output, &collected)?;
    text.push_str(
        "   For a timeline open https://ui.perfetto.dev, choose \"Open trace file\" and any of them (.zst: since\n   \
         Perfetto v58; press W and S to zoom, A and D to move). The janky frames are the long\n   \
         Choreographer#doFrame slices of com.example.app.\n",
    );
    print(&text);
    Ok(())
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
    let options = tracetee_jank::Options::default();
    let read = |raw_key: &str| read_file_for_timeline(&store.join(raw_key), &options).ok();
    std::fs::write(&page, html::fleet(&report, Some("store/"), &Examples::read(&report, read)))?;
    let pages = ["report-jank.html", "timeline-jank.html"].map(|name| out.join(name));
    // The end of a start may have cut the others short.
    let Some(jank) = longest_of_jank(collected) else {
        // Files of an earlier demo.
        pages.iter().for_each(|page| drop(std::fs::remove_file(page)));
        let _ = writeln!(
            text,
            "6. No capture of jank has arrived at the collector; run the demo again when the machine is less busy. Fleet report: {}",
            page.display()
        );
        return Ok(());
    };
    let capture = read_file(&jank.path, &options)?;
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
    for line in of_it.to_terminal().lines() {
        let _ = writeln!(text, "     {line}");
    }
    text.push_str(
        "\n   The app plants these causes. com.example.app.Price.format has no section: the app samples its callstack while a\n   \
         frame is late (on Android the library does, with \"stacks\"). \"system\" is a frame that the compositor made late; Linux\n   \
         has none to ask, so the app says so itself, where on a phone Android's JankData does.\n",
    );
    Ok(())
}

fn bytes(count: u64) -> String {
    format!("{} bytes", grouped(count))
}

fn longest_of_jank(collected: &[StoredCapture]) -> Option<&StoredCapture> {
    let bytes =
        |capture: &&StoredCapture| std::fs::metadata(&capture.path).map_or(0, |file| file.len());
    collected.iter().filter(|capture| is_of_jank(capture)).max_by_key(bytes)
}

fn is_of_jank(capture: &StoredCapture) -> bool {
    is_of(capture, "jank")
}

fn is_of(capture: &StoredCapture, window: &str) -> bool {
    capture.meta.window.as_deref() == Some(window)
}

/// Copies a capture to the output directory; that of the start-up also as plain text.
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
