//! Protection from crash loops: when two processes in a row die soon after the installation of the
//! hooks, the agent stays off until the configuration or the app changes.
//!
//! A process that installs hooks puts a file under `starts/` and holds its lock. It removes the file
//! when it has lived long enough, or exits normally. A file whose lock is free is that of a process
//! that did neither. `starts.json` has the count.

use super::state_dir::StateDir;
use crate::error::Error;
use std::fs::File;
use std::path::PathBuf;
use tracetee_os::Owned;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;

/// Early deaths in a row that switch the agent off.
const TOO_MANY: u32 = 2;

record! {
    /// The count of early deaths.
    #[derive(Copy, Eq)]
    struct EarlyDeaths {
        /// Processes in a row that died early.
        count["early_deaths"]: u32 = 0,
        /// The number of the configuration and the version of the app under which they died.
        under["of"]: Option<(u64, Option<u64>)> = None,
    }
}

/// The probation of the present process.
#[derive(Debug, Default)]
pub(crate) struct CrashGuard {
    /// The process's file and the lock on it, while it is on probation.
    marker: Option<(PathBuf, Owned<File>)>,
}

impl CrashGuard {
    /// The reason for which hooks must not be installed under that configuration and version; `None`
    /// when they may.
    pub(crate) fn refuse(store: &StateDir, seq: u64, version: Option<u64>) -> Option<String> {
        let mut record = read(store);
        let before = record;
        if record.under != Some((seq, version)) {
            record = EarlyDeaths { count: 0, under: Some((seq, version)) };
        }
        // Deaths under an earlier configuration or version do not count.
        let deaths = take_abandoned(store);
        if before.under == record.under {
            record.count = record.count.saturating_add(deaths);
        }
        if record != before {
            let _ = write(store, &record);
        }
        (record.count >= TOO_MANY).then(|| {
            format!(
                "crash loop: {} processes in a row died soon after the hooks were installed; off \
                 until the next configuration or app version",
                record.count
            )
        })
    }

    /// Begins the probation: hooks are about to be installed.
    pub(crate) fn begin(&mut self, store: &StateDir) -> Result<(), Error> {
        if self.marker.is_some() {
            return Ok(());
        }
        let path = own_path(store);
        let io = |source| Error::Io { what: "create", path: path.clone(), source };
        let file = tracetee_os::create(&path).map_err(io)?;
        let lock = |source| Error::Io { what: "lock", path: path.clone(), source };
        // The system frees the lock when the process ends.
        if !tracetee_os::try_lock(&file).map_err(lock)? {
            return Err(lock(std::io::ErrorKind::WouldBlock.into()));
        }
        self.marker = Some((path, Owned::new(file)));
        Ok(())
    }

    /// Ends the probation: the process has lived long enough, or exits normally.
    pub(crate) fn survived(&mut self, store: &StateDir) {
        let Some((path, _)) = self.marker.take() else { return };
        let _ = std::fs::remove_file(path);
        let record = read(store);
        if record.count > 0 {
            let _ = write(store, &EarlyDeaths { count: 0, ..record });
        }
    }

    /// True until [`CrashGuard::survived`].
    pub(crate) const fn is_on_probation(&self) -> bool {
        self.marker.is_some()
    }
}

fn own_path(store: &StateDir) -> PathBuf {
    store.starts().join(format!("{}.start", std::process::id()))
}

fn read(store: &StateDir) -> EarlyDeaths {
    let json = store.read("starts.json");
    json.and_then(|json| record::parse(&json, Limits::DEFAULT).ok()).unwrap_or_default()
}

fn write(store: &StateDir, record: &EarlyDeaths) -> Result<(), Error> {
    // The death of a process, which it counts, leaves the system's memory whole.
    store.replace("starts.json", record::to_json(record).as_bytes())
}

/// Removes the files of dead processes, and counts them.
fn take_abandoned(store: &StateDir) -> u32 {
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
        let store = StateDir::open(directory.path()).unwrap();
        let refuse = |seq, version| CrashGuard::refuse(&store, seq, version);
        let die = || {
            let mut starts = CrashGuard::default();
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
        let mut starts = CrashGuard::default();
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
            CrashGuard::default().begin(&store).unwrap();
            assert_eq!(refuse(2, Some(8)), None);
        }
    }
}
