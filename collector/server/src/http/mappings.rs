//! `PUT /v1/mappings/{app}/{version}`: stores the names of a release, and schedules a new analysis of its captures.
//!
//! The body is R8's `mapping.txt` or the instrumenter's, plain or compressed with gzip or zstd. No route returns a mapping,
//! because it is a secret of the app's developer.

use super::answer::{Answer, answer, answer_upload, disk};
use super::headers::digest;
use super::ingest;
use super::tokens::Right;
use super::{Collector, Shared, add};
use crate::store::mappings::files::MAX_TEXT_BYTES;
use crate::store::mappings::{self, Put, Version};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum bytes of a mapping in transit.
const MAX_BODY_BYTES: u64 = 128 << 20;
/// Maximum time for which a received mapping waits until others are validated.
const WAIT: Duration = Duration::from_secs(60);

pub(super) async fn mapping(
    State(collector): Shared,
    Path((app, version)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (parts, mut body) = request.into_parts();
    let outcome = take(&collector, &app, &version, &parts, &mut body).await;
    answer_upload(outcome, &parts.headers, &mut body).await
}

async fn take(
    collector: &Arc<Collector>,
    app: &str,
    version: &str,
    request: &Parts,
    body: &mut Body,
) -> Result<Answer, Answer> {
    let headers = &request.headers;
    let of_token = collector.authorised(request, Right::Mappings, Some(app))?;
    if of_token.is_some_and(|of_token| of_token != app) {
        add(&collector.counts.unauthorised, 1);
        return Err(answer(StatusCode::FORBIDDEN, "this token is for another app"));
    }
    let refuse = |status, why: &str| collector.refuse(status, why);
    collector.said_bytes(headers, MAX_BODY_BYTES)?;
    let digest = digest(headers).map_err(|why| refuse(StatusCode::BAD_REQUEST, why))?;
    let incoming = collector.storage.local.incoming();
    let claim = collector.incomings.claim(app);
    let streamed = ingest::stream(body, &incoming, MAX_BODY_BYTES, digest, claim).await;
    streamed.map_err(|refused| collector.refuse_body(&refused))?;
    let Ok(Some(_alone)) = timeout(WAIT, collector.mapping_checks.take(app)).await else {
        return Err(collector.busy("another mapping is being validated; try again later"));
    };
    let (keeper, version) = (Arc::clone(collector), Version::new(app, version));
    let outcome =
        tokio::task::spawn_blocking(move || keeper.storage.put_mapping(&version, &incoming.path));
    let outcome = outcome
        .await
        .unwrap_or_else(|fault| Err(mappings::Refused::Disk(std::io::Error::other(fault))));
    let stored = |status, why| {
        add(&collector.counts.mappings, 1);
        Ok(answer(status, why))
    };
    match outcome {
        Ok(Put::New) => {
            stored(StatusCode::CREATED, "stored; captures of this version are being analysed again")
        }
        Ok(Put::Replaced) => {
            stored(StatusCode::OK, "replaced; captures of this version are being analysed again")
        }
        Ok(Put::Unchanged) => Ok(answer(StatusCode::OK, "already stored, unchanged")),
        Err(mappings::Refused::NoMapping(why)) => {
            Err(refuse(StatusCode::UNPROCESSABLE_ENTITY, &format!("not a mapping: {why}")))
        }
        Err(mappings::Refused::TooLarge) => Err(refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("its text has more than {} bytes", MAX_TEXT_BYTES),
        )),
        Err(mappings::Refused::Full) => Err(refuse(
            StatusCode::INSUFFICIENT_STORAGE,
            "the store has too many mappings of this app; delete old ones from its directory \"mappings\"",
        )),
        Err(mappings::Refused::Disk(error)) => Err(disk(&error)),
    }
}
