//! `PUT /v1/ledgers/{id}`: stores a part of a ledger, once for each device, day, version and number, regardless of its id.

use super::answer::{Answer, STORED, answer, answer_upload, disk};
use super::headers::{checked_id, digest, meta, text};
use super::ingest;
use super::{Collector, Shared, add};
use crate::store::captures::days::{day, today};
use crate::store::captures::local_store::is_believed;
use crate::store::storage::KeptLedger;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tracetee_fleet::ledger::id_of;
use tracetee_fleet::object_keys::{ReportKey, ReportKind};
use tracetee_ledger::{MAX_BYTES, Part};
use tracetee_protocol::http;

pub(super) async fn ledger(
    State(collector): Shared,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (parts, mut body) = request.into_parts();
    let outcome = take_ledger(&collector, &id, &parts, &mut body).await;
    answer_upload(outcome, &parts.headers, &mut body).await
}

async fn take_ledger(
    collector: &Arc<Collector>,
    id: &str,
    request: &Parts,
    body: &mut Body,
) -> Result<Answer, Answer> {
    let (app, headers) = (collector.app(request)?, &request.headers);
    let refuse = |why: &str| collector.refuse(StatusCode::BAD_REQUEST, why);
    checked_id(id).map_err(refuse)?;
    if text(headers, http::CONTENT_ENCODING) != Some(http::ZSTD) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(collector.refuse(status, "Content-Encoding must be zstd"));
    }
    let digest = digest(headers).map_err(refuse)?;
    let mut meta = meta(headers).map_err(|why| refuse(&why))?;
    if let Some(app) = app {
        meta.app = Some(app);
    }
    let device = meta.install_id.clone().filter(|device| !device.is_empty());
    let device = device.ok_or_else(|| refuse("the metadata has no install_id"))?;
    let app = meta.app.clone().unwrap_or_default();
    let bytes = ingest::small(body, MAX_BYTES, digest).await;
    let bytes = bytes.map_err(|refused| collector.refuse_body(&refused))?;
    let is_admitted = {
        let mut ledgers = collector.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.admits_report(&app, bytes.len(), Instant::now())
    };
    if !is_admitted || collector.storage.indexer.is_behind(&app) {
        add(&collector.counts.ledgers_put_off, 1);
        let why = "too many parts of ledgers; try again later";
        return Err(answer(StatusCode::TOO_MANY_REQUESTS, why));
    }
    let unpacked = zstd::bulk::decompress(&bytes, MAX_BYTES);
    let found = unpacked.ok().and_then(|bytes| Some((Part::decode(&bytes)?, bytes)));
    let (part, bytes) = found.ok_or_else(|| {
        collector.refuse(StatusCode::UNPROCESSABLE_ENTITY, "not a part of a ledger")
    })?;
    if !is_believed(part.day.into(), today()) {
        return Err(refuse("the day is more than 30 days ago, or after tomorrow"));
    }
    if let Some(why) = collector.storage.why_away(Some(&device)) {
        return Err(answer(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let id = id_of(&device, &part);
    let key = ReportKey::new(ReportKind::Ledger, day(part.day.into()), &id, Some(&app));
    let stored_bytes = bytes.len() as u64;
    let Some(keep) = collector.keeps.take(&app).await else {
        return Err(collector.busy("too many uploads at once; try again later"));
    };
    let (keeper, about) = (Arc::clone(collector), meta);
    let kept = tokio::task::spawn_blocking(move || {
        let _keep = keep;
        keeper.storage.keep_ledger(key, &bytes, &about)
    });
    match kept.await.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        Ok(KeptLedger::New) => {
            add(&collector.counts.ledgers, 1);
            collector.store_size.note_stored(app, stored_bytes);
            Ok(answer(StatusCode::CREATED, "stored"))
        }
        Ok(KeptLedger::Same) => Ok(answer(StatusCode::PRECONDITION_FAILED, STORED)),
        Ok(KeptLedger::Other) => {
            add(&collector.counts.ledger_conflicts, 1);
            let why = "another part of this device, day, version and number is stored";
            Err(answer(StatusCode::CONFLICT, why))
        }
        Err(error) => Err(disk(&error)),
    }
}
