//! The thread that looks after a manual capture (`tracetee_start`): the system resets the tags
//! whenever one of its own traces begins or ends, and then no record arrives that could reveal it. The
//! thread also hooks libraries that no watched `dlopen` has loaded (Android 7).
//!
//! The thread lives from the capture's start to its stop, and only in a process that has a libcutils. (A
//! capture by configuration is looked after by the controller's thread.) It sleeps a quarter of a second
//! at a time, takes no signals of the program, and does not keep a process alive whose last thread of
//! its own has ended.

use crate::own_threads;
use crate::queue::{self, Receiver, Sender};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tracetee_os::{OwnThread, guard};

/// Interval between checks.
const LOOK: Duration = Duration::from_millis(250);
/// A lower priority than that of the app's threads.
const NICE: i32 = 10;

/// The running thread. If it is dropped without [`TagWatch::end`], the thread ends by itself.
#[derive(Debug)]
pub(super) struct TagWatch {
    stop: Sender<()>,
    thread: OwnThread,
}

impl TagWatch {
    /// Starts the thread, which calls `turn` four times a second.
    pub(super) fn start(turn: fn()) -> io::Result<Self> {
        let (stop, stopped) = queue::bounded(1);
        let start = || own_threads::spawn(c"tracetee", NICE, move || run(&stopped, turn));
        let thread = tracetee_os::without_signals(start)?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread and waits for it. Never called under the capture's lock, which `turn` takes.
    pub(super) fn end(self) {
        drop(self.stop);
        self.thread.join();
    }
}

fn run(stopped: &Receiver<()>, turn: fn()) {
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        // After a panic there is nothing to watch.
        if guard::is_broken() || own_threads::is_all_that_is_left() {
            return;
        }
        guard::planted("tags");
        turn();
    }
}

/// The thread holds the capture's lock, for a check.
static IS_LOOKING: AtomicBool = AtomicBool::new(false);
/// Threads that are about to fork: a child of one that forked during a check would find the
/// capture's lock held by nobody, and continue unrecorded.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// Maximum time that a fork waits for a check, which takes microseconds, and some milliseconds if it refreshes
/// Java's copy of the tags.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls `look`, which takes the capture's lock for a moment, unless a thread is about to fork.
pub(super) fn look(look: impl FnOnce()) {
    // ORDERING: SeqCst, here and in `before_fork`: each side stores its own word and then loads the other's.
    // With a weaker ordering both could load the old value, and the fork could happen during a check.
    IS_LOOKING.store(true, Ordering::SeqCst);
    if FORKING.load(Ordering::SeqCst) == 0 {
        look();
    }
    // ORDERING: Release, pairs with the load in `before_fork`: the lock was released before.
    IS_LOOKING.store(false, Ordering::Release);
}

/// Waits for a check to end, before a fork.
pub(crate) extern "C" fn before_fork() {
    // ORDERING: SeqCst; see `look`.
    FORKING.fetch_add(1, Ordering::SeqCst);
    let errno = tracetee_recorder::errno::Saved::now();
    let pause = Duration::from_micros(50);
    let mut waited = Duration::ZERO;
    // After a panic during a check, the check never ends.
    while IS_LOOKING.load(Ordering::SeqCst) && waited < PATIENCE && !guard::is_broken() {
        std::thread::sleep(pause);
        waited += pause;
    }
    errno.restore();
}

/// Allows checks again, after a fork.
pub(crate) extern "C" fn after_fork_in_parent() {
    // ORDERING: Relaxed; it only allows checks again.
    FORKING.fetch_sub(1, Ordering::Relaxed);
}

/// Forgets the parent's thread, in a forked child.
pub(crate) fn reset_after_fork() {
    // ORDERING: both Relaxed; the child has one thread.
    FORKING.store(0, Ordering::Relaxed);
    IS_LOOKING.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_about_to_fork_is_not_looked_beside() {
        let mut looks = 0;
        before_fork();
        look(|| looks += 1);
        before_fork();
        after_fork_in_parent();
        look(|| looks += 1);
        assert_eq!(looks, 0);
        after_fork_in_parent();
        look(|| looks += 1);
        assert_eq!(looks, 1);
        look(|| assert!(IS_LOOKING.load(Ordering::SeqCst)));
        assert!(!IS_LOOKING.load(Ordering::SeqCst));
    }
}
