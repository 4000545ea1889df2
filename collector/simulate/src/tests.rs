//! Plans are checked, and a device is the same each time.

use super::*;

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
    let (captures, truth) = plan.device(1, 1);
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
