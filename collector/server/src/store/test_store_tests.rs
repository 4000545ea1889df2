//! Stores that the tests of this directory share.

use crate::store::captures::days::today;
use crate::store::captures::local_store::{LocalStore, key_of};
use crate::store::index::indexer::Indexer;
use crate::store::objects::disk::{sidecar_of, tables_of};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tracetee_fleet::database::Database;
use tracetee_protocol::CaptureMeta;
use uuid::Uuid;

/// A store of three captures of three days; their keys, the oldest first, and how large each is.
pub(super) fn store(root: &Path) -> (Vec<String>, u64) {
    let directory = LocalStore::open(root).unwrap();
    let text = b"# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n";
    let body = zstd::bulk::compress(text, 1).unwrap();
    let keys = (1..=3_u64).map(|day| {
        let id = uuid::Builder::from_unix_timestamp_millis(day * 86_400_000, &[7; 10]).into_uuid();
        let meta = meta(&json!({"app": "com.example", "install_id": format!("device {day}")}));
        let key = key_of(id, &meta, i64::try_from(day).unwrap());
        let incoming = directory.incoming();
        fs::write(&incoming.path, &body).unwrap();
        came_on(&directory.keep(&key, &incoming, &meta).unwrap().unwrap(), day);
        key.path()
    });
    let keys: Vec<String> = keys.collect();
    assert_eq!(Indexer::start(root, &tables_of(root)).unwrap().finish(), 3);
    let beside = sidecar_of(&root.join(&keys[0])).metadata().unwrap().len();
    (keys, body.len() as u64 + beside)
}

pub(super) fn are_stored(root: &Path, keys: &[String]) -> Vec<bool> {
    let in_tables = Database::open(&tables_of(root)).unwrap().by_age().unwrap();
    keys.iter()
        .map(|key| {
            let path = root.join(key);
            let is_there = path.exists();
            assert_eq!(sidecar_of(&path).exists(), is_there, "{key}");
            assert_eq!(in_tables.iter().any(|(stored, ..)| stored == key), is_there, "{key}");
            is_there
        })
        .collect()
}

/// Makes a file one that came on a day after 1970-01-01.
pub(super) fn came_on(path: &Path, day: u64) {
    let at = UNIX_EPOCH + Duration::from_secs(day * 86_400 + 7200);
    File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
}

/// Metadata as it is uploaded.
pub(super) fn meta(json: &Value) -> CaptureMeta {
    CaptureMeta::from_json(json.to_string().as_bytes()).unwrap()
}

pub(super) fn put(directory: &LocalStore, id: Uuid, json: &Value, text: &str) -> Option<PathBuf> {
    let meta = meta(json);
    let key = key_of(id, &meta, today());
    let incoming = directory.incoming();
    fs::write(&incoming.path, zstd::bulk::compress(text.as_bytes(), 1).unwrap()).unwrap();
    directory.keep(&key, &incoming, &meta).unwrap()
}

pub(super) const TEXT: &str =
    "# tracer: nop\n app-5 (5) [000] ...1 1.0: tracing_mark_write: B|5|x\n";
