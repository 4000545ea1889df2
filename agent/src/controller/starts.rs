//! Crash-loop safety: who dies soon after the hooks were installed, twice in a row, runs without
//! them until the configuration or the app is another one.
//!
//! A process that installs hooks leaves a file under `starts/` and holds its lock. It removes the
//! file when it has lived long enough, or exits in order. A file whose lock is free was left by a
//! process that did neither. The verdict lies in `starts.json`.

use super::store::Store;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// How many early deaths in a row are too many.
const TOO_MANY: u32 = 2;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    early_deaths: u32,
    /// The configuration's and the app's number under which they happened.
    of: Option<(u64, Option<u64>)>,
}

/// The present process's part.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Its file and the lock on it, while it is on probation.
    marker: Option<(PathBuf, File)>,
}

impl Starts {
    /// Why hooks must not be installed under that configuration and version; `None` when they may.
    pub(crate) fn refuse(store: &Store, seq: u64, version: Option<u64>) -> Option<String> {
        let mut record = read(store);
        let before = record.clone();
        if record.of != Some((seq, version)) {
            record = Record { early_deaths: 0, of: Some((seq, version)) };
        }
        // Whoever died did so under what is in force now, or before: then it does not count.
        let deaths = take_abandoned(store);
        if before.of == record.of {
            record.early_deaths = record.early_deaths.saturating_add(deaths);
        }
        if record != before {
            let _ = write(store, &record);
        }
        (record.early_deaths >= TOO_MANY).then(|| {
            format!(
                "crash loop: {} processes in a row died soon after the hooks were installed; off \
                 until the next configuration or app version",
                record.early_deaths
            )
        })
    }

    /// Hooks are about to be installed.
    pub(crate) fn begin(&mut self, store: &Store) -> Result<(), Error> {
        if self.marker.is_some() {
            return Ok(());
        }
        let path = own_path(store);
        let io = |source| Error::Io { what: "create", path: path.clone(), source };
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = tracetee_os::open_with(&options, &path).map_err(io)?;
        let lock = |source| Error::Io { what: "lock", path: path.clone(), source };
        // The lock goes with the process.
        if !tracetee_os::try_lock(&file).map_err(lock)? {
            return Err(lock(std::io::ErrorKind::WouldBlock.into()));
        }
        self.marker = Some((path, file));
        Ok(())
    }

    /// The process has lived long enough, or exits in order.
    pub(crate) fn survived(&mut self, store: &Store) {
        let Some((path, _)) = self.marker.take() else { return };
        let _ = std::fs::remove_file(path);
        let record = read(store);
        if record.early_deaths > 0 {
            let _ = write(store, &Record { early_deaths: 0, ..record });
        }
    }

    /// Whether [`Starts::survived`] is still to come.
    pub(crate) const fn is_on_probation(&self) -> bool {
        self.marker.is_some()
    }
}

fn own_path(store: &Store) -> PathBuf {
    store.starts().join(format!("{}.start", std::process::id()))
}

fn read(store: &Store) -> Record {
    let text = store.read("starts.json");
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn write(store: &Store, record: &Record) -> Result<(), Error> {
    store.write("starts.json", &serde_json::to_vec(record)?)
}

/// Removes the files of dead processes; how many there were.
fn take_abandoned(store: &Store) -> u32 {
    let mut deaths = 0;
    for entry in std::fs::read_dir(store.starts()).into_iter().flatten().flatten() {
        if entry.path() == own_path(store) {
            // Before an exec this process was another program: it did not die.
            continue;
        }
        let Ok(file) = tracetee_os::open(entry.path()) else { continue };
        if matches!(tracetee_os::try_lock(&file), Ok(true)) {
            let _ = std::fs::remove_file(entry.path());
            deaths += 1;
        }
    }
    deaths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_early_deaths_in_a_row_keep_it_off_until_something_is_new() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let refuse = |seq, version| Starts::refuse(&store, seq, version);
        let die = || {
            let mut starts = Starts::default();
            starts.begin(&store).unwrap();
            // The lock goes with the process, the file stays; that of another process here.
            drop(starts);
            let other = store.starts().join("1.start");
            std::fs::rename(own_path(&store), other).unwrap();
        };
        assert_eq!(refuse(1, Some(7)), None);
        die();
        assert_eq!(refuse(1, Some(7)), None);
        // One that lives long enough is no crash loop.
        let mut starts = Starts::default();
        starts.begin(&store).unwrap();
        assert_eq!(refuse(1, Some(7)), None, "it lives");
        starts.survived(&store);
        die();
        assert_eq!(refuse(1, Some(7)), None);
        die();
        let reason = refuse(1, Some(7)).unwrap();
        assert!(reason.starts_with("crash loop: 2 processes"), "{reason}");
        assert!(refuse(1, Some(7)).is_some(), "it stays off");
        assert_eq!(refuse(2, Some(7)), None);
        assert_eq!(refuse(2, Some(8)), None);
        // An exec is no death, however often: the next program in this process finds its own file.
        for _ in 0..3 {
            Starts::default().begin(&store).unwrap();
            assert_eq!(refuse(2, Some(8)), None);
        }
    }
}
