//! Fleets in worlds with all knobs turned: reports still state what the truth says.

use super::{check_causes, check_versions, report, rows_of};
use std::collections::BTreeMap;
use std::path::Path;
use tracetee_fleet::database::Database;
use tracetee_fleet::queries::{FRAMES_BY_DAY, choose};
use tracetee_simulate::{DateEffect, Plan, PlannedClass, PlannedRollout, Truth, World};

/// A rollout on the fourth of ten days, of two classes of devices.
fn plan(world: World) -> Plan {
    let class = |name: &str, slowness_percent| PlannedClass {
        name: name.to_owned(),
        share: 1,
        models: vec![format!("{name} A"), format!("{name} B")],
        apis: vec![34],
        slowness_percent,
        causes_percent: 100,
        update_hours: 48,
    };
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 72,
        captures: 6,
    };
    let mut plan = Plan {
        classes: vec![class("North", 80), class("South", 150)],
        rollout: Some(rollout),
        frames: 60,
        days: 10,
        // A Monday.
        from_s: 20_703 * 86_400,
        world,
        ..Plan::default()
    };
    plan.causes.retain(|cause| cause.versions.is_empty());
    assert_eq!(plan.fault(), None);
    plan
}

fn all_knobs() -> World {
    let from =
        |from_day, percent, maker: &str| DateEffect { from_day, percent, maker: maker.to_owned() };
    World {
        dates: vec![from(2, 130, ""), from(3, 120, "South")],
        weekend_percent: 120,
        growth_in_1000: 10,
        first_day_percent: 130,
        newcomers_percent: 20,
        newcomer_percent: 130,
        spread_percent: 40,
        autocorrelation_percent: 50,
        tails_in_1000: 20,
        selective_percent: 100,
        late_if_slow_percent: 200,
        bots_in_1000: 30,
        wrong_clocks_in_1000: 100,
        garbage_in_10000: 500,
        later_screens: vec!["Settings".to_owned()],
    }
}

/// The tables of a fleet, and the truth.
fn fleet(plan: &Plan, devices: u64) -> (Database, Truth) {
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    let mut truth = Truth::default();
    for number in 0..devices {
        let (captures, device, _) = plan.device(9, number);
        truth.add(device);
        let day = |ms: u64| (ms / 86_400_000).saturating_sub(plan.from_s / 86_400).to_string();
        let all: Vec<_> = captures
            .iter()
            .map(|capture| rows_of(capture, &day(capture.meta.made_ms.unwrap())))
            .collect();
        database.insert(&all).unwrap();
    }
    (database, truth)
}

#[test]
fn a_report_states_the_truth_about_a_world_with_all_knobs_turned() {
    let plan = plan(all_knobs());
    let (database, truth) = fleet(&plan, 150);
    let report = report(&database, None);
    let [app] = &*report.apps else { panic!("{report:?}") };
    check_versions(app, &truth);
    check_causes(app, &plan, &truth);
    let world = truth.world;
    assert!(world.newcomers > 10 && world.bots > 0 && world.wrong_clocks > 5, "{world:?}");
    assert!(world.garbage > 10, "{world:?}");
    assert!(world.unsent > 100, "{world:?}");
    // The screen of the later version is on no capture of the earlier one.
    let screens: Vec<(&str, &str)> = app
        .screens
        .iter()
        .map(|screen| (screen.screen.as_deref().unwrap_or_default(), &*screen.ver))
        .collect();
    assert!(screens.iter().any(|(screen, _)| *screen == "Settings"), "{screens:?}");
    assert!(!screens.contains(&("Settings", "2.0")), "{screens:?}");
}

#[test]
fn the_truth_by_day_is_that_of_the_tables_if_clocks_are_right() {
    let plan = plan(World { wrong_clocks_in_1000: 0, ..all_knobs() });
    let (database, truth) = fleet(&plan, 60);
    database.run(&choose("", "")).unwrap();
    type Row = serde_json::Map<String, serde_json::Value>;
    let found = database.rows::<Row>(&FRAMES_BY_DAY.text()).unwrap();
    let number = |row: &Row, column: &str| row[column].as_u64().unwrap();
    let of_row = |row: &Row| {
        let day: u64 = row["dt"].as_str().unwrap().parse().unwrap();
        (
            (row["ver"].as_str().unwrap().to_owned(), day),
            [number(row, "frames"), number(row, "jank_ns")],
        )
    };
    let found: BTreeMap<_, _> = found.iter().map(of_row).collect();
    let of_truth = truth.versions.iter().flat_map(|(ver, version)| {
        version
            .days
            .iter()
            .map(|(day, totals)| ((ver.clone(), *day), [totals.frames, totals.jank_ns]))
    });
    let expected: BTreeMap<_, _> = of_truth.collect();
    assert!(expected.len() >= 12, "{expected:?}");
    assert_eq!(found, expected);
}

/// Jank in a thousand frames, ms, of the later version on first days and on others.
fn first_days_and_others(world: World) -> [f64; 2] {
    let plan = plan(world);
    let mut truth = Truth::default();
    (0..400).for_each(|number| truth.add(plan.device(3, number).1));
    let version = &truth.versions["2.1"];
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let rate = |ns: u64, frames: u64| ns as f64 / frames as f64 / 1e3;
    let first = version.first_days;
    assert!(first.frames > 5000, "{first:?}");
    [
        rate(first.jank_ns, first.frames),
        rate(version.all.jank_ns - first.jank_ns, version.all.frames - first.frames),
    ]
}

#[test]
fn the_first_day_after_an_update_is_slower_by_the_factor_that_the_world_says() {
    let [first, others] = first_days_and_others(World::default());
    let slower = World { first_day_percent: 150, ..World::default() };
    let [slower_first, same_others] = first_days_and_others(slower);
    // Frames without a cause are as slow as before, and deadlines do not move.
    let ratio = slower_first / first;
    assert!((1.4..1.7).contains(&ratio), "{slower_first} {first}");
    assert!((0.97..1.03).contains(&(same_others / others)), "{same_others} {others}");
}
