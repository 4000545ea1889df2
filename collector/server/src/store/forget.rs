//! Deletes everything that a device has sent to a store, for `tracetee store forget`, also while collectors run.
//!
//! An intent (`intents.rs`) tells collectors to put off what the device sends meanwhile. Then the objects are searched:
//! those that are in the tables have their device there, and only the others are opened. What is stored before the intent is
//! found by the search; what is stored after it finds the intent; and rows are inserted for files that still exist.

use crate::store::captures::entries::{Entry, Kind, delete, each_entry};
use crate::store::captures::local_store::header_has;
use crate::store::captures::quarantined::Quarantined;
use crate::store::objects::Objects;
use crate::store::objects::disk::{remove, sidecar_of, tables_of};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::{RawKey, ReportKey, ReportKind};
use tracetee_fleet::schema::CAPTURES;
use tracetee_fleet::stored_report::device_of_report;
use tracetee_protocol::CaptureMeta;

/// Counts of deleted objects.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Forgotten {
    /// Captures.
    pub captures: u64,
    /// Loss reports.
    pub loss_reports: usize,
    /// Parts of ledgers.
    pub ledgers: usize,
    /// Notes of quarantined objects, each with its body.
    pub quarantined: usize,
    /// Objects that could not be read, and that may be of the device.
    pub unreadable: u64,
}

/// Deletes everything that a device has sent, and its rows in the tables below `root`. May be repeated. Also returns the
/// paths.
pub(super) fn erase(
    objects: &dyn Objects,
    root: &Path,
    device: &str,
) -> Result<(Forgotten, Vec<String>)> {
    let mut database = Database::open(&tables_of(root))?;
    let copies = tempfile::tempdir()?;
    let (mut found, mut unreadable, mut done) = (Vec::new(), 0_u64, Ok(()));
    let mut look = |kind: Kind, path: String| -> Result<()> {
        let is_indexed = match &kind {
            Kind::Capture(_) => database.has_row(&CAPTURES, "raw_key", &path)?,
            Kind::Report(key) => database.has_report(key)?,
            Kind::Quarantined(_) | Kind::Alone => false,
        };
        if is_indexed {
            return Ok(());
        }
        let Some(file) = objects.file(&path, copies.path())? else { return Ok(()) };
        match is_of(&file, device) {
            Ok(true) => found.push((kind, path)),
            Ok(false) => {}
            Err(_) => unreadable += 1,
        }
        if file.starts_with(copies.path()) {
            remove(&file)?;
        }
        Ok(())
    };
    each_entry(objects, &mut |Entry { kind, path, .. }| {
        if done.is_ok() {
            done = look(kind, path);
        }
    })?;
    done?;
    // After the search, which needs the rows in the tables.
    for key in database.raw_keys_for_device(device)? {
        found.extend(RawKey::parse(&key).map(|raw_key| (Kind::Capture(raw_key), key)));
    }
    for key in database.reports(Some(device))? {
        let path = key.path();
        found.push((Kind::Report(key), path));
    }
    found.sort_by(|(_, a), (_, b)| a.cmp(b));
    found.dedup();
    let count = |is_it: fn(&Kind) -> bool| found.iter().filter(|(kind, _)| is_it(kind)).count();
    let is_ledger =
        |kind: &Kind| matches!(kind, Kind::Report(key) if key.kind == ReportKind::Ledger);
    let ledgers = count(is_ledger);
    let loss_reports = count(|kind| matches!(kind, Kind::Report(_))) - ledgers;
    let quarantined = count(|kind| matches!(kind, Kind::Quarantined(_)));
    let captures = delete(objects, root, &mut database, &found)?;
    database.delete_reports_of(device)?;
    database.forget_deleted().context(
        "deleted the captures, but could not compact the tables; run `tracetee store rebuild`",
    )?;
    let paths = found.into_iter().map(|(_, path)| path).collect();
    Ok((Forgotten { captures, loss_reports, ledgers, quarantined, unreadable }, paths))
}

/// True if metadata names the device.
fn names(about: &CaptureMeta, device: &str) -> bool {
    about.install_id.as_deref() == Some(device)
}

/// True if the file of an entry belongs to a device, by the metadata beside it or by its content.
fn is_of(path: &Path, device: &str) -> std::io::Result<bool> {
    let says =
        |json: &[u8]| CaptureMeta::from_json(json).is_some_and(|about| names(&about, device));
    if let Some(key) = path.to_str().and_then(ReportKey::parse) {
        return Ok(device_of_report(&key, &fs::read(path)?).as_deref() == Some(device));
    }
    if path.extension().is_some_and(|extension| extension == "json") {
        // The reason of a body in quarantine.
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
    header_has(path, &|about| names(about, device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::captures::days::today;
    use crate::store::captures::local_store::{LocalStore, key_of};
    use crate::store::commands::{forget, rebuild};
    use crate::store::index::indexer::Indexer;
    use crate::store::objects::Directory;
    use crate::store::objects::disk::walk;
    use crate::store::objects::location::StoreLocation;
    use crate::store::storage::Storage;
    use crate::store::test_store::{TEXT, are_stored, meta, put, store};
    use serde_json::json;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_device_is_forgotten_with_what_is_not_in_the_tables_yet() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let (keys, _) = store(root);
        // As if the collector had ended before it analyzed them.
        fs::remove_file(tables_of(root)).unwrap();
        Database::open(&tables_of(root)).unwrap();
        forget(StoreLocation::Directory(root), None, "device 2").unwrap();
        Indexer::start(root, &tables_of(root)).unwrap().finish();
        assert_eq!(are_stored(root, &keys), [true, false, true]);
    }

    #[test]
    fn an_id_is_one_capture_whatever_version_it_comes_with() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let id = uuid::Builder::from_unix_timestamp_millis(86_400_000, &[7; 10]).into_uuid();
        let meta_of =
            |version: &str| json!({"app": "a", "version_name": version, "install_id": "d"});
        let store = LocalStore::open(root).unwrap();
        assert!(put(&store, id, &meta_of("1"), TEXT).is_some());
        assert_eq!(put(&store, id, &meta_of("2"), TEXT), None);
        drop(store);
        // A store of an earlier version has no links yet.
        fs::remove_dir_all(root.join("ids")).unwrap();
        let store = LocalStore::open(root).unwrap();
        assert_eq!(put(&store, id, &meta_of("2"), TEXT), None);
        // A deleted capture may be sent again.
        Database::open(&tables_of(root)).unwrap();
        forget(StoreLocation::Directory(root), None, "d").unwrap();
        let path = put(&store, id, &meta_of("2"), TEXT).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn duplicate_captures_unreadable_ones_and_those_named_by_their_header_alone_are_forgotten() {
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
        assert!(root.join(format!("quarantine/{}.a.body", id(3, 9))).exists());
        forget(StoreLocation::Directory(root), None, DEVICE).unwrap();
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
        rebuild(StoreLocation::Directory(root)).unwrap();
        let database = Database::open(&tables_of(root)).unwrap();
        assert!(database.raw_keys_for_device(DEVICE).unwrap().is_empty());
    }

    /// Captures of the device are stored, indexed and quarantined all the while.
    #[test]
    fn uploads_beside_a_forget_are_put_off_and_what_came_before_does_not_come_back() {
        const DEVICE: &str = "the-device-that-goes";
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let storage = Storage::open(StoreLocation::Directory(root), None).unwrap();
        // Returns the id of what was acknowledged.
        let send = |number: u64| {
            let mut digits = [7; 10];
            // The first bytes hold version and variant.
            digits[3..8].copy_from_slice(&number.to_le_bytes()[..5]);
            let id = uuid::Builder::from_unix_timestamp_millis(0, &digits).into_uuid();
            // Of every tenth, only the text names the device; of every eleventh, no rows can be made.
            let header = TEXT
                .replace("nop\n", &format!("nop\n# tracetee: {{\"install_id\":\"{DEVICE}\"}}\n"));
            let (about, text) = match number {
                0 => (json!({"app": "a", "install_id": "another"}), TEXT),
                _ if number.is_multiple_of(10) => (json!({"app": "a"}), &*header),
                _ => (json!({"app": "a", "install_id": DEVICE}), TEXT),
            };
            let is_broken = number % 11 == 10 && !number.is_multiple_of(10);
            let body = if is_broken {
                b"no zstd".to_vec()
            } else {
                zstd::bulk::compress(text.as_bytes(), 1).unwrap()
            };
            let (about, incoming) = (meta(&about), storage.local.incoming());
            fs::write(&incoming.path, body).unwrap();
            match storage.keep(key_of(id, &about, today()), &incoming, &about, None) {
                Ok(path) => path.map(|_| id.to_string()),
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
                    None
                }
            }
        };
        let before: Vec<_> = (0..300).filter_map(send).collect();
        assert_eq!(before.len(), 300);
        let is_done = AtomicBool::new(false);
        let (after, put_off) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let (mut number, mut put_off) = (300, 0);
                while !is_done.load(Ordering::Relaxed) {
                    put_off += u64::from(send(number).is_none());
                    number += 1;
                }
                let after: Vec<_> = (0..50).filter_map(|more| send(number + more)).collect();
                (after, put_off)
            });
            let forgotten = forget(StoreLocation::Directory(root), None, DEVICE).unwrap();
            is_done.store(true, Ordering::Relaxed);
            assert!(forgotten.captures > 0);
            sender.join().unwrap()
        });
        println!("{put_off} uploads were put off");
        assert!(put_off > 0 && after.len() == 50, "{put_off}, {after:?}");
        storage.indexer.settle();
        storage.stop();
        // After a restart, twice, because what cannot be analyzed is quarantined then.
        for _ in 0..2 {
            Indexer::start(root, &tables_of(root)).unwrap().finish();
        }
        let mut left = Vec::new();
        each_entry(&Directory(root.to_owned()), &mut |entry| {
            left.push(entry.path.rsplit('/').next().unwrap()[..36].to_owned());
        })
        .unwrap();
        let [other, gone @ ..] = &*before else { panic!() };
        assert!(left.contains(other) && after.iter().all(|id| left.contains(id)), "{left:?}");
        assert!(!gone.iter().any(|id| left.contains(id)), "{left:?}");
        let database = Database::open(&tables_of(root)).unwrap();
        assert!(
            !database
                .by_age()
                .unwrap()
                .iter()
                .any(|(key, ..)| gone.iter().any(|id| key.contains(id)))
        );
    }

    #[test]
    fn a_capture_whose_text_names_another_device_is_of_both() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        for device in ["sender", "header"] {
            let id = uuid::Builder::from_unix_timestamp_millis(0, &[7; 10]).into_uuid();
            let header = &TEXT.replace("nop\n", "nop\n# tracetee: {\"install_id\":\"header\"}\n");
            let meta = json!({"app": "a", "install_id": "sender"});
            let path = put(&store, id, &meta, header).unwrap();
            Indexer::start(root, &tables_of(root)).unwrap().finish();
            assert_eq!(forget(StoreLocation::Directory(root), None, device).unwrap().captures, 1);
            assert!(!path.exists());
        }
    }
}
