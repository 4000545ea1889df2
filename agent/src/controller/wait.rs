//! A wait of the agent's thread: when it takes much longer than intended, the process stood still.
//!
//! A signal, the cached-app freezer and a suspend stop all threads, this one too. A thread that only finds no processor is
//! runnable in that time, which the kernel counts: such a wait is not a stop.

use std::time::Duration;
use tracetee_recorder::clock;

/// Minimum duration that counts: the scheduler causes shorter ones.
const LEAST_NS: u64 = 500_000_000;

/// A wait that has begun.
#[derive(Debug)]
pub(crate) struct Wait {
    since_ns: u64,
    delayed_ns: Option<u64>,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        Self { since_ns: clock::boot_ns(), delayed_ns: delayed_ns() }
    }

    /// Returns the boot times between which the process stood still, if the wait should have taken no longer than this.
    pub(crate) fn stood_still(&self, longest: Duration) -> Option<(u64, u64)> {
        let to_ns = clock::boot_ns();
        // Most waits end in time, and do not need the kernel's count.
        still(self.since_ns, to_ns, longest, 0)?;
        let delayed_ns = delayed_ns()?.saturating_sub(self.delayed_ns?);
        still(self.since_ns, to_ns, longest, delayed_ns)
    }
}

/// Judges a wait between two boot times, of which the thread was runnable for `delayed_ns`.
fn still(from_ns: u64, to_ns: u64, longest: Duration, delayed_ns: u64) -> Option<(u64, u64)> {
    let longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
    let from_ns = from_ns.saturating_add(longest_ns);
    let over_ns = to_ns.saturating_sub(from_ns);
    (over_ns.saturating_sub(delayed_ns) >= LEAST_NS).then_some((from_ns, to_ns))
}

/// Time for which this thread was runnable and had no processor; `None` if the kernel does not count it.
fn delayed_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_overran_without_being_runnable_is_a_stop() {
        let ms = |ms: u64| ms * 1_000_000;
        let pause = Duration::from_millis(250);
        assert_eq!(still(ms(0), ms(300), pause, 0), None);
        assert_eq!(still(ms(0), ms(7_250), pause, ms(1)), Some((ms(250), ms(7_250))));
        assert_eq!(still(ms(0), ms(7_250), pause, ms(6_900)), None, "no processor was free");
        assert!(delayed_ns().is_some());
    }
}
