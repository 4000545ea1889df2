//! Quarantine: bodies that were not captures, within their own limit, and a note for each with the reason, its
//! metadata, and its former place.

use crate::budget::Budget;
use crate::store::captures::retention::Retention;
use crate::store::objects::Objects;
use crate::store::objects::disk::{remove, walk};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracetee_fleet::object_keys::RawKey;
use tracetee_protocol::CaptureMeta;

/// Bytes of refused bodies, unless retention's limits say less; and how many they are at most.
const MAX_BYTES: u64 = 1 << 30;
const MAX_BODIES: u64 = 1000;
/// Part of retention's limits that refused bodies may take.
const SHARE_OF_LIMITS: u64 = 20;

/// The refused bodies of a directory; when there are too many, the app with most of them loses its oldest.
#[derive(Debug)]
pub(crate) struct Bodies {
    directory: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    most: u64,
    by_app: Budget<String, String, ()>,
}

impl Kept {
    fn new(retention: Retention) -> Self {
        let part = |limit: Option<u64>| limit.map_or(u64::MAX, |bytes| bytes / SHARE_OF_LIMITS);
        let most = MAX_BYTES.min(part(retention.bytes));
        Self { most, by_app: Budget::new(most, part(retention.app_bytes)) }
    }
}

impl Bodies {
    /// The bodies below the root of a store, to be counted by [`Bodies::limit`].
    pub(crate) fn new(root: &Path) -> Self {
        let kept = Mutex::new(Kept::new(Retention::default()));
        Self { directory: root.join("quarantine"), kept }
    }

    /// Sets the limits, counts the existing bodies, and deletes those beyond the limits.
    pub(crate) fn limit(&self, retention: Retention) -> std::io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Kept::new(retention);
        let mut notes = Vec::new();
        walk(&self.directory, &mut |path| {
            let about = std::fs::read(path).ok().and_then(|json| Quarantined::from_json(&json));
            // A capture that had been stored also counts, until retention deletes it.
            notes.extend(about.filter(|about| about.raw_key.is_none()).map(|about| {
                let at = path.metadata().and_then(|metadata| metadata.modified()).ok();
                (at, path.to_owned(), about.meta.app.unwrap_or_default())
            }));
        })?;
        notes.sort();
        for (_, note, app) in notes {
            let bytes = note.with_extension("body").metadata().map_or(0, |metadata| metadata.len());
            let name = note.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            self.put(&mut kept, &app, name, bytes);
        }
        Ok(())
    }

    /// Counts a body as the newest of an app, and deletes those that have to go. Returns false if this is one of them.
    pub(crate) fn count(&self, key: &RawKey, bytes: u64) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(&mut kept, &key.app, &key.name(), bytes)
    }

    fn put(&self, kept: &mut Kept, app: &str, name: &str, bytes: u64) -> bool {
        let weight = bytes.saturating_add(kept.most / MAX_BODIES);
        let mut is_kept = true;
        for (_, gone, ()) in kept.by_app.put(app.to_owned(), name.to_owned(), weight, ()) {
            is_kept &= gone != name;
            if let Err(error) = remove(&self.directory.join(format!("{gone}.json"))) {
                tracing::error!("{error}");
            }
        }
        is_kept
    }
}

/// A body that was not a capture, or a capture that could not be analyzed.
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

    /// `None` if it is not such a note.
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

/// Records a body that is not a capture, with the reason. The body may be a decompression bomb, and is not stored.
pub(crate) fn set_aside(
    objects: &dyn Objects,
    key: &RawKey,
    reason: &str,
    meta: &CaptureMeta,
) -> Result<()> {
    let about = Quarantined { reason: reason.to_owned(), meta: meta.clone(), raw_key: None };
    let path = format!("quarantine/{}.json", key.name());
    objects.put_new(&path, about.to_json().into_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_has_a_thousand_bodies_of_a_gibibyte_or_a_twentieth_of_the_stores_limit() {
        let directory = tempfile::tempdir().unwrap();
        let bodies = Bodies::new(directory.path());
        let key = |id: u64| RawKey {
            app: "a".to_owned(),
            day: "2026-11-28".to_owned(),
            ver: "1".to_owned(),
            id: id.to_string(),
        };
        assert!((0..1_500).all(|id| bodies.count(&key(id), 0)));
        assert_eq!(bodies.kept.lock().unwrap().by_app.entries().count(), 1_000);
        let is_kept = |bytes| bodies.count(&key(1), bytes);
        assert_eq!([(1 << 30) / 1_000 * 999, 1 << 30].map(is_kept), [true, false]);
        std::fs::create_dir(directory.path().join("quarantine")).unwrap();
        bodies.limit(Retention { bytes: Some(20_000), ..Retention::default() }).unwrap();
        assert_eq!([999, 1_000].map(is_kept), [true, false]);
    }
}
