//! `tracetee collect`: the server that devices send to, until Ctrl-C or SIGTERM. SIGHUP reads tokens and certificate again.

use super::findings;
use crate::args::{CollectArgs, LogFormat};
use crate::terminal::{Log, hinted, print};
use crate::verbosity::levels;
use anyhow::{Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;
use tracetee_server::{
    Limits, Options, Retention, Server, StoreLocation, TlsAcceptor, Tokens, make_private, read_tls,
};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Maximum number of log lines that wait for the reader of stderr.
const MOST_LOG_LINES: usize = 1000;
/// Time limit for the last of them at the end.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Counts messages that were lost because too many were waiting.
static LOST_LOG_LINES: OnceLock<ErrorCounter> = OnceLock::new();

/// Serves until a signal.
pub(crate) fn collect(args: &CollectArgs, is_verbose: bool) -> Result<()> {
    let log = log_to_stderr(args.log_format, is_verbose)?;
    let (tokens, tls) = (read_tokens(args)?, read_certificate(args)?);
    if tokens.is_none() && !args.listen.ip().is_loopback() {
        return Err(hinted(
            format!("--listen {}: anyone on the network could send there", args.listen),
            "pass --token-file, or a loopback address",
        ));
    }
    make_private();
    let scheme = if tls.is_some() { "https" } else { "http" };
    // Before the address is printed: a script may send the signal then.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let options = Options {
        store: StoreLocation::parse(&args.store),
        cache: args.cache.clone(),
        config: args.config.clone(),
        public_key: args.public_key.clone(),
        tokens,
        tls,
        page: args.page,
        user_header: args.page_user_header.clone(),
        retention: Retention {
            days: args.keep_days,
            bytes: args.keep_gb.map(|gb| gb.saturating_mul(1 << 30)),
            app_bytes: args.app_gb.map(|gb| gb.saturating_mul(1 << 30)),
        },
        captures_per_s: Some(args.app_rate),
        limits: Limits::resolve(
            args.max_connections,
            args.connections_per_client,
            &args.trusted_proxy,
        ),
        lost_log_lines: || LOST_LOG_LINES.get().map_or(0, |lines| lines.dropped_lines() as u64),
    };
    let prepare = |file| findings::prepare(file, &args.store, super::guard::look);
    let guard = args.guard.as_deref().map(prepare).transpose()?;
    let server = Server::start(args.listen, options)?;
    let metrics = server.findings();
    guard.map(|start| start(server.replica(), metrics)).transpose()?;
    let (address, store) = (server.address, &args.store);
    print(&format!("listening on {scheme}://{address}, storing captures in {store}\n"));
    let page = server.page;
    let is_plain = page != address && page.ip().is_loopback();
    print(&format!("report page: {}://{page}/\n", if is_plain { "http" } else { scheme }));
    if args.token_file.is_none() {
        tracing::warn!("no --token-file: every program on this machine may send");
    } else if scheme == "http" && !args.listen.ip().is_loopback() {
        tracing::warn!(
            "no --tls-cert: tokens and captures travel unencrypted, unless a proxy in front ends TLS"
        );
    }
    for _ in signals.forever().take_while(|signal| *signal == SIGHUP) {
        match read_tokens(args).and_then(|tokens| Ok((tokens, read_certificate(args)?))) {
            Ok((tokens, tls)) => {
                server.reload(tokens, tls);
                tracing::info!("read the token file and the certificate again");
            }
            Err(error) => tracing::error!("kept the tokens and the certificate: {error:#}"),
        }
    }
    tracing::info!("stopping: finishing the requests in flight");
    server.stop();
    end(log);
    Ok(())
}

/// Waits for the last lines of the log, while they are being read.
fn end(log: WorkerGuard) {
    let (ending, ended) = channel::<()>();
    // On a thread that is abandoned if it hangs: when too many lines wait, the guard has a message for stdout.
    std::thread::spawn(move || {
        let _ending = ending;
        drop(log);
    });
    let _ = ended.recv_timeout(LAST_LINES);
}

fn read_tokens(args: &CollectArgs) -> Result<Option<Tokens>> {
    args.token_file.as_deref().map(Tokens::read).transpose()
}

fn read_certificate(args: &CollectArgs) -> Result<Option<TlsAcceptor>> {
    let files = args.tls_cert.as_ref().zip(args.tls_key.as_ref());
    files.map(|(certificates, key)| read_tls(certificates, key)).transpose()
}

/// Sends the server's log lines to stderr, on a thread, because their reader may stop reading.
fn log_to_stderr(format: LogFormat, is_verbose: bool) -> Result<WorkerGuard> {
    let lines = NonBlockingBuilder::default().buffered_lines_limit(MOST_LOG_LINES);
    let (log, writes) = lines.finish(Log);
    let _ = LOST_LOG_LINES.set(log.error_counter());
    // A line that cannot be written is lost. Reported with `eprintln`, as is the default, it would be a panic of the thread
    // that had something to say.
    let builder =
        tracing_subscriber::fmt().with_writer(log).with_target(false).log_internal_errors(false);
    let builder = builder.with_max_level(tracing::Level::DEBUG);
    let targets = levels(is_verbose);
    let set = match format {
        LogFormat::Text => builder.with_ansi(false).finish().with(targets).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().with(targets).try_init(),
    };
    set.map_err(|error| anyhow!("cannot set up logging: {error}"))?;
    Ok(writes)
}
