//! Walks over the files of a local store, and deletes them with their rows; for `retention` and `forget`.
//!
//! The directory is the truth, not the tables: what could not be indexed, or lies there twice, is seen too.

use super::id_index;
use super::local_store::{day, day_of, sidecar_of, walk};
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::RawKey;
use uuid::Uuid;

/// Captures of a transaction.
const BATCH: usize = 200;

/// A file of the store: a capture, a loss report, a body in quarantine.
pub(super) struct StoredFile {
    pub(super) day: String,
    /// With its sidecar or body.
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
}

/// Each capture, loss report and body in quarantine.
pub(super) fn each_file(root: &Path, each: &mut dyn FnMut(StoredFile)) -> Result<()> {
    let bytes_of = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    for directory in ["raw", "losses", "quarantine"] {
        let below = root.join(directory);
        if !below.exists() {
            continue;
        }
        walk(&below, &mut |path| {
            let text = path.to_str().unwrap_or_default();
            let day = match directory {
                "raw" => RawKey::parse(text).map(|key| key.day),
                "losses" => path
                    .parent()
                    .and_then(Path::file_name)
                    .and_then(|name| name.to_str()?.strip_prefix("dt=").map(str::to_owned)),
                // The id gives the day; an id without a time gets the day of arrival.
                _ if text.ends_with(".json") => Some(day_in_quarantine(path)),
                _ => None,
            };
            let Some(day) = day else { return };
            let beside = match directory {
                "raw" => bytes_of(&sidecar_of(path)),
                "losses" => 0,
                _ => bytes_of(&path.with_extension("body")),
            };
            each(StoredFile { day, bytes: bytes_of(path) + beside, path: path.to_owned() });
        })?;
    }
    Ok(())
}

fn day_in_quarantine(path: &Path) -> String {
    let id = path.file_stem().and_then(|stem| stem.to_str());
    let id = id.and_then(|id| Uuid::try_parse(id).ok());
    if let Some(id) = id.filter(|id| id.get_timestamp().is_some()) {
        return day_of(id);
    }
    let came = path.metadata().and_then(|metadata| metadata.modified()).ok();
    let since = came.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    day(i64::try_from(since.map_or(0, |since| since.as_secs() / 86_400)).unwrap_or(0))
}

/// Deletes files of [`each_file`]. Rows first: what is killed in between is found in the directory again, and
/// deleted the next time. Returns how many captures there were.
pub(super) fn delete(root: &Path, database: &mut Database, paths: &[PathBuf]) -> Result<u64> {
    let gone = |path: &Path| match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", path.display()))
        }
        _ => Ok(()),
    };
    let mut captures = 0;
    for some in paths.chunks(BATCH) {
        let keys: Vec<RawKey> =
            some.iter().filter_map(|path| RawKey::parse(path.to_str()?)).collect();
        captures += keys.len() as u64;
        let raw_keys: Vec<String> = keys.iter().map(RawKey::path).collect();
        database.delete(&raw_keys)?;
        for path in some {
            gone(&sidecar_of(path))?;
            gone(&path.with_extension("body"))?;
            gone(path)?;
        }
        keys.iter().for_each(|key| id_index::leave(root, key));
    }
    Ok(captures)
}
