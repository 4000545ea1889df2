//! The agent's own threads, which must not keep a process alive: when the app's main thread has ended
//! by `pthread_exit`, a process ends with its last thread, and that must not be ours.
//!
//! Each thread of ours registers itself. Periodic threads ask here whether the program has any thread left, and otherwise
//! end. The last of them ends the process as its main thread did.

use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use tracetee_os::{OwnThread, guard};

/// The ids of our threads, 0 for free entries. There are five kinds, and never more than one of each except recovery.
static OURS: [AtomicI32; 16] = [const { AtomicI32::new(0) }; 16];
/// The main thread's wait status, once no thread but ours is left. 0: none of the program's threads
/// has ended it otherwise than by returning or `pthread_exit`.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// Marks its thread as one of ours as long as it lives. It is the thread's last value: its drop ends the process as the main
/// thread did, if that ended by a system call.
#[derive(Debug)]
pub(crate) struct Own(Option<&'static AtomicI32>);

impl Own {
    /// The calling thread. A thread without a free entry counts as the app's.
    pub(crate) fn register() -> Self {
        let tid = tracetee_os::thread_id();
        // ORDERING: Relaxed, all in this file; the ids publish nothing.
        let is_free = |slot: &&AtomicI32| {
            slot.compare_exchange(0, tid, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Self(OURS.iter().find(is_free))
    }
}

/// Everything else goes first.
pub(crate) const LOWEST_PRIORITY: i32 = 19;

/// Sets the nice value of only this thread.
pub(crate) fn lower_priority(nice: i32) {
    let tid = tracetee_os::thread_id();
    #[allow(clippy::unnecessary_cast, reason = "PRIO_PROCESS has another type on each libc")]
    // SAFETY: a plain call; on Linux a thread's id makes it about this thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS as _, tid.cast_unsigned() as libc::id_t, nice)
    };
}

/// Starts a thread of the agent with this nice value. A panic ends it.
pub(crate) fn spawn(
    name: &'static CStr,
    nice: i32,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<OwnThread> {
    tracetee_os::spawn(name, move || {
        let _own = Own::register();
        lower_priority(nice);
        tracetee_os::block_write_signals();
        let _ = guard::run(work);
    })
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.store(0, Ordering::Relaxed);
        }
        end_as(STATUS.load(Ordering::Relaxed));
    }
}

/// True if the main thread has ended and only our threads are left.
pub(crate) fn is_all_that_is_left() -> bool {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return false };
    let Some(status) = status_of_ended(&stat) else { return false };
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    let is_ours = |tid: &str| {
        tid.parse::<i32>()
            .is_ok_and(|tid| OURS.iter().any(|slot| slot.load(Ordering::Relaxed) == tid))
    };
    for task in tasks {
        let Ok(task) = task else { return false };
        let name = task.file_name();
        let tid = name.to_string_lossy();
        if !is_ours(&tid) && !has_ended(&tid) {
            return false;
        }
    }
    STATUS.store(status, Ordering::Relaxed);
    true
}

/// Ends the calling thread, or the process, as the main thread did: from Linux 5.17 on, a process has
/// the status of its last thread.
fn end_as(status: i32) {
    match (status & 0x7f, status >> 8) {
        // Uses pthread_exit: libc calls exit handlers when the last of its threads returns.
        (0, 0) => {}
        // SAFETY: ends the calling thread, which holds nothing.
        (0, code) => unsafe {
            libc::syscall(libc::SYS_exit, code);
        },
        // SAFETY: a signal to the own process, which has no thread of the program's left.
        (signal, _) => unsafe {
            libc::kill(std::process::id().cast_signed(), signal);
        },
    }
}

/// Reads the wait status of a thread that has ended from its line in /proc; `None` while it runs.
fn status_of_ended(stat: &str) -> Option<i32> {
    // The program's name may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    has_ended.then(|| fields.nth(48).and_then(|status| status.parse().ok()).unwrap_or(0))
}

/// True if this thread of the process has ended; a main thread stays listed as a zombie.
fn has_ended(tid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")) {
        Ok(stat) => status_of_ended(&stat).is_some(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Forgets the parent's threads, in a forked child: only the calling thread is left.
pub(crate) fn forget_after_fork() {
    STATUS.store(0, Ordering::Relaxed);
    OURS.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc")]
    fn a_thread_that_runs_has_not_ended_and_one_that_never_was_has() {
        assert!(!has_ended(&tracetee_os::thread_id().to_string()));
        assert!(has_ended("2147483647"));
        assert!(!is_all_that_is_left(), "the tests' main thread waits for them");
    }

    #[test]
    fn the_status_of_a_thread_that_has_ended_is_the_last_field() {
        let zeros = "0 ".repeat(48);
        let stat = |state: &str| format!("17 (a ) Z 2) {state} {zeros}1792\n");
        assert_eq!(status_of_ended(&stat("Z")), Some(7 << 8));
        assert_eq!(status_of_ended(&stat("S")), None);
        assert_eq!(status_of_ended("").or(status_of_ended("17 (x)")), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads /proc")]
    fn the_kernel_writes_as_many_fields() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        assert_eq!(fields.split_ascii_whitespace().count(), 50);
    }
}
