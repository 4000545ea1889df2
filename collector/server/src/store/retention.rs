//! Keeping a store: its tables made anew, what is old or too much deleted, a device forgotten.
//!
//! The directory says what there is, not the tables: what could not be analysed, or lies there twice, is
//! deleted with the rest.

use super::indexer::Indexer;
use super::local_store::{day, day_of, leave, losses_path, readmit, sidecar_of, walk};
use super::{local_store, tables_of};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::RawKey;
use uuid::Uuid;

/// Captures of a transaction.
const BATCH: usize = 200;
/// How long rows of an indexer may be on their way into the tables.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// Limits of what a local store keeps; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// Days.
    pub days: Option<u64>,
    /// Bytes of captures.
    pub bytes: Option<u64>,
}

/// Result of [`rebuild`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Captures and loss reports in the tables now.
    pub indexed: u64,
    /// Captures of quarantine that were tried again.
    pub retried: u64,
}

/// Rebuilds the tables of a local store from its captures.
///
/// # Errors
/// When a collector uses the store, or the tables cannot be written.
pub fn rebuild(root: &Path) -> Result<Rebuilt> {
    let _lock = local_store::lock(root)?;
    let tables = tables_of(root);
    let retried = readmit(root)?;
    // The new ones beside the old ones, which they then replace.
    let building = tempfile::tempdir_in(root).context("no directory for the new tables")?;
    let new = tables_of(building.path());
    let indexed = Indexer::start(root, &new)?.finish();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", tables.display()));
    }
    fs::rename(&new, &tables)?;
    Ok(Rebuilt { indexed, retried })
}

/// Applies retention by age, then by size, oldest first. Returns how many captures were deleted.
pub(crate) fn apply(root: &Path, retention: Retention, now: SystemTime) -> Result<u64> {
    if retention.days.is_none() && retention.bytes.is_none() {
        return Ok(0);
    }
    let days = |seconds: u64| day(i64::try_from(seconds / 86_400).unwrap_or(0));
    let first_day = retention.days.map(|count| {
        let today = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        days(today.saturating_sub(count.saturating_mul(86_400)))
    });
    // Sums first: a big store's paths need not be in memory all at once.
    let mut by_day: BTreeMap<String, u64> = BTreeMap::new();
    each_file(root, &mut |file| *by_day.entry(file.day).or_default() += file.bytes)?;
    let mut surplus = match retention.bytes {
        Some(most) => by_day.values().sum::<u64>().saturating_sub(most),
        None => 0,
    };
    // Days of which all goes; and of the first that stays, how many bytes.
    let mut whole_days = Vec::new();
    let mut border = None;
    for (day, bytes) in by_day {
        let is_old = first_day.as_ref().is_some_and(|first| day < *first);
        if is_old || (surplus > 0 && surplus >= bytes) {
            surplus = surplus.saturating_sub(bytes);
            whole_days.push(day);
        } else if surplus > 0 {
            border = Some((day, surplus));
            break;
        } else {
            break;
        }
    }
    let (mut gone, mut of_border) = (Vec::new(), Vec::new());
    each_file(root, &mut |file| {
        if whole_days.binary_search(&file.day).is_ok() {
            gone.push(file.path);
        } else if border.as_ref().is_some_and(|(day, _)| *day == file.day) {
            of_border.push(file);
        }
    })?;
    if let Some((_, mut surplus)) = border {
        of_border.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
        for file in of_border {
            if surplus == 0 {
                break;
            }
            surplus = surplus.saturating_sub(file.bytes);
            gone.push(file.path);
        }
    }
    let mut database = Database::open(&tables_of(root))?;
    let captures = delete(root, &mut database, &gone)?;
    if let Some(first) = &first_day {
        database.delete_losses_before(first)?;
    }
    Ok(captures)
}

/// A file that is kept: a capture, a loss report, a body in quarantine.
struct Kept {
    day: String,
    /// With what lies beside it.
    bytes: u64,
    path: PathBuf,
}

/// Each capture, loss report and body in quarantine.
fn each_file(root: &Path, each: &mut dyn FnMut(Kept)) -> Result<()> {
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
                // Its day is that of its id; one without a time in it has the day it came on.
                _ if text.ends_with(".json") => Some(day_in_quarantine(path)),
                _ => None,
            };
            let Some(day) = day else { return };
            let beside = match directory {
                "raw" => bytes_of(&sidecar_of(path)),
                "losses" => 0,
                _ => bytes_of(&path.with_extension("body")),
            };
            each(Kept { day, bytes: bytes_of(path) + beside, path: path.to_owned() });
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
fn delete(root: &Path, database: &mut Database, paths: &[PathBuf]) -> Result<u64> {
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
        keys.iter().for_each(|key| leave(root, key));
    }
    Ok(captures)
}

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
        anyhow::bail!("{} is no store of a collector: it has no tables.sqlite", root.display());
    }
    let mut database = Database::open(&tables)?;
    let (mut of_it, mut reports, mut unreadable) = (Vec::new(), Vec::new(), 0_u64);
    // What the tables say of it, in case what is in the directory does not any longer.
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
    database
        .forget_deleted()
        .context("the captures are deleted; the tables' log is not emptied")?;
    Ok(Forgotten { captures, loss_reports: reports.len(), quarantined: bodies, unreadable })
}

/// Bytes of a capture's text in which its header is.
const HEAD_BYTES: u64 = 64 * 1024;

/// Whether a file of [`each_file`] is of a device: as what lies beside it says, or what is in it.
fn is_of(path: &Path, device: &str) -> std::io::Result<bool> {
    let says = |json: &[u8], place: &str| {
        let value: Option<Value> = serde_json::from_slice(json).ok();
        value.is_some_and(|value| value.pointer(place).and_then(Value::as_str) == Some(device))
    };
    if path.extension().is_some_and(|extension| extension == "json") {
        // A loss report, or the reason of a body in quarantine.
        let json = fs::read(path)?;
        let body = path.with_extension("body");
        let is_of_it = says(&json, "/install_id") || says(&json, "/meta/install_id");
        return Ok(is_of_it || (body.exists() && header_names(&body, device)));
    }
    let beside = fs::read(sidecar_of(path)).unwrap_or_default();
    File::open(path)?;
    Ok(says(&beside, "/install_id") || header_names(path, device))
}

/// Whether the header of a capture, as far as it can be read, names the device.
fn header_names(path: &Path, device: &str) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(text) = tracetee_trace::open(file) else { return false };
    let mut text = text.take(HEAD_BYTES);
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) && line.starts_with(b"#") {
        if let Some(json) = line.strip_prefix(b"# tracetee: ")
            && let Ok(about) = serde_json::from_slice::<Value>(json)
            && about.get("install_id").and_then(Value::as_str) == Some(device)
        {
            return true;
        }
        line.clear();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::local_store::{LocalStore, key_of};
    use serde_json::json;

    /// A store of three captures of three days; their keys, the oldest first, and how large each is.
    fn store(root: &Path) -> (Vec<String>, u64) {
        let directory = LocalStore::open(root).unwrap();
        let text = b"# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n";
        let body = zstd::bulk::compress(text, 1).unwrap();
        let keys = (1..=3_u64).map(|day| {
            let id =
                uuid::Builder::from_unix_timestamp_millis(day * 86_400_000, &[7; 10]).into_uuid();
            let meta = json!({"app": "com.example", "install_id": format!("device {day}")});
            let key = key_of(id, meta.as_object().unwrap());
            let incoming = directory.incoming();
            fs::write(&incoming.path, &body).unwrap();
            directory.keep(&key, &incoming, &meta).unwrap().unwrap();
            key.path()
        });
        let keys: Vec<String> = keys.collect();
        assert_eq!(Indexer::start(root, &tables_of(root)).unwrap().finish(), 3);
        let beside = sidecar_of(&root.join(&keys[0])).metadata().unwrap().len();
        (keys, body.len() as u64 + beside)
    }

    fn there(root: &Path, keys: &[String]) -> Vec<bool> {
        let in_tables = Database::open(&tables_of(root)).unwrap().by_age().unwrap();
        keys.iter()
            .map(|key| {
                let place = root.join(key);
                let is_there = place.exists();
                assert_eq!(sidecar_of(&place).exists(), is_there, "{key}");
                assert_eq!(in_tables.iter().any(|(of, ..)| of == key), is_there, "{key}");
                is_there
            })
            .collect()
    }

    #[test]
    fn what_is_old_goes_and_of_what_is_too_much_the_oldest() {
        let day = |day: u64| UNIX_EPOCH + Duration::from_secs(day * 86_400 + 3600);
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let (keys, bytes) = store(root);
        let retain = |days, bytes, now| apply(root, Retention { days, bytes }, now).unwrap();
        assert_eq!(retain(None, None, day(1000)), 0);
        assert_eq!(retain(Some(2), None, day(3)), 0);
        assert_eq!(retain(Some(2), None, day(4)), 1);
        assert_eq!(there(root, &keys), [false, true, true]);
        assert_eq!(retain(None, Some(2 * bytes), day(4)), 0);
        assert_eq!(retain(None, Some(2 * bytes - 1), day(4)), 1);
        assert_eq!(there(root, &keys), [false, false, true]);
    }

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

    fn put(directory: &LocalStore, id: Uuid, meta: &Value, text: &str) -> Option<PathBuf> {
        let key = key_of(id, meta.as_object().unwrap());
        let incoming = directory.incoming();
        fs::write(&incoming.path, zstd::bulk::compress(text.as_bytes(), 1).unwrap()).unwrap();
        directory.keep(&key, &incoming, meta).unwrap()
    }

    const TEXT: &str = "# tracer: nop\n app-5 (5) [000] ...1 1.0: tracing_mark_write: B|5|x\n";

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
        // What was deleted may come again.
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
        // Its header names it, and nothing beside it does.
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

    #[test]
    fn what_could_not_be_analysed_is_old_one_day_too() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        let id =
            |digit| uuid::Builder::from_unix_timestamp_millis(86_400_000, &[digit; 10]).into_uuid();
        let unread = put(&store, id(1), &json!({"app": "a"}), TEXT).unwrap();
        let broken = put(&store, id(2), &json!({"app": "a"}), TEXT).unwrap();
        fs::write(&broken, "no zstd").unwrap();
        // Twice is enough.
        Indexer::start(root, &tables_of(root)).unwrap().finish();
        Indexer::start(root, &tables_of(root)).unwrap().finish();
        // As if the tables had never had it.
        fs::remove_file(tables_of(root)).unwrap();
        let later = UNIX_EPOCH + Duration::from_secs(10 * 86_400);
        assert_eq!(apply(root, Retention { days: Some(3), bytes: None }, later).unwrap(), 1);
        assert!(!unread.exists() && !sidecar_of(&unread).exists());
        assert_eq!(fs::read_dir(root.join("quarantine")).unwrap().count(), 0);
    }
}
