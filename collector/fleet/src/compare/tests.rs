//! Comparisons of simulated rollouts: none raises an alarm without a change, and a small change is found.

mod simulated;

use super::estimate::{Estimate, estimates, pairs, strata};
use super::*;
use crate::report::comparison::{Comparison, Verdict, comparison};
use fastrand::Rng;
use simulated::{Change, Class, Fleet};

const FAST: usize = 0;
const SLOW: usize = 1;
const ROLLOUTS: u64 = 200;

fn fleet() -> Fleet {
    let classes = vec![Class { quick_ms: 3.0, causes: 1.0 }, Class { quick_ms: 8.0, causes: 3.0 }];
    Fleet { classes, frames: 60, spread: 0.5, change: None }
}

/// A rollout: devices of each version that are slow (percent), and how fast the later version's devices are besides.
#[derive(Clone, Copy)]
struct Rollout {
    /// Devices of each version that sent only that.
    single: u64,
    /// Devices that sent both.
    paired: u64,
    slow_percent: [u64; 2],
    /// Factor of the times of devices that sent the later version.
    speed: f64,
}

impl Rollout {
    fn run(self, fleet: &Fleet, seed: u64) -> Observations {
        let mut rng = Rng::with_seed(seed);
        let mut collected = Collected::default();
        let mut number = 0;
        for (side, speed) in [(Side::From, 1.0), (Side::To, self.speed)] {
            for _ in 0..self.single {
                number += 1;
                let class = self.class(&mut rng, side);
                let device = fleet.device(&mut rng, number, class, speed);
                fleet.send(&mut rng, &device, side, &mut collected);
            }
        }
        for _ in 0..self.paired {
            number += 1;
            let class = self.class(&mut rng, Side::To);
            let device = fleet.device(&mut rng, number, class, self.speed);
            fleet.send(&mut rng, &device, Side::From, &mut collected);
            fleet.send(&mut rng, &device, Side::To, &mut collected);
        }
        collected.arrange(&Rules::default())
    }

    fn class(self, rng: &mut Rng, side: Side) -> usize {
        if rng.u64(0..100) < self.slow_percent[side.place()] { SLOW } else { FAST }
    }
}

fn is_alarm(comparison: &Comparison) -> bool {
    comparison.rows.iter().any(|row| matches!(row.verdict, Verdict::Worse | Verdict::Better))
}

/// Null rollouts that raise any alarm; each has enough devices for a verdict.
fn alarms(rollout: Rollout) -> usize {
    let fleet = fleet();
    let compared =
        (0..ROLLOUTS).map(|seed| comparison("2.0", "2.1", &rollout.run(&fleet, 7000 + seed)));
    compared
        .filter(|comparison| {
            let verdict = comparison.rows[0].verdict;
            assert!(!matches!(verdict, Verdict::TooFew | Verdict::NotCompared), "{comparison:?}");
            is_alarm(comparison)
        })
        .count()
}

const SHIFTED: Rollout = Rollout { single: 300, paired: 0, slow_percent: [20, 80], speed: 1.0 };

#[test]
fn a_shift_of_the_mix_raises_no_alarm() {
    // As seen, the later version is far worse.
    let observations = SHIFTED.run(&fleet(), 1);
    let comparison = comparison("2.0", "2.1", &observations);
    assert!(comparison.is_mix_different, "{comparison:?}");
    let found = alarms(SHIFTED);
    println!("mix 80/20 to 20/80: {found} of {ROLLOUTS}");
    assert!(found <= 2, "{found}");
}

#[test]
fn the_same_mix_raises_no_alarm_with_pairs_and_without() {
    for paired in [0, 100, 400] {
        let found = alarms(Rollout { single: 300, paired, slow_percent: [30, 30], speed: 1.0 });
        println!("same mix, {paired} pairs: {found} of {ROLLOUTS}");
        assert!(found <= 2, "{paired} pairs: {found}");
    }
}

#[test]
fn early_adopters_that_are_twice_as_fast_raise_no_alarm() {
    // Fast models adopt first; then, devices that are twice as fast as others of their model.
    for (slow_percent, speed) in [([50, 10], 1.0), ([50, 50], 0.5)] {
        let found = alarms(Rollout { single: 300, paired: 100, slow_percent, speed });
        println!("early adopters, {slow_percent:?}, {speed}: {found} of {ROLLOUTS}");
        assert!(found <= 2, "{slow_percent:?} {speed}: {found}");
    }
}

fn found(rollout: Rollout, factor: f64, rollouts: u64) -> usize {
    let change = Change { screen: "Feed", cause: "inflate", factor };
    let fleet = Fleet { change: Some(change), frames: 300, ..fleet() };
    let compared = (0..rollouts).map(|seed| comparison("2.0", "2.1", &rollout.run(&fleet, seed)));
    compared
        .filter(|comparison| {
            let worse = comparison.rows.iter().filter(|row| row.verdict == Verdict::Worse);
            let mut worse = worse.filter_map(|row| row.cause.as_deref());
            worse.next() == Some("inflate") && worse.next().is_none()
        })
        .count()
}

#[test]
fn five_percent_in_one_cause_of_one_screen_are_found_by_pairs() {
    let rollout = Rollout { single: 0, paired: 3000, slow_percent: [30, 30], speed: 1.0 };
    let found = found(rollout, 1.05, 20);
    assert!(found >= 18, "{found} of 20");
}

#[test]
fn a_regression_is_found_through_a_shift_of_the_mix() {
    let found = found(SHIFTED, 1.6, 20);
    assert!(found >= 18, "{found} of 20");
}

#[test]
fn the_error_of_strata_is_that_of_random_versions() {
    // A cause that few devices have, in groups of different sizes.
    let mut rng = Rng::with_seed(3);
    let value = |rng: &mut Rng| if rng.u8(0..20) == 0 { 1.0 + rng.f64() } else { 0.0 };
    let all: Vec<f64> = (0..400).map(|_| value(&mut rng)).collect();
    let observations = |versions: &[Side]| {
        let mut collected = Collected::default();
        for (number, (side, value)) in versions.iter().zip(&all).enumerate() {
            let traits = Traits { model: "a".into(), quick_ns: 3_000_000, ..Traits::default() };
            collected.device(*side, &number.to_string(), traits);
            for screen in ["Feed", "Detail"] {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                collected.frames(screen, 1000, (value * 1e6) as u64);
            }
        }
        collected.arrange(&Rules::default())
    };
    let mut versions = vec![Side::From; 360];
    versions.resize(400, Side::To);
    let shown = |versions: &[Side]| -> Estimate { estimates(&observations(versions))[0] };
    let (mut squares, mut cubes, count) = (0.0, 0.0, 3000);
    for _ in 0..count {
        rng.shuffle(&mut versions);
        let difference = shown(&versions).both.difference();
        squares += difference.powi(2) / f64::from(count);
        cubes += difference.powi(3) / f64::from(count);
    }
    let stated = shown(&versions).both;
    assert!((stated.variance / squares - 1.0).abs() < 0.1, "{stated:?} {squares}");
    assert!((stated.third_moment() / cubes - 1.0).abs() < 0.5, "{stated:?} {cubes}");
    assert!(cubes > 0.0);
}

#[test]
fn a_pair_is_compared_on_the_screens_that_it_has_under_both_versions() {
    let mut collected = Collected::default();
    for number in 0..25 {
        for side in [Side::From, Side::To] {
            collected.device(side, &number.to_string(), Traits::default());
            collected.frames("Feed", 100, 1_000_000);
            if side == Side::To && number == 0 {
                collected.frames("Detail", 100, 900_000_000);
            }
            if side == Side::From && number == 1 {
                collected.frames("Detail", 50, 0);
            }
        }
    }
    let observations = collected.arrange(&Rules::default());
    assert_eq!((observations.paired.len(), observations.strata.len()), (25, 0));
    assert_eq!(observations.compared(), [25, 25]);
    for pair in observations.pairs(0) {
        assert!((pair.old - pair.new).abs() < 1e-9 && (pair.old - 10.0).abs() < 1e-9, "{pair:?}");
    }
    assert!(pairs(&observations.pairs(0)).unwrap().variance <= 0.0);
    assert!(strata(&observations, &[]).is_none());
}

#[test]
fn devices_without_a_counterpart_are_not_compared_and_counted_by_reason() {
    let mut collected = Collected::default();
    let device = |collected: &mut Collected, side, name: String, model: &str, is_test| {
        let traits =
            Traits { model: model.into(), quick_ns: 3_000_000, is_test, ..Traits::default() };
        collected.device(side, &name, traits);
        collected.frames("Feed", 100, 1);
    };
    for number in 0..5 {
        for (side, name) in [(Side::From, "old"), (Side::To, "new")] {
            device(&mut collected, side, format!("{name} {number}"), "known", false);
        }
        device(&mut collected, Side::To, format!("unseen {number}"), "unseen", false);
        device(&mut collected, Side::From, format!("unknown {number}"), "", false);
        device(&mut collected, Side::To, format!("test {number}"), "known", true);
    }
    let slow = Traits { model: "known".into(), quick_ns: 30_000_000, ..Traits::default() };
    collected.device(Side::To, "slow", slow);
    collected.frames("Feed", 100, 1);
    let observations = collected.arrange(&Rules::default());
    assert_eq!((observations.sent, observations.stratified), ([10, 11], [5, 5]));
    let left_out = observations.not_compared;
    assert_eq!((left_out.unknown_model, left_out.unseen_model), ([5, 0], [0, 5]));
    assert_eq!((left_out.without_likeness, left_out.test_devices), ([0, 1], [0, 5]));
    let weights: f64 = observations.strata.iter().map(|stratum| stratum.weight).sum();
    assert!((weights - 1.0).abs() < 1e-9);
}
