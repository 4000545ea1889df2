//! `POST /v1/tickets`: answers with a presigned address, for an object that is to go to S3 itself.

use super::answer::{after_body, answer};
use super::headers::MAX_META_BYTES;
use super::ingest::{self, MAX_BODY_BYTES};
use super::{Shared, add};
use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tracetee_protocol::ticket::TicketRequest;
use tracetee_protocol::{CaptureMeta, http};

/// A presigned address for an object that is to go to S3 itself.
pub(super) async fn ticket(State(collector): Shared, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    let app = match collector.app(&parts) {
        Ok(app) => app,
        Err(answer) => return after_body(&parts.headers, &mut body, answer).await,
    };
    let Some(tickets) = &collector.tickets else { return no_tickets() };
    let refuse = |why: String| collector.refuse(StatusCode::BAD_REQUEST, &why).into_response();
    let bytes = match ingest::small(&mut body, MAX_META_BYTES).await {
        Ok(bytes) => bytes,
        Err(refused) => return refuse(refused.to_string()),
    };
    let (asked, meta) = match parse(&bytes) {
        Ok(asked) => asked,
        Err(error) => return refuse(format!("{error:#}")),
    };
    if let Some(why) = collector.storage.why_away(meta.install_id.as_deref()) {
        return answer(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    match tickets.give(&asked, meta, app.as_deref(), MAX_BODY_BYTES) {
        Ok(ticket) => {
            add(&collector.counts.tickets, 1);
            let json = [(header::CONTENT_TYPE, http::JSON)];
            (json, ticket.to_json()).into_response()
        }
        Err(error) => refuse(format!("{error:#}")),
    }
}

/// Reads a request and the metadata in it.
fn parse(bytes: &[u8]) -> Result<(TicketRequest, CaptureMeta)> {
    let asked = TicketRequest::from_json(bytes)?;
    let meta = match &*asked.meta {
        "" => CaptureMeta::default(),
        text => {
            let json = URL_SAFE_NO_PAD.decode(text).context("meta is no base64")?;
            CaptureMeta::from_json(&json).context("meta is no JSON object")?
        }
    };
    Ok((asked, meta))
}

fn no_tickets() -> Response {
    let why = "this collector issues no tickets: its store is not on S3, or it has no credentials to sign with";
    answer(StatusCode::NOT_FOUND, why).into_response()
}
