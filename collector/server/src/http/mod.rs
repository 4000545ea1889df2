//! The routes: what is asked, who asks, and what the answer is.
//!
//! A request that is refused before its body was read has the body read to its end, so that a client that
//! sends first and reads then sees the answer; who asks first (`Expect: 100-continue`) is answered at once.

pub(crate) mod connections;
mod etag;
pub(crate) mod ingest;
pub(crate) mod page;
mod rate;
pub(crate) mod serve;
#[cfg(feature = "cloud")]
pub(crate) mod tickets;
pub(crate) mod tls;
pub(crate) mod tokens;

use crate::store::indexer::Indexer;
use crate::store::local_store::{day_of, key_of};
use crate::store::storage::Storage;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use connections::Connections;
use ingest::{Incomings, Refused};
use rate::Reports;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
#[cfg(feature = "cloud")]
use tickets::Tickets;
use tokens::Tokens;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uuid::Uuid;

/// Captures that are checked and kept at once, for each processor: each unpacks with up to 128 MB.
const CHECKS_PER_PROCESSOR: usize = 2;
/// How long a received capture waits to be checked.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(60);
/// How long one who comes beyond that is asked to wait, seconds.
const RETRY_AFTER_S: &str = "30";
/// How long what was found out about the disk holds.
const HEALTH: Duration = Duration::from_secs(2);
/// Bytes of a loss report: 5,000 losses of 150 bytes each.
const MAX_REPORT_BYTES: usize = 1 << 20;
/// Bytes of the metadata header.
const MAX_META_BYTES: usize = 8 * 1024;
/// The captures of this run that are remembered, for who runs it.
const MAX_TAKEN: usize = 1000;

/// A capture that this server has stored.
#[derive(Debug, Clone)]
pub struct StoredCapture {
    /// Its file.
    pub path: PathBuf,
    /// Metadata that the sender gave.
    pub meta: Value,
}

/// All that requests share.
#[derive(Debug)]
pub(crate) struct Collector {
    storage: Storage,
    tokens: Option<Tokens>,
    config: Option<PathBuf>,
    #[cfg(feature = "cloud")]
    tickets: Option<Tickets>,
    checks: Semaphore,
    incomings: Incomings,
    reports: Mutex<Reports>,
    health: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    counts: Counts,
    taken: Mutex<Vec<StoredCapture>>,
}

#[derive(Debug, Default)]
struct Counts {
    captures: AtomicU64,
    capture_bytes: AtomicU64,
    duplicates: AtomicU64,
    refused: AtomicU64,
    quarantined: AtomicU64,
    losses: AtomicU64,
    tickets: AtomicU64,
    configs: AtomicU64,
    configs_unchanged: AtomicU64,
    unauthorised: AtomicU64,
    busy: AtomicU64,
    loss_reports_put_off: AtomicU64,
}

/// ORDERING: Relaxed, wherever it is used; counts.
fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
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
            checks: Semaphore::new(processors * CHECKS_PER_PROCESSOR),
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
        let Some(tokens) = &self.tokens else { return Ok(None) };
        match tokens.app(text(headers, "authorization")) {
            Some(app) => Ok(Some(app.to_owned())),
            None => {
                add(&self.counts.unauthorised, 1);
                Err(answer(StatusCode::UNAUTHORIZED, "the token is missing or not known"))
            }
        }
    }
}

type Shared = State<Arc<Collector>>;
/// A status, and why.
type Answer = (StatusCode, String);

pub(crate) fn router(collector: Arc<Collector>, connections: Arc<Connections>) -> Router {
    let metrics = move |State(collector): Shared| async move { metrics(&collector, &connections) };
    Router::new()
        .route("/v1/captures/{id}", put(capture))
        .route("/v1/losses/{id}", put(losses))
        .route("/v1/tickets", post(ticket))
        .route("/v1/config", get(config))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .with_state(collector)
}

/// Whether captures can be kept: a load balancer sends them elsewhere where they cannot.
async fn health(State(collector): Shared) -> Answer {
    // One at a time looks; the others have what it found.
    let mut known = collector.health.lock().await;
    let found = match &*known {
        Some((at, found)) if at.elapsed() < HEALTH => found.clone(),
        _ => {
            let shared = Arc::clone(&collector);
            let probe = tokio::task::spawn_blocking(move || shared.storage.probe());
            let found = probe.await.unwrap_or_else(|fault| Err(std::io::Error::other(fault)));
            let found = found.map_err(|error| error.to_string());
            *known = Some((Instant::now(), found.clone()));
            found
        }
    };
    match found {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => {
            answer(StatusCode::SERVICE_UNAVAILABLE, &format!("cannot store captures: {why}"))
        }
    }
}

/// The answer to who sends again what was stored.
const STORED: &str = "already stored";

fn answer(status: StatusCode, why: &str) -> Answer {
    (status, format!("{why}\n"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Answers a request whose body may not have been read.
async fn after_body(headers: &HeaderMap, body: &mut Body, answer: Answer) -> Response {
    // Who asks whether to send has not sent.
    let asks = text(headers, "expect").is_some_and(|of| of.eq_ignore_ascii_case("100-continue"));
    if !asks {
        let is_stranger = answer.0 == StatusCode::UNAUTHORIZED;
        let most = if is_stranger { ingest::STRANGERS_BYTES } else { ingest::MAX_BODY_BYTES };
        ingest::drain(body, most).await;
    }
    match answer {
        busy @ (StatusCode::TOO_MANY_REQUESTS, _) => {
            ([(header::RETRY_AFTER, RETRY_AFTER_S)], busy).into_response()
        }
        answer => answer.into_response(),
    }
}

async fn capture(State(collector): Shared, Path(id): Path<String>, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    match take_capture(&collector, &id, &parts.headers, &mut body).await {
        Ok(answer) => answer.into_response(),
        // What comes too slowly comes too slowly to its end, too.
        Err(slow @ (StatusCode::REQUEST_TIMEOUT, _)) => slow.into_response(),
        Err(answer) => after_body(&parts.headers, &mut body, answer).await,
    }
}

/// Reads an id; refuses one of a day that paths and tables have no room for.
fn checked_id(id: &str) -> Result<Uuid, &'static str> {
    let id = Uuid::try_parse(id).map_err(|_| "the id is no UUID")?;
    if day_of(id).len() > "YYYY-MM-DD".len() {
        return Err("the id is of a year after 9999");
    }
    Ok(id)
}

async fn take_capture(
    collector: &Arc<Collector>,
    id: &str,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Answer, Answer> {
    let app = collector.app(headers)?;
    let refuse = |status, why: &str| {
        add(&collector.counts.refused, 1);
        answer(status, why)
    };
    let id = checked_id(id).map_err(|why| refuse(StatusCode::BAD_REQUEST, why))?;
    if text(headers, "content-encoding") != Some("zstd") {
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Encoding is not zstd"));
    }
    let digest = digest(headers)
        .ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "Content-Digest has no sha-256"))?;
    let mut meta = meta(headers).map_err(|why| refuse(StatusCode::BAD_REQUEST, &why))?;
    if let Some(app) = app {
        meta.insert("app".to_owned(), json!(app));
    }
    let key = key_of(id, &meta);
    let meta = Value::Object(meta);
    let said = text(headers, "content-length").and_then(|text| text.parse::<u64>().ok());
    if said.is_some_and(|bytes| bytes > ingest::MAX_BODY_BYTES) {
        let refused = Refused::TooLarge(ingest::MAX_BODY_BYTES);
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &refused.to_string()));
    }
    // Before its body is asked for: it is there.
    if collector.storage.has(&key) {
        add(&collector.counts.duplicates, 1);
        return Err(answer(StatusCode::PRECONDITION_FAILED, STORED));
    }
    let busy = |why: &str| {
        add(&collector.counts.busy, 1);
        answer(StatusCode::TOO_MANY_REQUESTS, why)
    };
    if collector.storage.is_behind() {
        return Err(busy("too many captures wait to be analysed"));
    }
    let incoming = collector.storage.incoming();
    let bytes = match ingest::stream(body, &incoming, digest, &collector.incomings).await {
        Ok(bytes) => bytes,
        Err(Refused::Disk(error)) => return Err(disk(&error)),
        Err(refused @ Refused::Busy) => return Err(busy(&refused.to_string())),
        Err(refused) => return Err(refuse(status_of(&refused), &refused.to_string())),
    };
    // All of it is here: whoever sends slowly has kept nobody waiting.
    let in_flight = timeout(IN_FLIGHT_WAIT, collector.checks.acquire()).await;
    let Ok(Ok(_in_flight)) = in_flight else { return Err(busy("too many at once")) };
    // Reading all of it and the disk take their time: not on the threads that serve.
    let (shared, about) = (Arc::clone(collector), meta.clone());
    let kept = tokio::task::spawn_blocking(move || {
        if let Err(refused) = ingest::check(&incoming.path, bytes) {
            add(&shared.counts.quarantined, 1);
            let reason = refused.to_string();
            shared.storage.quarantine(id, &incoming, &reason, &about);
            return Err(refused);
        }
        shared.storage.keep(key, &incoming, &about).map_err(Refused::Disk)
    });
    match kept.await.unwrap_or_else(|fault| Err(Refused::Disk(std::io::Error::other(fault)))) {
        Ok(Some(path)) => {
            add(&collector.counts.captures, 1);
            add(&collector.counts.capture_bytes, bytes);
            let mut taken = collector.taken.lock().unwrap_or_else(PoisonError::into_inner);
            if taken.len() < MAX_TAKEN {
                taken.push(StoredCapture { path, meta });
            }
            Ok(answer(StatusCode::CREATED, "kept"))
        }
        Ok(None) => {
            add(&collector.counts.duplicates, 1);
            Err(answer(StatusCode::PRECONDITION_FAILED, STORED))
        }
        Err(Refused::Disk(error)) => Err(disk(&error)),
        Err(refused) => Err(answer(status_of(&refused), &refused.to_string())),
    }
}

const fn status_of(refused: &Refused) -> StatusCode {
    match refused {
        Refused::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Refused::Broken | Refused::Digest => StatusCode::BAD_REQUEST,
        Refused::TooSlow => StatusCode::REQUEST_TIMEOUT,
        Refused::NoCapture(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Refused::Busy => StatusCode::TOO_MANY_REQUESTS,
        // Ours to mend: the client keeps it.
        Refused::Disk(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn disk(error: &std::io::Error) -> Answer {
    tracing::error!("cannot store an upload: {error}");
    answer(StatusCode::SERVICE_UNAVAILABLE, "it cannot be stored now")
}

async fn losses(State(collector): Shared, Path(id): Path<String>, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    match take_losses(&collector, &id, &parts.headers, &mut body).await {
        Ok(answer) => answer.into_response(),
        Err(slow @ (StatusCode::REQUEST_TIMEOUT, _)) => slow.into_response(),
        Err(answer) => after_body(&parts.headers, &mut body, answer).await,
    }
}

async fn take_losses(
    collector: &Arc<Collector>,
    id: &str,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Answer, Answer> {
    let app = collector.app(headers)?;
    let refuse = |why: &str| {
        add(&collector.counts.refused, 1);
        answer(StatusCode::BAD_REQUEST, why)
    };
    let id = checked_id(id).map_err(refuse)?;
    let bytes = ingest::small(body, MAX_REPORT_BYTES).await;
    let bytes = bytes.map_err(|refused| (status_of(&refused), refuse(&refused.to_string()).1))?;
    if digest(headers).is_some_and(|digest| digest != hmac_sha256::Hash::hash(&bytes)) {
        return Err(refuse(&Refused::Digest.to_string()));
    }
    let mut report: Map<String, Value> = serde_json::from_slice(&bytes)
        .map_err(|error| refuse(&format!("no loss report: {error}")))?;
    let is_admitted = {
        let mut reports = collector.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.admit(app.as_deref().unwrap_or_default(), bytes.len(), Instant::now())
    };
    if !is_admitted || collector.storage.is_behind() {
        add(&collector.counts.loss_reports_put_off, 1);
        return Err(answer(StatusCode::TOO_MANY_REQUESTS, "too many loss reports; come again"));
    }
    if let Some(app) = app {
        report.insert("app".to_owned(), json!(app));
    }
    let report = Value::Object(report).to_string();
    let shared = Arc::clone(collector);
    let kept = tokio::task::spawn_blocking(move || shared.storage.keep_losses(id, report));
    match kept.await.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        Ok(true) => {
            add(&collector.counts.losses, 1);
            Ok(answer(StatusCode::CREATED, "kept"))
        }
        Ok(false) => Ok(answer(StatusCode::PRECONDITION_FAILED, STORED)),
        Err(error) => Err(disk(&error)),
    }
}

/// A presigned address for an object that is to go to S3 itself.
#[cfg(feature = "cloud")]
async fn ticket(State(collector): Shared, headers: HeaderMap, mut body: Body) -> Response {
    let app = match collector.app(&headers) {
        Ok(app) => app,
        Err(answer) => return after_body(&headers, &mut body, answer).await,
    };
    let Some(tickets) = &collector.tickets else { return no_tickets() };
    let refuse = |why: String| {
        add(&collector.counts.refused, 1);
        answer(StatusCode::BAD_REQUEST, &why).into_response()
    };
    let asked = match ingest::small(&mut body, MAX_META_BYTES).await {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string()),
        Err(refused) => Err(refused.to_string()),
    };
    let given = asked.and_then(|asked| {
        tickets
            .give(&asked, app.as_deref(), ingest::MAX_BODY_BYTES)
            .map_err(|error| format!("{error:#}"))
    });
    match given {
        Ok(ticket) => {
            add(&collector.counts.tickets, 1);
            let json = [(header::CONTENT_TYPE, "application/json")];
            (json, ticket.to_string()).into_response()
        }
        Err(why) => refuse(why),
    }
}

#[cfg(not(feature = "cloud"))]
async fn ticket() -> Response {
    no_tickets()
}

fn no_tickets() -> Response {
    let why = "no tickets are given here: the store is not on S3, or nothing says who signs";
    answer(StatusCode::NOT_FOUND, why).into_response()
}

async fn config(State(collector): Shared, headers: HeaderMap) -> Response {
    if let Err(answer) = collector.app(&headers) {
        return answer.into_response();
    }
    let Some(path) = &collector.config else {
        let none = answer(StatusCode::NOT_FOUND, "no configuration is served here");
        return none.into_response();
    };
    let Ok(bytes) = std::fs::read(path) else {
        tracing::error!("cannot read the configuration {}", path.display());
        let later = "the configuration cannot be read now";
        return answer(StatusCode::SERVICE_UNAVAILABLE, later).into_response();
    };
    let signature = std::fs::read(path.with_added_extension("sig")).unwrap_or_default();
    // A new signature of the same document is another answer.
    let mut hash = hmac_sha256::Hash::new();
    hash.update(&bytes);
    hash.update(&signature);
    let etag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(hash.finalize()));
    add(&collector.counts.configs, 1);
    if text(&headers, "if-none-match").is_some_and(|list| etag::names(list, &etag)) {
        add(&collector.counts.configs_unchanged, 1);
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    let mut response =
        ([(header::ETAG, etag), (header::CONTENT_TYPE, "application/json".to_owned())], bytes)
            .into_response();
    if !signature.is_empty()
        && let Ok(value) = signature_text(&signature).parse()
    {
        response.headers_mut().insert("x-tracetee-signature", value);
    }
    response
}

/// A signature as a header: the 64 bytes as hexadecimal digits, or the digits that the file has.
fn signature_text(signature: &[u8]) -> String {
    match std::str::from_utf8(signature) {
        Ok(text) if text.trim().bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            text.trim().to_owned()
        }
        _ => signature.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn metrics(collector: &Collector, connections: &Connections) -> Response {
    let counts = &collector.counts;
    let none = AtomicU64::new(0);
    let indexer = collector.storage.indexer();
    let [analysed, failed] = indexer.map_or([&none, &none], Indexer::counts);
    let mut text = String::new();
    for (name, help, count) in [
        ("captures_total", "Captures taken in.", &counts.captures),
        ("capture_bytes_total", "Their bytes.", &counts.capture_bytes),
        ("duplicates_total", "Captures that were there.", &counts.duplicates),
        ("refused_total", "Requests refused for what they said.", &counts.refused),
        ("quarantined_total", "Bodies that were no capture.", &counts.quarantined),
        ("loss_reports_total", "Loss reports taken in.", &counts.losses),
        ("tickets_total", "Presigned addresses given out.", &counts.tickets),
        ("config_requests_total", "Requests for the configuration.", &counts.configs),
        ("config_unchanged_total", "Of them, those that had it.", &counts.configs_unchanged),
        ("unauthorised_total", "Requests without a known token.", &counts.unauthorised),
        ("busy_total", "Captures put off, too many at once.", &counts.busy),
        (
            "loss_reports_put_off_total",
            "Loss reports put off, too many at once.",
            &counts.loss_reports_put_off,
        ),
        (
            "connections_hung_up_total",
            "Silent connections closed because their place was wanted.",
            &connections.hung_up,
        ),
        (
            "connections_turned_away_total",
            "Connections closed because there was no place.",
            &connections.turned_away,
        ),
        ("analysed_total", "Captures and loss reports put into the tables.", analysed),
        ("analysis_failures_total", "Those of which no rows could be made.", failed),
    ] {
        let value = count.load(Ordering::Relaxed);
        let _ = write!(
            text,
            "# HELP tracetee_{name} {help}\n# TYPE tracetee_{name} counter\ntracetee_{name} {value}\n"
        );
    }
    let waiting = indexer.map_or(0, Indexer::waiting);
    let _ = write!(
        text,
        "# HELP tracetee_analysis_waiting Captures that wait to be analysed.\n\
         # TYPE tracetee_analysis_waiting gauge\ntracetee_analysis_waiting {waiting}\n"
    );
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// RFC 9530: `sha-256=:…:` among others.
fn digest(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut fields = text(headers, "content-digest")?.split(',');
    let sha256 = fields.find_map(|field| field.trim().strip_prefix("sha-256=:")?.strip_suffix(':'));
    STANDARD.decode(sha256?).ok()?.try_into().ok()
}

/// The metadata header; empty where there is none.
fn meta(headers: &HeaderMap) -> Result<Map<String, Value>, String> {
    let Some(text) = text(headers, "x-tracetee-meta") else { return Ok(Map::new()) };
    if text.len() > MAX_META_BYTES {
        return Err(format!("X-Tracetee-Meta has more than {MAX_META_BYTES} bytes"));
    }
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("X-Tracetee-Meta: {error}"))?;
    serde_json::from_slice(&json).map_err(|error| format!("X-Tracetee-Meta: {error}"))
}
