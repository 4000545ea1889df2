//! Reads the headers and the id of a request.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tracetee_protocol::{CaptureMeta, http};
use uuid::Uuid;

/// Reason for refusing a request without a digest, or with none that can be read.
pub(super) const NO_DIGEST: &str = "Content-Digest must contain a sha-256 digest";
/// Bytes of the metadata header.
pub(super) const MAX_META_BYTES: usize = 8 * 1024;

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns a header that may occur once. `None` if it occurs more than once, or is not ASCII.
pub(super) fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        (Some(_), Some(_)) => None,
    }
}

/// Reads an id.
pub(super) fn checked_id(id: &str) -> Result<Uuid, &'static str> {
    Uuid::try_parse(id).map_err(|_| "the id is not a UUID")
}

/// Reads the SHA-256 of the body, ignoring other digests; `None` if there is no such header.
pub(super) fn digest(headers: &HeaderMap) -> Result<Option<[u8; 32]>, &'static str> {
    let Some(value) = headers.get(http::CONTENT_DIGEST) else { return Ok(None) };
    let sha256 = value.to_str().ok().and_then(|text| {
        let sha256 = text.split(',').find_map(|field| {
            field.trim().strip_prefix(http::SHA_256_PREFIX)?.strip_suffix(http::SHA_256_SUFFIX)
        });
        STANDARD.decode(sha256?).ok()?.try_into().ok()
    });
    sha256.map(Some).ok_or(NO_DIGEST)
}

/// Reads the metadata header; empty if there is none.
pub(super) fn meta(headers: &HeaderMap) -> Result<CaptureMeta, String> {
    let header = http::META;
    let Some(text) = text(headers, header) else { return Ok(CaptureMeta::default()) };
    if text.len() > MAX_META_BYTES {
        return Err(format!("{header} has more than {MAX_META_BYTES} bytes"));
    }
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("{header}: {error}"))?;
    CaptureMeta::from_json(&json).ok_or_else(|| format!("{header}: no JSON object"))
}
