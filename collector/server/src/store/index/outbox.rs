//! The files in `outbox/` of a replica (`replica.rs`) wait to be published. The indexer's thread that writes the tables makes one
//! for each of its batches. A store that is a directory has no outbox.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tracetee_fleet::part::pack;
use tracetee_fleet::sums::Contribution;

const DIRECTORY: &str = "outbox";

/// The directory.
#[derive(Debug)]
pub(crate) struct Outbox {
    directory: PathBuf,
    next: AtomicU64,
}

impl Outbox {
    /// Returns the path of a replica's outbox.
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join(DIRECTORY)
    }

    /// Finds the outbox of a replica; `None` in a store that is a directory.
    pub(crate) fn find(root: &Path) -> Option<Self> {
        let directory = Self::path(root);
        let names = fs::read_dir(&directory).ok()?.flatten();
        let number = |name: &str| name.parse::<u64>().ok();
        let last = names.filter_map(|entry| number(entry.file_name().to_str()?)).max();
        Some(Self { directory, next: AtomicU64::new(last.map_or(0, |last| last + 1)) })
    }

    /// Writes a batch: new captures, and those that were analyzed again.
    pub(crate) fn put(&self, new: &[Contribution], again: &[Contribution]) -> io::Result<()> {
        if new.is_empty() && again.is_empty() {
            return Ok(());
        }
        let all = new.iter().map(|one| (false, one)).chain(again.iter().map(|one| (true, one)));
        let making = self.directory.join("making");
        fs::write(&making, pack(all)?)?;
        // ORDERING: Relaxed; only a unique number.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        fs::rename(making, self.directory.join(format!("{number:020}")))
    }
}
