//! Profiles of Android's own (ProfilingManager) in the store: captures whose id says which capture of the agent they belong to.

use super::id_index;
use super::local_store::meta_of;
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::{RawKey, pair, profile_kind};

/// A stored profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProfile {
    /// Its id.
    pub id: String,
    /// Its kind: `system_trace`, `stack_sampling`, `java_heap_dump` or `heap_profile`.
    pub kind: String,
    /// Its file.
    pub path: PathBuf,
}

impl StoredProfile {
    /// Finds the profile that belongs to the capture `id`, or is it, in the store `root`.
    #[must_use]
    pub fn find(root: &Path, id: &str) -> Option<Self> {
        let (_, id) = pair(id)?;
        let (path, key) = stored(root, &id)?;
        let meta = meta_of(root, &key);
        let kind = profile_kind(&id, meta.window.as_deref())?.to_owned();
        Some(Self { id, kind, path })
    }

    /// Finds the profile that belongs to a capture by its path in a store.
    #[must_use]
    pub fn beside(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let id = RawKey::parse(text)?.id;
        let root = text.get(..text.rfind("raw/v1/")?).filter(|root| !root.is_empty());
        Self::find(Path::new(root.unwrap_or(".")), &id).filter(|profile| profile.id != id)
    }

    /// Finds the capture that it belongs to.
    pub(crate) fn capture(&self, root: &Path) -> Option<(PathBuf, RawKey)> {
        let (capture, _) = pair(&self.id)?;
        stored(root, &capture)
    }

    /// True if it is shown as one trace with its capture. Heaps have no time line.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        matches!(&*self.kind, "system_trace" | "stack_sampling")
    }
}

/// Finds a stored file by its id.
fn stored(root: &Path, id: &str) -> Option<(PathBuf, RawKey)> {
    let path = std::fs::canonicalize(id_index::link(root, id)).ok()?;
    let key = RawKey::parse(path.to_str()?)?;
    Some((path, key))
}
