//! Reads the headers and the id of a request.

use crate::store::local_store::day_of;
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Bytes of the metadata header.
pub(super) const MAX_META_BYTES: usize = 8 * 1024;

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Reads an id; refuses one of a day that paths and tables have no room for.
pub(super) fn checked_id(id: &str) -> Result<Uuid, &'static str> {
    let id = Uuid::try_parse(id).map_err(|_| "the id is not a UUID")?;
    if day_of(id).len() > "YYYY-MM-DD".len() {
        return Err("the id's timestamp is after the year 9999");
    }
    Ok(id)
}

/// RFC 9530: `sha-256=:…:` among others.
pub(super) fn digest(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut fields = text(headers, "content-digest")?.split(',');
    let sha256 = fields.find_map(|field| field.trim().strip_prefix("sha-256=:")?.strip_suffix(':'));
    STANDARD.decode(sha256?).ok()?.try_into().ok()
}

/// The metadata header; empty where there is none.
pub(super) fn meta(headers: &HeaderMap) -> Result<Map<String, Value>, String> {
    let Some(text) = text(headers, "x-tracetee-meta") else { return Ok(Map::new()) };
    if text.len() > MAX_META_BYTES {
        return Err(format!("X-Tracetee-Meta is longer than {MAX_META_BYTES} bytes"));
    }
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("X-Tracetee-Meta: {error}"))?;
    serde_json::from_slice(&json).map_err(|error| format!("X-Tracetee-Meta: {error}"))
}
