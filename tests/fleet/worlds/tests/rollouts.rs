//! A few rollouts of some scenarios, so that a statistic that a world fools is noticed. The example `rollouts` runs all
//! scenarios, and as many rollouts as claims need.

#[path = "../examples/rollouts/adapter.rs"]
mod adapter;
#[path = "../examples/rollouts/rig.rs"]
mod rig;

use rig::{Outcomes, run, upper_bound};
use tracetee_worlds::{Expected, scenarios};

const ROLLOUTS: u64 = if cfg!(debug_assertions) { 3 } else { 10 };
const DEVICES: usize = 2500;
/// Scenarios of the same code that must raise no alarm.
const SILENT: [&str; 2] = ["null", "wrong-clocks"];
/// Scenarios in which the later version is worse, which must be found.
const FOUND: [&str; 1] = ["inflate-120"];

fn outcomes(name: &str, expected: Expected) -> Outcomes {
    let scenario = scenarios().into_iter().find(|scenario| scenario.name == name).unwrap();
    assert_eq!(scenario.expected, expected, "{name}");
    let outcomes = run(&scenario, ROLLOUTS, DEVICES);
    println!("{name}: {outcomes:?}");
    outcomes
}

#[test]
fn the_same_code_raises_no_alarm() {
    for name in SILENT {
        let found = outcomes(name, Expected::Same);
        assert_eq!((found.stops, found.false_alarms()), (0, 0), "{name}");
    }
}

#[test]
fn a_worse_version_is_found_and_stopped() {
    for name in FOUND {
        let found = outcomes(name, Expected::Worse);
        assert_eq!((found.found, found.false_alarms()), (ROLLOUTS, 0), "{name}");
        assert!(found.stops * 10 >= ROLLOUTS * 9, "{name}: {found:?}");
    }
}

#[test]
fn the_bound_of_no_alarm_in_300_rollouts_is_one_percent() {
    let bound = |count, all| (upper_bound(count, all) * 1e4).round() / 1e4;
    // 1 - 0.05^(1/300); tables of Clopper and Pearson.
    assert_eq!(bound(0, 300), 0.0099);
    assert_eq!(bound(1, 20), 0.2161);
    assert_eq!(bound(20, 20), 1.0);
}
