//! `PUT /v1/captures/{id}`: streams a capture in, checks it, stores it once.

use super::answer::{Answer, STORED, answer, answer_upload, disk, status_of};
use super::headers::{NO_DIGEST, checked_id, digest, meta, text};
use super::ingest::{self, Refused};
use super::{Collector, Shared, StoredCapture, add};
use crate::store::captures::days::today;
use crate::store::captures::local_store::key_of;
use crate::store::captures::profiles::is_dump;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tracetee_protocol::http;

/// Maximum time that a received capture waits for validation.
const IN_FLIGHT_WAIT: Duration = Duration::from_secs(60);
/// Number of remembered captures of this run, for the program that runs the server.
const MAX_TAKEN: usize = 1000;

pub(super) async fn capture(
    State(collector): Shared,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (parts, mut body) = request.into_parts();
    let outcome = take_capture(&collector, &id, &parts, &mut body).await;
    answer_upload(outcome, &parts.headers, &mut body).await
}

async fn take_capture(
    collector: &Arc<Collector>,
    id: &str,
    request: &Parts,
    body: &mut Body,
) -> Result<Answer, Answer> {
    let (app, headers) = (collector.app(request)?, &request.headers);
    let refuse = |status, why: &str| collector.refuse(status, why);
    let id = checked_id(id).map_err(|why| refuse(StatusCode::BAD_REQUEST, why))?;
    if text(headers, http::CONTENT_ENCODING) != Some(http::ZSTD) {
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Encoding must be zstd"));
    }
    let digest = digest(headers).and_then(|digest| digest.ok_or(NO_DIGEST));
    let digest = digest.map_err(|why| refuse(StatusCode::BAD_REQUEST, why))?;
    let mut meta = meta(headers).map_err(|why| refuse(StatusCode::BAD_REQUEST, &why))?;
    if let Some(app) = app {
        meta.app = Some(app);
    }
    let key = key_of(id, &meta, today());
    let said = collector.said_bytes(headers, ingest::MAX_BODY_BYTES)?;
    if !collector.admits_capture(&key.app, said).await {
        add(&collector.counts.over_quota, 1);
        let why = "this app sends more captures than its quota; try again later";
        return Err(answer(StatusCode::TOO_MANY_REQUESTS, why));
    }
    // Checked before its body is requested: it is already stored.
    if collector.storage.local.has(&key) {
        add(&collector.counts.duplicates, 1);
        return Err(answer(StatusCode::PRECONDITION_FAILED, STORED));
    }
    if let Some(why) = collector.storage.why_away(meta.install_id.as_deref()) {
        return Err(answer(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    if collector.storage.indexer.is_behind(&key.app) {
        return Err(collector.busy("too many captures wait to be indexed; try again later"));
    }
    let incoming = collector.storage.local.incoming();
    let most = ingest::MAX_BODY_BYTES;
    let claim = collector.incomings.claim(&key.app);
    let streamed = ingest::stream(body, &incoming, most, Some(digest), claim);
    let bytes = streamed.await.map_err(|refused| collector.refuse_body(&refused))?;
    // The whole body has arrived, so a slow sender has delayed nobody.
    let admission = async {
        let keep = collector.keeps.take(&key.app).await?;
        Some((keep, collector.checks.take(&key.app).await?))
    };
    let Ok(Some((_keep, check))) = timeout(IN_FLIGHT_WAIT, admission).await else {
        return Err(collector.busy("too many uploads at once; try again later"));
    };
    // Reading it and writing to disk take time, so this does not run on the serving threads.
    let (keeper, about, app) = (Arc::clone(collector), meta.clone(), key.app.clone());
    let kept = tokio::task::spawn_blocking(move || {
        let is_dump = is_dump(&key.id, about.window.as_deref());
        let checked = ingest::check(&incoming.path, bytes, is_dump);
        // Captures that wait for the disk together share one commit.
        drop(check);
        let text = checked.inspect_err(|refused| {
            add(&keeper.counts.quarantined, 1);
            keeper.store_size.note_stored(key.app.clone(), bytes);
            keeper.storage.quarantine(&key, &incoming, &refused.to_string(), &about);
        })?;
        keeper.storage.keep(key, &incoming, &about, text).map_err(Refused::Disk)
    });
    match kept.await.unwrap_or_else(|fault| Err(Refused::Disk(std::io::Error::other(fault)))) {
        Ok(Some(path)) => {
            add(&collector.counts.captures, 1);
            add(&collector.counts.capture_bytes, bytes);
            collector.store_size.note_stored(app, bytes);
            let mut taken = collector.taken.lock().unwrap_or_else(PoisonError::into_inner);
            if taken.len() < MAX_TAKEN {
                taken.push(StoredCapture { path, meta });
            }
            Ok(answer(StatusCode::CREATED, "stored"))
        }
        Ok(None) => {
            add(&collector.counts.duplicates, 1);
            Err(answer(StatusCode::PRECONDITION_FAILED, STORED))
        }
        Err(Refused::Disk(error)) => Err(disk(&error)),
        Err(refused) => Err(answer(status_of(&refused), &refused.to_string())),
    }
}
