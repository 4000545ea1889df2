//! Options of `report`.

use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tracetee_fleet::change::classes;
use tracetee_fleet::selection::Since;
use tracetee_jank::Which;

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Trace files; - is stdin. One gives a frame report, several a fleet report.
    #[arg(value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// Store of a collector [default: tracetee-store, if no CAPTURE is given].
    ///
    /// A directory, s3://BUCKET/PREFIX, gs://… or az://….
    #[arg(long, value_name = "STORE", conflicts_with = "captures")]
    pub(crate) store: Option<PathBuf>,
    /// Directory for the tables of an object store [default: in the user's cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Format of the report [default: by the name of --output, else text].
    #[arg(long, value_enum)]
    pub(crate) format: Option<ReportFormat>,
    /// File to write to [default: stdout]; compressed if it ends in .gz or .zst.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Include only captures of this app; in a single trace, analyze its process.
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) app: Option<String>,
    /// Include only frames of this screen.
    #[arg(long, value_name = "SCREEN")]
    pub(crate) screen: Option<String>,
    /// Include only captures made since a day, time or span (2026-11-21, 36h, 7d).
    #[arg(long, value_name = "TIME", conflicts_with = "captures", value_parser = Since::parse)]
    pub(crate) since: Option<Since>,
    /// Include only captures of this version.
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["captures", "compare"])]
    pub(crate) version: Option<String>,
    /// Include only captures of devices with this Android API level.
    #[arg(long, value_name = "LEVEL", conflicts_with = "captures")]
    pub(crate) api: Option<u64>,
    /// Include only devices whose quick frames take about MS ms.
    #[arg(long, value_name = "MS", conflicts_with = "captures", value_parser = classes::parse)]
    pub(crate) class: Option<i32>,
    /// Compare two versions: the changes for the worse or the better in the second.
    #[arg(long, num_args = 2, value_names = ["VERSION", "VERSION"])]
    pub(crate) compare: Option<Vec<String>>,
    /// Compare emulators and debuggable builds, too.
    #[arg(long, requires = "compare")]
    pub(crate) test_devices: bool,
    /// Exit with status 1 if the comparison finds this.
    #[arg(long, value_enum, value_name = "VERDICT", requires = "compare")]
    pub(crate) fail_on: Option<FailOn>,
    /// Analyze this process [default: the app that was touched and draws most].
    #[arg(long, value_name = "PID", requires = "captures", conflicts_with = "process")]
    pub(crate) pid: Option<u32>,
    /// Analyze the process with this name, or part of one.
    #[arg(long, value_name = "NAME", requires = "captures")]
    pub(crate) process: Option<String>,
    /// Deobfuscate names with FILE: R8's mapping.txt, or Matrix's method ids.
    #[arg(long, value_name = "FILE", requires = "captures")]
    pub(crate) mapping: Option<PathBuf>,
}

impl ReportArgs {
    /// The requested format: from --format or from the file name.
    pub(crate) fn format(&self) -> ReportFormat {
        let extension = self.output.as_ref().and_then(|path| {
            let is_packed = path.extension().is_some_and(|end| end == "gz" || end == "zst");
            let name = if is_packed { Path::new(path.file_stem()?) } else { path };
            name.extension()?.to_str()
        });
        self.format.unwrap_or(match extension {
            Some("html" | "htm") => ReportFormat::Html,
            Some("json") => ReportFormat::Json,
            Some("md") => ReportFormat::Markdown,
            _ => ReportFormat::Text,
        })
    }

    /// The requested process.
    pub(crate) fn process(&self) -> Which<'_> {
        match (self.pid, &self.process) {
            (Some(pid), _) => Which::Pid(pid),
            (None, Some(name)) => Which::Named(name),
            (None, None) => Which::App,
        }
    }
}

/// Verdict that makes a report fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// The second version is worse, in jank as a whole or in a cause.
    Worse,
    /// The second version is worse, or the comparison cannot tell.
    Unknown,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Text for a terminal.
    Text,
    /// JSON for programs.
    Json,
    /// Markdown, for a comment on a pull request.
    Markdown,
    /// One HTML file for a browser.
    Html,
}
