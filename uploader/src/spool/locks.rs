//! Which process of the app may do what in the spool: locks on files, which the kernel takes back when a
//! process ends, whatever way.

use crate::error::Error;
use crate::spool::Spool;
use std::fs::File;
use std::time::Duration;

/// How often the spool's lock is tried for, a millisecond apart. It is held for some milliseconds;
/// a process that the system froze with it must not hold up this one: without it a quota may be
/// exceeded for a moment.
const LOCK_TRIES: u32 = 200;

/// The role of the one that recovers, until it is dropped.
#[derive(Debug)]
pub struct Recovery {
    _lock: File,
}

impl Spool {
    /// The role of the one that recovers what others left, here and elsewhere; `None`: another
    /// process has it.
    #[must_use]
    pub fn lock_recovery(&self) -> Option<Recovery> {
        self.try_lock("recovery").map(|lock| Recovery { _lock: lock })
    }

    /// The role of the one that sends; `None`: another process has it.
    pub(crate) fn lock_sender(&self) -> Result<Option<File>, Error> {
        self.open_lock("sender")
    }

    /// Held for a change of what waits.
    pub(crate) fn lock(&self) -> Option<File> {
        for _ in 0..LOCK_TRIES {
            if let Some(file) = self.try_lock("lock") {
                return Some(file);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    fn try_lock(&self, name: &str) -> Option<File> {
        self.open_lock(name).ok().flatten()
    }

    fn open_lock(&self, name: &str) -> Result<Option<File>, Error> {
        let path = self.root().join(name);
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = tracetee_os::open_with(&options, &path);
        let file = file.map_err(Error::io("lock", &path))?;
        let is_ours = tracetee_os::try_lock(&file).map_err(Error::io("lock", &path))?;
        Ok(is_ours.then_some(file))
    }
}
