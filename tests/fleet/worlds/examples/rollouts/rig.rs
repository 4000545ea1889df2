//! Runs a guard, which looks each day, and a comparison over rollouts of a scenario, on all processors.

use crate::adapter::{self, Compared, Said};
use statrs::distribution::{Beta, ContinuousCDF};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tracetee_worlds::{RELEASE_DAYS, Rollout, Scenario};

/// Days after the release; the guard looks at the end of each.
pub(crate) const DAYS: i64 = 14;

/// Outcomes of many rollouts of a scenario.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcomes {
    /// Rollouts.
    pub(crate) rollouts: u64,
    /// Those in which the guard said stop at any look.
    pub(crate) stops: u64,
    /// Those in which it said go at any look, and never stop.
    pub(crate) goes: u64,
    /// Those in which it ended with "cannot know", or was never sure.
    pub(crate) unsure: u64,
    /// Those in which the comparison found anything that is worse, or better, without being so.
    pub(crate) false_worse: u64,
    /// See `false_worse`.
    pub(crate) false_better: u64,
    /// Those in which the comparison found that what is worse, or all jank with it.
    pub(crate) found: u64,
    /// Those in which the comparison could not compare a part.
    pub(crate) unknown: u64,
    /// Those in which a search among the versions found a change.
    pub(crate) changed: u64,
    /// Sum of the days of the first stops.
    pub(crate) stop_days: u64,
}

impl Outcomes {
    /// Alarms of the comparison that are false.
    pub(crate) fn false_alarms(&self) -> u64 {
        self.false_worse + self.false_better
    }

    fn count(&mut self, rollout: &Rollout, said: &[Said], compared: &Compared) {
        self.rollouts += 1;
        let is_stopped = said.contains(&Said::Stop);
        self.stops += u64::from(is_stopped);
        let first = said.iter().position(|said| *said == Said::Stop);
        self.stop_days += first.map_or(0, |day| day as u64 + 1);
        self.goes += u64::from(!is_stopped && said.contains(&Said::Go));
        self.unsure += u64::from(!is_stopped && !said.contains(&Said::Go));
        let of_key = |key: &String| rollout.series.iter().position(|series| series.key == key);
        let factors = &rollout.truth.factors;
        let is_any =
            factors.iter().any(|factor| *factor > 1.0) || !rollout.truth.more_deaths.is_empty();
        let is_new = |key: &String| {
            of_key(key).is_some_and(|index| {
                rollout
                    .truth
                    .later_screens
                    .iter()
                    .any(|screen| rollout.screens[*screen] == rollout.series[index].screen)
            })
        };
        let is_true = |key: &String| {
            let is_all = key.is_empty() && (is_any || !rollout.truth.later_screens.is_empty());
            let is_death = rollout.truth.more_deaths == key && !key.is_empty();
            is_all
                || is_death
                || is_new(key)
                || of_key(key).is_some_and(|index| factors[index] > 1.0)
        };
        let is_false = compared.worse.iter().any(|key| !is_true(key));
        self.false_worse += u64::from(is_false);
        self.false_better += u64::from(!is_false && !compared.better.is_empty());
        self.found += u64::from(compared.worse.iter().any(is_true));
        self.unknown += u64::from(compared.is_unknown);
    }

    fn add(&mut self, other: &Self) {
        self.rollouts += other.rollouts;
        self.stops += other.stops;
        self.goes += other.goes;
        self.unsure += other.unsure;
        self.false_worse += other.false_worse;
        self.false_better += other.false_better;
        self.found += other.found;
        self.unknown += other.unknown;
        self.changed += other.changed;
        self.stop_days += other.stop_days;
    }
}

/// Runs rollouts with some seeds.
pub(crate) fn run(scenario: &Scenario, seeds: Range<u64>, devices: usize) -> Outcomes {
    let (next, outcomes) = (AtomicU64::new(seeds.start), Mutex::new(Outcomes::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Outcomes::default();
                loop {
                    // ORDERING: Relaxed; a number that no other thread gets.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let releases = scenario.releases;
                    let days = DAYS + RELEASE_DAYS * (releases as i64 - 1);
                    let rollout = scenario.rollout(seed, devices, days);
                    if releases > 1 {
                        own.rollouts += 1;
                        own.changed += u64::from(adapter::changes(&rollout, releases) > 0);
                        continue;
                    }
                    let look = |day| adapter::look(&rollout, day);
                    let said: Vec<Said> = (0..DAYS).map(look).collect();
                    own.count(&rollout, &said, &adapter::compared(&rollout));
                }
                outcomes.lock().unwrap().add(&own);
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// Returns the upper bound of a probability that showed itself in `count` of `all` cases, with a confidence of 95 % (Clopper
/// and Pearson).
pub(crate) fn upper_bound(count: u64, all: u64) -> f64 {
    if count >= all {
        return 1.0;
    }
    Beta::new(count as f64 + 1.0, (all - count) as f64).unwrap().inverse_cdf(0.95)
}
