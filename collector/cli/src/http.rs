//! Requests to servers, which the uploader's client sends.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tracetee_protocol::http;
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Failure, Request, Response, Transport};

/// Bytes of an answer that is a status and a reason.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Names and values of headers.
pub(crate) type Headers = Vec<(String, String)>;

/// Sends a body, and reads the answer within limits.
pub(crate) fn send(
    http: &mut Http,
    method: &'static str,
    url: &str,
    headers: Headers,
    body: &[u8],
    timeout: Duration,
    max_answer_bytes: usize,
) -> Result<Response, Failure> {
    tracing::debug!("{method} {url}: {} bytes", body.len());
    http.send(&Request {
        method,
        url: url.to_owned(),
        headers,
        body: if body.is_empty() { Body::None } else { Body::Bytes(body) },
        timeout,
        max_answer_bytes,
        stop: &AtomicBool::new(false),
    })
}

/// Returns the headers of a body that is compressed by zstd, for a collector.
pub(crate) fn upload_headers(content_type: &str, body: &[u8], token: Option<&str>) -> Headers {
    let digest = STANDARD.encode(hmac_sha256::Hash::hash(body));
    let digest = format!("{}{digest}{}", http::SHA_256_PREFIX, http::SHA_256_SUFFIX);
    let token = token.map(|token| format!("{}{token}", http::BEARER));
    let headers = [
        (http::CONTENT_TYPE, content_type),
        (http::CONTENT_ENCODING, http::ZSTD),
        (http::CONTENT_LENGTH, &body.len().to_string()),
        (http::CONTENT_DIGEST, &digest),
    ];
    let token = token.iter().map(|token| (http::AUTHORIZATION, &**token));
    headers
        .into_iter()
        .chain(token)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
