//! Keeps the program's signals off our threads.

use crate::signal_mask::mask;
use libc::c_int;

/// Calls `spawn` with all signals blocked except those that the thread itself causes. The new thread inherits the mask, so
/// the program's handlers run on the program's threads.
///
/// libc blocks: signals that it needs itself stay as it wants them. The kernel restores: bionic's own call would add
/// the signal of its timers (32) to the mask of the app's thread, from API 29 on.
pub fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    const OWN: [c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    let before = mask(libc::SIG_BLOCK, 0);
    // SAFETY: an all-zero sigset_t is a valid value of a plain C structure.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a signal set to write to.
    unsafe { libc::sigfillset(&raw mut blocked) };
    for signal in OWN {
        // SAFETY: a signal set that was filled, and a signal's number.
        unsafe { libc::sigdelset(&raw mut blocked, signal) };
    }
    // SAFETY: a valid set; it changes only the calling thread's mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) };
    let spawned = spawn();
    mask(libc::SIG_SETMASK, before);
    spawned
}
