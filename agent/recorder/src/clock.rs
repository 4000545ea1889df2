//! The clocks: boot time (used by the system's own traces), real time for the sync marker, and
//! the processor's counter, which is read in a third of the time.
//!
//! [`boot_ns`] is a vDSO call. [`counter`] is one instruction; its values become boot time when the trace is written, by
//! anchors: pairs of both, read together ([`Anchor`]). The counter is used where the processor says that it runs evenly, the
//! kernel keeps time by it too, the process may read it, and it proves to be faster; and it is abandoned permanently when an
//! anchor does not match the previous one (a suspend in which it stood still, a move to another machine): [`leave_counter`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// Nanoseconds since boot, without suspends (CLOCK_MONOTONIC).
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread, ns: a system call.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock id and a timespec to write to. All these clocks exist since Linux 2.6.39, so the call cannot
    // fail and errno is unchanged.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    // Both parts are non-negative for these clocks; i64 covers 32-bit time_t as well.
    #[allow(clippy::unnecessary_cast, reason = "time_t and c_long are 32 bits on 32-bit targets")]
    let (seconds, nanos) = (now.tv_sec as i64, now.tv_nsec as i64);
    seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(nanos.cast_unsigned())
}

/// The processor's counter: the time stamp counter, or the virtual timer's count.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
#[inline]
#[must_use]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86")]
    use std::arch::x86::_rdtsc;
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::_rdtsc;
    // SAFETY: only after `choose` found that the process may read it.
    unsafe { _rdtsc() }
}

/// The processor's counter: the time stamp counter, or the virtual timer's count.
#[cfg(target_arch = "aarch64")]
#[inline]
#[must_use]
pub fn counter() -> u64 {
    let count: u64;
    // SAFETY: reads a register that the kernel lets processes read (or reads for them).
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    count
}

/// True if the processor may have a counter that every process may read.
pub(crate) const HAS_COUNTER: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64"));

/// There is no counter that every process may read.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
#[inline]
#[must_use]
pub fn counter() -> u64 {
    boot_ns()
}

/// The counter's value and the boot time of one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The counter's value; boot time if the counter is not used.
    pub tick: u64,
    /// Boot time, ns.
    pub boot_ns: u64,
}

/// True if new segments use the counter.
static USES_COUNTER: AtomicBool = AtomicBool::new(false);
/// True after the counter was wrong once; the process never uses it again.
static COUNTER_IS_BAD: AtomicBool = AtomicBool::new(false);
/// Nanoseconds a tick, as the bits of an f64.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);

/// Ticks between the two reads of the counter for the closest anchor so far; 0 before the first.
static NARROWEST: AtomicU64 = AtomicU64::new(0);

/// Reads an anchor, with the counter or (both the same) without.
pub fn anchor(by_counter: bool) -> Anchor {
    if !by_counter {
        let boot_ns = boot_ns();
        return Anchor { tick: boot_ns, boot_ns };
    }
    let mut best = Anchor { tick: 0, boot_ns: 0 };
    let mut best_width = u64::MAX;
    // ORDERING: Relaxed; a number that publishes nothing.
    let narrowest = NARROWEST.load(Ordering::Relaxed);
    let enough = narrowest.saturating_add(narrowest / 4 + 1);
    // A thread that is interrupted between the reads tries again; the closest pair counts.
    for _ in 0..3 {
        let before = counter();
        let boot_ns = boot_ns();
        let width = counter().wrapping_sub(before);
        if width < best_width {
            best_width = width;
            best = Anchor { tick: before.wrapping_add(width / 2), boot_ns };
        }
        if width <= enough {
            break;
        }
    }
    if best_width < narrowest || narrowest == 0 {
        // ORDERING: as above.
        NARROWEST.store(best_width, Ordering::Relaxed);
    }
    best
}

/// Shortest time from which a counter's rate is taken, ns.
const CALIBRATION_NS: u64 = 300_000;

/// Decides at the start of a recording whether the counter is used. Gives the anchors that it was
/// measured by; `None` when records carry boot time itself. `first` is an earlier anchor, to save
/// waiting for the time that the measurement takes.
pub fn choose(first: Anchor) -> Option<[Anchor; 2]> {
    USES_COUNTER.store(false, Ordering::Relaxed);
    if COUNTER_IS_BAD.load(Ordering::Relaxed) || !can_use_counter() {
        return None;
    }
    while boot_ns().wrapping_sub(first.boot_ns) < CALIBRATION_NS {
        std::hint::spin_loop();
    }
    let second = anchor(true);
    let ns = second.boot_ns.checked_sub(first.boot_ns)?;
    let ticks = second.tick.checked_sub(first.tick)?;
    if !is_rate_of_counters(ticks, ns) || !counter_is_faster() {
        return None;
    }
    NS_PER_TICK.store((as_f64(ns) / as_f64(ticks)).to_bits(), Ordering::Relaxed);
    USES_COUNTER.store(true, Ordering::Relaxed);
    Some([first, second])
}

/// True from 1 MHz to 10 GHz; a steady counter has no other rate.
const fn is_rate_of_counters(ticks: u64, ns: u64) -> bool {
    ticks >= ns / 1000 && ticks <= ns.saturating_mul(10)
}

/// Decides for boot time itself.
pub fn choose_boot() -> Option<[Anchor; 2]> {
    USES_COUNTER.store(false, Ordering::Relaxed);
    None
}

/// An anchor for [`choose`], as early as possible.
pub fn first_anchor() -> Anchor {
    anchor(can_use_counter())
}

/// True if new segments use the counter.
pub fn uses_counter() -> bool {
    // ORDERING: Relaxed; each segment says which clock it has.
    USES_COUNTER.load(Ordering::Relaxed)
}

/// Makes new segments use boot time.
pub(crate) fn leave_counter() {
    COUNTER_IS_BAD.store(true, Ordering::Relaxed);
    USES_COUNTER.store(false, Ordering::Relaxed);
}

/// The process forbids (or has forbidden, or allows again) reading the counter: recording ends.
pub fn forbidden() {
    leave_counter();
    FORBIDDEN.store(true, Ordering::Relaxed);
}

/// True if [`forbidden`] ended a recording.
pub fn was_forbidden() -> bool {
    FORBIDDEN.load(Ordering::Relaxed)
}

static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Returns the number of ticks in this time.
pub(crate) fn ticks_in(ns: u64, by_counter: bool) -> u64 {
    let ns_per_tick = f64::from_bits(NS_PER_TICK.load(Ordering::Relaxed));
    if !by_counter || ns_per_tick <= 0.0 {
        return ns;
    }
    as_u64(as_f64(ns) / ns_per_tick)
}

/// True if two anchors of the counter agree about the time between them, within a thousandth (twice the
/// maximum slew of NTP) plus 100 µs (for delays between two reads).
pub(crate) fn agree(earlier: Anchor, later: Anchor) -> bool {
    let Some(ticks) = later.tick.checked_sub(earlier.tick) else { return false };
    let ns = later.boot_ns.saturating_sub(earlier.boot_ns);
    let expected = as_f64(ticks) * f64::from_bits(NS_PER_TICK.load(Ordering::Relaxed));
    (expected - as_f64(ns)).abs() <= as_f64(ns) / 1000.0 + 100_000.0
}

#[allow(clippy::cast_precision_loss, reason = "53 bits of ns are 104 days")]
const fn as_f64(number: u64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, reason = "saturates")]
#[allow(clippy::cast_sign_loss, reason = "never negative")]
const fn as_u64(number: f64) -> u64 {
    number as u64
}

/// A counter whose reads trap is slower than the vDSO.
fn counter_is_faster() -> bool {
    const READS: u32 = 64;
    let time = |read: fn() -> u64| {
        let start = boot_ns();
        for _ in 0..READS {
            std::hint::black_box(read());
        }
        boot_ns().wrapping_sub(start)
    };
    // The better of three, as a thread may be interrupted.
    let best = |read: fn() -> u64| (0..3).map(|_| time(read)).min().unwrap_or(u64::MAX);
    best(counter) < best(boot_ns)
}

/// True if the processor, the kernel and the process's settings allow the counter.
fn can_use_counter() -> bool {
    HAS_COUNTER && !cfg!(miri) && is_allowed() && processor_counts_evenly() && kernel_trusts_it()
}

/// prctl(PR_SET_TSC) can forbid the instruction; reading then raises SIGSEGV.
pub fn is_allowed() -> bool {
    const PR_GET_TSC: libc::c_int = 25;
    const PR_TSC_ENABLE: libc::c_int = 1;
    let mut setting: libc::c_int = 0;
    let saved = crate::errno::Saved::now();
    // SAFETY: writes an int. Kernels that know no such setting (arm64 up to 6.11) refuse.
    let status = unsafe { libc::prctl(PR_GET_TSC, &raw mut setting) };
    saved.restore();
    status != 0 || setting == PR_TSC_ENABLE
}

/// x86: "invariant TSC", leaf 0x8000_0007, EDX bit 8. Arm's architecture promises it.
fn processor_counts_evenly() -> bool {
    #[cfg(target_arch = "x86")]
    use std::arch::x86::__cpuid;
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::__cpuid;
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    {
        const POWER_LEAF: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & (1 << 8) != 0
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
    true
}

/// The kernel stops using a counter that it found to be unsteady. On Android apps may not read the file; there only the
/// anchors decide.
fn kernel_trusts_it() -> bool {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(FILE) {
        Ok(name) => {
            let name = name.trim();
            ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"].contains(&name)
        }
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_does_not_go_back() {
        let mut last = boot_ns();
        for _ in 0..1_000 {
            let now = boot_ns();
            assert!(now >= last);
            last = now;
        }
        assert!(real_ns() > 1_600_000_000_000_000_000);
    }

    #[test]
    fn a_counter_runs_at_1_mhz_to_10_ghz() {
        let ms = 1_000_000;
        assert_eq!([999, 1_000].map(|ticks| is_rate_of_counters(ticks, ms)), [false, true]);
        assert!(is_rate_of_counters(10 * ms, ms) && !is_rate_of_counters(10 * ms + 1, ms));
    }

    #[test]
    fn anchors_that_a_suspend_or_a_reset_parted_do_not_agree() {
        // 2 ticks a ns.
        NS_PER_TICK.store(0.5f64.to_bits(), Ordering::Relaxed);
        let at = |tick, boot_ns| Anchor { tick, boot_ns };
        let start = at(1_000_000, 5_000_000);
        let second = 1_000_000_000;
        assert!(agree(start, at(1_000_000 + 2 * second, 5_000_000 + second)));
        assert!(agree(start, at(1_000_000 + 2 * second, 5_000_000 + second + second / 2000)));
        // Over a thousandth and 100 µs, either way.
        assert!(agree(start, at(1_000_000 + 2 * second, 5_000_000 + second - second / 1000)));
        assert!(!agree(start, at(1_000_000 + 2 * second, 5_000_000 + second + second / 500)));
        assert!(!agree(start, at(1_000_000 + 2 * second, 5_000_000 + second - second / 500)));
        // The counter stood still for 10 s; it started anew; it runs at half the speed.
        assert!(!agree(start, at(1_000_000 + 2 * second, 5_000_000 + 11 * second)));
        assert!(!agree(start, at(5, 5_000_000 + second)));
        assert!(!agree(start, at(1_000_000 + second, 5_000_000 + second)));
    }
}
