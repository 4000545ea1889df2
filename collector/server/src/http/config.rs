//! `GET /v1/config`: serves the remote configuration, with its signature and an entity tag.

use super::answer::{answer, with_retry};
use super::headers::text;
use super::{Shared, add, etag};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tracetee_protocol::http;

pub(super) async fn config(State(collector): Shared, request: Parts) -> Response {
    if let Err(answer) = collector.app(&request) {
        return with_retry(answer);
    }
    let Some(config) = &collector.config else {
        let none = answer(StatusCode::NOT_FOUND, "this collector serves no configuration");
        return none.into_response();
    };
    let Some(served) = config.current() else {
        let later = "cannot read the configuration now; try again later";
        return answer(StatusCode::SERVICE_UNAVAILABLE, later).into_response();
    };
    let etag = served.etag.clone();
    add(&collector.counts.config_requests, 1);
    if text(&request.headers, http::IF_NONE_MATCH).is_some_and(|list| etag::names(list, &etag)) {
        add(&collector.counts.config_unchanged, 1);
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    let headers = [(header::ETAG, etag), (header::CONTENT_TYPE, http::JSON.to_owned())];
    let mut response = (headers, served.bytes.clone()).into_response();
    if let Some(value) = served.signature.as_deref().and_then(|text| text.parse().ok()) {
        response.headers_mut().insert(http::SIGNATURE, value);
    }
    response
}
