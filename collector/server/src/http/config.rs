//! `GET /v1/config`: serves the remote configuration, with its signature, an entity tag, and the requested windows.

use super::answer::{answer, with_retry};
use super::headers::text;
use super::{Shared, add, etag, now_s};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tracetee_protocol::http;

pub(super) async fn config(State(collector): Shared, request: Parts) -> Response {
    let app = match collector.app(&request) {
        Ok(app) => app,
        Err(answer) => return with_retry(answer),
    };
    let Some(config) = &collector.config else {
        let none = answer(StatusCode::NOT_FOUND, "this collector serves no configuration");
        return none.into_response();
    };
    let Some(served) = config.current() else {
        let later = "cannot read the configuration now; try again later";
        return answer(StatusCode::SERVICE_UNAVAILABLE, later).into_response();
    };
    let now_ms = i64::try_from(now_s()).unwrap_or(i64::MAX).saturating_mul(1000);
    // With a token of all apps, the device's app is unknown.
    let asks = app.and_then(|app| collector.findings.asks(&app, &served.document, now_ms));
    let etag = served.etag.clone();
    add(&collector.counts.config_requests, 1);
    if text(&request.headers, http::IF_NONE_MATCH).is_some_and(|list| etag::names(list, &etag)) {
        add(&collector.counts.config_unchanged, 1);
        let mut response = (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
        insert(&mut response, http::ASKS, asks.as_deref());
        return response;
    }
    let headers = [(header::ETAG, etag), (header::CONTENT_TYPE, http::JSON.to_owned())];
    let mut response = (headers, served.bytes.clone()).into_response();
    insert(&mut response, http::SIGNATURE, served.signature.as_deref());
    insert(&mut response, http::ASKS, asks.as_deref());
    response
}

fn insert(response: &mut Response, name: &'static str, value: Option<&str>) {
    if let Some(value) = value.and_then(|text| text.parse().ok()) {
        response.headers_mut().insert(name, value);
    }
}
