//! Options of the commands that take and make single traces: `atrace`, `convert`, `dmtracedump`.

use super::seconds;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::ffi::OsString;
use std::path::PathBuf;
use tracetee_convert::Format;

/// Options of `atrace`: atrace's and systrace.py's.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "atrace's options")]
pub(crate) struct AtraceArgs {
    /// Categories, of --list_categories [default: all].
    pub(crate) categories: Vec<String>,
    /// For so many seconds.
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub(crate) time: f64,
    /// Memory of the recorder, KB.
    #[arg(short = 'b', long = "buf-size", value_name = "KB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    pub(crate) buffer: u64,
    /// When it is full the latest is kept, not the earliest.
    #[arg(short = 'c')]
    pub(crate) circular: bool,
    /// Where to [default: stdout]; a page when it ends in .html.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Packed (zlib).
    #[arg(short = 'z')]
    pub(crate) zlib: bool,
    /// Processes of these names, patterns, separated by commas.
    #[arg(short = 'a', long = "app", value_name = "NAME")]
    pub(crate) app: Option<String>,
    /// This process.
    #[arg(long, value_name = "PID", conflicts_with = "app")]
    pub(crate) pid: Option<u32>,
    /// The agent behind this address: `adb forward tcp:8441 localabstract:tracetee-PID`.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["app", "pid"])]
    pub(crate) connect: Option<String>,
    /// List the categories.
    #[arg(long = "list_categories", visible_alias = "list-categories", short = 'l')]
    pub(crate) list_categories: bool,
    /// Begin, and return at once; the latest is kept.
    #[arg(long = "async_start", conflicts_with_all = ["async_dump", "async_stop"])]
    pub(crate) async_start: bool,
    /// What there is now; it goes on with nothing.
    #[arg(long = "async_dump", conflicts_with = "async_stop")]
    pub(crate) async_dump: bool,
    /// What there is, and end.
    #[arg(long = "async_stop")]
    pub(crate) async_stop: bool,
    /// Make a page of this trace.
    #[arg(long = "from-file", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// A program and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Options of `convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The traces.
    #[arg(required = true, value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output file; - is stdout. Compressed when it ends in .gz or .zst (Perfetto reads .zst from v58 on).
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Which format [default: what the output's name says].
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    pub(crate) to: Option<Format>,
    /// With --to atrace: packed as atrace -z does.
    #[arg(short = 'z')]
    pub(crate) zlib: bool,
    /// What obfuscated names were: R8's mapping.txt, or Matrix's method ids.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Say nothing but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,
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
    /// The trace.
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Print the records instead.
    #[arg(short = 'o')]
    pub(crate) dump: bool,
    /// As HTML.
    #[arg(short = 'h')]
    pub(crate) html: bool,
    /// Write the call graph to this file (PNG), through Graphviz.
    #[arg(short = 'g', value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Methods in the graph take at least so many percent of the time.
    #[arg(short = 't', value_name = "PERCENT", default_value_t = 20)]
    pub(crate) threshold: u32,
    /// Compare with this trace: it is run 1.
    #[arg(short = 'd', value_name = "TRACE")]
    pub(crate) diff: Option<PathBuf>,
    /// Keep the graph's text, FILE.dot.
    #[arg(short = 'k')]
    pub(crate) keep: bool,
    /// Where the page's sortable.js is; without it the page needs nothing from elsewhere.
    #[arg(short = 's', value_name = "URL")]
    pub(crate) sortable: Option<String>,
    /// What obfuscated names were: R8's mapping.txt, or Matrix's method ids.
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
}
