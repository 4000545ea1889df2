//! The clocks: boot time for records (what the system's own traces use), real time for the sync
//! marker.
//!
//! [`boot_ns`] runs on the app's threads for each record: a vDSO call, no syscall on current
//! kernels.

/// Nanoseconds since boot, suspend included (CLOCK_BOOTTIME).
#[inline]
#[must_use]
pub fn boot_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds since the epoch (CLOCK_REALTIME).
#[must_use]
pub fn real_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock id and a timespec to write to. Both clocks exist since Linux 2.6.39,
    // so the call cannot fail and errno is left alone.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    // Both parts are non-negative for these clocks; i64 covers 32-bit time_t as well.
    #[allow(clippy::unnecessary_cast, reason = "time_t and c_long are 32 bits on 32-bit targets")]
    let (seconds, nanos) = (now.tv_sec as i64, now.tv_nsec as i64);
    seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(nanos.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_does_not_go_back() {
        let mut last = boot_ns();
        for _ in 0..10_000 {
            let now = boot_ns();
            assert!(now >= last);
            last = now;
        }
        assert!(real_ns() > 1_600_000_000_000_000_000);
    }
}
