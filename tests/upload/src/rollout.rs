//! A rollout in a simulated fleet that a comparison and a guard find: `Feed.bind` comes with 2.1, and devices that update later are the
//! controls of the others.

use crate::collector::{Collector, file};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::time::SystemTime;
use tracetee_fleet::capture::{Limits, rows};
use tracetee_fleet::rows::{About, Rows};
use tracetee_simulate::{Plan, PlannedChange, PlannedClass, PlannedRollout};

/// Devices of the fleet: so many that a guard is sure of the cause.
pub const DEVICES: u32 = 300;
/// Frames of a capture. With 90, less than half of the fleet is compared.
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

/// The rows of the fleet, by day.
#[must_use]
pub fn days() -> BTreeMap<String, Vec<Rows>> {
    let plan = plan();
    let mut days: BTreeMap<String, Vec<Rows>> = BTreeMap::new();
    for capture in (0..u64::from(DEVICES)).flat_map(|number| plan.device(4, number).0) {
        let day = format!("day {:06}", capture.meta.made_ms.unwrap() / 86_400_000);
        let about = About {
            capture_id: capture.id.to_string(),
            day: day.clone(),
            meta: capture.meta,
            raw_key: capture.id.to_string(),
            ..About::default()
        };
        let rows = rows(Cursor::new(capture.text), &about, None, &Limits::default()).unwrap();
        days.entry(day).or_default().push(rows);
    }
    days
}

/// A collector receives the captures of the fleet.
pub fn simulate(collector: &Collector, options: &[&str]) {
    let plan = serde_json::to_string(&plan()).unwrap();
    let plan = file(collector.directory.path(), "plan.json", &plan);
    let frames = u32::try_from(FRAMES).unwrap();
    let options = [&["--plan", plan.to_str().unwrap()], options].concat();
    collector.simulate(DEVICES, frames, &options);
}
