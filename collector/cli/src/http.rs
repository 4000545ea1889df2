//! Requests to servers, which the uploader's client sends.

use std::sync::atomic::AtomicBool;
use std::time::Duration;
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
