//! `tracetee collect`: the server that devices send to, until Ctrl-C or SIGTERM.

use crate::args::{CollectArgs, LogFormat};
use crate::terminal::print;
use anyhow::{Result, anyhow, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracetee_server::{
    Limits, Options, Retention, Server, StoreLocation, Tokens, make_private, read_tls,
};

/// Serves until a signal.
pub(crate) fn collect(args: &CollectArgs) -> Result<()> {
    log_to_stderr(args.log_format)?;
    let tokens = args.token_file.as_deref().map(Tokens::read).transpose()?;
    if tokens.is_none() && !args.listen.ip().is_loopback() {
        bail!(
            "--listen {}: anyone on the network could send there; pass --token-file, or a loopback address",
            args.listen
        );
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some(read_tls(certificates, key)?),
        _ => None,
    };
    if let Some(page) = args.page.filter(|page| !page.ip().is_loopback()) {
        bail!(
            "--page {page}: the report page has no login; pass a loopback address, and put a proxy with a login \
             in front of it"
        );
    }
    make_private();
    let scheme = if tls.is_some() { "https" } else { "http" };
    // Before the address is printed: a script may send the signal then.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let options = Options {
        store: StoreLocation::parse(&args.store),
        config: args.config.clone(),
        tokens,
        tls,
        page: args.page,
        retention: Retention {
            days: args.keep_days,
            bytes: args.keep_gb.map(|gb| gb.saturating_mul(1 << 30)),
            app_bytes: args.app_gb.map(|gb| gb.saturating_mul(1 << 30)),
        },
        captures_per_s: Some(args.app_rate),
        limits: Limits::resolve(args.max_connections, args.connections_per_peer),
    };
    let server = Server::start(args.listen, options)?;
    let (address, store) = (server.address, &args.store);
    print(&format!("listening on {scheme}://{address}, storing captures in {store}\n"));
    match server.page {
        Some(page) if page == address => print(&format!("report page: {scheme}://{page}/\n")),
        Some(page) => print(&format!("report page: http://{page}/\n")),
        None => {}
    }
    if args.token_file.is_none() {
        tracing::warn!("no --token-file: every program on this machine may send");
    } else if scheme == "http" && !args.listen.ip().is_loopback() {
        tracing::warn!(
            "no --tls-cert: tokens and captures travel unencrypted, unless a proxy in front ends TLS"
        );
    }
    signals.forever().next();
    tracing::info!("stopping: finishing the requests in flight");
    server.stop();
    Ok(())
}

/// Sends the server's log lines to stderr.
fn log_to_stderr(format: LogFormat) -> Result<()> {
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    let set = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    set.map_err(|error| anyhow!("cannot set up logging: {error}"))
}
