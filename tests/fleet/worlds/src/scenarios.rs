//! The scenarios that a statistic is judged by: worlds without a change, and worlds with one.

use crate::{DateEffect, World};

/// The right answer about a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The versions are the same: no alarm.
    Same,
    /// The later version is worse.
    Worse,
    /// A part cannot be compared: "cannot know", or worse.
    Unknown,
}

/// A world, and what else a rollout needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name.
    pub name: &'static str,
    /// The right answer.
    pub expected: Expected,
    /// Knobs.
    pub world: World,
    /// Mean time from the release to a device's update, days.
    pub adoption_days: f64,
    /// Mean share of a device's days of which it sends captures.
    pub activity: f64,
    /// Number of releases after the first version, each `RELEASE_DAYS` after the previous one. More than one are of no use
    /// for a guard, and of much for a search among all versions.
    pub releases: usize,
    /// Version from which on the change is there: 1 is the first release.
    pub changed_in: usize,
    /// Key of the cause that the later version changes; empty: all causes.
    pub changed: &'static str,
    /// Factor of its time under the later version.
    pub change: f64,
    /// Reason of ends of processes whose number the later version multiplies, and the factor.
    pub more_deaths: (&'static str, f64),
}

impl Default for Scenario {
    fn default() -> Self {
        let world = World { newcomers_percent: 15, spread_percent: 40, ..World::default() };
        Self {
            name: "null",
            expected: Expected::Same,
            world,
            adoption_days: 5.0,
            activity: 0.25,
            releases: 1,
            changed_in: 1,
            changed: "",
            change: 1.0,
            more_deaths: ("", 1.0),
        }
    }
}

/// Returns all scenarios: first those of the same code in both versions.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let same = |name, turn: &dyn Fn(&mut World)| {
        let mut scenario = Scenario { name, ..Scenario::default() };
        turn(&mut scenario.world);
        scenario
    };
    let worse = |name, changed, change, turn: &dyn Fn(&mut World)| Scenario {
        expected: Expected::Worse,
        changed,
        change,
        ..same(name, turn)
    };
    let from = |from_day, percent, maker: &str| {
        vec![DateEffect { from_day, percent, maker: maker.to_owned() }]
    };
    let full = |scenario: Scenario| Scenario { adoption_days: 0.7, ..scenario };
    vec![
        same("null", &|_| {}),
        same("first-day-130", &|world| world.first_day_percent = 130),
        same("first-day-115", &|world| world.first_day_percent = 115),
        same("push-130", &|world| world.dates = from(1, 130, "")),
        same("push-105", &|world| world.dates = from(0, 105, "")),
        same("growth", &|world| world.growth_in_1000 = 10),
        same("newcomers-130", &|world| {
            (world.newcomers_percent, world.newcomer_percent) = (40, 130);
        }),
        same("maker-130", &|world| world.dates = from(6, 130, "East")),
        same("weekends-120", &|world| world.weekend_percent = 120),
        // ±25 % in 14 days.
        same("drift-up-25", &|world| world.growth_in_1000 = 16),
        same("drift-down-25", &|world| world.growth_in_1000 = -20),
        same("heavy-tails", &|world| world.tails_in_1000 = 20),
        same("autocorrelation", &|world| world.autocorrelation_percent = 90),
        same("selective-upload", &|world| world.selective_percent = 100),
        same("early-fast", &|world| world.late_if_slow_percent = 300),
        same("early-slow", &|world| world.late_if_slow_percent = 33),
        same("bots", &|world| world.bots_in_1000 = 30),
        same("wrong-clocks", &|world| world.wrong_clocks_in_1000 = 200),
        same("garbage", &|world| world.garbage_in_10000 = 25),
        full(same("full-rollout", &|_| {})),
        full(same("full-rollout-first-day-130", &|world| world.first_day_percent = 130)),
        full(same("full-rollout-drift-25", &|world| world.growth_in_1000 = 16)),
        same("all-at-once", &|world| {
            *world = World {
                dates: [from(5, 130, ""), from(8, 85, ""), from(6, 120, "East")].concat(),
                weekend_percent: 110,
                growth_in_1000: 5,
                first_day_percent: 120,
                autocorrelation_percent: 60,
                tails_in_1000: 5,
                selective_percent: 50,
                late_if_slow_percent: 200,
                bots_in_1000: 10,
                wrong_clocks_in_1000: 50,
                garbage_in_10000: 5,
                ..world.clone()
            };
        }),
        Scenario {
            expected: Expected::Unknown,
            ..same("new-screen", &|world| world.later_screens = vec!["Reels".to_owned()])
        },
        Scenario { more_deaths: ("anr", 2.0), ..worse("anr-200", "no cause", 1.0, &|_| {}) },
        worse("inflate-120", "inflate", 1.2, &|_| {}),
        worse("inflate-120-push-85", "inflate", 1.2, &|world| world.dates = from(0, 85, "")),
        worse("inflate-120-drift-up-25", "inflate", 1.2, &|world| world.growth_in_1000 = 16),
        worse("inflate-105", "inflate", 1.05, &|_| {}),
        full(worse("inflate-105-full-rollout", "inflate", 1.05, &|_| {})),
        worse("all-110", "", 1.1, &|_| {}),
        worse("all-110-drift-down-15", "", 1.1, &|world| world.growth_in_1000 = -12),
        worse("all-110-heavy-tails", "", 1.1, &|world| world.tails_in_1000 = 20),
        worse("all-110-first-day-130", "", 1.1, &|world| world.first_day_percent = 130),
        worse("all-110-autocorrelation", "", 1.1, &|world| world.autocorrelation_percent = 90),
    ]
}
