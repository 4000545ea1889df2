//! Applies retention to a store: by age, then by size.
//!
//! The age is that since the arrival, the time of the object, not since the time that the sender's id claims. If
//! the store is too large, those apps lose their oldest captures that have more than their share: no app loses anything
//! because another one sends much. What is deleted is counted by app and reason, for a loss report of the collector.

use crate::store::captures::days::days_of;
use crate::store::captures::entries::{Entry, Kind, delete};
use crate::store::objects::Objects;
use crate::store::objects::disk::tables_of;
use anyhow::Result;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::{ReportKey, ReportKind, app_of_report};
use tracetee_fleet::rows::COLLECTOR;
use tracetee_protocol::{CaptureMeta, LossReport};

/// Limits of a store; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// Days since the arrival.
    pub days: Option<u64>,
    /// Bytes of captures.
    pub bytes: Option<u64>,
    /// Bytes of an app's captures.
    pub app_bytes: Option<u64>,
}

/// Reasons of deletions, as the report names them.
pub(crate) const AGE: &str = "retention_age";
pub(crate) const SIZE: &str = "retention_size";

/// Captures that were deleted, by app and reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Deleted(BTreeMap<(String, &'static str), u64>);

impl Deleted {
    /// Returns how many captures were deleted for a reason.
    pub(crate) fn count(&self, reason: &str) -> u64 {
        self.0.iter().filter(|((_, why), _)| *why == reason).map(|(_, count)| count).sum()
    }

    /// Makes the collector's loss report of each app.
    pub(crate) fn loss_reports(&self) -> Vec<LossReport> {
        let mut by_app: BTreeMap<&str, LossReport> = BTreeMap::new();
        for ((app, reason), &count) in &self.0 {
            let report = by_app.entry(app).or_insert_with(|| LossReport {
                device: CaptureMeta {
                    app: Some(app.clone()),
                    install_id: Some(COLLECTOR.to_owned()),
                    ..CaptureMeta::default()
                },
                ..LossReport::default()
            });
            report.by_reason.insert((*reason).to_owned(), count);
        }
        by_app.into_values().collect()
    }
}

/// Returns the owner of a file: an app, all loss reports, or quarantined objects without an app.
fn owner(kind: &Kind) -> Cow<'_, str> {
    match kind {
        Kind::Capture(key) => (&*key.app).into(),
        Kind::Report(ReportKey { kind: ReportKind::Losses, .. }) | Kind::Alone => "losses/".into(),
        Kind::Report(key) => app_of_report(&key.name).unwrap_or_default().into(),
        Kind::Quarantined(app) => app.as_deref().unwrap_or("quarantine/").into(),
    }
}

/// Bytes of an owner by day of arrival.
type Days = BTreeMap<i64, u64>;

/// Files of an owner to delete: all files from before a day, and a number of bytes from that day, oldest first.
#[derive(Clone, Copy)]
struct Border {
    day: i64,
    bytes: u64,
}

/// Calls a function for each entry of a store.
pub(crate) type Entries<'a> = dyn Fn(&mut dyn FnMut(Entry)) -> Result<()> + 'a;

/// Applies retention by age, then by size, oldest first, to the entries of a store whose tables are below `root`. Returns
/// the deleted objects.
pub(crate) fn apply(
    objects: &dyn Objects,
    root: &Path,
    entries: &Entries<'_>,
    retention: Retention,
    now: SystemTime,
) -> Result<Deleted> {
    let (gone, deleted) = choose(entries, retention, now)?;
    if !gone.is_empty() {
        delete(objects, root, &mut Database::open(&tables_of(root))?, &gone)?;
    }
    Ok(deleted)
}

/// Chooses the objects to delete. Returns them, and the number of captures among them.
fn choose(
    entries: &Entries<'_>,
    retention: Retention,
    now: SystemTime,
) -> Result<(Vec<(Kind, String)>, Deleted)> {
    let mut deleted = Deleted::default();
    let Retention { days, bytes, app_bytes } = retention;
    if days.is_none() && bytes.is_none() && app_bytes.is_none() {
        return Ok((Vec::new(), deleted));
    }
    let first_day = days.map_or(i64::MIN, |count| {
        days_of(now).saturating_sub(i64::try_from(count).unwrap_or(i64::MAX))
    });
    // Sums first: a big store's paths need not be in memory all at once.
    let mut by_owner: BTreeMap<String, Days> = BTreeMap::new();
    entries(&mut |Entry { kind, at, bytes, .. }| {
        let owner = owner(&kind);
        if !by_owner.contains_key(&*owner) {
            by_owner.insert(owner.clone().into_owned(), Days::new());
        }
        if let Some(days) = by_owner.get_mut(&*owner) {
            *days.entry(days_of(at)).or_default() += bytes;
        }
    })?;
    let young = |days: &Days| days.range(first_day..).map(|(_, bytes)| bytes).sum::<u64>();
    let sizes: Vec<u64> = by_owner.values().map(young).collect();
    let share = bytes.map_or(u64::MAX, |bytes| share(sizes, bytes));
    let most = share.min(app_bytes.unwrap_or(u64::MAX));
    let borders: BTreeMap<&str, Border> = by_owner
        .iter()
        .map(|(owner, days)| {
            let surplus = young(days).saturating_sub(most);
            (&**owner, border(days, first_day, surplus))
        })
        .collect();
    let (mut gone, mut of_border) = (Vec::new(), Vec::new());
    entries(&mut |entry| {
        let Some(border) = borders.get(&*owner(&entry.kind)) else { return };
        let day = days_of(entry.at);
        if day < border.day {
            let reason = if day < first_day { AGE } else { SIZE };
            gone.push((entry.kind, entry.path, reason));
        } else if day == border.day && border.bytes > 0 {
            of_border.push(entry);
        }
    })?;
    of_border.sort_by(|a, b| (a.at, &a.path).cmp(&(b.at, &b.path)));
    let mut left: BTreeMap<&str, u64> =
        borders.iter().map(|(&owner, border)| (owner, border.bytes)).collect();
    for Entry { kind, path, bytes, .. } in of_border {
        if let Some(surplus) = left.get_mut(&*owner(&kind)).filter(|surplus| **surplus > 0) {
            *surplus = surplus.saturating_sub(bytes);
            gone.push((kind, path, SIZE));
        }
    }
    for (kind, _, reason) in &gone {
        if let Kind::Capture(key) = kind {
            *deleted.0.entry((key.app.clone(), reason)).or_default() += 1;
        }
    }
    Ok((gone.into_iter().map(|(kind, path, _)| (kind, path)).collect(), deleted))
}

/// Returns how much each owner may keep, so that all together keep `most`: owners that need less leave the rest to the
/// others.
fn share(mut sizes: Vec<u64>, most: u64) -> u64 {
    sizes.sort_unstable();
    let (mut left, mut count) = (most, sizes.len() as u64);
    for size in sizes {
        let share = left / count;
        if size > share {
            return share;
        }
        left -= size;
        count -= 1;
    }
    u64::MAX
}

/// Returns which of an owner's files to delete: those before `first_day`, and this many bytes of the others.
fn border(days: &Days, first_day: i64, mut surplus: u64) -> Border {
    for (&day, &bytes) in days.range(first_day..) {
        if surplus < bytes {
            return Border { day, bytes: surplus };
        }
        surplus -= bytes;
    }
    // Returns all files if no bytes may be kept.
    let after = days.last_key_value().map_or(first_day, |(&day, _)| (day + 1).max(first_day));
    Border { day: after, bytes: 0 }
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
