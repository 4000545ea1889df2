//! Checks that the kernel can read an address. Programs do pass bad pointers to `write`, some on purpose
//! (unwinders probe memory that way), and the stack of an abandoned frame may be unmapped.
//!
//! Called from the proxies, on the app's threads.

use crate::errno;
use libc::{c_int, c_void};

/// True if the kernel can read `count` bytes at `address`, at most a page.
///
/// `rt_sigprocmask` with an invalid `how` reads 8 bytes and changes nothing: EFAULT or EINVAL.
#[cold]
pub fn is_readable(address: usize, count: usize) -> bool {
    const SIGSET_BYTES: usize = 8;
    const PAGE_BYTES: usize = 4096;
    let saved = errno::Saved::now();
    let probe = |address: usize| {
        // SAFETY: the kernel checks the pointer; the call is invalid on purpose.
        let status = unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                !0 as c_int,
                address & !(SIGSET_BYTES - 1),
                std::ptr::null_mut::<c_void>(),
                SIGSET_BYTES,
            )
        };
        status == -1 && errno::get() == libc::EINVAL
    };
    // At most two pages; a page is readable as a whole.
    let last = address.saturating_add(count.saturating_sub(1));
    let answer = probe(address) && (address / PAGE_BYTES == last / PAGE_BYTES || probe(last));
    saved.restore();
    answer
}
