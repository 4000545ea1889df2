//! Keeping a store: its tables made anew, what is old or too much deleted, a device forgotten.

use super::analyser::{Analyser, each_missing, rows_of};
use super::directory::{day, losses_path, sidecar_of, walk};
use super::{directory, tables_of};
use crate::cli::{ForgetArgs, RebuildArgs, print, say};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tracetee_fleet::database::Database;
use uuid::Uuid;

/// Captures of a transaction.
const BATCH: usize = 200;

/// What is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Retention {
    /// Days.
    pub(crate) days: Option<u64>,
    /// Bytes of captures.
    pub(crate) bytes: Option<u64>,
}

/// Makes the tables anew from what lies in the directory.
pub(crate) fn rebuild(args: &RebuildArgs) -> Result<()> {
    let root = &args.store;
    let _lock = directory::lock(root)?;
    let tables = tables_of(root);
    // The new ones beside the old ones, which they then replace.
    let building = tempfile::tempdir_in(root).context("no directory for the new tables")?;
    let new = tables_of(building.path());
    let count = Analyser::start(root, &new)?.finish();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", tables.display()));
    }
    fs::rename(&new, &tables)?;
    print(&format!("{count} captures and loss reports are in {}\n", tables.display()));
    Ok(())
}

/// Deletes what is older, and the oldest of what is more. What is deleted: captures.
pub(crate) fn retain(root: &Path, retention: Retention, now: SystemTime) -> Result<u64> {
    if retention.days.is_none() && retention.bytes.is_none() {
        return Ok(0);
    }
    let mut database = Database::open(&tables_of(root))?;
    let by_age = database.by_age()?;
    let mut bytes: u64 = by_age.iter().map(|(.., bytes)| bytes).sum();
    let first_day = retention.days.map(|days| {
        let today = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
        day(i64::try_from(today.saturating_sub(days)).unwrap_or(0))
    });
    let mut gone = Vec::new();
    for (key, day, of_it) in by_age {
        let is_old = first_day.as_ref().is_some_and(|first| day < *first);
        let is_too_much = retention.bytes.is_some_and(|most| bytes > most);
        if !is_old && !is_too_much {
            break;
        }
        bytes -= of_it;
        gone.push(key);
    }
    delete(root, &mut database, &gone)?;
    if let Some(first) = &first_day {
        let mut old = Vec::new();
        walk(&root.join("losses"), &mut |path| {
            let of = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let is_old =
                of.and_then(|name| name.strip_prefix("dt=")).is_some_and(|day| day < &**first);
            old.extend(is_old.then(|| path.to_owned()));
        })?;
        database.delete_losses_before(first)?;
        old.iter().for_each(|path| drop(fs::remove_file(path)));
    }
    Ok(gone.len() as u64)
}

/// Rows first: what is killed in between is found in the directory again, and deleted the next time.
fn delete(root: &Path, database: &mut Database, keys: &[String]) -> Result<()> {
    for some in keys.chunks(BATCH) {
        database.delete(some)?;
        for key in some {
            let place = root.join(key);
            let _ = fs::remove_file(sidecar_of(&place));
            match fs::remove_file(&place) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error)
                        .with_context(|| format!("cannot delete {}", place.display()));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Deletes all that a device has sent.
pub(crate) fn forget(args: &ForgetArgs) -> Result<()> {
    let root = &args.store;
    let tables = tables_of(root);
    if !tables.exists() {
        anyhow::bail!("{} is no store of a collector: it has no tables.sqlite", root.display());
    }
    let mut database = Database::open(&tables)?;
    // What came and is not in the tables yet may be of the device too.
    let (mut missing, mut wrong) = (Vec::new(), 0);
    each_missing(root, &tables, |work| match rows_of(root, &work) {
        Ok(rows) => missing.extend(rows),
        Err(_) => wrong += 1,
    })?;
    database.insert(&missing)?;
    let device = &args.install_id;
    let keys = database.of_device(device)?;
    delete(root, &mut database, &keys)?;
    let reports = database.reports_of_device(device)?;
    for id in &reports {
        if let Ok(id) = Uuid::try_parse(id) {
            let _ = fs::remove_file(root.join(losses_path(id)));
        }
    }
    database.delete_losses_of(device)?;
    let mut bodies: Vec<PathBuf> = Vec::new();
    walk(&root.join("quarantine"), &mut |path| {
        let about =
            fs::read(path).ok().and_then(|json| serde_json::from_slice::<Value>(&json).ok());
        let is_of_it = about.is_some_and(|about| {
            about.pointer("/meta/install_id").and_then(Value::as_str) == Some(device)
        });
        bodies.extend(is_of_it.then(|| path.to_owned()));
    })?;
    for path in &bodies {
        let _ = fs::remove_file(path.with_extension("body"));
        let _ = fs::remove_file(path);
    }
    print(&format!(
        "forgot {device}: {} captures, {} loss reports, {} bodies in quarantine\n",
        keys.len(),
        reports.len(),
        bodies.len()
    ));
    if wrong > 0 {
        say(&format!(
            "{wrong} files could not be read, and may be of it; they are in {}",
            root.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::directory::{Directory, key_of};
    use serde_json::json;
    use std::time::Duration;

    /// A store of three captures of three days; their keys, the oldest first, and how large each is.
    fn store(root: &Path) -> (Vec<String>, u64) {
        let directory = Directory::open(root).unwrap();
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
        let keys = keys.collect();
        assert_eq!(Analyser::start(root, &tables_of(root)).unwrap().finish(), 3);
        (keys, body.len() as u64)
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
        let retain = |days, bytes, now| retain(root, Retention { days, bytes }, now).unwrap();
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
        let args = ForgetArgs { store: root.to_owned(), install_id: "device 2".to_owned() };
        forget(&args).unwrap();
        assert_eq!(there(root, &keys), [true, false, true]);
    }
}
