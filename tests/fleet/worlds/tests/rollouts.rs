//! A few rollouts of some scenarios, so that a statistic that a world fools is noticed. The example `rollouts` runs all
//! scenarios, and as many rollouts as claims need.

#[path = "../examples/rollouts/adapter.rs"]
mod adapter;
#[path = "../examples/rollouts/rig.rs"]
mod rig;

use rig::{Outcomes, run, upper_bound};
use tracetee_worlds::{Expected, scenarios};

const ROLLOUTS: u64 = if cfg!(debug_assertions) { 3 } else { 10 };
/// Scenarios of the same code that must raise no alarm.
const SILENT: [&str; 4] = ["push-130", "first-day-130", "drift-down-25", "garbage"];

fn outcomes(name: &str, expected: Expected, devices: usize) -> Outcomes {
    let scenario = scenarios().into_iter().find(|scenario| scenario.name == name).unwrap();
    assert_eq!(scenario.expected, expected, "{name}");
    let outcomes = run(&scenario, 0..ROLLOUTS, devices);
    println!("{name}: {outcomes:?}");
    outcomes
}

#[test]
fn the_same_code_raises_no_alarm_whatever_changes_with_the_calendar() {
    for name in SILENT {
        let found = outcomes(name, Expected::Same, 2500);
        assert_eq!((found.stops, found.false_alarms()), (0, 0), "{name}");
    }
}

#[test]
fn a_worse_version_is_found_though_everything_became_faster() {
    let found = outcomes("inflate-120-push-85", Expected::Worse, 5000);
    assert_eq!(found.false_alarms(), 0, "{found:?}");
    assert!(found.found.min(found.stops) * 10 >= ROLLOUTS * 9, "{found:?}");
}

#[test]
fn the_same_code_gets_a_go_of_enough_devices() {
    let scenario = scenarios().into_iter().find(|scenario| scenario.name == "null").unwrap();
    for seed in 0..ROLLOUTS {
        let rollout = scenario.rollout(seed, 10_000, rig::DAYS);
        assert_eq!(adapter::look(&rollout, rig::DAYS), adapter::Said::Go, "{seed}");
    }
}

#[test]
fn a_search_among_versions_of_the_same_code_finds_none() {
    let mut scenario =
        scenarios().into_iter().find(|scenario| scenario.name == "push-130").unwrap();
    scenario.releases = 3;
    let found = run(&scenario, 0..ROLLOUTS, 1000);
    assert_eq!((found.rollouts, found.changed), (ROLLOUTS, 0));
}

#[test]
fn of_a_version_with_a_screen_of_its_own_nobody_says_that_it_is_the_same() {
    let found = outcomes("new-screen", Expected::Unknown, 2500);
    assert_eq!((found.unknown + found.found, found.goes), (ROLLOUTS, 0), "{found:?}");
}

#[test]
fn the_bound_of_no_alarm_in_300_rollouts_is_one_percent() {
    let bound = |count, all| (upper_bound(count, all) * 1e4).round() / 1e4;
    // 1 - 0.05^(1/300); tables of Clopper and Pearson.
    assert_eq!(bound(0, 300), 0.0099);
    assert_eq!(bound(1, 20), 0.2161);
    assert_eq!(bound(20, 20), 1.0);
}
