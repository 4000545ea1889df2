//! Keeps the kernel from ending the program for a write of ours.
//!
//! Writing, sizing or allocating a file beyond RLIMIT_FSIZE raises SIGXFSZ, and writing to a socket
//! whose other end is closed SIGPIPE; the default of both ends the process. Blocked, the call
//! fails with EFBIG or EPIPE instead.
//!
//! By raw system calls: bionic has `sigtimedwait` from API 23 on only.

use crate::guard;
use crate::signal_mask::{SET_BYTES, mask};
use libc::c_long;

/// The two signals, as a set in the kernel's format.
const SIGNALS: u64 = 1 << (libc::SIGXFSZ - 1) | 1 << (libc::SIGPIPE - 1);

/// Blocks the signals on this thread permanently. For the agent's own threads.
pub fn block_write_signals() {
    mask(libc::SIG_BLOCK, SIGNALS);
}

/// Calls `write` with the signals blocked on this thread, and drops those that it has raised.
pub fn without_write_signals<T>(write: impl FnOnce() -> T) -> T {
    guard::holding(Blocked::new(), write)
}

/// [`without_write_signals`] for a body that cannot panic: for the recorder, which runs in signal handlers, too.
pub fn without_write_signals_unguarded<T>(write: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    write()
}

struct Blocked {
    before: u64,
    /// Were pending before: not from us.
    pending: u64,
}

impl Blocked {
    fn new() -> Self {
        Self { before: mask(libc::SIG_BLOCK, SIGNALS), pending: pending() }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        take(SIGNALS & !self.before & !self.pending);
        mask(libc::SIG_SETMASK, self.before);
    }
}

fn pending() -> u64 {
    let mut set = 0u64;
    if !cfg!(miri) {
        // SAFETY: a set of the size given.
        unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, SET_BYTES) };
    }
    set
}

/// Removes the pending signals of `set` from the thread.
fn take(set: u64) {
    let at_once = [0 as c_long; 2];
    let none = std::ptr::null::<libc::c_void>();
    // Each signal is pending once at most.
    for _ in 0..set.count_ones() {
        // SAFETY: a set of the size given, no place for details, a timespec of zero.
        let signal = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const set,
                none,
                at_once.as_ptr(),
                SET_BYTES,
            )
        };
        if signal <= 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_write_that_raises_sigpipe_fails_and_leaves_no_signal() {
        // Rust ignores SIGPIPE in programs; a library's host need not.
        // SAFETY: the default action, in this test's process.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (mut one, other) = UnixStream::pair().unwrap();
        drop(other);
        let result = without_write_signals(|| one.write_all(b"x"));
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        assert_eq!(pending() & SIGNALS, 0);
        assert_eq!(mask(libc::SIG_BLOCK, 0) & SIGNALS, 0, "the mask is as before");
    }
}
