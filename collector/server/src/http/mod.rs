//! The routes: state that requests share, and a file for each route.
//!
//! A request that is refused before its body was read has the body read to its end, so that a client that
//! sends first and reads then sees the answer; a client that asks first (`Expect: 100-continue`) is answered at once.

mod answer;
pub(crate) mod asks;
mod captures;
mod config;
pub(crate) mod connections;
mod documents;
mod etag;
pub(crate) mod findings;
mod guesses;
mod headers;
mod health;
pub(crate) mod host;
pub(crate) mod ingest;
mod ledgers;
mod losses;
mod mappings;
mod metrics;
pub(crate) mod page;
mod rate;
pub(crate) mod readers;
pub(crate) mod remote_config;
mod report_page;
mod requests;
pub(crate) mod serve;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub(crate) mod tls;
pub(crate) mod tokens;

use crate::budget::{Budget, Bytes};
use crate::line_a_minute::LineAMinute;
use crate::store::captures::retention;
use crate::store::storage::Storage;
use crate::store::tend::Observer;
use crate::turns::Turns;
use answer::{Answer, answer};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, put};
use connections::{Connection, Connections};
use findings::Findings;
use guesses::Guesses;
use headers::text;
use health::LastCheck;
use ingest::MAX_INCOMING_BYTES;
use metrics::{Counts, add};
use rate::Credits;
use readers::Readers;
use remote_config::RemoteConfig;
use requests::Requests;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};
use tokens::{Right, Tokens};
use tracetee_protocol::{CaptureMeta, http};
use uuid::Uuid;

/// Number of captures checked at once per processor: each needs up to 128 MB to decompress.
const CHECKS_PER_PROCESSOR: usize = 2;
/// Maximum number of captures that are checked or wait for the disk at the same time: each has a thread, and up to 4 MB of
/// content.
const KEEPS: usize = 64;

/// Part of retention's limits after which it is applied early: the store exceeds a limit by no more than that.
const SHARE_OF_RUNS: u64 = 20;
/// Apps whose bytes are counted separately until then.
const MOST_APPS: u64 = 10_000;

/// A capture that this server has stored.
#[derive(Debug, Clone)]
pub struct StoredCapture {
    /// File of the capture.
    pub path: PathBuf,
    /// Metadata that the sender gave.
    pub meta: CaptureMeta,
}

/// Size of a local store and times of its maintenance, for `/metrics`. Times are Unix time in seconds, 0 before the first.
#[derive(Debug)]
pub(crate) struct StoreSize {
    /// Bytes of each app that arrived since retention was applied.
    since: Mutex<Budget<String, (), u64>>,
    pub(crate) bytes: AtomicU64,
    pub(crate) measured_at_s: AtomicU64,
    pub(crate) retained_at_s: AtomicU64,
    started_at_s: u64,
}

impl StoreSize {
    fn new() -> Self {
        let [bytes, measured_at_s, retained_at_s] = [const { AtomicU64::new(0) }; 3];
        let since = Mutex::new(Budget::new(MOST_APPS, MOST_APPS));
        Self { since, bytes, measured_at_s, retained_at_s, started_at_s: now_s() }
    }

    /// Counts a capture of an app, or a body that is quarantined.
    fn note_stored(&self, app: String, bytes: u64) {
        add(&self.bytes, bytes);
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let before = since.get(&app, &()).copied().unwrap_or(0);
        since.put(app, (), 1, before + bytes);
    }

    /// True if so much has arrived since the last retention that it is due, for all apps or for one. Then restarts the
    /// count.
    pub(crate) fn is_much(&self, retention: &retention::Retention) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut all, mut of_app) = (0, 0);
        for (.., &bytes) in since.entries() {
            all += bytes;
            of_app = bytes.max(of_app);
        }
        let is_over =
            |bytes, most: Option<u64>| most.is_some_and(|most| bytes > most / SHARE_OF_RUNS);
        let is_much = is_over(all, retention.bytes) || is_over(of_app, retention.app_bytes);
        if is_much {
            since.clear();
        }
        is_much
    }

    /// Notes that retention was applied.
    pub(crate) fn note_retained(&self) {
        // ORDERING: Relaxed, here and below; informational numbers.
        self.retained_at_s.store(now_s(), Ordering::Relaxed);
    }

    /// Notes the size that was measured.
    pub(crate) fn note_measured(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.measured_at_s.store(now_s(), Ordering::Relaxed);
    }
}

/// Unix time in seconds.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// All that requests share.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) storage: Storage,
    tokens: Option<RwLock<Arc<Tokens>>>,
    config: Option<RemoteConfig>,
    checks: Arc<Turns>,
    keeps: Arc<Turns>,
    /// One mapping is validated at a time: a large one takes some hundred megabytes.
    mapping_checks: Arc<Turns>,
    incomings: Arc<Bytes>,
    wrong_tokens: Mutex<Guesses>,
    reports: Mutex<Credits>,
    ledgers: Mutex<Credits>,
    /// `None`: no limit.
    uploads: Option<Mutex<Credits>>,
    last_check: LastCheck,
    pub(crate) store_size: StoreSize,
    counts: Counts,
    guesses: Mutex<LineAMinute>,
    pub(crate) findings: Arc<Findings>,
    lost_log_lines: fn() -> u64,
    taken: Mutex<Vec<StoredCapture>>,
}

impl Collector {
    pub(crate) fn new(
        storage: Storage,
        tokens: Option<Tokens>,
        config: Option<RemoteConfig>,
        captures_per_s: Option<u32>,
        lost_log_lines: fn() -> u64,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let checks = processors * CHECKS_PER_PROCESSOR;
        Self {
            storage,
            tokens: tokens.map(|tokens| RwLock::new(Arc::new(tokens))),
            config,
            checks: Turns::new(checks, checks),
            keeps: Turns::new(KEEPS, KEEPS),
            mapping_checks: Turns::new(1, 1),
            incomings: Bytes::new(MAX_INCOMING_BYTES),
            wrong_tokens: Mutex::default(),
            reports: Mutex::new(Credits::of_reports()),
            ledgers: Mutex::new(Credits::of_ledgers()),
            uploads: captures_per_s.map(|per_s| Mutex::new(Credits::of_captures(per_s))),
            last_check: LastCheck::default(),
            store_size: StoreSize::new(),
            counts: Counts::default(),
            guesses: Mutex::default(),
            findings: Arc::default(),
            lost_log_lines,
            taken: Mutex::default(),
        }
    }

    pub(crate) fn taken(&self) -> Vec<StoredCapture> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the app's quota admits a capture. `false`: it would have to wait too long.
    async fn admits_capture(&self, app: &str, bytes: u64) -> bool {
        let Some(uploads) = &self.uploads else { return true };
        let wait = {
            let mut uploads = uploads.lock().unwrap_or_else(PoisonError::into_inner);
            uploads.wait_of_capture(app, bytes, Instant::now())
        };
        let Some(wait) = wait else { return false };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        true
    }

    /// Counts what retention has deleted, by age and by size, and stores the loss report that says so.
    pub(crate) fn note_deleted(&self, deleted: &retention::Deleted) {
        let (by_age, by_size) = (deleted.count(retention::AGE), deleted.count(retention::SIZE));
        tracing::info!(by_age, by_size, "retention deleted captures");
        add(&self.counts.deleted_by_age, by_age);
        add(&self.counts.deleted_by_size, by_size);
        for report in deleted.loss_reports() {
            let id = id_of_now(&report.device.app.clone().unwrap_or_default());
            if let Err(error) = self.storage.keep_losses(id, &report) {
                tracing::error!("cannot store the report of what retention deleted: {error}");
            }
        }
    }

    /// Returns the tokens; `None` if apps are not distinguished.
    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        let tokens = self.tokens.as_ref()?;
        Some(Arc::clone(&tokens.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Replaces the tokens, for the next request on.
    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        if let Some(known) = &self.tokens {
            *known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
        }
    }

    /// Counts a token or user that may not read; a log line a minute says how many there were.
    fn note_guess(&self, client: &str) {
        add(&self.counts.unauthorised, 1);
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = guesses.admit(Instant::now()) {
            tracing::warn!(client, others, "refused a token or a user that may not read");
        }
    }

    /// The app of the request, if apps are distinguished.
    fn app(&self, request: &Parts) -> Result<Option<String>, Answer> {
        self.authorised(request, Right::Send, None)
    }

    /// The app of a request's token, which must have this right; `None` if apps are not distinguished.
    ///
    /// A refused request gives up its connection's place. `named`: the app named in the request.
    fn authorised(
        &self,
        request: &Parts,
        right: Right,
        named: Option<&str>,
    ) -> Result<Option<String>, Answer> {
        let Some(tokens) = self.tokens() else { return Ok(None) };
        let connection = request.extensions.get::<Arc<Connection>>();
        let token = text(&request.headers, http::AUTHORIZATION).and_then(tokens::digest_of);
        let found = token
            .map(|token| self.look_up(connection, named, &token, || tokens.find(&token, named)));
        let found = found.transpose().inspect_err(|_| {
            connection.into_iter().for_each(|connection| connection.give_way());
        })?;
        let (status, why) = match found.flatten() {
            Some(("*", given)) if given.has(right) => return Ok(None),
            Some((app, given)) if given.has(right) => {
                connection.into_iter().for_each(|connection| connection.set_app(app));
                return Ok(Some(app.to_owned()));
            }
            Some((_, Right::Send)) => (StatusCode::FORBIDDEN, "this token may not upload mappings"),
            Some((_, Right::Mappings)) => {
                (StatusCode::FORBIDDEN, "this token may only upload mappings")
            }
            Some(_) => (StatusCode::FORBIDDEN, "this token may not send"),
            None => (StatusCode::UNAUTHORIZED, "missing or unknown bearer token"),
        };
        add(&self.counts.unauthorised, 1);
        connection.into_iter().for_each(|connection| connection.give_way());
        Err(answer(status, why))
    }
}

impl Collector {
    /// Finds a token, unless its client has sent too many wrong ones. `named`: the app that the request names.
    pub(super) fn look_up<T>(
        &self,
        connection: Option<&Arc<Connection>>,
        named: Option<&str>,
        token: &[u8; 32],
        find: impl FnOnce() -> Option<T>,
    ) -> Result<Option<T>, Answer> {
        let Some(client) = connection.map(|connection| connection.client()) else {
            return Ok(find());
        };
        let mut guesses = self.wrong_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if !guesses.admits(client, named, token, Instant::now()) {
            add(&self.counts.unauthorised, 1);
            let why = "too many unknown tokens from this address; try again later";
            return Err(answer(StatusCode::TOO_MANY_REQUESTS, why));
        }
        let found = find();
        guesses.note(client, named, token, found.is_some());
        Ok(found)
    }
}

impl Observer for Collector {
    fn note_retained(&self, deleted: &retention::Deleted) {
        self.store_size.note_retained();
        if *deleted != retention::Deleted::default() {
            self.note_deleted(deleted);
        }
    }

    fn note_size(&self, bytes: u64) {
        self.store_size.note_measured(bytes);
    }
}

/// Returns an id of the present time, which no other app has.
fn id_of_now(app: &str) -> Uuid {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let hash = hmac_sha256::Hash::hash(format!("{app} {}", now.as_nanos()).as_bytes());
    let random = hash.first_chunk().copied().unwrap_or_default();
    let ms = u64::try_from(now.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid()
}

type Shared = State<Arc<Collector>>;

pub(crate) fn router(
    collector: Arc<Collector>,
    connections: Arc<Connections>,
    readers: Arc<Readers>,
) -> Router {
    let requests = Arc::new(Requests::default());
    let observed = Arc::clone(&requests);
    let metrics = move |State(collector): Shared| async move {
        metrics::metrics(&collector, &connections, &observed)
    };
    let metrics = get(metrics).layer(from_fn_with_state(readers, readers::admit_scrape));
    Router::new()
        .route(&format!("{}{{id}}", http::CAPTURES), put(captures::capture))
        .route(&format!("{}{{id}}", http::LOSSES), put(losses::losses))
        .route(&format!("{}{{id}}", http::LEDGERS), put(ledgers::ledger))
        .route(&format!("{}{{app}}/{{version}}", http::MAPPINGS), put(mappings::mapping))
        .route(http::CONFIG, get(config::config))
        .route("/v1/openapi.json", get(documents::open_api))
        .route("/v1/report.schema.json", get(documents::report_schema))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", metrics)
        .layer(from_fn_with_state(requests, requests::observe))
        .with_state(collector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retention::Retention;

    #[test]
    fn retention_runs_after_more_than_a_twentieth_of_a_limit_has_come() {
        let size = StoreSize::new();
        let limits = |bytes, app_bytes| Retention { bytes, app_bytes, ..Retention::default() };
        size.note_stored("a".to_owned(), 100);
        assert!(!size.is_much(&limits(Some(2_000), Some(2_000))));
        size.note_stored("b".to_owned(), 1);
        assert!(!size.is_much(&limits(None, Some(2_000))));
        assert!(size.is_much(&limits(Some(2_000), None)));
        assert!(!size.is_much(&limits(Some(2_000), None)), "it begins anew");
        // The first ten thousand apps have counts of their own.
        (0..10_000).for_each(|app: u32| size.note_stored(app.to_string(), 1));
        assert!(!size.is_much(&limits(Some(20 * 10_000), None)));
        (10_000..20_000).for_each(|app: u32| size.note_stored(app.to_string(), 1));
        assert!(!size.is_much(&limits(Some(20 * 10_000), None)));
        assert!(size.is_much(&limits(Some(20 * 9_999), None)));
    }
}
