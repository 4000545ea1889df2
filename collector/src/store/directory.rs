//! The directory that captures are kept in: each once, whatever comes when.
//!
//! `raw/v1/dt=YYYY-MM-DD/ID.ftrace.zst` with `ID.json`, its metadata, beside it; the day is that in
//! the id, so an id has one place. `losses/v1/…/ID.json` likewise; `quarantine/` holds what was no
//! capture, each with its reason; `incoming/` what is on its way. A file gets its place by a link that
//! fails where there is one, so that two that come at once are one.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A capture.
    Capture,
    /// A loss report.
    Losses,
}

/// A capture in its place.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The file.
    pub(crate) path: PathBuf,
    /// What its sender said of it.
    pub(crate) meta: Value,
}

/// The directory.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    next: AtomicU64,
}

/// A file on its way; it goes when this is dropped before it has its place.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) path: PathBuf,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Store {
    /// Opens it, makes it if need be. What was on its way when the last one ended goes.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        for directory in ["raw/v1", "losses/v1", "quarantine", "incoming"] {
            let path = root.join(directory);
            fs::create_dir_all(&path)
                .with_context(|| format!("cannot create {}", path.display()))?;
        }
        for entry in fs::read_dir(root.join("incoming"))?.flatten() {
            let _ = fs::remove_file(entry.path());
        }
        Ok(Self { root: root.to_owned(), next: AtomicU64::new(0) })
    }

    /// A name for what is on its way.
    pub(crate) fn incoming(&self) -> Incoming {
        // ORDERING: Relaxed; a number that nobody else has.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        Incoming { path: self.root.join("incoming").join(name) }
    }

    /// Whether an object is there.
    pub(crate) fn has(&self, kind: Kind, id: Uuid) -> bool {
        self.place(kind, id).exists()
    }

    /// Gives a whole file its place. `None`: another one has it.
    pub(crate) fn keep(
        &self,
        kind: Kind,
        id: Uuid,
        incoming: &Incoming,
        meta: &Value,
    ) -> io::Result<Option<PathBuf>> {
        let place = self.place(kind, id);
        if let Some(directory) = place.parent() {
            fs::create_dir_all(directory)?;
        }
        File::open(&incoming.path)?.sync_data()?;
        match fs::hard_link(&incoming.path, &place) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        }
        if kind == Kind::Capture {
            let mut file = File::create(self.sidecar(id))?;
            file.write_all(meta.to_string().as_bytes())?;
        }
        Ok(Some(place))
    }

    /// Sets aside what was no capture, with the reason.
    pub(crate) fn quarantine(&self, id: Uuid, incoming: &Incoming, reason: &str, meta: &Value) {
        let directory = self.root.join("quarantine");
        let place = directory.join(format!("{id}.body"));
        // The last one of an id is enough to see what is wrong.
        let _ = fs::rename(&incoming.path, place);
        let about = serde_json::json!({"reason": reason, "meta": meta});
        let _ = fs::write(directory.join(format!("{id}.json")), about.to_string());
    }

    fn place(&self, kind: Kind, id: Uuid) -> PathBuf {
        let (directory, extension) = match kind {
            Kind::Capture => ("raw/v1", "ftrace.zst"),
            Kind::Losses => ("losses/v1", "json"),
        };
        self.root
            .join(directory)
            .join(format!("dt={}", day_of(id)))
            .join(format!("{id}.{extension}"))
    }

    fn sidecar(&self, id: Uuid) -> PathBuf {
        self.place(Kind::Capture, id).with_file_name(format!("{id}.json"))
    }
}

/// The day in an id of version 7, UTC; another id has the first of all days.
fn day_of(id: Uuid) -> String {
    let seconds = id.get_timestamp().map_or(0, |time| time.to_unix().0);
    let (year, month, day) = civil(i64::try_from(seconds / 86_400).unwrap_or(0));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of so many days after 1970-01-01 (Howard Hinnant's `civil_from_days`).
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_day_that_it_was_made_on() {
        let id = |ms| uuid::Builder::from_unix_timestamp_millis(ms, &[7; 10]).into_uuid();
        for (ms, day) in [
            (0, "1970-01-01"),
            (951_782_399_999, "2000-02-28"),
            (951_782_400_000, "2000-02-29"),
            (1_735_689_599_999, "2024-12-31"),
            (1_795_252_596_629, "2026-11-21"),
        ] {
            assert_eq!(day_of(id(ms)), day);
        }
        assert_eq!(day_of(Uuid::nil()), "1970-01-01");
    }

    #[test]
    fn an_object_is_kept_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let id = Uuid::nil();
        let keep = |text: &str| {
            let incoming = store.incoming();
            fs::write(&incoming.path, text).unwrap();
            store.keep(Kind::Capture, id, &incoming, &serde_json::json!({"of": text})).unwrap()
        };
        let place = keep("first").unwrap();
        assert_eq!(keep("second"), None);
        assert_eq!(fs::read_to_string(&place).unwrap(), "first");
        assert_eq!(fs::read_to_string(store.sidecar(id)).unwrap(), "{\"of\":\"first\"}");
        assert_eq!(fs::read_dir(directory.path().join("incoming")).unwrap().count(), 0);
        assert!(store.has(Kind::Capture, id) && !store.has(Kind::Losses, id));
    }
}
