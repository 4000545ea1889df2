//! Reads the files beside a capture in a collector's store. Stores exist only on Linux; on other systems no file is in a
//! store.

use anyhow::Result;
use std::path::{Path, PathBuf};
use tracetee_trace::{Dump, Mapping};

/// Reads the mapping of a capture's version.
#[cfg(target_os = "linux")]
pub(crate) fn mapping_of(capture: &Path) -> Result<Option<Mapping>> {
    tracetee_server::mapping_of_stored(capture)
}

/// Finds the system trace that was taken with a capture: its kind and its file.
#[cfg(target_os = "linux")]
pub(crate) fn profile_beside(capture: &Path) -> Option<(String, PathBuf)> {
    let profile = tracetee_server::StoredProfile::beside(capture)?;
    profile.is_trace().then_some((profile.kind, profile.path))
}

/// Finds the dump that the system made when the capture's process ended.
#[cfg(target_os = "linux")]
pub(crate) fn dump_beside(capture: &Path) -> Option<Dump> {
    tracetee_server::StoredProfile::beside(capture)?.dump(None)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn dump_beside(_: &Path) -> Option<Dump> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn mapping_of(_: &Path) -> Result<Option<Mapping>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn profile_beside(_: &Path) -> Option<(String, PathBuf)> {
    None
}
