//! Retention goes by arrival, and no app loses captures because another one sends many.

use super::*;
use crate::store::captures::entries::each_entry;
use crate::store::captures::local_store::LocalStore;
use crate::store::index::indexer::Indexer;
use crate::store::objects::Directory;
use crate::store::objects::disk::sidecar_of;
use crate::store::test_store::{TEXT, are_stored, came_on, put, store};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};
use uuid::Uuid;

fn apply(root: &Path, retention: Retention, now: SystemTime) -> Result<Deleted> {
    let directory = Directory(root.to_owned());
    super::apply(&directory, root, &|each| each_entry(&directory, each), retention, now)
}

fn day(day: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(day * 86_400 + 3600)
}

fn id(day: u64, digit: u8) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(day * 86_400_000, &[digit; 10]).into_uuid()
}

#[test]
fn old_captures_go_and_the_oldest_of_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let (keys, bytes) = store(root);
    let retain = |days, bytes, now| {
        let deleted = apply(root, Retention { days, bytes, app_bytes: None }, now).unwrap();
        [AGE, SIZE].map(|reason| deleted.count(reason))
    };
    assert_eq!(retain(None, None, day(1000)), [0, 0]);
    assert_eq!(retain(Some(2), None, day(3)), [0, 0]);
    assert_eq!(retain(Some(2), None, day(4)), [1, 0]);
    assert_eq!(are_stored(root, &keys), [false, true, true]);
    assert_eq!(retain(None, Some(2 * bytes), day(4)), [0, 0]);
    assert_eq!(retain(None, Some(2 * bytes - 1), day(4)), [0, 1]);
    assert_eq!(are_stored(root, &keys), [false, false, true]);
}

#[test]
fn a_clock_of_1970_or_9999_neither_deletes_nor_saves_a_capture() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let store = LocalStore::open(root).unwrap();
    let meta = json!({"app": "a", "install_id": "d"});
    let paths = [id(0, 1), id(2_932_896, 2), id(20_000, 3)].map(|id| {
        let path = put(&store, id, &meta, TEXT).unwrap();
        came_on(&path, 20_000);
        path
    });
    Indexer::start(root, &tables_of(root)).unwrap().finish();
    let keep = |days, now| {
        let deleted = apply(root, Retention { days: Some(days), ..Retention::default() }, now);
        (deleted.unwrap().count(AGE), paths.iter().filter(|path| path.exists()).count())
    };
    assert_eq!(keep(7, day(20_007)), (0, 3));
    assert_eq!(keep(7, day(20_008)), (3, 0));
}

#[test]
fn an_app_that_sends_much_loses_its_own_captures_only() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let store = LocalStore::open(root).unwrap();
    let send = |app: &str, number: u64, day| {
        let of_app = u8::try_from(app.len()).unwrap();
        let mut digits = [of_app; 10];
        // The first bytes hold version and variant.
        digits[3..8].copy_from_slice(&number.to_le_bytes()[..5]);
        let id = uuid::Builder::from_unix_timestamp_millis(day * 86_400_000, &digits).into_uuid();
        let path = put(&store, id, &json!({"app": app, "install_id": "d"}), TEXT).unwrap();
        came_on(&path, day);
        path
    };
    // The honest app's are the oldest.
    let honest: Vec<_> = (0..5).map(|number| send("honest", number, 10)).collect();
    let hostile: Vec<_> = (0..60).map(|number| send("hostile", number, 11 + number / 30)).collect();
    Indexer::start(root, &tables_of(root)).unwrap().finish();
    let bytes = |paths: &[PathBuf]| -> u64 {
        let files = paths.iter().flat_map(|path| [path.clone(), sidecar_of(path)]);
        files.map(|file| file.metadata().unwrap().len()).sum()
    };
    let all = bytes(&honest) + bytes(&hostile[..20]);
    let retention = Retention { bytes: Some(all), ..Retention::default() };
    let deleted = apply(root, retention, day(12)).unwrap();
    assert_eq!(deleted.count(SIZE), 40);
    assert!(honest.iter().all(|path| path.exists()));
    assert_eq!(hostile.iter().filter(|path| path.exists()).count(), 20);
    // A quota of each app.
    let app_bytes = Some(bytes(&honest[..3]));
    let retention = Retention { app_bytes, ..Retention::default() };
    let deleted = apply(root, retention, day(12)).unwrap();
    assert!(honest.iter().map(|path| path.exists()).eq([false, false, true, true, true]));
    // Both are in loss reports of the collector.
    let reports: Vec<_> = deleted.loss_reports().iter().map(LossReport::to_json).collect();
    let report = |app: &str, count| {
        format!(
            r#"{{"protocol":1,"id":"","app":"{app}","install_id":"(collector)","by_reason":{{"retention_size":{count}}},"lost":[]}}"#
        )
    };
    assert_eq!(reports, [report("honest", 2), report("hostile", deleted.count(SIZE) - 2)]);
    for app in ["honest", "hostile"] {
        let database = Database::read(&tables_of(root)).unwrap();
        let sql = format!("SELECT COUNT(*) AS n FROM captures WHERE app = '{app}'");
        let left = database.rows::<u64>(&sql).unwrap()[0];
        let paths = if app == "honest" { &honest } else { &hostile };
        assert_eq!(left, paths.iter().filter(|path| path.exists()).count() as u64);
    }
}

#[test]
fn owners_with_more_than_their_share_give_way() {
    assert_eq!(share(vec![], 10), u64::MAX);
    assert_eq!(share(vec![4, 6], 10), u64::MAX);
    assert_eq!(share(vec![4, 7], 10), 6);
    assert_eq!(share(vec![100, 2, 50], 30), 14);
    assert_eq!(share(vec![100, 100], 0), 0);
}

#[test]
fn captures_that_could_not_be_analysed_grow_old_too() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let store = LocalStore::open(root).unwrap();
    let [unread, broken] = [1, 2].map(|digit| {
        let path = put(&store, id(1, digit), &json!({"app": "a"}), TEXT).unwrap();
        came_on(&path, 1);
        path
    });
    fs::write(&broken, "no zstd").unwrap();
    came_on(&broken, 1);
    // Twice is enough.
    Indexer::start(root, &tables_of(root)).unwrap().finish();
    Indexer::start(root, &tables_of(root)).unwrap().finish();
    for note in fs::read_dir(root.join("quarantine")).unwrap() {
        came_on(&note.unwrap().path(), 1);
    }
    // As if the tables had never had it.
    fs::remove_file(tables_of(root)).unwrap();
    let retention = Retention { days: Some(3), ..Retention::default() };
    assert_eq!(apply(root, retention, day(11)).unwrap().count(AGE), 1);
    assert!(!unread.exists() && !sidecar_of(&unread).exists());
    assert_eq!(fs::read_dir(root.join("quarantine")).unwrap().count(), 0);
}
