//! Keeps our own files and sockets out of descriptors 0 to 2.
//!
//! A program that was started with one of them closed, or that closes one, would otherwise find one of our files there: its
//! writes to stdout would go into the recorder.

use crate::guard;
use std::os::fd::RawFd;

/// Calls `open`, whose descriptors are all above 2.
///
/// During the call, descriptors 0 to 2 that are closed are occupied by placeholders that can be neither read nor written:
/// the program's own calls on them still fail with EBADF.
pub fn above_standard<T>(open: impl FnOnce() -> T) -> T {
    guard::holding(Held::new(), open)
}

/// Placeholders; −1 for none.
struct Held([RawFd; 3]);

impl Held {
    fn new() -> Self {
        let mut held = [-1; 3];
        for (standard, slot) in (0..3).zip(&mut held) {
            // SAFETY: plain system call; any number may be asked about.
            if unsafe { libc::fcntl(standard, libc::F_GETFD) } >= 0 {
                continue;
            }
            // SAFETY: plain system call on a C string. It takes the lowest number that is free.
            let fd = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
            if fd > 2 {
                // Another thread has reused the number.
                // SAFETY: opened above; no other code knows it.
                unsafe { libc::close(fd) };
            } else {
                *slot = fd;
            }
        }
        Self(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for fd in self.0 {
            // SAFETY: plain system call; any number may be asked about.
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
            // Another thread may have closed it and opened its own file there.
            if fd >= 0 && flags >= 0 && flags & libc::O_PATH != 0 {
                // SAFETY: one of the placeholder descriptors that `new` opened.
                unsafe { libc::close(fd) };
            }
        }
    }
}
