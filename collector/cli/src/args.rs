//! The command line: commands and options, parsed by clap. Independent of the commands' implementation.

mod config;
mod gate;
mod guard;
#[cfg(test)]
mod help_tests;
mod report;
mod store;
mod traces;

pub(crate) use config::ConfigCommand;
pub(crate) use gate::{GateArgs, GateFormat};
pub(crate) use guard::{AnswerFormat, BisectArgs, GuardArgs};
pub(crate) use report::{FailOn, ReportArgs, ReportFormat};
pub(crate) use store::{
    BackupArgs, ForgetArgs, InitArgs, MappingCommand, MappingUploadArgs, McpArgs, RebuildArgs,
    StoreCommand, StoreOptions, TablesArgs,
};
pub(crate) use traces::{AtraceArgs, ConvertArgs, DmtracedumpArgs};

use clap::builder::RangedU64ValueParser;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tracetee_protocol::recording::PassOnSetting;

/// Trace Android apps and Linux programs from inside the process.
#[derive(Debug, Parser)]
#[command(name = "tracetee", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Use colours; `auto`: on a terminal; NO_COLOR and CLICOLOR_FORCE override this.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, help_heading = EVERYWHERE)]
    pub(crate) color: ColorChoice,
    /// Print nothing but errors to stderr.
    #[arg(short, long, global = true, help_heading = EVERYWHERE)]
    pub(crate) quiet: bool,
    /// Log the command's steps to stderr, for troubleshooting.
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = EVERYWHERE)]
    pub(crate) verbose: bool,
}

/// Heading of the options that each command has.
const EVERYWHERE: &str = "Options of all commands";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    NeedsLinux(LinuxCommand),
    /// Report why frames of captures and Perfetto's traces are janky.
    ///
    /// Reads the store of a collector (--store) or trace files: Perfetto's protobuf, ftrace text of tracetee, atrace and
    /// systrace, plain or compressed with gzip, zstd or zlib. Reports the app of a trace that was touched and drew most, and
    /// names the others; --app or --pid chooses another.
    #[command(display_order = 1)]
    Report(ReportArgs),
    /// Convert traces between Perfetto, systrace and other tools' formats.
    ///
    /// Reads Perfetto's protobuf, ftrace text (of tracetee, atrace, systrace's HTML and trace-cmd), Chrome and Dart JSON,
    /// and method traces (versions 1 to 5, and ART's streaming formats), plain or compressed with gzip, zstd or zlib.
    /// Merges several inputs into one trace on one clock. Reports events that the target format cannot represent.
    #[command(display_order = 4)]
    Convert(ConvertArgs),
    /// Print a method profile of any trace, as dmtracedump does.
    #[command(display_order = 4)]
    Dmtracedump(DmtracedumpArgs),
    /// Print the completions of a shell.
    ///
    /// Packages install them. To install them yourself, for bash: tracetee completions bash >
    /// ~/.local/share/bash-completion/completions/tracetee
    Completions {
        /// Shell that reads them.
        shell: clap_complete::Shell,
    },
    /// Write the manual's pages, for man(1), to a directory.
    Manual {
        /// Directory to write to.
        #[arg(short, long, alias = "out", value_name = "DIR", default_value = ".")]
        output: PathBuf,
    },
}

/// Commands only for Linux: they run programs under the agent, or use the collector's store.
///
/// Help lists the others among them: `display_order` counts these.
#[derive(Debug, Subcommand)]
pub(crate) enum LinuxCommand {
    /// Run a program with the agent and write its trace.
    ///
    /// Traces child processes too. Exits with the program's status (128 + n after signal n), or with 125 if tracetee itself
    /// failed, 126 if the program cannot be executed, and 127 if it was not found.
    Run(RunArgs),
    /// Receive captures from devices and serve their remote configuration.
    ///
    /// Serves PUT /v1/captures/ID, PUT /v1/losses/ID, PUT /v1/ledgers/ID, PUT /v1/mappings/APP/VERSION, GET /v1/config, /healthz,
    /// /readyz and /metrics, and the report page at / of --page. Runs until Ctrl-C or SIGTERM, and finishes the requests in flight before
    /// it exits. SIGHUP makes it reload --token-file, --tls-cert and --tls-key.
    Collect(Box<CollectArgs>),
    /// Decide whether a rollout may continue.
    ///
    /// Compares devices under two versions, and can be run any number of times: a rollout without a regression raises an
    /// alarm with a probability of at most 1 %. Exits with 0 for go, 1 for stop (a cause takes more time under the later
    /// version), 2 for not yet (and says how many devices are missing), and 125 after an error. The state is in the store.
    Guard(GuardArgs),
    /// Find the version in which a cause became worse.
    ///
    /// Compares each version with the earlier ones on devices that sent both. Prints the changes of all causes and screens,
    /// the most certain first.
    Bisect(BisectArgs),
    /// Compare two builds by their macrobenchmarks.
    ///
    /// Decides whether the build is slower: compares runs in pairs, names the sections whose time changed, and with --field
    /// estimates how many more late frames the app's users would see. Alternate the builds on one phone, at least eight runs
    /// each. Exits with 1 if a metric is worse, which has a probability of at most 1 % for a build without a change, and
    /// with 125 after an error.
    Gate(GateArgs),
    /// Capture with the options of atrace, and most of systrace.py's.
    ///
    /// Does not accept systrace.py's -e, -j, --ktrace, --no-compress, --process-dump, --target and --timeout.
    /// Runs PROGRAM if one is given. Otherwise captures in running processes that have called tracetee_install: those
    /// that -a or --pid selects, or all; on a phone, through `adb forward` and --connect. Prints atrace's output, or
    /// writes an HTML page if -o ends in .html.
    Atrace(AtraceArgs),
    /// Answer AI agents over the Model Context Protocol, read-only.
    ///
    /// Speaks MCP on stdin and stdout, for a client that starts this program. A collector's page serves the same protocol at
    /// /mcp.
    Mcp(McpArgs),
    /// Maintain the store of a collector.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Send captures of a simulated fleet with known jank causes.
    ///
    /// The plan has versions, causes, devices, a rollout, and a world: knobs for other influences on jank, such as dates,
    /// first days after an update, bots and implausible records.
    Simulate(SimulateArgs),
    /// Capture a sample app, upload the captures, and report them.
    Demo(DemoArgs),
    /// Explain why a trace is empty, the probable cause first.
    ///
    /// Reads the health report of process PID, which has the agent installed or was started by `tracetee run`, or of a
    /// FILE with the text of Tracetee.health(). With --app, examines an app on a device.
    Doctor(DoctorArgs),
    /// Test over adb whether the agent works on a device.
    ///
    /// Installs the sample app of a release, runs each scenario in it, prints a table, and writes a file to send to the
    /// developers of tracetee. The screen must be on. Removes the app at the end. Exits with 1 unless each scenario has
    /// passed or was measured. ANDROID_SERIAL chooses one of several devices.
    DeviceTest(DeviceTestArgs),
    /// Write the agent's library and C header to a directory.
    ///
    /// Use them without `tracetee run`: preload the library (LD_PRELOAD=…/libtracetee.so TRACETEE_CONFIG=FILE PROGRAM),
    /// or link it and call the functions of tracetee.h.
    Library {
        /// Directory to write to.
        #[arg(short, long, alias = "out", value_name = "DIR", default_value = ".")]
        output: PathBuf,
    },
    /// Prepare a collector: token, key pair, signed example configuration.
    ///
    /// Writes the files to a directory, and prints the lines for the app and the command for the server.
    Init(InitArgs),
    /// Check whether a collector works.
    ///
    /// For health checks: succeeds if the answer is 200. With /readyz in place of /healthz, the collector also asks the
    /// object store.
    Probe(ProbeArgs),
    /// Check and sign remote configurations.
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Options of `run`.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Trace file to write; - is stdout. zstd if it ends in .zst, plain text otherwise [default: PROGRAM.ftrace.zst].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Stop the capture after SECONDS; the program continues.
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time: Option<f64>,
    /// Tag categories to enable in libcutils, separated by commas (view,gfx,dalvik …), or `all`.
    #[arg(long, value_name = "TAGS", value_delimiter = ',', default_value = "all")]
    pub(crate) tags: Vec<String>,
    /// Pass records on to the kernel's trace buffer.
    #[arg(long, value_enum, default_value_t = PassOn::Auto)]
    pub(crate) pass_on: PassOn,
    /// Maximum size of each process's recorder file, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) capacity: u64,
    /// Precision of the timestamps.
    #[arg(long, value_enum, default_value_t = Precision::Us)]
    pub(crate) precision: Precision,
    /// Write the trace while the program runs.
    #[arg(long)]
    pub(crate) stream: bool,
    /// `--quiet` of the program, or of the command that runs this one.
    #[arg(skip)]
    pub(crate) quiet: bool,
    /// Program to run, and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

impl RunArgs {
    /// Time after which the capture stops.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.time.map(Duration::from_secs_f64)
    }
}

/// Options of `collect`.
#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// Address to listen on; one that is not loopback requires --token-file.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8440")]
    pub(crate) listen: SocketAddr,
    /// Store for the captures: a directory, s3://BUCKET/PREFIX, gs://… or az://….
    #[arg(long, value_name = "STORE", default_value = "tracetee-store")]
    pub(crate) store: String,
    /// Directory for the tables of an object store [default: a temporary one].
    ///
    /// If it is empty, the tables are rebuilt from the bucket. No other process may use it.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// File with tokens: lines APP TOKEN RIGHT (upload, mappings, read, admin, metrics).
    ///
    /// The default RIGHT is upload. TOKEN may be sha256: and the token's digest. In APP user:NAME read, NAME is a user named
    /// by a proxy. * means all apps, or any user. The right metrics covers all apps.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate chain for TLS (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Remote configuration to serve, read again for each request; its signature is FILE.sig.
    ///
    /// A file that devices would refuse is not served: the last good one stays, and the log says why.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Public key of the configuration; one signed by another key is not served.
    #[arg(long, value_name = "FILE", requires = "config")]
    pub(crate) public_key: Option<PathBuf>,
    /// Address for the report page [default: the --listen address].
    ///
    /// Readers need a token with the right to read, as a bearer token or as the password of HTTP Basic. Without
    /// --token-file, the page serves only browsers on this machine, at a loopback address.
    #[arg(long, value_name = "ADDR")]
    pub(crate) page: Option<SocketAddr>,
    /// Header in which a --trusted-proxy names the user, such as X-Forwarded-User.
    ///
    /// The proxy must set or remove the header in each request, because the collector trusts it.
    #[arg(long, value_name = "NAME", requires_all = ["trusted_proxy", "token_file"])]
    pub(crate) page_user_header: Option<String>,
    /// Delete captures that arrived more than DAYS ago.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub(crate) keep_days: Option<u64>,
    /// Delete the oldest captures of the largest apps when the store exceeds GIB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep_gb: Option<u64>,
    /// Delete the oldest captures of an app when they exceed GIB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) app_gb: Option<u64>,
    /// Average number of captures a second that one app may send; others wait, then receive 429.
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) app_rate: u32,
    /// Maximum number of open connections [default: 4096, or fewer if the descriptor limit is lower].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) max_connections: Option<usize>,
    /// Maximum number of open connections from one address [default: a quarter of --max-connections].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) connections_per_client: Option<usize>,
    /// Address of a reverse proxy, which names the client in X-Forwarded-For; may be repeated.
    #[arg(long, value_name = "IP")]
    pub(crate) trusted_proxy: Vec<IpAddr>,
    /// Rollouts to guard (JSON).
    ///
    /// Reads the file again at each check. Logs a finding when it begins and when it ends; /metrics shows it in between.
    #[arg(long, value_name = "FILE")]
    pub(crate) guard: Option<PathBuf>,
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

fn http_url(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        Ok(text.to_owned())
    } else {
        Err("must begin with http:// or https://".to_owned())
    }
}

/// Options of `probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// URL to ask.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8440/healthz", value_parser = http_url)]
    pub(crate) url: String,
    /// CA certificates (PEM) to verify the collector with [default: Mozilla's].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Options of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// URL of the collector.
    #[arg(long, alias = "to", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Number of devices.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) devices: u64,
    /// Seed of the simulation; the same seed gives the same fleet.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of concurrent requests.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections: u16,
    /// Number of frames in a capture [default: the plan's].
    #[arg(long, value_name = "N")]
    pub(crate) frames: Option<u64>,
    /// Plan of the simulation (JSON) [default: the one that --print-plan prints].
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Simulate a rollout: devices update one by one to version 2.1, which has more jank.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) rollout: bool,
    /// Print the plan as JSON and exit.
    #[arg(long)]
    pub(crate) print_plan: bool,
    /// Write the simulated ground truth to FILE as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
    /// File with the collector's tokens; the first line APP TOKEN is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the collector with [default: Mozilla's].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Directory to write the traces and reports to.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = "demo-out")]
    pub(crate) output: PathBuf,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Processes to examine, or files with the health report of an app.
    #[arg(value_name = "PID|FILE", required_unless_present = "app")]
    pub(crate) targets: Vec<OsString>,
    /// App to examine on a device over adb; exit status 1 if something is missing.
    ///
    /// With several devices, ANDROID_SERIAL chooses one.
    #[arg(long, value_name = "PACKAGE", conflicts_with = "targets")]
    pub(crate) app: Option<String>,
    /// Print the agent's health report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `device-test`.
#[derive(Debug, Args)]
pub(crate) struct DeviceTestArgs {
    /// Sample app of a release, tracetee-VERSION-sample.apk.
    #[arg(long, value_name = "FILE")]
    pub(crate) apk: PathBuf,
    /// File to write: JSON with the table, the measurements and the health report.
    #[arg(short, long, value_name = "FILE", default_value = "tracetee-device-test.json")]
    pub(crate) output: PathBuf,
    /// Seconds to measure frames: each without the agent, with it, and while it records.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=3600))]
    pub(crate) seconds: u32,
    /// Number of app starts to measure with the agent, and without it.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) starts: u32,
}

/// The agent's `pass_on`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PassOn {
    /// While a system trace has tags enabled.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The agent's `text.precision`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// Microseconds, as the kernel writes.
    #[default]
    Us,
    /// Nanoseconds.
    Ns,
}

impl From<PassOn> for PassOnSetting {
    fn from(argument: PassOn) -> Self {
        match argument {
            PassOn::Auto => Self::Auto,
            PassOn::Always => Self::Always,
            PassOn::Never => Self::Never,
        }
    }
}

#[cfg(target_os = "linux")]
impl From<Precision> for tracetee_text::Precision {
    fn from(argument: Precision) -> Self {
        match argument {
            Precision::Us => Self::Us,
            Precision::Ns => Self::Ns,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86400.0 => Ok(seconds),
        _ => Err("must be a number of seconds above 0 and up to 86400 (one day)".to_owned()),
    }
}
