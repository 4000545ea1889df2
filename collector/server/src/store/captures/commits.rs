//! Waits for the disk, together with all that wait for it at the same moment: thousands of small files a second.

use rustix::fs::syncfs;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

/// Files and directories that are synced one by one. With more, a sync of the file system takes less, whatever others have written.
const FEW: usize = 8;

/// The syncs of a store.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    state: Mutex<State>,
    ended: Condvar,
}

/// Syncs have numbers from 1; one runs at a time.
#[derive(Debug, Default)]
struct State {
    waiting: Vec<PathBuf>,
    begun: u64,
    ended: u64,
    failed: u64,
}

impl Commits {
    /// Waits until these files and directories are on the disk. `store`: an open file of the same file system.
    pub(crate) fn wait(&self, paths: &[&Path], store: &File) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has begun may have missed what was written meanwhile.
        let number = state.begun + 1;
        state.waiting.extend(paths.iter().map(|&path| path.to_owned()));
        while state.ended < number {
            if state.begun > state.ended {
                state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let paths = std::mem::take(&mut state.waiting);
            state.begun = number;
            drop(state);
            let synced = if paths.len() <= FEW {
                paths.iter().try_for_each(|path| File::open(path)?.sync_all())
            } else {
                syncfs(store).map_err(io::Error::from)
            };
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.ended = number;
            self.ended.notify_all();
            if synced.is_err() {
                state.failed = number;
                return synced;
            }
        }
        // A later one that has failed may be the one that wrote it.
        if state.failed >= number { Err(io::Error::other("the disk failed")) } else { Ok(()) }
    }
}
