//! The limits that the process has been given, or has set for itself.

/// The largest file that the process may write, in bytes (`ulimit -f`); `u64::MAX` for no limit.
#[must_use]
pub fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place to write to.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if status != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return u64::MAX;
    }
    #[allow(clippy::useless_conversion, reason = "it has 32 bits on 32-bit Android")]
    u64::from(limit.rlim_cur)
}
