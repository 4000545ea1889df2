//! `POST /v1/tickets`: answers with a presigned address, for an object that is to go to S3 itself.

use super::answer::{after_body, answer};
use super::headers::MAX_META_BYTES;
use super::ingest::{self, MAX_BODY_BYTES};
use super::{Shared, add};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tracetee_protocol::http;
use tracetee_protocol::ticket::TicketRequest;

/// A presigned address for an object that is to go to S3 itself.
pub(super) async fn ticket(State(collector): Shared, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    let app = match collector.app(&parts) {
        Ok(app) => app,
        Err(answer) => return after_body(&parts.headers, &mut body, answer).await,
    };
    let Some(tickets) = &collector.tickets else { return no_tickets() };
    let refuse = |why: String| {
        add(&collector.counts.refused, 1);
        answer(StatusCode::BAD_REQUEST, &why).into_response()
    };
    let asked = match ingest::small(&mut body, MAX_META_BYTES).await {
        Ok(bytes) => TicketRequest::from_json(&bytes).map_err(|error| error.to_string()),
        Err(refused) => Err(refused.to_string()),
    };
    let given = asked.and_then(|asked| {
        tickets.give(&asked, app.as_deref(), MAX_BODY_BYTES).map_err(|error| format!("{error:#}"))
    });
    match given {
        Ok(ticket) => {
            add(&collector.counts.tickets, 1);
            let json = [(header::CONTENT_TYPE, http::JSON)];
            (json, ticket.to_json()).into_response()
        }
        Err(why) => refuse(why),
    }
}

fn no_tickets() -> Response {
    let why = "this collector issues no tickets: its store is not on S3, or it has no credentials to sign with";
    answer(StatusCode::NOT_FOUND, why).into_response()
}
