//! The routes: state that requests share, and a file for each route.
//!
//! A request that is refused before its body was read has the body read to its end, so that a client that
//! sends first and reads then sees the answer; a client that asks first (`Expect: 100-continue`) is answered at once.

mod answer;
mod captures;
mod config;
pub(crate) mod connections;
mod etag;
mod headers;
pub(crate) mod ingest;
mod losses;
mod mappings;
mod metrics;
pub(crate) mod page;
mod rate;
pub(crate) mod serve;
mod ticket;
#[cfg(feature = "cloud")]
pub(crate) mod tickets;
pub(crate) mod tls;
pub(crate) mod tokens;

use crate::store::storage::Storage;
use answer::{Answer, answer};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use connections::Connections;
use headers::text;
use ingest::Incomings;
use metrics::{Counts, add};
use rate::Reports;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
#[cfg(feature = "cloud")]
use tickets::Tickets;
use tokens::{Right, Tokens};
use tokio::sync::Semaphore;
use tracetee_protocol::{CaptureMeta, http};

/// Captures that are checked at once, for each processor: each unpacks with up to 128 MB.
const CHECKS_PER_PROCESSOR: usize = 2;
/// Captures that are checked, or wait for the disk, at once: each has a thread, and a content of up to 4 MB.
const KEEPS: usize = 64;

/// A capture that this server has stored.
#[derive(Debug, Clone)]
pub struct StoredCapture {
    /// File of the capture.
    pub path: PathBuf,
    /// Metadata that the sender gave.
    pub meta: CaptureMeta,
}

/// All that requests share.
#[derive(Debug)]
pub(crate) struct Collector {
    storage: Storage,
    tokens: Option<Tokens>,
    config: Option<PathBuf>,
    #[cfg(feature = "cloud")]
    tickets: Option<Tickets>,
    checks: Arc<Semaphore>,
    keeps: Arc<Semaphore>,
    /// One mapping is validated at a time: a large one takes some hundred megabytes.
    mapping_checks: Semaphore,
    incomings: Incomings,
    reports: Mutex<Reports>,
    health: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    counts: Counts,
    taken: Mutex<Vec<StoredCapture>>,
}

impl Collector {
    pub(crate) fn new(
        storage: Storage,
        tokens: Option<Tokens>,
        config: Option<PathBuf>,
        #[cfg(feature = "cloud")] tickets: Option<Tickets>,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            storage,
            tokens,
            config,
            #[cfg(feature = "cloud")]
            tickets,
            checks: Arc::new(Semaphore::new(processors * CHECKS_PER_PROCESSOR)),
            keeps: Arc::new(Semaphore::new(KEEPS)),
            mapping_checks: Semaphore::new(1),
            incomings: Incomings::default(),
            reports: Mutex::default(),
            health: tokio::sync::Mutex::default(),
            counts: Counts::default(),
            taken: Mutex::default(),
        }
    }

    pub(crate) fn taken(&self) -> Vec<StoredCapture> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) const fn storage(&self) -> &Storage {
        &self.storage
    }

    pub(crate) fn into_storage(self) -> Storage {
        self.storage
    }

    /// The app that asks, where apps are told apart.
    fn app(&self, headers: &HeaderMap) -> Result<Option<String>, Answer> {
        self.authorised(headers, Right::Send)
    }

    /// The app of a request's token, which must have this right; `None` where apps are not told apart.
    fn authorised(&self, headers: &HeaderMap, right: Right) -> Result<Option<String>, Answer> {
        let Some(tokens) = &self.tokens else { return Ok(None) };
        let (status, why) = match tokens.find(text(headers, http::AUTHORIZATION)) {
            Some((app, of)) if of == right => return Ok(Some(app.to_owned())),
            Some((_, Right::Send)) => (StatusCode::FORBIDDEN, "this token may not upload mappings"),
            Some((_, Right::Mappings)) => {
                (StatusCode::FORBIDDEN, "this token may only upload mappings")
            }
            None => (StatusCode::UNAUTHORIZED, "missing or unknown bearer token"),
        };
        add(&self.counts.unauthorised, 1);
        Err(answer(status, why))
    }
}

type Shared = State<Arc<Collector>>;

pub(crate) fn router(collector: Arc<Collector>, connections: Arc<Connections>) -> Router {
    let metrics =
        move |State(collector): Shared| async move { metrics::metrics(&collector, &connections) };
    Router::new()
        .route(&format!("{}{{id}}", http::CAPTURES), put(captures::capture))
        .route(&format!("{}{{id}}", http::LOSSES), put(losses::losses))
        .route(&format!("{}{{app}}/{{version}}", http::MAPPINGS), put(mappings::mapping))
        .route(http::TICKETS, post(ticket::ticket))
        .route(http::CONFIG, get(config::config))
        .route("/healthz", get(metrics::health))
        .route("/metrics", get(metrics))
        .with_state(collector)
}
