//! `GET /v1/config`: serves the remote configuration, with its signature and an entity tag.

use super::answer::answer;
use super::headers::text;
use super::{Shared, add, etag};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tracetee_protocol::http;

pub(super) async fn config(State(collector): Shared, request: Parts) -> Response {
    if let Err(answer) = collector.app(&request) {
        return answer.into_response();
    }
    let Some(path) = &collector.config else {
        let none = answer(StatusCode::NOT_FOUND, "this collector serves no configuration");
        return none.into_response();
    };
    let Ok(bytes) = std::fs::read(path) else {
        tracing::error!("cannot read the configuration {}", path.display());
        let later = "cannot read the configuration now; try again later";
        return answer(StatusCode::SERVICE_UNAVAILABLE, later).into_response();
    };
    let signature = std::fs::read(path.with_added_extension("sig")).unwrap_or_default();
    // A new signature of the same document is another answer.
    let mut hash = hmac_sha256::Hash::new();
    hash.update(&bytes);
    hash.update(&signature);
    let etag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(hash.finalize()));
    add(&collector.counts.configs, 1);
    if text(&request.headers, http::IF_NONE_MATCH).is_some_and(|list| etag::names(list, &etag)) {
        add(&collector.counts.configs_unchanged, 1);
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response();
    }
    let mut response =
        ([(header::ETAG, etag), (header::CONTENT_TYPE, http::JSON.to_owned())], bytes)
            .into_response();
    if !signature.is_empty()
        && let Ok(value) = signature_text(&signature).parse()
    {
        response.headers_mut().insert(http::SIGNATURE, value);
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
