//! `tracetee collect`: the server that devices send to, and have their configuration from.
//!
//! The journey of a capture: [`server`] takes the request and asks [`tokens`] whose it is; [`receive`]
//! streams its body to a file and checks it; [`store`] gives it its place, once. Losses and
//! configurations have routes of their own. Nothing that a client says becomes a path but an id, and
//! that only when it is a UUID.

mod receive;
mod server;
mod store;
mod tokens;

use crate::cli::{CollectArgs, print, say};
use anyhow::{Context, Result, bail};
use server::Collector;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use store::Store;
pub(crate) use store::Stored;
use tokens::Tokens;
use tokio::net::TcpListener;

/// Serves until Ctrl-C or SIGTERM.
pub(crate) fn collect(args: &CollectArgs) -> Result<()> {
    let tokens = args.token_file.as_deref().map(Tokens::read).transpose()?;
    if tokens.is_none() && !args.listen.ip().is_loopback() {
        bail!(
            "--listen {}: anybody could send there. Give --token-file, or an address of this machine",
            args.listen
        );
    }
    // Before anybody knows that it runs.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let running = Running::start(args.listen, &args.store, args.config.clone(), tokens)?;
    print(&format!(
        "listening on http://{}, captures go to {}\n",
        running.address,
        args.store.display()
    ));
    if args.token_file.is_none() {
        say("without --token-file every program of this machine may send");
    }
    signals.forever().next();
    say("stopping: what is under way is taken in");
    running.stop()
}

/// A collector at work, on threads of its own.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    runtime: tokio::runtime::Runtime,
    stop: tokio::sync::watch::Sender<bool>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    collector: Arc<Collector>,
}

impl Running {
    /// Starts one.
    pub(crate) fn start(
        listen: SocketAddr,
        store: &std::path::Path,
        config: Option<PathBuf>,
        tokens: Option<Tokens>,
    ) -> Result<Self> {
        let store = Store::open(store)?;
        if let Some(config) = &config {
            std::fs::metadata(config)
                .with_context(|| format!("cannot read the configuration {}", config.display()))?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime
            .block_on(TcpListener::bind(listen))
            .with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let collector = Arc::new(Collector::new(store, tokens, config));
        let (stop, mut stopped) = tokio::sync::watch::channel(false);
        let service = server::router(Arc::clone(&collector));
        let served = runtime.spawn(async move {
            let until = async move {
                let _ = stopped.wait_for(|&stop| stop).await;
            };
            axum::serve(listener, service).with_graceful_shutdown(until).await
        });
        Ok(Self { address, runtime, stop, served, collector })
    }

    /// The captures that it has taken in, the oldest first.
    pub(crate) fn captures(&self) -> Vec<Stored> {
        self.collector.taken()
    }

    /// Ends it: requests that are under way are served to their end.
    pub(crate) fn stop(self) -> Result<()> {
        let _ = self.stop.send(true);
        self.runtime.block_on(self.served).context("the server ended by a fault of its own")??;
        Ok(())
    }
}
