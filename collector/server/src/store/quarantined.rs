//! The note beside what was set aside: why, with its metadata, and where it was stored.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::RawKey;
use tracetee_protocol::CaptureMeta;

/// Returns the place of the note of a capture. The body has the same name with the extension `body`.
pub(super) fn note(root: &Path, key: &RawKey) -> PathBuf {
    root.join("quarantine").join(format!("{}.json", key.name()))
}

/// A body that was no capture, or a capture that could not be analysed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quarantined {
    pub(crate) reason: String,
    pub(crate) meta: CaptureMeta,
    /// Key of a capture that was stored; `None` for a body that never was.
    pub(crate) raw_key: Option<String>,
}

impl Quarantined {
    pub(crate) fn to_json(&self) -> String {
        let meta: Option<Value> = serde_json::from_str(&self.meta.to_json()).ok();
        let mut about = json!({"reason": self.reason, "meta": meta});
        if let (Some(about), Some(key)) = (about.as_object_mut(), &self.raw_key) {
            about.insert("raw_key".to_owned(), json!(key));
        }
        about.to_string()
    }

    /// `None` for what is no such note.
    pub(crate) fn from_json(text: &[u8]) -> Option<Self> {
        let about: Value = serde_json::from_slice(text).ok()?;
        let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            reason: text("reason").unwrap_or_default(),
            meta: CaptureMeta::from_json(about.get("meta")?.to_string().as_bytes())?,
            raw_key: text("raw_key"),
        })
    }
}
