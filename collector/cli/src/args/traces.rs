//! Options of the commands that take and make single traces: `atrace`, `convert`, `dmtracedump`.

use super::seconds;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::ffi::OsString;
use std::path::PathBuf;
use tracetee_convert::Format;

/// Options of `atrace`: atrace's and most of systrace.py's.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "atrace's options")]
pub(crate) struct AtraceArgs {
    /// Categories to capture; --list_categories prints them [default: all].
    pub(crate) categories: Vec<String>,
    /// Duration of the capture.
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub(crate) time: f64,
    /// Size of the recorder, in KB.
    #[arg(short = 'b', long = "buf-size", value_name = "KB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    pub(crate) buffer: u64,
    /// Wait before the capture.
    #[arg(short = 's', long = "sleep", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) sleep: Option<f64>,
    /// Ignore signals during the capture of running processes.
    #[arg(short = 'n')]
    pub(crate) ignore_signals: bool,
    /// Capture the categories named in FILE, too.
    #[arg(short = 'f', value_name = "FILE")]
    pub(crate) categories_file: Option<PathBuf>,
    /// Refused: an app cannot trace kernel functions.
    #[arg(short = 'k', value_name = "FUNCTIONS", hide = true)]
    pub(crate) kernel_functions: Option<String>,
    /// Use a ring buffer: keep the latest records when it is full, not the earliest.
    #[arg(short = 'c')]
    pub(crate) circular: bool,
    /// File to write to [default: stdout]; an HTML page if it ends in .html.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Compress the output with zlib.
    #[arg(short = 'z')]
    pub(crate) zlib: bool,
    /// Capture in processes whose name matches NAME: patterns, separated by commas.
    #[arg(short = 'a', long = "app", value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// Capture in this process.
    #[arg(long, value_name = "PID", conflicts_with = "app")]
    pub(crate) pid: Option<u32>,
    /// Capture through the agent at this address, after `adb forward tcp:8441 localabstract:tracetee-PID`.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["app", "pid"])]
    pub(crate) connect: Option<String>,
    /// Print the categories and exit.
    #[arg(long = "list_categories", visible_alias = "list-categories", short = 'l')]
    pub(crate) list_categories: bool,
    /// Start a capture into a ring buffer and return at once.
    #[arg(long = "async_start", conflicts_with_all = ["async_dump", "async_stop"])]
    pub(crate) async_start: bool,
    /// Write the trace so far and clear the buffer.
    #[arg(long = "async_dump", conflicts_with = "async_stop")]
    pub(crate) async_dump: bool,
    /// Write the trace and stop.
    #[arg(long = "async_stop")]
    pub(crate) async_stop: bool,
    /// Write the trace while the program runs.
    #[arg(long, conflicts_with_all = ["async_start", "async_dump", "async_stop", "zlib"])]
    pub(crate) stream: bool,
    /// With --async_stop: write no trace. An app records only user space.
    #[arg(long = "only_userspace")]
    pub(crate) only_userspace: bool,
    /// Convert this trace to an HTML page instead of capturing.
    #[arg(long = "from-file", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Program to run, and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Options of `convert`.
#[derive(Debug, Default, Args)]
pub(crate) struct ConvertArgs {
    /// Traces to convert; - is stdin.
    #[arg(required = true, value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,
    /// File to write to; - is stdout. Compressed if it ends in .gz or .zst (Perfetto reads .zst since v58).
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Output format [default: inferred from the name of the output file].
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    pub(crate) to: Option<Format>,
    /// With --to atrace: compress with zlib, as atrace -z does.
    #[arg(short = 'z')]
    pub(crate) zlib: bool,
    /// Deobfuscate names with FILE: R8's mapping.txt, or Matrix's method ids.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Keep only this process.
    #[arg(long, value_name = "PID", conflicts_with = "process")]
    pub(crate) pid: Option<u32>,
    /// Keep only the processes with this name, or part of one.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Option<String>,
    /// `--quiet` of the program, or of the command that converts.
    #[arg(skip)]
    pub(crate) quiet: bool,
}

impl ConvertArgs {
    /// True if only some processes are kept.
    pub(crate) const fn is_reduced(&self) -> bool {
        self.pid.is_some() || self.process.is_some()
    }
}

/// Takes the names of the table of formats.
fn format() -> impl TypedValueParser<Value = Format> {
    let value = |format: &Format| PossibleValue::new(format.name()).help(format.about());
    PossibleValuesParser::new(Format::ALL.iter().map(value))
        .try_map(|name| Format::named(&name).ok_or("no such format"))
}

/// Options of `dmtracedump`: the original's.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct DmtracedumpArgs {
    /// Trace to profile; - is stdin.
    pub(crate) trace: PathBuf,
    /// Print the records instead of the profile.
    #[arg(short = 'o')]
    pub(crate) dump: bool,
    /// Print the profile as HTML.
    #[arg(short = 'h')]
    pub(crate) html: bool,
    /// Write the call graph to FILE as PNG, with Graphviz.
    #[arg(short = 'g', value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Leave methods below PERCENT of the total time out of the graph.
    #[arg(short = 't', value_name = "PERCENT", default_value_t = 20)]
    pub(crate) threshold: u32,
    /// Compare with this trace, which becomes run 1.
    #[arg(short = 'd', value_name = "TRACE")]
    pub(crate) diff: Option<PathBuf>,
    /// Keep the graph's source as FILE.dot.
    #[arg(short = 'k')]
    pub(crate) keep: bool,
    /// URL of sortable.js for the HTML page; without -s the page loads nothing.
    #[arg(short = 's', value_name = "URL")]
    pub(crate) sortable: Option<String>,
    /// Deobfuscate names with FILE: R8's mapping.txt, or Matrix's method ids.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
}
