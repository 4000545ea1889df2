//! The entries of a store, captures, reports and quarantined objects, and their deletion together with their rows.
//!
//! The objects are the source of truth, not the tables: an object that could not be indexed, or exists twice, is also an
//! entry.

use crate::store::captures::id_index;
use crate::store::objects::disk::{note, remove};
use crate::store::objects::{Listed, Objects};
use anyhow::Result;
use std::path::Path;
use std::time::SystemTime;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::{RawKey, ReportKey, ReportKind, app_of_report};

/// Number of captures in a transaction, in which examples of causes are rebuilt once per day.
const BATCH: usize = 5000;

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A capture.
    Capture(RawKey),
    /// A loss report, or a part of a ledger.
    Report(ReportKey),
    /// The note of a quarantined object, with its app.
    Quarantined(Option<String>),
    /// Metadata without a capture: of an upload or a deletion that was killed.
    Alone,
}

/// A capture, a report, or the note of a quarantined object.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Path in the store.
    pub(crate) path: String,
    /// Time of its arrival.
    pub(crate) at: SystemTime,
    /// Bytes, including those of its companion files.
    pub(crate) bytes: u64,
}

impl Entry {
    /// Returns the entry that an object is.
    pub(crate) fn of(listed: Listed) -> Option<Self> {
        let kind = match listed.path.split_once('/')?.0 {
            "raw" => RawKey::parse(&listed.path).map_or(Kind::Alone, Kind::Capture),
            "losses" | "ledgers" => Kind::Report(ReportKey::parse(&listed.path)?),
            _ => Kind::Quarantined(app_of_report(note_name(&listed.path)?)),
        };
        Some(Self { kind, path: listed.path, at: listed.modified, bytes: listed.bytes })
    }
}

/// Returns the name of the capture in the path of a note.
pub(crate) fn note_name(path: &str) -> Option<&str> {
    path.rsplit('/').next()?.strip_suffix(".json")
}

/// Calls `each` for each entry of a store.
pub(crate) fn each_entry(objects: &dyn Objects, each: &mut dyn FnMut(Entry)) -> Result<()> {
    let reports = ReportKind::ALL.map(ReportKind::directory);
    for below in ["raw/v1"].into_iter().chain(reports).chain(["quarantine"]) {
        // A capture comes before its metadata, a body before its note.
        let (mut capture, mut body): (Option<Entry>, Option<Listed>) = (None, None);
        objects.walk(below, &mut |listed| {
            if listed.path.ends_with(".body") {
                body = Some(listed);
                return;
            }
            let Some(mut entry) = Entry::of(listed) else { return };
            let before = capture.take();
            match (&entry.kind, before) {
                (Kind::Alone, Some(mut before))
                    if before.path.strip_suffix(".ftrace.zst")
                        == entry.path.strip_suffix(".json") =>
                {
                    before.bytes += entry.bytes;
                    each(before);
                    return;
                }
                (_, before) => before.into_iter().for_each(&mut *each),
            }
            if let Some(body) = body.take()
                && body.path.strip_suffix(".body") == entry.path.strip_suffix(".json")
            {
                entry.bytes += body.bytes;
            }
            match entry.kind {
                Kind::Capture(_) => capture = Some(entry),
                _ => each(entry),
            }
        })?;
        capture.into_iter().for_each(&mut *each);
    }
    Ok(())
}

/// Deletes entries of a store, and their rows in the tables below `root`. The entries are deleted first: a running collector
/// checks for the file in the transaction that inserts its rows, so either it finds no file, or this finds its rows. Rows
/// are also deleted before, so that a kill in between leaves no rows without a file. Returns how many captures there were.
pub(crate) fn delete(
    objects: &dyn Objects,
    root: &Path,
    database: &mut Database,
    entries: &[(Kind, String)],
) -> Result<u64> {
    let mut captures = 0;
    for some in entries.chunks(BATCH) {
        let (mut keys, mut raw_keys, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, path) in some {
            match kind {
                Kind::Capture(key) => {
                    keys.push(key);
                    raw_keys.push(path.clone());
                }
                Kind::Report(key) => reports.push(key.clone()),
                Kind::Quarantined(_) | Kind::Alone => {}
            }
        }
        captures += keys.len() as u64;
        database.delete(&raw_keys)?;
        database.delete_reports(&reports)?;
        let paths: Vec<String> = some.iter().map(|(_, path)| path.clone()).collect();
        objects.delete(&paths)?;
        for key in keys {
            // The collector may just have set it aside.
            remove(&note(root, key))?;
            id_index::leave(root, key);
        }
        database.delete(&raw_keys)?;
        database.delete_reports(&reports)?;
    }
    Ok(captures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::captures::local_store::LocalStore;
    use crate::store::objects::Directory;
    use crate::store::objects::disk::sidecar_of;
    use crate::store::test_store::{TEXT, put};
    use serde_json::json;

    #[test]
    fn a_capture_is_one_entry_with_its_metadata_whatever_its_app_is_called() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        let id = uuid::Builder::from_unix_timestamp_millis(0, &[7; 10]).into_uuid();
        let path = put(&store, id, &json!({"app": "a.ftrace.b"}), TEXT).unwrap();
        let bytes = [sidecar_of(&path), path].map(|path| path.metadata().unwrap().len());
        let mut entries = Vec::new();
        each_entry(&Directory(root.to_owned()), &mut |entry| entries.push(entry)).unwrap();
        let [entry] = &*entries else { panic!("{entries:?}") };
        assert!(matches!(entry.kind, Kind::Capture(_)));
        assert_eq!(entry.bytes, bytes.iter().sum::<u64>());
    }
}
