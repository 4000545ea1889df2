//! A running collector: its listeners, its runtime, and the thread that applies retention.
//!
//! `tracetee collect` and `tracetee demo` start one with [`Server::start`] and end it with [`Server::stop`].

use crate::http::connections::{Connections, Limits};
use crate::http::findings::Findings;
use crate::http::host::{no_foreign_page, no_foreign_write};
use crate::http::page::Page;
use crate::http::readers::Readers;
use crate::http::remote_config::RemoteConfig;
use crate::http::serve::{Serving, Tls};
use crate::http::tls::TlsAcceptor;
use crate::http::tokens::Tokens;
use crate::http::{self, Collector, StoredCapture};
use crate::store::captures::retention::{Deleted, Retention};
use crate::store::interrupted;
use crate::store::objects::location::StoreLocation;
use crate::store::share::replica::Replica;
use crate::store::storage::Storage;
use anyhow::{Context, Result, bail};
use axum::Router;
use axum::http::HeaderName;
use axum::middleware::from_fn;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracetee_trace::quoted;

/// Time limit for requests in progress when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(30);
/// Time limit for blocking work of the runtime after that.
const LAST_WORK: Duration = Duration::from_secs(5);
/// Interval at which the server searches for captures that are not indexed.
const MAINTENANCE_EVERY: Duration = Duration::from_secs(10);
const RETENTION_EVERY: Duration = Duration::from_secs(3600);

/// Options of a server.
pub struct Options<'a> {
    /// The directory or object store that captures are stored in.
    pub store: StoreLocation<'a>,
    /// Directory of an object store's tables; `None`: a temporary one, deleted when the server ends.
    pub cache: Option<PathBuf>,
    /// File of the remote configuration to serve.
    pub config: Option<PathBuf>,
    /// File of the public key that the configuration must be signed for.
    pub public_key: Option<PathBuf>,
    /// Clients that may send; `None` admits all.
    pub tokens: Option<Tokens>,
    /// TLS for devices; `None` is plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// Address of the report page; `None`: the page is served at the address to which devices send.
    pub page: Option<SocketAddr>,
    /// Header in which a trusted proxy names the user who reads.
    pub user_header: Option<String>,
    /// Retention of captures.
    pub retention: Retention,
    /// Average number of captures a second that one app may send; `None` is unlimited.
    pub captures_per_s: Option<u32>,
    /// Limits of connections.
    pub limits: Limits,
    /// Returns the number of log lines that were lost.
    pub lost_log_lines: fn() -> u64,
}

impl<'a> Options<'a> {
    /// Stores all captures in a directory, without authentication or TLS.
    #[must_use]
    pub fn local(store: &'a Path) -> Self {
        let retention = Retention::default();
        let store = StoreLocation::Directory(store);
        let limits = Limits::resolve(None, None, &[]);
        Self {
            store,
            cache: None,
            config: None,
            public_key: None,
            tokens: None,
            tls: None,
            page: None,
            user_header: None,
            retention,
            captures_per_s: None,
            limits,
            lost_log_lines: || 0,
        }
    }
}

/// A running server, on its own threads.
pub struct Server {
    /// Address that devices send to.
    pub address: SocketAddr,
    /// Address of the report page.
    pub page: SocketAddr,
    runtime: Runtime,
    /// Asks all connections to end; `connections` closes when the last one has.
    end: watch::Sender<bool>,
    connections: mpsc::Receiver<()>,
    tls: Option<Tls>,
    shown: Arc<Page>,
    collector: Arc<Collector>,
    maintenance: (Sender<()>, std::thread::JoinHandle<()>),
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// When the address is taken, the store cannot be opened or is in use, or the configuration is unreadable.
    pub fn start(listen: SocketAddr, options: Options<'_>) -> Result<Self> {
        let key = options.public_key.as_deref();
        let config = options.config.map(|path| RemoteConfig::open(&path, key)).transpose()?;
        let (listener, address) = listen_on(listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        // With tokens there may be a local proxy, so that all clients appear to be on this machine.
        let is_open = options.tokens.is_none();
        if let Some(page) = options.page.filter(|page| !page.ip().is_loopback() && is_open) {
            bail!(
                "--page {page}: anyone on the network could read there; pass --token-file with a line APP TOKEN read, or a loopback \
                 address"
            );
        }
        let user_header = options.user_header.as_deref().map(|name| {
            HeaderName::try_from(name).with_context(|| {
                format!("--page-user-header {}: not the name of a header", quoted(name))
            })
        });
        let user_header = user_header.transpose()?;
        let storage = Storage::open(options.store, options.cache.as_deref())?;
        let collector = Arc::new(Collector::new(
            storage,
            options.tokens,
            config,
            options.captures_per_s,
            options.lost_log_lines,
        ));
        let page = Page::new(&collector.storage);
        let connections = Connections::new(options.limits);
        let tls = options.tls.map(|tls| Arc::new(RwLock::new(tls)));
        let readers = |is_tls, at: SocketAddr| {
            Readers::new(Arc::clone(&collector), user_header.clone(), is_tls, at.ip().is_loopback())
        };
        let of_devices = readers(tls.is_some(), address);
        let mut router =
            http::router(Arc::clone(&collector), Arc::clone(&connections), Arc::clone(&of_devices));
        let (end, ended) = watch::channel(false);
        let (alive, all) = mpsc::channel(1);
        let serve = |listener: TcpListener, router: Router, tls, connections: &Arc<Connections>| {
            let _inside = runtime.enter();
            let serving = Serving {
                listener: tokio::net::TcpListener::from_std(listener)?,
                router: router.layer(from_fn(no_foreign_write)),
                tls,
                connections: Arc::clone(connections),
                ended: ended.clone(),
                alive: alive.clone(),
            };
            drop(runtime.spawn(serving.run()));
            Ok::<_, std::io::Error>(())
        };
        if is_open && listen.ip().is_loopback() {
            router = router.layer(from_fn(no_foreign_page));
        }
        let mut page_at = address;
        if let Some(at) = options.page {
            let (listener, at) = listen_on(at)?;
            page_at = at;
            // Devices do not use up the connections for readers.
            let proxies = connections.proxies().to_vec();
            let people = Connections::new(Limits { all: 64, of_client: 64, proxies });
            // A browser on this machine would not know the certificate's name, and a proxy needs none.
            let tls = tls.clone().filter(|_| !at.ip().is_loopback());
            let router = Arc::clone(&page).router(readers(tls.is_some(), at));
            serve(listener, router, tls, &people)?;
        } else {
            router = router.merge(Arc::clone(&page).router(of_devices));
        }
        serve(listener, router, tls.clone(), &connections)?;
        drop(alive);
        let maintenance = maintain(Arc::clone(&collector), options.retention)?;
        let connections = all;
        Ok(Self {
            address,
            page: page_at,
            runtime,
            end,
            connections,
            tls,
            shown: page,
            collector,
            maintenance,
        })
    }

    /// Returns the guard's part of `/metrics`.
    #[must_use]
    pub fn findings(&self) -> Arc<Findings> {
        Arc::clone(&self.collector.findings)
    }

    /// Returns the replica of an object store; `None` if the store is a directory.
    #[must_use]
    pub fn replica(&self) -> Option<Arc<Replica>> {
        self.collector.storage.replica.clone()
    }

    /// Captures stored by this server, oldest first, the first 1,000.
    #[must_use]
    pub fn captures(&self) -> Vec<StoredCapture> {
        self.collector.taken()
    }

    /// Replaces the tokens, for the next request on, and the certificate, for the next connection on. A server that was
    /// started without one of them stays without it.
    pub fn reload(&self, tokens: Option<Tokens>, tls: Option<TlsAcceptor>) {
        tokens.into_iter().for_each(|tokens| self.collector.set_tokens(tokens));
        if let (Some(known), Some(tls)) = (&self.tls, tls) {
            *known.write().unwrap_or_else(PoisonError::into_inner) = tls;
        }
    }

    /// Waits until all captures received so far are indexed.
    pub fn settle(&self) {
        self.collector.storage.indexer.settle();
    }

    /// Stops the server after it has answered the requests in flight.
    pub fn stop(self) {
        let Self { runtime, end: ended, mut connections, shown, collector, maintenance, .. } = self;
        let (end, maintenance) = maintenance;
        // A report that is being made is given up, and an object store that does not answer.
        shown.stop();
        if let Some(replica) = &collector.storage.replica {
            replica.objects.end();
        }
        let _ = ended.send(true);
        let _ = runtime.block_on(async { timeout(LAST_REQUESTS, connections.recv()).await });
        drop(end);
        let _ = maintenance.join();
        runtime.shutdown_timeout(LAST_WORK);
        // Does not wait for its other users: captures that are not in the tables are added at the next start.
        if let Some(collector) = Arc::into_inner(collector) {
            collector.storage.stop();
        }
    }
}

fn listen_on(listen: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Applies retention, indexes captures that the indexer had no room for, and ends commands that were killed, until the
/// sender is dropped.
fn maintain(
    collector: Arc<Collector>,
    retention: Retention,
) -> Result<(Sender<()>, std::thread::JoinHandle<()>)> {
    let (end, ended) = bounded(0);
    let thread = std::thread::Builder::new().name("maintenance".to_owned()).spawn(move || {
        let storage = &collector.storage;
        if let Some(replica) = &storage.replica {
            replica.tend(storage, retention, &*collector, &ended);
            return;
        }
        let (root, indexer) = (&storage.root, &storage.indexer);
        let mut retained: Option<Instant> = None;
        let mut was_interrupted = false;
        loop {
            match interrupted::go_on(root) {
                Ok(done) => {
                    done.into_iter().for_each(|done| tracing::warn!("{done}"));
                    was_interrupted = false;
                }
                // It is tried again.
                Err(_) if was_interrupted => {}
                Err(error) => {
                    tracing::error!("{error:#}");
                    was_interrupted = true;
                }
            }
            // A store that fills up quickly does not wait for the hour.
            if collector.store_size.is_much(&retention)
                || retained.is_none_or(|at| at.elapsed() >= RETENTION_EVERY)
            {
                retained = Some(Instant::now());
                let applied = storage.retain(retention);
                collector.store_size.note_retained();
                match applied {
                    Ok(deleted) if deleted == Deleted::default() => {}
                    Ok(deleted) => collector.note_deleted(&deleted),
                    Err(error) => tracing::error!("retention failed: {error:#}"),
                }
                if let Err(error) = storage.local.quarantined.limit(retention) {
                    tracing::error!("cannot look through the quarantine: {error}");
                }
                match storage.bytes() {
                    Ok(bytes) => collector.store_size.note_measured(bytes),
                    Err(error) => tracing::error!("cannot measure the store: {error:#}"),
                }
            }
            // ORDERING: Relaxed; a wish.
            if indexer.state.missed.load(Ordering::Relaxed)
                && indexer.waiting() == 0
                && let Err(error) = indexer.catch_up()
            {
                tracing::error!("cannot look for captures that are not indexed: {error:#}");
            }
            if ended.recv_timeout(MAINTENANCE_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok((end, thread))
}
