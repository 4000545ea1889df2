//! Plans are checked, and a device is the same each time.

use super::*;

#[allow(clippy::cast_precision_loss, reason = "counts are small")]
const fn as_real(count: u64) -> f64 {
    count as f64
}

#[test]
fn a_plan_names_screens_and_plants_that_can_be() {
    let error_of = |change: &dyn Fn(&mut Plan)| {
        let mut plan = Plan::default();
        change(&mut plan);
        plan.fault().map(|fault| fault.split(':').next().unwrap())
    };
    let gl = |screen: &str| [(screen.to_owned(), PlannedPipeline::Gl)].into();
    assert_eq!(error_of(&|plan| plan.pipelines = gl("Map")), Some("pipelines"));
    assert_eq!(error_of(&|plan| plan.pipelines = gl("Settings")), Some("causes"));
    let game = |frames| {
        move |plan: &mut Plan| {
            plan.causes.clear();
            plan.pipelines = gl("Settings");
            plan.frames = frames;
        }
    };
    // 4, 4 and 2 frames.
    assert_eq!(error_of(&game(10)), Some("frames"));
    assert_eq!(error_of(&game(11)), None);
}

#[test]
fn a_plan_has_a_world_that_can_be() {
    let error_of = |change: &dyn Fn(&mut World)| {
        let mut plan = Plan::default();
        change(&mut plan.world);
        plan.fault()
    };
    assert_eq!(error_of(&|world| world.weekend_percent = 1000), None);
    assert!(error_of(&|world| world.weekend_percent = 1001).unwrap().contains("at most 1,000"));
    assert!(error_of(&|world| world.growth_in_1000 = -201).unwrap().contains("growth_in_1000"));
    assert!(error_of(&|world| world.bots_in_1000 = 1001).unwrap().contains("larger than all"));
    assert!(error_of(&|world| world.newcomers_percent = 1).unwrap().contains("need a rollout"));
    let all = Plan::default().screens;
    let later = |world: &mut World| world.later_screens.clone_from(&all);
    assert!(error_of(&later).unwrap().starts_with("world: newcomers_percent and later_screens"));
    let mut plan: Plan =
        serde_json::from_str(&serde_json::to_string(&Plan::default()).unwrap()).unwrap();
    assert_eq!(plan, Plan::default());
    plan.world.garbage_in_10000 = 10_000;
    let (captures, truth, _) = plan.device(1, 1);
    assert_eq!(truth.world.garbage, captures.len() as u64);
    assert!(captures.iter().all(|capture| capture.text.contains("total_ns=500000000000")));
}

#[test]
fn a_device_is_the_same_each_time_and_none_is_like_another() {
    let plan = Plan::default();
    let texts = |number| {
        plan.device(7, number).0.into_iter().map(|capture| capture.text).collect::<Vec<_>>()
    };
    assert_eq!(texts(3), texts(3));
    assert_ne!(texts(3), texts(4));
    assert_eq!(plan.fault(), None);
}

/// A fleet whose later version has twice as many crashes.
fn deadly() -> Plan {
    let death = |reason: &str, in_10000, seen_percent| PlannedDeath {
        reason: reason.to_owned(),
        in_10000,
        seen_percent,
        versions: Vec::new(),
    };
    let more = PlannedDeath { versions: vec!["2.1".to_owned()], ..death("crash", 500, 80) };
    let mut plan = Plan { frames: 6, triggered_percent: 0, ..Plan::rollout() };
    plan.deaths = vec![death("anr", 200, 50), death("crash", 500, 80), more];
    plan
}

#[test]
fn ends_of_processes_come_at_the_planned_rates_of_each_version() {
    let (plan, mut truth) = (deadly(), Truth::default());
    let mut frames = [0; 2];
    for number in 0..300 {
        let (_, of_device, ledgers) = plan.device(5, number);
        truth.add(of_device);
        for day in ledgers {
            let later = usize::from(day.part.version_code == 210);
            let rows = day.part.sums.rows().iter();
            frames[later] += rows.map(|(_, row)| row.frames).sum::<u64>();
        }
    }
    assert!(truth.versions.values().all(|version| version.ledgers > 500));
    let expected = [
        ("anr", "2.0", 0.02, 0.5),
        ("anr", "2.1", 0.02, 0.5),
        ("crash", "2.0", 0.05, 0.8),
        ("crash", "2.1", 0.1, 0.8),
    ];
    let is_near = |count: u64, all: u64, rate: f64| {
        let mean = rate * as_real(all);
        (as_real(count) - mean).abs() < 4.0 * (mean * (1.0 - rate)).sqrt()
    };
    for (reason, version, rate, seen) in expected {
        let of_version = &truth.versions[version];
        let [all, of_user] = of_version.deaths[reason];
        assert!(is_near(all, of_version.ledgers, rate), "{reason} {version}: {of_version:?}");
        assert!(is_near(of_user, all, seen), "{reason} {version}: {of_version:?}");
    }
    assert_eq!(frames, ["2.0", "2.1"].map(|version| truth.versions[version].all.frames));
}

#[test]
fn without_planned_ends_of_processes_there_are_no_ledgers_and_the_same_captures() {
    let plan = deadly();
    let texts =
        |plan: &Plan| plan.device(5, 1).0.into_iter().map(|one| one.text).collect::<Vec<_>>();
    let silent = Plan { deaths: Vec::new(), ..plan.clone() };
    assert_eq!(texts(&silent), texts(&plan));
    assert!(silent.device(5, 1).2.is_empty());
    let mut certain = plan;
    certain.deaths[0].in_10000 = 10_001;
    assert!(certain.fault().unwrap().starts_with("deaths:"));
}
