//! Walks over the files of a local store, and deletes them with their rows; for `retention` and `forget`.
//!
//! The directory is the truth, not the tables: what could not be indexed, or lies there twice, is seen too.

use super::id_index;
use super::local_store::{remove, walk};
use super::quarantined::{self, Quarantined};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::RawKey;

/// Captures of a transaction, in which examples of causes are made anew once for each of their days.
const BATCH: usize = 5000;

/// A kind of file in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A capture.
    Capture(RawKey),
    /// A loss report, with its id.
    Losses(String),
    /// The note of a body in quarantine, with its app, where that is known.
    Quarantined(Option<String>),
}

/// Each capture, loss report and note in quarantine.
pub(super) fn each_file(root: &Path, each: &mut dyn FnMut(Kind, &Path)) -> Result<()> {
    for directory in ["raw", "losses", "quarantine"] {
        let below = root.join(directory);
        if !below.exists() {
            continue;
        }
        walk(&below, &mut |path| {
            let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
            let kind = match directory {
                "raw" => path.to_str().and_then(RawKey::parse).map(Kind::Capture),
                "losses" => name(path).map(Kind::Losses),
                _ => path.extension().is_some_and(|extension| extension == "json").then(|| {
                    let about = std::fs::read(path).ok();
                    let about = about.and_then(|json| Quarantined::from_json(&json));
                    Kind::Quarantined(about.and_then(|about| about.meta.app))
                }),
            };
            if let Some(kind) = kind {
                each(kind, path);
            }
        })?;
    }
    Ok(())
}

/// Deletes files of [`each_file`], and their rows. The files first: a collector at work looks for a file in the
/// transaction that inserts its rows, so that either it finds no file, or this finds its rows. Rows are deleted before, too:
/// what is killed in between has no rows without a file. Returns how many captures there were.
pub(super) fn delete(
    root: &Path,
    database: &mut Database,
    files: &[(Kind, PathBuf)],
) -> Result<u64> {
    let mut captures = 0;
    for some in files.chunks(BATCH) {
        let (mut keys, mut reports) = (Vec::new(), Vec::new());
        for (kind, _) in some {
            match kind {
                Kind::Capture(key) => keys.push(key),
                Kind::Losses(id) => reports.push(id.clone()),
                Kind::Quarantined(_) => {}
            }
        }
        captures += keys.len() as u64;
        let raw_keys: Vec<String> = keys.iter().map(|key| key.path()).collect();
        database.delete(&raw_keys)?;
        database.delete_loss_reports(&reports)?;
        for (_, path) in some {
            remove(path)?;
        }
        for key in keys {
            // The collector may just have set it aside.
            remove(&quarantined::note(root, key))?;
            id_index::leave(root, key);
        }
        database.delete(&raw_keys)?;
        database.delete_loss_reports(&reports)?;
    }
    Ok(captures)
}
