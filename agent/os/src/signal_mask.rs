//! Changes a thread's signal mask with the kernel's own call and set: bionic has sets of 32 signals on 32-bit processors,
//! and modifies the given set. Called by `signal.rs` and `own_thread.rs`.

use libc::{c_int, c_long};

/// Bytes of a signal set.
pub(crate) const SET_BYTES: c_long = 8;

/// Changes this thread's mask and returns the former one.
pub(crate) fn mask(how: c_int, set: u64) -> u64 {
    let mut before = 0u64;
    if !cfg!(miri) {
        let how = c_long::from(how);
        // SAFETY: two sets of the size given.
        unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, &raw mut before, SET_BYTES)
        };
    }
    before
}
