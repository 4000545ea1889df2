//! `PUT /v1/losses/{id}`: stores a report of captures that a device lost.

use super::answer::{Answer, STORED, answer, answer_upload, disk};
use super::headers::{checked_id, digest};
use super::ingest;
use super::{Collector, Shared, add};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tracetee_protocol::LossReport;

/// Bytes of a loss report: 5,000 losses of 150 bytes each.
const MAX_REPORT_BYTES: usize = 1 << 20;

pub(super) async fn losses(
    State(collector): Shared,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (parts, mut body) = request.into_parts();
    let outcome = take_losses(&collector, &id, &parts, &mut body).await;
    answer_upload(outcome, &parts.headers, &mut body).await
}

async fn take_losses(
    collector: &Arc<Collector>,
    id: &str,
    request: &Parts,
    body: &mut Body,
) -> Result<Answer, Answer> {
    let (app, headers) = (collector.app(request)?, &request.headers);
    let refuse = |why: &str| collector.refuse(StatusCode::BAD_REQUEST, why);
    let id = checked_id(id).map_err(refuse)?;
    let digest = digest(headers).map_err(refuse)?;
    let bytes = ingest::small(body, MAX_REPORT_BYTES, digest).await;
    let bytes = bytes.map_err(|refused| collector.refuse_body(&refused))?;
    let mut report = LossReport::from_json(&bytes)
        .ok_or_else(|| refuse("not a loss report: not a JSON object"))?;
    if let Some(why) = collector.storage.why_away(report.device.install_id.as_deref()) {
        return Err(answer(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let is_admitted = {
        let mut reports = collector.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.admits_report(app.as_deref().unwrap_or_default(), bytes.len(), Instant::now())
    };
    if !is_admitted || collector.storage.indexer.is_behind(app.as_deref().unwrap_or_default()) {
        add(&collector.counts.loss_reports_put_off, 1);
        return Err(answer(
            StatusCode::TOO_MANY_REQUESTS,
            "too many loss reports; try again later",
        ));
    }
    if let Some(app) = app {
        report.device.app = Some(app);
    }
    let keeper = Arc::clone(collector);
    let kept = tokio::task::spawn_blocking(move || keeper.storage.keep_losses(id, &report));
    match kept.await.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        Ok(true) => {
            add(&collector.counts.loss_reports, 1);
            Ok(answer(StatusCode::CREATED, "stored"))
        }
        Ok(false) => Ok(answer(StatusCode::PRECONDITION_FAILED, STORED)),
        Err(error) => Err(disk(&error)),
    }
}
