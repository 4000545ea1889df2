//! File locks that divide work on the spool between the processes of an app. The kernel releases a lock
//! when its process ends in any way.

use crate::error::Error;
use crate::spool::Spool;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tracetee_os::Owned;

/// Number of attempts to take the spool's lock, a millisecond apart. Processes hold it for some
/// milliseconds. One that the system froze with the lock must not block this one: without the lock, a
/// quota may be exceeded for a moment.
const LOCK_TRIES: u32 = 200;

/// The lock of the process that recovers captures; held until it is dropped.
#[derive(Debug)]
pub struct Recovery {
    _lock: Owned<File>,
}

impl Spool {
    /// Takes the recovery lock; `None` if another process holds it.
    #[must_use]
    pub fn lock_recovery(&self) -> Option<Recovery> {
        self.try_lock("recovery").map(|lock| Recovery { _lock: lock })
    }

    /// Takes the sender's lock; `None` if another process holds it.
    pub(crate) fn lock_sender(&self) -> Result<Option<Owned<File>>, Error> {
        self.open_lock("sender")
    }

    /// Takes the lock for changes of the waiting captures.
    pub(crate) fn lock(&self) -> Option<Owned<File>> {
        for _ in 0..LOCK_TRIES {
            if let Some(file) = self.try_lock("lock") {
                return Some(file);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    fn try_lock(&self, name: &str) -> Option<Owned<File>> {
        self.open_lock(name).ok().flatten()
    }

    fn open_lock(&self, name: &str) -> Result<Option<Owned<File>>, Error> {
        let path = self.root().join(name);
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = tracetee_os::open_with(&options, &path);
        let file = file.map_err(Error::io("lock", &path))?;
        let is_ours = tracetee_os::try_lock(&file).map_err(Error::io("lock", &path))?;
        Ok(is_ours.then(|| Owned::new(file)))
    }
}
