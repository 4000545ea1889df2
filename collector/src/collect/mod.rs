//! `tracetee collect`: the server that devices send to, and have their configuration from.
//!
//! The journey of a capture: [`server`] takes the request and asks [`tokens`] whose it is; [`receive`]
//! streams its body to a file and checks it; [`store`] gives it its place, once. Losses and
//! configurations have routes of their own. Nothing that a client says becomes a path but an id, and
//! that only when it is a UUID.

mod receive;
mod server;
mod store;
mod tls;
mod tokens;

use crate::cli::{CollectArgs, print, say};
use anyhow::{Context, Result, bail};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use server::Collector;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
pub(crate) use store::Stored;
use tokens::Tokens;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How long requests that are under way may take when it ends.
const LAST_REQUESTS: Duration = Duration::from_secs(30);

/// Serves until Ctrl-C or SIGTERM.
pub(crate) fn collect(args: &CollectArgs) -> Result<()> {
    let tokens = args.token_file.as_deref().map(Tokens::read).transpose()?;
    if tokens.is_none() && !args.listen.ip().is_loopback() {
        bail!(
            "--listen {}: anybody could send there. Give --token-file, or an address of this machine",
            args.listen
        );
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some(tls::read(certificates, key)?),
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    // Before anybody knows that it runs.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let serves = Serves { store: &args.store, config: args.config.clone(), tokens, tls };
    let running = Running::start(args.listen, serves)?;
    let (address, store) = (running.address, args.store.display());
    print(&format!("listening on {scheme}://{address}, captures go to {store}\n"));
    if args.token_file.is_none() {
        say("without --token-file every program of this machine may send");
    } else if scheme == "http" && !args.listen.ip().is_loopback() {
        say(
            "without --tls-cert tokens and captures come unprotected, unless something in front ends TLS",
        );
    }
    signals.forever().next();
    say("stopping: what is under way is taken in");
    running.stop()
}

/// What a collector serves.
pub(crate) struct Serves<'a> {
    /// The directory that captures are kept in.
    pub(crate) store: &'a Path,
    /// The remote configuration.
    pub(crate) config: Option<PathBuf>,
    /// Who may send; `None`: everybody.
    pub(crate) tokens: Option<Tokens>,
    /// With TLS.
    pub(crate) tls: Option<RustlsConfig>,
}

/// A collector at work, on threads of its own.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    runtime: Runtime,
    handle: Handle<SocketAddr>,
    served: JoinHandle<std::io::Result<()>>,
    collector: Arc<Collector>,
}

impl Running {
    /// Starts one.
    pub(crate) fn start(listen: SocketAddr, serves: Serves<'_>) -> Result<Self> {
        let store = Store::open(serves.store)?;
        if let Some(config) = &serves.config {
            std::fs::metadata(config)
                .with_context(|| format!("cannot read the configuration {}", config.display()))?;
        }
        let listener =
            TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let collector = Arc::new(Collector::new(store, serves.tokens, serves.config));
        let service = server::router(Arc::clone(&collector)).into_make_service();
        let handle = Handle::new();
        let of_it = handle.clone();
        let served = {
            let _inside = runtime.enter();
            match serves.tls {
                None => {
                    let server = axum_server::from_tcp(listener)?.handle(of_it);
                    runtime.spawn(server.serve(service))
                }
                Some(tls) => {
                    let server = axum_server::from_tcp_rustls(listener, tls)?.handle(of_it);
                    runtime.spawn(server.serve(service))
                }
            }
        };
        Ok(Self { address, runtime, handle, served, collector })
    }

    /// The captures that it has taken in, the oldest first.
    pub(crate) fn captures(&self) -> Vec<Stored> {
        self.collector.taken()
    }

    /// Ends it: requests that are under way are served to their end.
    pub(crate) fn stop(self) -> Result<()> {
        self.handle.graceful_shutdown(Some(LAST_REQUESTS));
        self.runtime.block_on(self.served).context("the server ended by a fault of its own")??;
        Ok(())
    }
}
