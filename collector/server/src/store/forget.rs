//! Deletes everything that a device has sent to a local store, for `tracetee forget`.

use super::files::{delete, each_file};
use super::local_store::{self, losses_path, sidecar_of};
use super::quarantined::Quarantined;
use super::rebuild::upgrade;
use super::tables_of;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracetee_fleet::database::Database;
use tracetee_protocol::{CaptureMeta, notes};
use uuid::Uuid;

/// Maximum time between indexing a capture and its rows' insertion.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// Result of [`forget`]: what was deleted.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Forgotten {
    /// Captures.
    pub captures: u64,
    /// Loss reports.
    pub loss_reports: usize,
    /// Bodies in quarantine.
    pub quarantined: usize,
    /// Files that could not be read, and that may be of the device.
    pub unreadable: u64,
}

/// Deletes everything that a device has sent to a local store.
///
/// # Errors
/// When the directory is no store, or a file cannot be deleted.
pub fn forget(root: &Path, device: &str) -> Result<Forgotten> {
    let tables = tables_of(root);
    if !tables.exists() {
        anyhow::bail!("{} is not a collector's store: tables.sqlite is missing", root.display());
    }
    upgrade(root)?;
    let mut database = Database::open(&tables)?;
    let (mut of_it, mut reports, mut unreadable) = (Vec::new(), Vec::new(), 0_u64);
    // The tables' entries, in case the directory no longer has the capture.
    for key in database.raw_keys_for_device(device)? {
        of_it.push(root.join(key));
    }
    each_file(root, &mut |file| match is_of(&file.path, device) {
        Ok(true) => of_it.push(file.path),
        Ok(false) => {}
        Err(_) => unreadable += 1,
    })?;
    of_it.sort();
    of_it.dedup();
    for report in database.loss_reports_for_device(device)? {
        if let Ok(id) = Uuid::try_parse(&report) {
            reports.push(root.join(losses_path(id)));
        }
    }
    let is_below = |path: &PathBuf, directory: &str| path.starts_with(root.join(directory));
    reports.extend(of_it.iter().filter(|path| is_below(path, "losses")).cloned());
    reports.sort();
    reports.dedup();
    of_it.retain(|path| !is_below(path, "losses"));
    let bodies = of_it.iter().filter(|path| is_below(path, "quarantine")).count();
    let captures = delete(root, &mut database, &of_it)?;
    database.delete_losses_of(device)?;
    delete(root, &mut database, &reports)?;
    // A collector at work may have had its rows under way.
    if local_store::lock(root).is_err() {
        std::thread::sleep(UNDER_WAY);
        let late = database.raw_keys_for_device(device)?;
        database.delete(&late)?;
        database.delete_losses_of(device)?;
    }
    database.forget_deleted().context(
        "deleted the captures, but could not compact the tables; run `tracetee rebuild`",
    )?;
    Ok(Forgotten { captures, loss_reports: reports.len(), quarantined: bodies, unreadable })
}

/// True if metadata names the device.
fn names(about: &CaptureMeta, device: &str) -> bool {
    about.install_id.as_deref() == Some(device)
}

/// Bytes of a capture's text in which its header is.
const HEAD_BYTES: u64 = 64 * 1024;

/// True if a file of [`each_file`] belongs to a device, by the metadata beside it or by its content.
fn is_of(path: &Path, device: &str) -> std::io::Result<bool> {
    let says =
        |json: &[u8]| CaptureMeta::from_json(json).is_some_and(|about| names(&about, device));
    if path.extension().is_some_and(|extension| extension == "json") {
        // A loss report, or the reason of a body in quarantine.
        let json = fs::read(path)?;
        let body = path.with_extension("body");
        let quarantined = Quarantined::from_json(&json);
        let is_of_it = says(&json) || quarantined.is_some_and(|about| names(&about.meta, device));
        return Ok(is_of_it || (body.exists() && header_names(&body, device)));
    }
    let beside = fs::read(sidecar_of(path)).unwrap_or_default();
    File::open(path)?;
    Ok(says(&beside) || header_names(path, device))
}

/// True if the readable part of a capture's header names the device.
fn header_names(path: &Path, device: &str) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(text) = tracetee_trace::open(file) else { return false };
    let mut text = text.take(HEAD_BYTES);
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) && line.starts_with(b"#") {
        if let Some(json) = line.strip_prefix(notes::COMMENT.as_bytes())
            && CaptureMeta::from_json(json).is_some_and(|about| names(&about, device))
        {
            return true;
        }
        line.clear();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::indexer::Indexer;
    use super::super::local_store::{LocalStore, walk};
    use super::super::rebuild::rebuild;
    use super::super::test_store::{TEXT, put, store, there};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_device_is_forgotten_with_what_is_not_in_the_tables_yet() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let (keys, _) = store(root);
        // As if the collector had ended before it analysed them.
        fs::remove_file(tables_of(root)).unwrap();
        Database::open(&tables_of(root)).unwrap();
        forget(root, "device 2").unwrap();
        Indexer::start(root, &tables_of(root)).unwrap().finish();
        assert_eq!(there(root, &keys), [true, false, true]);
    }

    #[test]
    fn an_id_is_one_capture_whatever_version_it_comes_with() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let id = uuid::Builder::from_unix_timestamp_millis(86_400_000, &[7; 10]).into_uuid();
        let of = |version: &str| json!({"app": "a", "version_name": version, "install_id": "d"});
        let store = LocalStore::open(root).unwrap();
        assert!(put(&store, id, &of("1"), TEXT).is_some());
        assert_eq!(put(&store, id, &of("2"), TEXT), None);
        drop(store);
        // A store of an earlier version has no links yet.
        fs::remove_dir_all(root.join("ids")).unwrap();
        let store = LocalStore::open(root).unwrap();
        assert_eq!(put(&store, id, &of("2"), TEXT), None);
        // A deleted capture may be sent again.
        Database::open(&tables_of(root)).unwrap();
        forget(root, "d").unwrap();
        assert!(put(&store, id, &of("2"), TEXT).is_some());
    }

    #[test]
    fn what_lies_twice_what_was_never_analysed_and_what_only_its_header_names_is_forgotten() {
        const DEVICE: &str = "0123456789abcdef-the-device";
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        let id = |day: u64, digit| {
            uuid::Builder::from_unix_timestamp_millis(day * 86_400_000, &[digit; 10]).into_uuid()
        };
        let meta = json!({"app": "a", "version_name": "1", "install_id": DEVICE});
        let first = put(&store, id(1, 7), &meta, TEXT).unwrap();
        // As an earlier version of this program kept it: the same id under another version.
        let twice = root
            .join(first.strip_prefix(root).unwrap().to_str().unwrap().replace("ver=1", "ver=2"));
        fs::create_dir_all(twice.parent().unwrap()).unwrap();
        fs::copy(&first, &twice).unwrap();
        fs::copy(sidecar_of(&first), sidecar_of(&twice)).unwrap();
        // Only its header contains the id.
        let header = format!("# tracer: nop\n# tracetee: {{\"install_id\":\"{DEVICE}\"}}\n");
        let named = put(&store, id(2, 8), &json!({"app": "a"}), &header).unwrap();
        // No rows can be made of it.
        let broken = put(&store, id(3, 9), &meta, TEXT).unwrap();
        fs::write(&broken, "no zstd").unwrap();
        let others = json!({"app": "a", "install_id": "another"});
        let other = put(&store, id(4, 9), &others, TEXT).unwrap();
        for number in 0..300 {
            let meta = json!({"app": "a", "install_id": format!("{number:032}")});
            put(&store, id(5, u8::try_from(number % 250).unwrap()), &meta, TEXT);
        }
        // Twice is enough.
        Indexer::start(root, &tables_of(root)).unwrap().finish();
        Indexer::start(root, &tables_of(root)).unwrap().finish();
        assert!(root.join(format!("quarantine/{}.body", id(3, 9))).exists());
        forget(root, DEVICE).unwrap();
        for path in [&first, &twice, &named, &broken] {
            assert!(!path.exists() && !sidecar_of(path).exists(), "{}", path.display());
        }
        assert_eq!(fs::read_dir(root.join("quarantine")).unwrap().count(), 0);
        assert!(other.exists());
        // Not a trace of it is left in any file, SQLite's free pages and log included.
        let mut left = Vec::new();
        walk(root, &mut |path| {
            let bytes = fs::read(path).unwrap_or_default();
            let has = bytes.windows(DEVICE.len()).any(|window| window == DEVICE.as_bytes());
            left.extend(has.then(|| path.to_owned()));
        })
        .unwrap();
        assert!(left.is_empty(), "{left:?}");
        drop(store);
        rebuild(root).unwrap();
        let database = Database::open(&tables_of(root)).unwrap();
        assert!(database.raw_keys_for_device(DEVICE).unwrap().is_empty());
    }
}
