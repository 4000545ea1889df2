//! Turns the counter's ticks into boot time, by the anchors that a pool holds.
//!
//! The map is one for the whole process and made of straight lines between anchors, so records of different threads keep the
//! order that the counter gave them. Anchors that are close together would give lines of extreme slope (each is off by some
//! ten ns), so only one per [`SPACING_NS`] is used. If two neighbours disagree with the rate of the rest, the counter stood
//! still or jumped between them: times before the second one are then computed from the first, and the jump is counted.

use crate::clock::Anchor;

/// Distance of the anchors that are used, ns.
const SPACING_NS: u64 = 10_000_000;

/// A pool's map.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeMap {
    /// Anchors, in order of ticks and of boot time.
    anchors: Vec<Anchor>,
    /// Rates from each anchor to the next.
    rates: Vec<f64>,
    ns_per_tick: f64,
    /// Neighbours that disagree.
    pub jumps: u64,
}

impl TimeMap {
    /// Makes a map of anchors in any order; `header` has the two calibration anchors of the pool's header.
    pub(crate) fn new(header: [u64; 4], mut anchors: Vec<Anchor>) -> Self {
        let [tick, boot_ns, second_tick, second_boot_ns] = header;
        let first = Anchor { tick, boot_ns };
        let second = Anchor { tick: second_tick, boot_ns: second_boot_ns };
        let mut map = Self {
            anchors: vec![first],
            rates: Vec::new(),
            ns_per_tick: slope(first, second),
            jumps: 0,
        };
        anchors.push(second);
        anchors.sort_unstable_by_key(|anchor| anchor.tick);
        for anchor in anchors {
            map.push(anchor);
        }
        // The longest line is the most accurate, if it is uninterrupted.
        if let (Some(&first), Some(&last)) = (map.anchors.first(), map.anchors.last())
            && map.jumps == 0
            && last.boot_ns.saturating_sub(first.boot_ns) > SPACING_NS
        {
            map.ns_per_tick = slope(first, last);
        }
        let lines = map.anchors.iter().zip(map.anchors.iter().skip(1));
        map.rates = lines.map(|(&before, &after)| map.rate(slope(before, after))).collect();
        map
    }

    /// The rate to use if the line between two anchors has this rate.
    fn rate(&self, line: f64) -> f64 {
        let usual = (line / self.ns_per_tick - 1.0).abs() < 0.001;
        if usual { line } else { self.ns_per_tick }
    }

    /// Takes a later anchor, if it improves the map.
    fn push(&mut self, anchor: Anchor) {
        let Some(&last) = self.anchors.last() else { return };
        let (Some(ticks), Some(ns)) =
            (anchor.tick.checked_sub(last.tick), anchor.boot_ns.checked_sub(last.boot_ns))
        else {
            return;
        };
        if ns < SPACING_NS {
            return;
        }
        let expected = scaled(ticks, self.ns_per_tick);
        // As in `clock::agree`: a thousandth, and 100 µs.
        self.jumps += u64::from(expected.abs_diff(ns) > ns / 1000 + 100_000);
        self.anchors.push(anchor);
    }

    /// The boot time of `tick`.
    pub(crate) fn ns(&self, tick: u64) -> u64 {
        // Most records are after the last anchor.
        let next = match self.anchors.last() {
            Some(last) if last.tick <= tick => self.anchors.len(),
            _ => self.anchors.partition_point(|anchor| anchor.tick <= tick),
        };
        let Some(&before) = next.checked_sub(1).and_then(|index| self.anchors.get(index)) else {
            // Before the first anchor.
            let Some(first) = self.anchors.first() else { return tick };
            return first.boot_ns.saturating_sub(scaled(first.tick - tick, self.ns_per_tick));
        };
        let ticks = tick - before.tick;
        let Some(&after) = self.anchors.get(next) else {
            return before.boot_ns.saturating_add(scaled(ticks, self.ns_per_tick));
        };
        let rate = self.rates.get(next - 1).copied().unwrap_or(self.ns_per_tick);
        before.boot_ns.saturating_add(scaled(ticks, rate)).min(after.boot_ns)
    }
}

#[allow(clippy::cast_precision_loss, reason = "differences below 2^53")]
fn slope(from: Anchor, to: Anchor) -> f64 {
    let ticks = to.tick.saturating_sub(from.tick).max(1);
    to.boot_ns.saturating_sub(from.boot_ns) as f64 / ticks as f64
}

#[allow(clippy::cast_precision_loss, reason = "differences below 2^53")]
#[allow(clippy::cast_possible_truncation, reason = "saturates")]
#[allow(clippy::cast_sign_loss, reason = "never negative")]
fn scaled(ticks: u64, ns_per_tick: f64) -> u64 {
    (ticks as f64 * ns_per_tick) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000_000_000;

    fn at(ms: u64, ticks_per_ms: u64) -> Anchor {
        Anchor { tick: 500 + ms * ticks_per_ms, boot_ns: START + ms * 1_000_000 }
    }

    fn header() -> [u64; 4] {
        let second = at(5, 3_000_000);
        [500, START, second.tick, second.boot_ns]
    }

    #[test]
    fn ticks_between_before_and_behind_the_anchors_follow_the_line() {
        let map = TimeMap::new(header(), vec![at(100, 3_000_000), at(400, 3_000_000)]);
        for ms in [0, 1, 50, 250, 1000] {
            let ns = map.ns(at(ms, 3_000_000).tick);
            assert!(ns.abs_diff(START + ms * 1_000_000) < 100, "{ms} ms: {ns}");
        }
        assert!(map.ns(0) < START);
        assert_eq!(map.jumps, 0);
    }

    #[test]
    fn a_suspend_in_which_the_counter_stood_still_shifts_what_follows_and_is_counted() {
        // 100 ms, then 20 s of suspend, then 100 ms more.
        let late = |ms: u64| Anchor {
            tick: 500 + ms * 3_000_000,
            boot_ns: START + (20_000 + ms) * 1_000_000,
        };
        let map = TimeMap::new(header(), vec![at(100, 3_000_000), late(110), late(200)]);
        assert_eq!(map.jumps, 1);
        assert!(map.ns(500 + 101 * 3_000_000).abs_diff(START + 101_000_000) < 1_000);
        assert!(map.ns(500 + 150 * 3_000_000).abs_diff(START + 20_150_000_000) < 1_000);
    }

    #[test]
    fn of_anchors_that_are_less_than_10_ms_apart_one_is_used() {
        let near = [9, 10, 15, 19, 20].map(|ms| at(ms, 3_000_000));
        let map = TimeMap::new(header(), near.to_vec());
        let used: Vec<u64> = map.anchors.iter().map(|anchor| anchor.boot_ns).collect();
        assert_eq!(used, [0, 10, 20].map(|ms| START + ms * 1_000_000));
    }

    /// The map of a second in which boot time ran ahead of the counter.
    fn ahead_by(us: u64) -> TimeMap {
        let exact = at(1_000, 3_000_000);
        TimeMap::new(header(), vec![Anchor { boot_ns: exact.boot_ns + us * 1_000, ..exact }])
    }

    #[test]
    fn an_anchor_that_is_off_by_more_than_a_thousandth_and_100_us_is_a_jump() {
        assert_eq!((ahead_by(1_050).jumps, ahead_by(1_200).jumps), (0, 1));
    }

    #[test]
    fn a_line_is_followed_if_its_rate_is_within_a_thousandth_of_the_usual_one() {
        let half = at(500, 3_000_000);
        assert!(ahead_by(900).ns(half.tick).abs_diff(half.boot_ns + 450_000) < 1_000);
        // The counter ran at its usual rate until it stood still.
        assert!(ahead_by(5_000).ns(half.tick).abs_diff(half.boot_ns) < 1_000);
    }

    proptest::proptest! {
        #[test]
        fn the_order_of_ticks_is_the_order_of_times(
            anchors: Vec<(u32, u32)>,
            mut ticks: Vec<u32>,
            calibration: [u32; 4],
        ) {
            let anchors = anchors.into_iter()
                .map(|(tick, ns)| Anchor { tick: u64::from(tick) * 9, boot_ns: u64::from(ns) * 9 })
                .collect();
            let map = TimeMap::new(calibration.map(u64::from), anchors);
            ticks.sort_unstable();
            let mut last = 0;
            for tick in ticks {
                let ns = map.ns(u64::from(tick) * 9);
                proptest::prop_assert!(ns >= last);
                last = ns;
            }
        }
    }
}
