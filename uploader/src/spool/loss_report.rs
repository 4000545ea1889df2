//! Lost captures, and the loss report.
//!
//! A lost capture becomes an empty file in `lost/` whose name says why. This is one rename, so a capture is either in
//! the spool or lost, never both. A report takes all of `lost/` as `report/` (also one rename) and gets an id. It does
//! not change until the server has it, and is then deleted. So every loss is counted exactly once.

use crate::error::Error;
use crate::id::new_id;
use crate::spool::file_name;
use crate::spool_name::LostName;
use crate::timestamp::Now;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tracetee_protocol::loss_report::{self, Loss, MAX_LOSSES};
use tracetee_protocol::{CaptureMeta, LossReport};
use uuid::Uuid;

/// Prefix of the file in `lost/` and `report/` whose name counts the older losses.
const OLDER: &str = "older~";
/// Prefix of the file in `report/` whose name has the report's id.
const REPORT: &str = "id~";

/// The spool's losses.
#[derive(Debug)]
pub(crate) struct Losses<'a> {
    root: &'a Path,
}

/// A loss report in transit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outgoing {
    pub(crate) id: Uuid,
    /// The report, without the facts about the device.
    pub(crate) content: LossReport,
    pub(crate) losses: Vec<LostName>,
}

impl<'a> Losses<'a> {
    pub(crate) const fn new(root: &'a Path) -> Self {
        Self { root }
    }

    fn directory(&self) -> PathBuf {
        self.root.join("lost")
    }

    /// Turns a capture into a loss.
    pub(crate) fn lose(&self, path: &Path, lost: &LostName) -> Result<(), Error> {
        let to = self.directory().join(lost.to_text());
        match fs::rename(path, &to) {
            Ok(()) => {
                // Frees the disk space; if this fails, `bound` deletes the file.
                let _ = tracetee_os::open_with(File::options().write(true), &to)
                    .and_then(|file| file.set_len(0));
                Ok(())
            }
            // Another process was quicker; or the directory was deleted.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.exists() => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                tracetee_os::create_directory(self.directory())
                    .map_err(Error::io("create", &self.directory()))?;
                fs::rename(path, &to).map_err(Error::io("move", path))
            }
            Err(error) => Err(Error::io("move", path)(error)),
        }
    }

    /// Enters a loss without a file. On a disk without room for an empty file it is forgotten.
    pub(crate) fn note(&self, lost: &LostName) {
        let _ = tracetee_os::create_directory(self.directory());
        let _ = tracetee_os::create(self.directory().join(lost.to_text()));
    }

    /// Removes a file that is not ours, or whose name is damaged, and enters it as a loss.
    pub(crate) fn of_foreign(&self, path: &Path) {
        let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_directory {
            let _ = fs::remove_dir_all(path);
            return;
        }
        let lost = LostName::new(new_id(Now::default()), "unknown".to_owned(), "damaged");
        let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_file || self.lose(path, &lost).is_err() {
            let _ = fs::remove_file(path);
        }
    }

    /// Counts losses by reason, including those of a report in transit.
    pub(crate) fn count(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for directory in ["lost", "report"] {
            let (losses, older) = self.read(&self.root.join(directory));
            for lost in losses {
                *counts.entry(lost.reason).or_default() += 1;
            }
            if older > 0 {
                *counts.entry(loss_report::OLDER.to_owned()).or_default() += older;
            }
        }
        counts
    }

    /// Limits the number of losses, and truncates their files.
    pub(crate) fn bound(&self) {
        let directory = self.directory();
        let mut names = Vec::new();
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
                let _ = tracetee_os::open_with(File::options().write(true), entry.path())
                    .and_then(|file| file.set_len(0));
            }
            names.extend(LostName::parse(&file_name(&entry.path())));
        }
        if names.len() <= MAX_LOSSES {
            return;
        }
        names.sort_unstable();
        let surplus = names.len() - MAX_LOSSES;
        // Deletes first, then counts: a process that is killed in between counts too few.
        let gone = names
            .iter()
            .take(surplus)
            .filter(|name| fs::remove_file(directory.join(name.to_text())).is_ok());
        let gone = gone.count() as u64;
        let (_, older) = self.read(&directory);
        let to = directory.join(format!("{OLDER}{}", older + gone));
        let from = directory.join(format!("{OLDER}{older}"));
        if fs::rename(from, &to).is_err() {
            let _ = tracetee_os::create(to);
        }
    }

    /// Returns the report in transit, or a new one of all losses not reported yet. Requires the spool's lock.
    pub(crate) fn report(&self, now: Now) -> Option<Outgoing> {
        let directory = self.root.join("report");
        if !directory.exists() {
            let (losses, older) = self.read(&self.directory());
            if losses.is_empty() && older == 0 {
                return None;
            }
            fs::rename(self.directory(), &directory).ok()?;
            let _ = tracetee_os::create_directory(self.directory());
        }
        // A process may have been killed before it gave the report its id: it was not sent then.
        let id = self.report_id().or_else(|| {
            let id = new_id(now);
            tracetee_os::create(directory.join(format!("{REPORT}{id}"))).ok().map(|_| id)
        })?;
        let (losses, older) = self.read(&directory);
        if losses.is_empty() && older == 0 {
            // A leftover of a report that the server already has.
            self.reported(&[]);
            return None;
        }
        let mut by_reason = BTreeMap::new();
        for lost in &losses {
            *by_reason.entry(lost.reason.clone()).or_default() += 1;
        }
        if older > 0 {
            by_reason.insert(loss_report::OLDER.to_owned(), older);
        }
        let lost = losses.iter().map(|LostName { id, label, reason, unconfirmed }| Loss {
            id: id.to_string(),
            label: label.clone(),
            reason: reason.clone(),
            unconfirmed: *unconfirmed,
        });
        let lost = lost.collect();
        let content =
            LossReport { id: id.to_string(), lost, by_reason, device: CaptureMeta::default() };
        Some(Outgoing { id, content, losses })
    }

    /// Deletes losses that the server has.
    pub(crate) fn reported(&self, losses: &[LostName]) {
        let directory = self.root.join("report");
        // The id is deleted last: if this is interrupted, the server recognizes the rest of the report.
        let id = self.report_id();
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = file_name(&entry.path());
            if name.starts_with(REPORT) {
                continue;
            }
            let _ = match LostName::parse(&name) {
                // It arrived while the directory was renamed: it is for the next report.
                Some(lost) if losses.binary_search(&lost).is_err() => {
                    fs::rename(entry.path(), self.directory().join(name))
                }
                _ => fs::remove_file(entry.path()),
            };
        }
        if let Some(id) = id {
            let _ = fs::remove_file(directory.join(format!("{REPORT}{id}")));
        }
        let _ = fs::remove_dir(&directory);
    }

    fn report_id(&self) -> Option<Uuid> {
        let entries = fs::read_dir(self.root.join("report")).ok()?.flatten();
        let ids = entries.filter_map(|entry| {
            Uuid::try_parse(file_name(&entry.path()).strip_prefix(REPORT)?).ok()
        });
        ids.min()
    }

    fn read(&self, directory: &Path) -> (Vec<LostName>, u64) {
        let (mut losses, mut older) = (Vec::new(), 0);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = file_name(&entry.path());
            if let Some(count) =
                name.strip_prefix(OLDER).and_then(|count| count.parse::<u64>().ok())
            {
                older = older.max(count);
            } else {
                losses.extend(LostName::parse(&name));
            }
        }
        losses.sort_unstable();
        (losses, older)
    }
}
