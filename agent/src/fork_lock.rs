//! The lock of state that a forked child keeps using: the agent's, the capture's, and the listener's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A lock that a forked child can take. If another thread of the parent held it, nobody releases it in the child: there a
/// lock with its own value takes its place.
pub(crate) struct ForkLock<T> {
    locks: [Mutex<T>; 4],
    /// The index of the lock in use.
    index: AtomicUsize,
}

impl<T> ForkLock<T> {
    pub(crate) const fn new(locks: [Mutex<T>; 4]) -> Self {
        Self { locks, index: AtomicUsize::new(0) }
    }

    pub(crate) fn get(&self) -> &Mutex<T> {
        // ORDERING: Relaxed; changes only in a forked child, which has one thread then.
        let index = self.index.load(Ordering::Relaxed);
        &self.locks[index.min(self.locks.len() - 1)]
    }

    /// In a forked child: returns the parent's value; `None` if another lock has taken its place.
    pub(crate) fn after_fork(&self) -> Option<MutexGuard<'_, T>> {
        match self.get().try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                self.index.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}
