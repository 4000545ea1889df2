//! The rollout of `tracetee simulate --rollout`, as rows and in a collector.

use crate::collector::Collector;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::time::SystemTime;
use tracetee_fleet::capture::{Limits, rows};
use tracetee_fleet::rows::{About, Rows};
use tracetee_simulate::Plan;

/// Devices of the fleet: so many that a guard is sure of the cause.
pub const DEVICES: u32 = 300;

/// The plan, of the last days: a collector does not believe ids that are much older.
#[must_use]
pub fn plan() -> Plan {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let plan = Plan::rollout();
    Plan { from_s: (now / 86_400 - plan.days) * 86_400, ..plan }
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
    let frames = u32::try_from(plan().frames).unwrap();
    collector.simulate(DEVICES, frames, &[&["--rollout"], options].concat());
}
