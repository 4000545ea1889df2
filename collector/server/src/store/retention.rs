//! Applies retention to a local store: by age, then by size. The maintenance thread of the server calls it.

use super::files::{delete, each_file};
use super::local_store::day;
use super::tables_of;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tracetee_fleet::database::Database;

/// Limits of what a local store keeps; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// Days.
    pub days: Option<u64>,
    /// Bytes of captures.
    pub bytes: Option<u64>,
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

#[cfg(test)]
mod tests {
    use super::super::indexer::Indexer;
    use super::super::local_store::{LocalStore, sidecar_of};
    use super::super::test_store::{TEXT, put, store, there};
    use super::*;
    use serde_json::json;
    use std::fs;
    use std::time::Duration;

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
