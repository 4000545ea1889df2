//! Makes requests to the collector.

use crate::error::Error;
use crate::policy::{self, MAX_ANSWER_BYTES};
use crate::spool::Waiting;
use crate::spool_name::CaptureName;
use crate::transport::{Body, Request};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tracetee_protocol::{CaptureMeta, http};

/// Size limit of a configuration; the agent refuses a larger one.
const MAX_CONFIG_BYTES: usize = 256 * 1024;
/// Size limit of the metadata in a header. S3 accepts 2 KB, and base64 makes 4 bytes of 3.
const MAX_META_BYTES: usize = 1_400;

/// The collector: its URL, and the app's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// URL without a slash at its end.
    url: String,
    token: Option<String>,
}

impl Endpoint {
    /// Makes an endpoint for the collector at `url`; `token` identifies the app there.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid URL, or an http:// one of another machine without `cleartext`.
    pub fn new(url: &str, token: Option<&str>, cleartext: bool) -> Result<Self, Error> {
        let refuse = |field, reason: &str| Err(Error::Config { field, reason: reason.to_owned() });
        let is_clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let host = match url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) {
            Some(rest) if is_clean(url) => rest.split('/').next().unwrap_or(""),
            _ => return refuse("url", "is not an http:// or https:// address"),
        };
        if host.is_empty() || host.contains('@') || url.contains(['?', '#']) {
            return refuse("url", "is not of the form https://host[:port][/path]");
        }
        if url.starts_with("http://") && !cleartext && !is_this_machine(host) {
            return refuse(
                "url",
                "http:// sends captures and the token unprotected; \"cleartext\" allows it",
            );
        }
        if token.is_some_and(|token| token.is_empty() || !is_clean(token)) {
            return refuse("token", "is empty, or has characters that no header may have");
        }
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, token: token.map(str::to_owned) })
    }

    /// Returns the URL, for messages.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes the request that stores a capture.
    pub(crate) fn capture<'a>(
        &self,
        capture: &'a Waiting,
        meta: &str,
        stop: &'a AtomicBool,
    ) -> Request<'a> {
        let Waiting { path, bytes, name } = capture;
        let to = format!("{}{}", http::CAPTURES, name.id);
        let body = Body::File { path, bytes: *bytes };
        once(self.upload(&to, http::FTRACE_TEXT, body, &name.digest, stop), Some(meta))
    }

    /// Makes the request that stores a loss report.
    pub(crate) fn losses<'a>(
        &self,
        id: &str,
        content: &'a [u8],
        stop: &'a AtomicBool,
    ) -> Request<'a> {
        self.put_once(&format!("{}{id}", http::LOSSES), http::JSON, content, None, stop)
    }

    /// Makes the request that stores a part of the ledger.
    pub(crate) fn part<'a>(
        &self,
        id: &str,
        frame: &'a [u8],
        device: &CaptureMeta,
        stop: &'a AtomicBool,
    ) -> Request<'a> {
        let meta = URL_SAFE_NO_PAD.encode(device.to_short_json(MAX_META_BYTES));
        self.put_once(&format!("{}{id}", http::LEDGERS), http::LEDGER, frame, Some(&meta), stop)
    }

    /// Makes the request that puts a body of a media type at a path: JSON, or what zstd has compressed.
    #[must_use]
    pub fn put<'a>(
        &self,
        path: &str,
        kind: &str,
        body: &'a [u8],
        stop: &'a AtomicBool,
    ) -> Request<'a> {
        self.upload(path, kind, Body::Bytes(body), &hmac_sha256::Hash::hash(body), stop)
    }

    /// Like [`Endpoint::put`], with metadata; the collector keeps the first body that arrives at the path.
    #[must_use]
    pub fn put_once<'a>(
        &self,
        path: &str,
        kind: &str,
        body: &'a [u8],
        meta: Option<&str>,
        stop: &'a AtomicBool,
    ) -> Request<'a> {
        once(self.put(path, kind, body, stop), meta)
    }

    /// Builds the request for the remote configuration, if it differs from that of `etag`.
    pub(crate) fn config<'a>(&self, etag: Option<&str>, stop: &'a AtomicBool) -> Request<'a> {
        let mut headers = self.headers();
        add(&mut headers, http::ACCEPT, http::JSON);
        if let Some(etag) = etag {
            add(&mut headers, http::IF_NONE_MATCH, etag);
        }
        let url = format!("{}{}", self.url, http::CONFIG);
        let request = request("GET", url, headers, Body::None, stop);
        Request { max_answer_bytes: MAX_CONFIG_BYTES, ..request }
    }

    fn upload<'a>(
        &self,
        path: &str,
        kind: &str,
        body: Body<'a>,
        digest: &[u8; 32],
        stop: &'a AtomicBool,
    ) -> Request<'a> {
        let mut headers = self.headers();
        add(&mut headers, http::CONTENT_TYPE, kind);
        if kind != http::JSON {
            add(&mut headers, http::CONTENT_ENCODING, http::ZSTD);
        }
        add(&mut headers, http::CONTENT_DIGEST, &content_digest(digest));
        add(&mut headers, http::CONTENT_LENGTH, &body.bytes().to_string());
        request("PUT", format!("{}{path}", self.url), headers, body, stop)
    }

    fn headers(&self) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if let Some(token) = &self.token {
            add(&mut headers, http::AUTHORIZATION, &format!("{}{token}", http::BEARER));
        }
        headers
    }
}

/// Adds metadata, and that the first body that arrives counts: an answer that was lost is given again.
fn once<'a>(mut request: Request<'a>, meta: Option<&str>) -> Request<'a> {
    meta.into_iter().for_each(|meta| add(&mut request.headers, http::META, meta));
    add(&mut request.headers, http::IF_NONE_MATCH, http::IF_NOTHING_STORED);
    request
}

/// Makes a request with the time that its body may take.
fn request<'a>(
    method: &'static str,
    url: String,
    headers: Vec<(String, String)>,
    body: Body<'a>,
    stop: &'a AtomicBool,
) -> Request<'a> {
    let timeout = policy::timeout(body.bytes());
    Request { method, url, headers, body, timeout, max_answer_bytes: MAX_ANSWER_BYTES, stop }
}

fn add(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    headers.push((name.to_owned(), value.to_owned()));
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let address = name.parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Formats the header [`http::CONTENT_DIGEST`].
fn content_digest(digest: &[u8; 32]) -> String {
    let (prefix, suffix) = (http::SHA_256_PREFIX, http::SHA_256_SUFFIX);
    format!("{prefix}{}{suffix}", STANDARD.encode(digest))
}

/// Makes the metadata header of a capture, from the capture's own metadata, the device and the spool.
pub(crate) fn meta(name: &CaptureName, path: &Path, device: &CaptureMeta) -> String {
    let mut meta = device.clone();
    if let Some(about) = crate::frames::about(path) {
        // The values from when the capture was made are more accurate than today's.
        meta.merge(about);
    }
    meta.merge(CaptureMeta {
        id: Some(name.id.to_string()),
        window: Some(name.label.clone()),
        priority: Some(name.priority),
        made_ms: Some(name.made.0.real_ms),
        recovered: name.recovered.then_some(true),
        cut_from_bytes: name.cut_from,
        ..CaptureMeta::default()
    });
    // The body has the omitted members.
    URL_SAFE_NO_PAD.encode(meta.to_short_json(MAX_META_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;
    use serde_json::{Value, json};
    use uuid::Uuid;

    #[test]
    fn an_address_is_checked_before_anything_goes_there() {
        let error = |url: &str| Endpoint::new(url, None, false).unwrap_err().to_string();
        for url in ["", "collector.example", "ftp://a", "https://", "https:///x", "https://a b"] {
            assert!(error(url).starts_with("url: is no"), "{url}: {}", error(url));
        }
        for url in ["https://a?x", "https://a#x", "https://me@a"] {
            assert!(error(url).contains("form"), "{url}");
        }
        for url in ["http://example.com", "http://10.0.2.2:80/x", "http://localhost.evil.com"] {
            assert!(error(url).contains("unprotected"), "{url}");
            assert!(Endpoint::new(url, None, true).is_ok(), "{url}");
        }
        for url in [
            "https://a.example:8443/base/",
            "http://localhost:1/",
            "http://127.0.0.1:9",
            "http://[::1]:9",
        ] {
            assert!(Endpoint::new(url, Some("t0ken"), false).is_ok(), "{url}");
        }
        for token in ["", "a b", "a\nb", "ä"] {
            assert!(Endpoint::new("https://a", Some(token), false).is_err(), "{token}");
        }
    }

    fn name() -> CaptureName {
        CaptureName {
            id: Uuid::from_u128(7),
            label: "jank".to_owned(),
            priority: 1,
            tries: 0,
            recovered: true,
            unconfirmed: false,
            cut_from: Some(9000),
            made: Timestamp::default(),
            digest: [7; 32],
        }
    }

    #[test]
    fn a_capture_goes_out_as_the_wire_format_says() {
        let endpoint = Endpoint::new("https://c.example/base/", Some("t0ken"), false).unwrap();
        let stop = AtomicBool::new(false);
        let waiting = Waiting { path: "/x".into(), bytes: 123, name: name() };
        let request = endpoint.capture(&waiting, "bWV0YQ", &stop);
        assert_eq!(request.method, "PUT");
        assert_eq!(
            request.url,
            "https://c.example/base/v1/captures/00000000-0000-0000-0000-000000000007"
        );
        let headers: Vec<String> =
            request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let expected = [
            "Authorization: Bearer t0ken",
            "Content-Type: text/x-ftrace",
            "Content-Encoding: zstd",
            "Content-Digest: sha-256=:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=:",
            "Content-Length: 123",
            "X-Tracetee-Meta: bWV0YQ",
            "If-None-Match: *",
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn the_metadata_fits_where_s3_takes_it() {
        let about =
            json!({"window": "?", "why": "w".repeat(3000), "also": vec!["x"; 500], "seq": 3});
        let text = format!("# tracer: nop\n# tracetee: {about}\n");
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut frame = Vec::new();
        tracetee_frames::store(text.as_bytes(), &mut frame);
        std::fs::write(file.path(), frame).unwrap();
        let device =
            CaptureMeta::from_json(br#"{"install_id": "i", "app": "com.example"}"#).unwrap();
        let header = meta(&name(), file.path(), &device);
        assert!(header.len() + "x-amz-meta-tracetee".len() <= 2048, "{}", header.len());
        let meta: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        let expected = json!({
            "id": "00000000-0000-0000-0000-000000000007", "window": "jank", "priority": 1,
            "made_ms": 0, "recovered": true, "cut_from_bytes": 9000, "install_id": "i",
            "app": "com.example", "seq": 3, "shortened": true,
        });
        assert_eq!(meta, expected);
    }
}
