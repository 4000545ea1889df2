//! Profiles of Android's own (ProfilingManager) in the store: captures whose id says which capture of the agent they belong to.

use crate::store::captures::id_index;
use crate::store::captures::local_store::meta_of;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::{RawKey, is_profile, profile_kind};
use tracetee_protocol::Death;
use tracetee_protocol::death::{ANR_DUMP, TOMBSTONE};
use tracetee_trace::Dump;

/// A stored profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProfile {
    /// Key of the profile.
    pub key: RawKey,
    /// Kind of the profile: `system_trace`, `stack_sampling`, `java_heap_dump`, `heap_profile`, `anr_dump` or `tombstone`.
    pub kind: String,
    /// File of the profile.
    pub path: PathBuf,
}

impl StoredProfile {
    /// Finds the profile of the same app that belongs to a capture, or is it, in the store `root`.
    #[must_use]
    pub fn find(root: &Path, capture: &RawKey) -> Option<Self> {
        let [_, profile] = capture.pair()?;
        let (path, key) = stored(root, &profile)?;
        let meta = meta_of(root, &key);
        let kind = profile_kind(&key.id, meta.window.as_deref())?.to_owned();
        Some(Self { key, kind, path })
    }

    /// Finds the profile that belongs to a capture by its path in a store.
    #[must_use]
    pub fn beside(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let key = RawKey::parse(text)?;
        let root = text.get(..text.rfind("raw/v1/")?).filter(|root| !root.is_empty());
        Self::find(Path::new(root.unwrap_or(".")), &key).filter(|profile| profile.key.id != key.id)
    }

    /// Finds the capture that it belongs to.
    pub(crate) fn capture(&self, root: &Path) -> Option<PathBuf> {
        let [capture, _] = self.key.pair()?;
        Some(stored(root, &capture)?.0)
    }

    /// Reads the dump that the system made when the capture's process ended; `None` if it is another profile, or has no thread.
    #[must_use]
    pub fn dump(&self, death: Option<&Death>) -> Option<Dump> {
        let file = self.is_dump().then(|| File::open(&self.path).ok())??;
        read_dump(file, death)
    }

    /// True for the dump of a process that ended.
    #[must_use]
    pub fn is_dump(&self) -> bool {
        matches!(&*self.kind, ANR_DUMP | TOMBSTONE)
    }

    /// True if it is shown as one trace with its capture. Heap dumps have no timeline.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        matches!(&*self.kind, "system_trace" | "stack_sampling")
    }
}

/// True for the id and the window of a dump of a process that ended.
pub(crate) fn is_dump(id: &str, window: Option<&str>) -> bool {
    matches!(profile_kind(id, window), Some(ANR_DUMP | TOMBSTONE))
}

/// Reads the dump of a process that ended.
pub(crate) fn read_dump<R: Read + 'static>(file: R, death: Option<&Death>) -> Option<Dump> {
    let pid = death.and_then(|death| u32::try_from(death.pid).ok());
    Dump::read(file, pid.filter(|&pid| pid > 0))
}

/// Finds the capture of the process whose dump this is.
pub(crate) fn capture_of_dump(root: &Path, dump: &RawKey) -> Option<RawKey> {
    let window = is_profile(&dump.id).then(|| meta_of(root, dump).window)?;
    let [capture, _] = dump.pair().filter(|_| is_dump(&dump.id, window.as_deref()))?;
    Some(stored(root, &capture)?.1)
}

/// Finds an app's stored file by its id.
fn stored(root: &Path, key: &RawKey) -> Option<(PathBuf, RawKey)> {
    let path = std::fs::canonicalize(id_index::path(root, key)).ok()?;
    let key = RawKey::parse(path.to_str()?)?;
    Some((path, key))
}
