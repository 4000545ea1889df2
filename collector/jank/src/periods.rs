//! The display's refresh period at each time of a trace: displays of several rates switch between them.

use crate::frame_budget::{FrameBudget, rate_of, vsyncs_of_app};
use tracetee_trace::{Trace, last_before};

/// Intervals that a faster rate needs: nothing else makes vsyncs come sooner.
const FASTER_INTERVALS: usize = 3;
/// Intervals that a slower rate needs: an app that draws at every second vsync has such ones too.
const SLOWER_INTERVALS: usize = 10;
/// Slower vsyncs are those of an app that draws seldom, not of a display.
const LEAST_HZ: u64 = 48;

/// Refresh periods by time.
#[derive(Debug)]
pub(crate) struct Periods {
    first_ns: u64,
    /// Time of each switch, and the period from then on.
    switches: Vec<(u64, u64)>,
}

impl Periods {
    /// Finds the periods of a trace whose frames have this budget.
    pub(crate) fn find(trace: &Trace, budget: FrameBudget) -> Self {
        let mut all = Self { first_ns: budget.ns.max(1), switches: Vec::new() };
        let edges = vsyncs_of_app(trace);
        // The rate that a run of intervals may begin, the run's first edge and its length.
        let mut run = (0, 0, 0);
        for pair in edges.windows(2) {
            let &[from_ns, to_ns] = pair else { continue };
            let now_ns = all.switches.last().map_or(all.first_ns, |&(_, ns)| ns);
            let Some(hz) = rate_of(to_ns - from_ns).filter(|&hz| hz >= LEAST_HZ) else { continue };
            let period_ns = FrameBudget::period_ns(hz);
            if period_ns == now_ns {
                run = (0, 0, 0);
                continue;
            }
            run = if run.0 == hz { (hz, run.1, run.2 + 1) } else { (hz, from_ns, 1) };
            let needed = if period_ns < now_ns { FASTER_INTERVALS } else { SLOWER_INTERVALS };
            if run.2 >= needed {
                // Before the first edge nothing is known.
                if edges.first() == Some(&run.1) {
                    all.first_ns = period_ns;
                } else {
                    all.switches.push((run.1, period_ns));
                }
                run = (0, 0, 0);
            }
        }
        all
    }

    /// Returns the period at a time, at least 1 ns.
    pub(crate) fn at(&self, at_ns: u64) -> u64 {
        let last = last_before(&self.switches, |&(from_ns, _)| from_ns <= at_ns);
        last.map_or(self.first_ns, |&(_, ns)| ns)
    }

    /// Returns the number of times at which the display changed its rate.
    pub(crate) const fn switches(&self) -> usize {
        self.switches.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_budget::BudgetSource;
    use tracetee_trace::{Counter, Scope};

    /// Periods of runs of vsyncs: their number and distance in µs.
    fn periods(budget_ns: u64, runs: &[(u64, u64)]) -> Periods {
        let mut trace = Trace::default();
        let name = trace.names.id(b"VSYNC-app");
        let mut at_us = 1_000_000;
        for &(count, us) in runs {
            for _ in 0..count {
                let counter = Counter {
                    thread: 1,
                    pid: 1,
                    name,
                    at_ns: at_us * 1_000,
                    value: 0.0,
                    scope: Scope::Process,
                };
                trace.counters.push(counter);
                at_us += us;
            }
        }
        Periods::find(&trace, FrameBudget { ns: budget_ns, source: BudgetSource::Vsync })
    }

    #[test]
    fn a_faster_rate_needs_three_intervals_and_a_slower_one_ten() {
        const HZ_60: (u64, u64) = (16_667, 16_666_667);
        const HZ_120: (u64, u64) = (8_333, 8_333_333);
        for (budget, runs, expected) in [
            (HZ_60, [(20, HZ_60), (2, HZ_120), (20, HZ_60)], vec![HZ_60]),
            (HZ_60, [(20, HZ_60), (3, HZ_120), (9, HZ_60)], vec![HZ_60, HZ_120]),
            (HZ_120, [(20, HZ_120), (9, HZ_60), (20, HZ_120)], vec![HZ_120]),
            (HZ_120, [(20, HZ_120), (10, HZ_60), (20, HZ_120)], vec![HZ_120, HZ_60, HZ_120]),
            // An app that draws at 30 Hz changes no display; the trace may begin at another rate than most of it has.
            (HZ_60, [(20, HZ_60), (40, (33_333, 0)), (20, HZ_60)], vec![HZ_60]),
            (HZ_60, [(20, HZ_120), (40, HZ_60), (0, HZ_60)], vec![HZ_120, HZ_60]),
        ] {
            let of_runs: Vec<_> = runs.iter().map(|&(count, (us, _))| (count, us)).collect();
            let found = periods(budget.1, &of_runs);
            let mut all = vec![found.first_ns];
            all.extend(found.switches.iter().map(|&(_, ns)| ns));
            let expected: Vec<_> = expected.into_iter().map(|(_, ns)| ns).collect();
            assert_eq!(all, expected, "{of_runs:?}");
        }
        // The switch is at the first vsync of the new distance.
        let found = periods(8_333_333, &[(10, 8_333), (20, 16_667)]);
        let switch_ns = (1_000_000 + 10 * 8_333) * 1_000;
        assert_eq!(found.switches, [(switch_ns, 16_666_667)]);
        assert_eq!((found.at(switch_ns - 1), found.at(switch_ns)), (8_333_333, 16_666_667));
    }
}
