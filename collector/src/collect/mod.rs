//! `tracetee collect`: the server that devices send to, and have their configuration from.
//!
//! The journey of a capture: [`serve`] accepts the connection, if [`connections`] has a place for it;
//! [`server`] takes the request and asks [`tokens`] whose it is; [`receive`] streams its body to a file and
//! checks it; [`crate::store`] gives it its place, once, and makes rows of
//! it. Losses and configurations have routes of their own; people have [`page`]. What a client says becomes
//! a path only as an id that is a UUID, and as the names of app and version, encoded.

mod connections;
mod etag;
mod page;
mod place;
mod rate;
mod receive;
mod serve;
mod server;
#[cfg(feature = "cloud")]
mod tickets;
mod tls;
mod tokens;

use crate::cli::{CollectArgs, print, say};
use crate::store::analyser::Analyser;
use crate::store::directory::Directory;
use crate::store::upkeep::{self, Retention};
use crate::store::{make_private, tables_of};
use anyhow::{Context, Result, bail};
use connections::{Connections, Limits};
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use page::Page;
use place::Place;
#[cfg(feature = "parquet")]
pub(crate) use receive::check_text;
use serve::Serving;
use server::Collector;
pub(crate) use server::Stored;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokens::Tokens;
pub(crate) use tokens::first as read_tokens;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// How long requests that are under way may take when it ends.
const LAST_REQUESTS: Duration = Duration::from_secs(30);
/// How long what they do beside the connections may take then.
const LAST_WORK: Duration = Duration::from_secs(5);
/// How often it is looked whether something is to be done, and whether something is too old.
const UPKEEP_EVERY: Duration = Duration::from_secs(10);
const RETENTION_EVERY: Duration = Duration::from_secs(3600);

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
    if let Some(page) = args.page.filter(|page| !page.ip().is_loopback()) {
        bail!(
            "--page {page}: the page has no login. Give an address of this machine, and put a proxy with a \
             login in front of it"
        );
    }
    make_private();
    let scheme = if tls.is_some() { "https" } else { "http" };
    // Before anybody knows that it runs.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let retention = Retention {
        days: args.keep_days,
        bytes: args.keep_gb.map(|gb| gb.saturating_mul(1 << 30)),
    };
    let serves = Serves {
        store: StoreAt::of(&args.store),
        config: args.config.clone(),
        tokens,
        tls,
        page: args.page,
        retention,
        limits: Limits::of(args.max_connections, args.connections_per_peer),
    };
    let running = Running::start(args.listen, serves)?;
    let (address, store) = (running.address, &args.store);
    print(&format!("listening on {scheme}://{address}, captures go to {store}\n"));
    match running.page {
        Some(page) if page == address => print(&format!("the report is at {scheme}://{page}/\n")),
        Some(page) => print(&format!("the report is at http://{page}/\n")),
        None => {}
    }
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
    /// Where captures are kept.
    pub(crate) store: StoreAt<'a>,
    /// The remote configuration.
    pub(crate) config: Option<PathBuf>,
    /// Who may send; `None`: everybody.
    pub(crate) tokens: Option<Tokens>,
    /// With TLS.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Where people have the report; `None`: where devices send to, if that is this machine without tokens.
    pub(crate) page: Option<SocketAddr>,
    /// How much is kept.
    pub(crate) retention: Retention,
    /// How many may be connected.
    pub(crate) limits: Limits,
}

impl<'a> Serves<'a> {
    /// What comes, to this directory, from everybody of this machine.
    pub(crate) fn to(store: &'a Path) -> Self {
        let retention = Retention::default();
        let store = StoreAt::Directory(store);
        let limits = Limits::of(None, None);
        Self { store, config: None, tokens: None, tls: None, page: None, retention, limits }
    }
}

/// Where captures are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreAt<'a> {
    /// In a directory.
    Directory(&'a Path),
    /// On an object store.
    Objects(&'a str),
}

impl<'a> StoreAt<'a> {
    /// As it is said on the command line.
    fn of(text: &'a str) -> Self {
        match text.strip_prefix("file://") {
            Some(path) => Self::Directory(Path::new(path)),
            None if text.contains("://") => Self::Objects(text),
            None => Self::Directory(Path::new(text)),
        }
    }

    const fn directory(self) -> Option<&'a Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Objects(_) => None,
        }
    }

    fn open(self) -> Result<Place> {
        match self {
            Self::Directory(path) => {
                let directory = Directory::open(path)?;
                let analyser = Analyser::start(path, &tables_of(path))?;
                Ok(Place::Directory { directory: Box::new(directory), analyser })
            }
            #[cfg(feature = "parquet")]
            Self::Objects(address) => Ok(Place::Objects {
                objects: crate::store::objects::Objects::open(address)?,
                incoming: tempfile::tempdir().context("no temporary directory")?,
                next: std::sync::atomic::AtomicU64::new(0),
            }),
            #[cfg(not(feature = "parquet"))]
            Self::Objects(address) => {
                bail!("{address}: this program was built without the feature \"cloud\"")
            }
        }
    }

    #[cfg(feature = "cloud")]
    fn tickets(self) -> Result<Option<tickets::Tickets>> {
        match self {
            Self::Directory(_) => Ok(None),
            Self::Objects(address) => tickets::Tickets::of(address),
        }
    }
}

/// A collector at work, on threads of its own.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where the report is.
    pub(crate) page: Option<SocketAddr>,
    runtime: Runtime,
    /// Says that it is to end; and comes back when the last connection has.
    end: watch::Sender<bool>,
    connections: mpsc::Receiver<()>,
    shown: Option<Arc<Page>>,
    collector: Arc<Collector>,
    upkeep: (Sender<()>, std::thread::JoinHandle<()>),
}

impl Running {
    /// Starts one.
    pub(crate) fn start(listen: SocketAddr, serves: Serves<'_>) -> Result<Self> {
        if let Some(config) = &serves.config {
            std::fs::metadata(config)
                .with_context(|| format!("cannot read the configuration {}", config.display()))?;
        }
        let (listener, address) = listen_on(listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        // With tokens there may be a proxy in front, through which the whole world comes from this machine.
        let is_open = serves.tokens.is_none();
        let place = serves.store.open()?;
        let collector = Arc::new(Collector::new(
            place,
            serves.tokens,
            serves.config,
            #[cfg(feature = "cloud")]
            serves.store.tickets()?,
        ));
        let page = match serves.store.directory() {
            Some(root) => Some(Page::start(root)?),
            None if serves.page.is_some() => bail!(
                "--page: there are no tables beside an object store; report over what `tracetee tables` makes"
            ),
            None => None,
        };
        let connections = Connections::new(serves.limits);
        let mut router = server::router(Arc::clone(&collector), Arc::clone(&connections));
        let (end, ended) = watch::channel(false);
        let (alive, all) = mpsc::channel(1);
        let serve = |listener: TcpListener, router, tls, connections: &Arc<Connections>| {
            let _inside = runtime.enter();
            let serving = Serving {
                listener: tokio::net::TcpListener::from_std(listener)?,
                router,
                tls,
                connections: Arc::clone(connections),
                ended: ended.clone(),
                alive: alive.clone(),
            };
            drop(runtime.spawn(serving.run()));
            Ok::<_, std::io::Error>(())
        };
        let mut page_at = None;
        if let (Some(at), Some(page)) = (serves.page, &page) {
            let (listener, at) = listen_on(at)?;
            page_at = Some(at);
            // Devices do not take people's places.
            let people = Connections::new(Limits { all: 64, of_peer: 64, of_this_machine: 64 });
            serve(listener, Arc::clone(page).router(), None, &people)?;
        } else if let Some(page) = page.as_ref().filter(|_| listen.ip().is_loopback() && is_open) {
            page_at = Some(address);
            router = router.merge(Arc::clone(page).router());
        }
        serve(listener, router, serves.tls, &connections)?;
        drop(alive);
        let root = serves.store.directory().map(Path::to_owned);
        let upkeep = keep_up(Arc::clone(&collector), root, serves.retention)?;
        let connections = all;
        Ok(Self {
            address,
            page: page_at,
            runtime,
            end,
            connections,
            shown: page,
            collector,
            upkeep,
        })
    }

    /// The captures that it has taken in, the oldest first.
    pub(crate) fn captures(&self) -> Vec<Stored> {
        self.collector.taken()
    }

    /// Waits until all that has come is in the tables.
    pub(crate) fn settle(&self) {
        self.collector.place().analyser().into_iter().for_each(Analyser::settle);
    }

    /// Ends it: requests that are under way are served to their end.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { runtime, end: ended, mut connections, shown, collector, upkeep, .. } = self;
        let (end, upkeep) = upkeep;
        // A report that is being made is given up.
        shown.iter().for_each(|page| page.stop());
        let _ = ended.send(true);
        let _ = runtime.block_on(async { timeout(LAST_REQUESTS, connections.recv()).await });
        drop(end);
        let _ = upkeep.join();
        runtime.shutdown_timeout(LAST_WORK);
        // Somebody who still has it is not waited for: what is not in the tables comes at the next start.
        if let Some(collector) = Arc::into_inner(collector) {
            collector.into_place().stop();
        }
        Ok(())
    }
}

fn listen_on(listen: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Deletes what is not kept any longer, and has analysed what was left for later. Until the sender goes.
fn keep_up(
    collector: Arc<Collector>,
    root: Option<PathBuf>,
    retention: Retention,
) -> Result<(Sender<()>, std::thread::JoinHandle<()>)> {
    let (end, ended) = bounded(0);
    let thread = std::thread::Builder::new().name("upkeep".to_owned()).spawn(move || {
        let mut retained: Option<Instant> = None;
        loop {
            let (Some(root), Some(analyser)) = (&root, collector.place().analyser()) else {
                return;
            };
            if retained.is_none_or(|at| at.elapsed() >= RETENTION_EVERY) {
                retained = Some(Instant::now());
                match upkeep::retain(root, retention, SystemTime::now()) {
                    Ok(0) => {}
                    Ok(count) => {
                        say(&format!("deleted {count} captures that are not kept any longer"))
                    }
                    Err(error) => {
                        say(&format!("cannot delete what is not kept any longer: {error:#}"))
                    }
                }
            }
            if analyser.has_missed()
                && analyser.waiting() == 0
                && let Err(error) = analyser.catch_up()
            {
                say(&format!("cannot look for captures that are not analysed: {error:#}"));
            }
            if ended.recv_timeout(UPKEEP_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok((end, thread))
}
