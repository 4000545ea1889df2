//! Waits for the disk, together with all that wait for it at the same moment: thousands of small files a second.

use rustix::fs::syncfs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The syncs of a store's file system, by number from 1: one runs at a time.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    waiting: AtomicU64,
    begun: AtomicU64,
    /// The last sync that has ended, and the last that has failed.
    ended: Mutex<(u64, u64)>,
}

impl Commits {
    /// Waits until these files and directories are on the disk. `store`: an open file of the same file system.
    pub(crate) fn wait(&self, paths: [&Path; 2], store: &File) -> io::Result<()> {
        // ORDERING: Relaxed; a guess. Of one alone, nobody else's writes are to be waited for.
        let synced = if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            paths.iter().try_for_each(|path| File::open(path)?.sync_all())
        } else {
            self.wait_with_others(store)
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        synced
    }

    fn wait_with_others(&self, store: &File) -> io::Result<()> {
        // ORDERING: SeqCst, as the store below: a stale number would be that of a sync that began before the caller's write ended.
        let number = self.begun.load(Ordering::SeqCst) + 1;
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.0 < number {
            self.begun.store(number, Ordering::SeqCst);
            let synced = syncfs(store);
            *ended = (number, if synced.is_err() { number } else { ended.1 });
        }
        // The system reports a failure once: to all who wait for this sync.
        if ended.1 < number { Ok(()) } else { Err(io::Error::other("the disk failed")) }
    }
}
