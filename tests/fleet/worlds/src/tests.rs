//! Rollouts are the same each time, and have what their worlds say.

use crate::{Rollout, Row, Scenario, scenarios};
use std::collections::BTreeSet;

const DEVICES: usize = 4000;

fn rollout(name: &str) -> Rollout {
    let scenario = scenarios().into_iter().find(|scenario| scenario.name == name).unwrap();
    scenario.rollout(7, DEVICES, 14)
}

/// Mean time of a cause in a thousand frames of its screen, ms, over rows.
fn rate<'a>(rollout: &Rollout, key: &str, rows: impl Iterator<Item = &'a Row>) -> f64 {
    let series = rollout.series.iter().position(|series| series.key == key).unwrap();
    let screen = rollout.series[series].screen;
    let (mut sum, mut count) = (0.0, 0.0);
    for row in rows {
        let is_it = |visit: &&crate::Visit| rollout.screens[visit.screen] == screen;
        let Some(visit) = row.visits.iter().find(is_it) else { continue };
        let time = row.times.iter().find(|time| time.series == series);
        sum += time.map_or(0, |time| time.ns) as f64 / visit.frames as f64 / 1e3;
        count += 1.0;
    }
    assert!(count > 500.0, "{count} rows");
    sum / count
}

/// Ratio of a cause's rates on rows that are and that are not of a kind.
fn ratio(rollout: &Rollout, key: &str, is_it: impl Fn(&&Row) -> bool) -> f64 {
    rate(rollout, key, rollout.rows.iter().filter(&is_it))
        / rate(rollout, key, rollout.rows.iter().filter(|row| !is_it(row)))
}

/// A factor of times changes also which frames are late, so that a rate changes a little more.
fn assert_is_about(found: f64, factor: f64, name: &str) {
    assert!((factor * 0.95..factor * 1.15).contains(&found), "{name}: {found} is not {factor}");
}

#[test]
fn a_rollout_is_the_same_each_time_and_none_is_like_another() {
    for scenario in scenarios() {
        let again = scenario.rollout(3, 50, 14);
        assert_eq!(scenario.rollout(3, 50, 14), again, "{}", scenario.name);
        assert_ne!(scenario.rollout(4, 50, 14), again, "{}", scenario.name);
    }
    let names: BTreeSet<&str> = scenarios().iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), scenarios().len());
}

#[test]
fn dates_and_first_days_change_the_rows_that_the_world_names() {
    let first = rollout("first-day-130");
    assert_is_about(ratio(&first, "inflate", |row| row.is_first_day), 1.3, "first day");
    let push = rollout("push-130");
    let earlier = |is_late: bool| {
        push.rows.iter().filter(move |row| row.version == 0 && (row.look >= 1) == is_late)
    };
    let [after, before] = [true, false].map(|is_late| rate(&push, "Db.query", earlier(is_late)));
    assert_is_about(after / before, 1.3, "push");
    let maker = rollout("maker-130");
    let is_of = |row: &&Row| maker.devices[row.device].model.starts_with("East");
    assert_is_about(ratio(&maker, "inflate", |row| is_of(row) && row.look >= 6), 1.3, "maker");
    let weekend = rollout("weekends-120");
    assert_is_about(ratio(&weekend, "inflate", |row| row.look.rem_euclid(7) >= 5), 1.2, "weekend");
    let new = rollout("newcomers-130");
    assert_is_about(ratio(&new, "inflate", |row| new.devices[row.device].is_newcomer), 1.3, "new");
}

#[test]
fn the_truth_says_which_causes_and_screens_the_later_version_changes() {
    let scenario = Scenario { changed: "Db.query", change: 2.0, ..Scenario::default() };
    let rollout_of_one = scenario.rollout(1, DEVICES, 14);
    for (series, factor) in rollout_of_one.series.iter().zip(&rollout_of_one.truth.factors) {
        assert_eq!(*factor, if series.key == "Db.query" { 2.0 } else { 1.0 });
    }
    let is_later = |row: &&Row| row.version == 1;
    // Longer times make more frames late.
    let found = ratio(&rollout_of_one, "Db.query", is_later);
    assert!((1.9..2.6).contains(&found), "{found}");
    assert_is_about(ratio(&rollout_of_one, "inflate", is_later), 1.0, "unchanged");
    let rollout = rollout("new-screen");
    let [reels] = *rollout.truth.later_screens else { panic!("{:?}", rollout.truth) };
    let has = |row: &Row| row.visits.iter().any(|visit| visit.screen == reels);
    assert!(rollout.rows.iter().any(has));
    assert!(rollout.rows.iter().all(|row| row.version == 1 || !has(row)));
}

#[test]
fn devices_go_through_many_releases_and_the_change_is_there_from_its_version_on() {
    let scenario = Scenario {
        releases: 4,
        changed_in: 3,
        changed: "inflate",
        change: 2.0,
        ..Scenario::default()
    };
    let rollout = scenario.rollout(1, DEVICES, 42);
    let mut latest = vec![0; DEVICES];
    for row in &rollout.rows {
        assert!(row.version >= latest[row.device], "{row:?}");
        let release = (row.version as i64 - 1) * crate::RELEASE_DAYS;
        assert!(row.version == 0 || row.look >= release, "{row:?}");
        latest[row.device] = row.version;
    }
    let has_more_than_two = |device: usize| {
        let rows = rollout.rows.iter().filter(|row| row.device == device);
        rows.map(|row| row.version).collect::<BTreeSet<usize>>().len() > 2
    };
    assert!((0..200).filter(|device| has_more_than_two(*device)).count() > 100);
    let rate_of = |version: usize| {
        rate(&rollout, "inflate", rollout.rows.iter().filter(|row| row.version == version))
    };
    assert_is_about(rate_of(2) / rate_of(1), 1.0, "before the change");
    assert!((1.9..2.6).contains(&(rate_of(3) / rate_of(2))), "{} {}", rate_of(3), rate_of(2));
    assert_is_about(rate_of(4) / rate_of(3), 1.0, "after the change");
}

#[test]
fn rows_are_in_the_order_of_the_looks_and_a_device_goes_from_a_version_to_the_next() {
    let rollout = rollout("all-at-once");
    assert!(rollout.rows.is_sorted_by_key(|row| row.look));
    let mut latest = vec![0; DEVICES];
    for row in &rollout.rows {
        assert!(row.version >= latest[row.device], "{row:?}");
        assert!(row.times.iter().all(|time| time.ns > 0) && row.captures > 0);
        latest[row.device] = row.version;
    }
    assert_eq!((Rollout::date(0), Rollout::date(-7)), ("2026-09-07".into(), "2026-08-31".into()));
    assert_eq!(Rollout::date(175), "2027-03-01");
    // Nobody is left on the earlier version after a full rollout.
    let full = self::rollout("full-rollout");
    let left = full.rows.iter().filter(|row| row.version == 0 && row.look >= 7).count();
    assert!(left * 1000 < full.rows.len(), "{left}");
}
