//! The command line: commands and options, parsed by clap. Knows nothing of what the commands do.

mod traces;

pub(crate) use traces::{AtraceArgs, ConvertArgs, DmtracedumpArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// In-app online tracing for Android, and for Linux programs.
#[derive(Debug, Parser)]
#[command(name = "tracetee", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with the agent preloaded and write its trace.
    ///
    /// Every process that the program starts is traced too. The program's exit status is passed
    /// on (128 + n after signal n); 125 means that tracetee itself failed, 126 that the program
    /// cannot be executed, 127 that it was not found.
    Run(RunArgs),
    /// Receive what devices send, and give them their configuration.
    ///
    /// PUT /v1/captures/ID and /v1/losses/ID, GET /v1/config, /healthz and /metrics; the report for people
    /// at / of --page. Runs until Ctrl-C or SIGTERM; what is under way then is taken in.
    Collect(CollectArgs),
    /// Tell which causes make the jank: of a fleet, or of single captures.
    ///
    /// Of what a collector keeps (--store), or of trace files: ours, atrace's and systrace's text, plain,
    /// gzip, zstd or zlib.
    Report(ReportArgs),
    /// Capture as atrace and systrace.py do: a program, or processes that carry the agent.
    ///
    /// With a program, runs it. Else asks the agents of processes that have installed it (tracetee_install):
    /// those of -a or --pid, or all; on a phone, one behind `adb forward`. Prints what atrace prints, or
    /// writes a page when -o ends in .html.
    Atrace(AtraceArgs),
    /// Write traces in the format of another tool.
    ///
    /// In: ftrace text (ours, atrace's, systrace's HTML, trace-cmd's), Chrome's and Dart's JSON, method traces
    /// (1, 2, 3 and ART's streaming), plain, gzip, zstd or zlib; Perfetto traces to be joined. Several inputs
    /// become one trace, on one clock. What the format cannot hold is said.
    Convert(ConvertArgs),
    /// Tell which methods, or slices, took the time: as Android's dmtracedump, of any trace.
    Dmtracedump(DmtracedumpArgs),
    /// Make the tables of a collector's directory anew from its captures. The collector must be ended.
    Rebuild(RebuildArgs),
    /// Delete all that a device has sent to a collector's directory.
    Forget(ForgetArgs),
    /// Make Parquet tables of the captures of a store, for any engine.
    ///
    /// Reads the objects whose keys it is given and writes parts where there are none: any number may run at
    /// once, and again. `tracetee tables --store S --list | tracetee tables --store S --keys -`.
    #[cfg(feature = "parquet")]
    Tables(TablesArgs),
    /// Send a collector the captures of a fleet that is not there, with causes that were planted.
    Simulate(SimulateArgs),
    /// Capture a sample app, have it send the captures, and show what came of it.
    Demo(DemoArgs),
    /// Say why a trace is empty: the health report of a process, the probable cause first.
    ///
    /// Of a process in which the agent is installed, or that `tracetee run` traces; or of a program
    /// that is run for it, with its exit status as the result.
    Doctor(DoctorArgs),
    /// List the slots through which libraries call a function, in a process or a file.
    ///
    /// For each library: every slot, the relocation table that names it, its type, and where it
    /// leads now. When a trace is empty, this shows whether the agent's proxies are in place.
    Hooks(HooksArgs),
    /// Write the agent's library and its C header to a directory.
    ///
    /// For use without `tracetee run`: LD_PRELOAD=…/libtracetee.so TRACETEE_CONFIG=FILE PROGRAM,
    /// or linked and called through tracetee.h.
    Library {
        /// Where to.
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
    },
}

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The trace: plain text, or zstd when it ends in .zst [default: PROGRAM.ftrace.zst].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// End the capture after this many seconds; the program runs on.
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time: Option<f64>,
    /// Tag categories to switch on in libcutils, separated by commas (view,gfx,dalvik …), or all.
    #[arg(long, value_name = "TAGS", value_delimiter = ',', default_value = "all")]
    pub(crate) tags: Vec<String>,
    /// Whether records also go on to the kernel's trace buffer.
    #[arg(long, value_enum, default_value_t = PassOn::Auto)]
    pub(crate) pass_on: PassOn,
    /// Disk space that the recorder may take for each process, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) capacity: u64,
    /// Leave out the records that catapult does not know (I, N, G, H).
    #[arg(long)]
    pub(crate) catapult: bool,
    /// Decimals of the timestamps: us (as the kernel writes) or ns.
    #[arg(long, value_enum, default_value_t = Precision::Us)]
    pub(crate) precision: Precision,
    /// Send the trace to the collector at this address; what cannot be sent now goes with the next run.
    #[arg(long, value_name = "URL")]
    pub(crate) upload: Option<String>,
    /// The file with the token that the collector knows.
    #[arg(long, value_name = "FILE", requires = "upload")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificates (PEM) that the collector's must be signed by [default: Mozilla's].
    #[arg(long, value_name = "FILE", requires = "upload")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Allow http:// to other machines: the trace and the token go unprotected.
    #[arg(long, requires = "upload")]
    pub(crate) cleartext: bool,
    /// Say nothing but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

/// Options of `collect`.
#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// Where to listen. Other addresses than this machine's need --token-file.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8440")]
    pub(crate) listen: SocketAddr,
    /// Where captures are kept: a directory, or s3://BUCKET/PREFIX, gs://…, az://….
    #[arg(long, value_name = "STORE", default_value = "tracetee-store")]
    pub(crate) store: String,
    /// Who may send: a line APP TOKEN for each app.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificate chain (PEM) for TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The remote configuration to serve, read anew each time; its signature lies beside it as FILE.sig.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the report is shown, an address of this machine [default: where it listens, if that is one and
    /// there are no tokens].
    #[arg(long, value_name = "ADDR")]
    pub(crate) page: Option<SocketAddr>,
    /// Delete captures that are older than so many days.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub(crate) keep_days: Option<u64>,
    /// Delete the oldest captures when there are more than so many GiB of them.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep_gb: Option<u64>,
    /// Keep at most so many connections open [default: 4096, or what the descriptors allow].
    #[arg(long, value_name = "N", value_parser = connections)]
    pub(crate) max_connections: Option<usize>,
    /// Keep at most so many connections of one address open [default: a quarter of all; of this machine's own
    /// addresses all].
    #[arg(long, value_name = "N", value_parser = connections)]
    pub(crate) connections_per_peer: Option<usize>,
    /// Format of the log lines on stderr.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// Format of the server's log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text for each event.
    Text,
    /// One JSON object for each event.
    Json,
}

fn connections(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "is no number".to_owned())?;
    if (1..=1_000_000).contains(&count) {
        Ok(count)
    } else {
        Err("is not in 1..=1000000".to_owned())
    }
}

/// Options of `rebuild`.
#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// The collector's directory.
    #[arg(long, value_name = "DIR", default_value = "tracetee-store")]
    pub(crate) store: PathBuf,
}

/// Options of `forget`.
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// The collector's directory.
    #[arg(long, value_name = "DIR", default_value = "tracetee-store")]
    pub(crate) store: PathBuf,
    /// The device's install id.
    pub(crate) install_id: String,
}

/// Options of `tables`.
#[cfg(feature = "parquet")]
#[derive(Debug, Args)]
pub(crate) struct TablesArgs {
    /// The store: a directory, s3://BUCKET/PREFIX, gs://…, az://….
    #[arg(long, value_name = "STORE", default_value = "tracetee-store")]
    pub(crate) store: String,
    /// The keys of captures and loss reports, a line each; - is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) keys: Option<PathBuf>,
    /// Where the tables go [default: the store].
    #[arg(long, value_name = "STORE")]
    pub(crate) out: Option<String>,
    /// Captures that go into parts together.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) batch: usize,
    /// Print the store's keys instead.
    #[arg(long)]
    pub(crate) list: bool,
    /// Those of one day only, YYYY-MM-DD.
    #[arg(long, value_name = "DAY", requires = "list")]
    pub(crate) day: Option<String>,
}

/// Options of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The collector's address.
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// How many devices.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) devices: u64,
    /// The same seed, the same fleet.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Requests at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections: u16,
    /// Frames of a capture [default: the plan's].
    #[arg(long, value_name = "N")]
    pub(crate) frames: Option<u64>,
    /// What is planted, JSON [default: what --print-plan prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Print the plan and end.
    #[arg(long)]
    pub(crate) print_plan: bool,
    /// Where what is so is written, JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
    /// The collector's tokens: the first one is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Traces: one has its frames told, several are told as a fleet is.
    #[arg(value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// The collector's directory [default: tracetee-store, when no capture is given].
    #[arg(long, value_name = "DIR", conflicts_with = "captures")]
    pub(crate) store: Option<PathBuf>,
    /// How it is written.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Where to [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Of this app only.
    #[arg(long, value_name = "APP")]
    pub(crate) app: Option<String>,
    /// Of this screen only.
    #[arg(long, value_name = "SCREEN")]
    pub(crate) screen: Option<String>,
    /// What the second version made worse or better than the first.
    #[arg(long, num_args = 2, value_names = ["VERSION", "VERSION"])]
    pub(crate) compare: Option<Vec<String>>,
    /// The process of the traces whose frames these are.
    #[arg(long, value_name = "PID", requires = "captures")]
    pub(crate) pid: Option<u32>,
    /// What obfuscated names were: R8's mapping.txt, or Matrix's method ids.
    #[arg(long, value_name = "FILE", requires = "captures")]
    pub(crate) mapping: Option<PathBuf>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// One file for a browser.
    Html,
    /// Stacks for flame graphs: `a;b;c MICROSECONDS`.
    Folded,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where the traces are left.
    #[arg(long, value_name = "DIR", default_value = "demo-out")]
    pub(crate) out: PathBuf,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A process id.
    #[arg(value_name = "PID", required_unless_present = "program")]
    pub(crate) pid: Option<u32>,
    /// Print the report as the agent gives it, JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// A program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "pid")]
    pub(crate) program: Vec<OsString>,
}

/// Options of `hooks`.
#[derive(Debug, Args)]
pub(crate) struct HooksArgs {
    /// A process id, or an ELF file of any Android ABI.
    #[arg(value_name = "PID|FILE", required_unless_present = "own")]
    pub(crate) target: Option<OsString>,
    /// This program itself.
    #[arg(long = "self", conflicts_with = "target")]
    pub(crate) own: bool,
    /// The function; may be given several times [default: write and __write_chk].
    #[arg(long = "symbol", value_name = "NAME")]
    pub(crate) symbols: Vec<String>,
}

/// The agent's `pass_on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PassOn {
    /// While a system trace has tags of its own set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The agent's `text.precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Precision {
    /// Six decimals.
    Us,
    /// Nine decimals.
    Ns,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86400.0 => Ok(seconds),
        _ => Err("a number of seconds over 0, a day (86400) at most".to_owned()),
    }
}
