//! Computes the share of a processor that recording takes, and compares it with the budget.
//!
//! A dropped record costs the app as much as a kept one: both count.

use std::collections::VecDeque;
use tracetee_protocol::json::Decimal;

/// The span of time that the share is of, ms.
const SPAN_MS: u64 = 10_000;
/// The least time before there is a share, ms: the start of a window is not typical.
const FIRST_MS: u64 = 3_000;

#[derive(Debug, Clone, Copy)]
struct Sample {
    boot_ms: u64,
    /// Kept or dropped.
    records: u64,
    our_ns: u64,
}

/// The account of one recording.
#[derive(Debug, Default)]
pub(crate) struct Overhead {
    /// Cost of a record in ns, as measured on this device.
    pub(crate) ns_per_record: Decimal,
    samples: VecDeque<Sample>,
}

impl Overhead {
    pub(crate) fn new(ns_per_record: Decimal) -> Self {
        Self { ns_per_record, samples: VecDeque::new() }
    }

    /// Begins with a new recording.
    pub(crate) fn restart(&mut self) {
        self.samples.clear();
    }

    /// Takes the totals up to now: records kept and dropped since the recording's start, and the
    /// processor time of our threads, ns.
    pub(crate) fn note(&mut self, boot_ms: u64, kept: u64, dropped: u64, our_ns: u64) {
        let records = kept.saturating_add(dropped);
        self.samples.push_back(Sample { boot_ms, records, our_ns });
        // The oldest that is kept is just older than the span.
        while self.samples.get(1).is_some_and(|second| second.boot_ms + SPAN_MS < boot_ms) {
            self.samples.pop_front();
        }
    }

    /// The share of one processor, percent; `None` before enough was seen.
    pub(crate) fn percent(&self) -> Option<Decimal> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let ms = last.boot_ms.saturating_sub(first.boot_ms);
        if ms < FIRST_MS {
            return None;
        }
        let records = last.records.saturating_sub(first.records);
        let ours_ns = last.our_ns.saturating_sub(first.our_ns);
        let ns = self.ns_per_record.of(records).saturating_add(ours_ns);
        // A hundredth of a millisecond, in ns, is 1 % of it.
        Some(Decimal::ratio(ns, ms.saturating_mul(10_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_the_last_ten_seconds() {
        let mut overhead = Overhead::new(Decimal::whole(100));
        overhead.note(0, 0, 0, 0);
        overhead.note(2_000, 20_000, 0, 0);
        assert_eq!(overhead.percent(), None);
        // 100,000 records a second of 100 ns are 1 %, and 10 ms of ours in a second another.
        for second in 0..=30u64 {
            overhead.note(second * 1000, second * 100_000, 0, second * 10_000_000);
        }
        assert_eq!(overhead.percent(), Some(Decimal::whole(2)));
        for second in 31..=45u64 {
            overhead.note(second * 1000, 3_000_000, 0, 300_000_000);
        }
        assert_eq!(overhead.percent(), Some(Decimal::ZERO));
    }
    #[test]
    fn a_dropped_record_costs_as_much_as_a_kept_one() {
        let mut overhead = Overhead::new(Decimal::whole(100));
        // The recorder is full after a second; the app writes on.
        for second in 0..=10u64 {
            let kept = second.min(1) * 100_000;
            overhead.note(second * 1000, kept, second * 100_000 - kept, 0);
        }
        assert_eq!(overhead.percent(), Some(Decimal::whole(1)));
    }
}
