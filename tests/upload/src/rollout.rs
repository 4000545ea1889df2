//! A rollout in a simulated fleet that a comparison and a guard find: `Feed.bind` comes with 2.1, and devices that update later are the
//! controls of the others.

use crate::collector::{Collector, file};
use std::time::SystemTime;
use tracetee_simulate::{Plan, PlannedChange, PlannedClass, PlannedRollout};

/// Devices of the fleet. In one of 200 nothing is sure.
pub const DEVICES: u32 = 300;
/// Frames of a capture. A device needs some hundred to be like others.
const FRAMES: u64 = 240;

/// Days of the plan.
const DAYS: u64 = 14;

/// The plan, of the last days: a collector does not believe ids that are much older.
#[must_use]
pub fn plan() -> Plan {
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 120,
        captures: 14,
    };
    let phones = PlannedClass {
        name: "phones".to_owned(),
        share: 1,
        models: vec!["A".to_owned()],
        apis: vec![34],
        slowness_percent: 100,
        causes_percent: 100,
        update_hours: 240,
    };
    let worse = PlannedChange {
        version: "2.1".to_owned(),
        slice: "Feed.bind".to_owned(),
        screens: Vec::new(),
        classes: Vec::new(),
        rate_percent: 100,
        time_percent: 300,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Plan {
        from_s: (now / 86_400 - DAYS) * 86_400,
        rollout: Some(rollout),
        classes: vec![phones],
        changes: vec![worse],
        days: DAYS,
        frames: FRAMES,
        ..Plan::default()
    }
}

/// A collector receives the captures of the fleet.
pub fn simulate(collector: &Collector, options: &[&str]) {
    let plan = serde_json::to_string(&plan()).unwrap();
    let plan = file(collector.directory.path(), "plan.json", &plan);
    let frames = u32::try_from(FRAMES).unwrap();
    let options = [&["--plan", plan.to_str().unwrap()], options].concat();
    collector.simulate(DEVICES, frames, &options);
}
