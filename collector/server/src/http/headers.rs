//! Reads the headers and the id of a request.

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tracetee_protocol::{CaptureMeta, http};
use uuid::Uuid;

/// Bytes of the metadata header.
pub(super) const MAX_META_BYTES: usize = 8 * 1024;

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Reads an id.
pub(super) fn checked_id(id: &str) -> Result<Uuid, &'static str> {
    Uuid::try_parse(id).map_err(|_| "the id is not a UUID")
}

/// Reads the SHA-256 of the body, among other digests.
pub(super) fn digest(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut fields = text(headers, http::CONTENT_DIGEST)?.split(',');
    let sha256 = fields.find_map(|field| {
        field.trim().strip_prefix(http::SHA_256_PREFIX)?.strip_suffix(http::SHA_256_SUFFIX)
    });
    STANDARD.decode(sha256?).ok()?.try_into().ok()
}

/// Reads the metadata header; empty where there is none.
pub(super) fn meta(headers: &HeaderMap) -> Result<CaptureMeta, String> {
    let header = http::META;
    let Some(text) = text(headers, header) else { return Ok(CaptureMeta::default()) };
    if text.len() > MAX_META_BYTES {
        return Err(format!("{header} has more than {MAX_META_BYTES} bytes"));
    }
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("{header}: {error}"))?;
    CaptureMeta::from_json(&json).ok_or_else(|| format!("{header}: no JSON object"))
}
