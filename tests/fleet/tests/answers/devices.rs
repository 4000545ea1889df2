//! The breakdown by devices, counted again over rows.

use super::{fleet, plan, real, rows, simulated, sum, text};
use std::collections::{BTreeMap, BTreeSet};
use tracetee_fleet::rows::Rows;

/// Time of all jank, or of a cause; frames and devices.
#[derive(Default)]
struct Sum {
    devices: BTreeSet<String>,
    ns: u64,
    frames: u64,
}

impl Sum {
    /// Adds a capture that rates count.
    fn add(&mut self, rows: &Rows, cause: Option<&str>, key: &str) {
        let capture = rows.capture.as_ref().unwrap();
        let rated = || rows.frames.iter().filter(|frame| frame.pipeline != "vsync_callback");
        if !capture.counted || rated().count() == 0 {
            return;
        }
        self.devices.insert(capture.device.to_string());
        self.frames += rated().count() as u64;
        let Some(cause) = cause else {
            self.ns += rated().map(|frame| frame.jank_ns).sum::<u64>();
            return;
        };
        let mut by_frame: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for slice in &rows.frame_slices {
            if slice.cause == *cause && slice.cause_key == *key {
                let [own, carried, _] = by_frame.entry(slice.frame).or_default();
                let times = [*own + slice.self_ns, *carried + slice.carried_ns, slice.frame_ns];
                by_frame.insert(slice.frame, times);
            }
        }
        let big = by_frame.values().filter(|[own, carried, all]| (own + carried) * 10 >= *all);
        self.ns += big.map(|[own, ..]| own).sum::<u64>();
    }

    /// Returns ms in a thousand frames.
    fn rate(&self) -> f64 {
        self.ns as f64 / 1e3 / self.frames as f64
    }
}

#[test]
fn a_breakdown_is_what_the_rows_say_and_finds_the_devices_that_have_the_planted_causes() {
    let number = 6;
    assert_eq!(plan(number).classes[1].causes_percent, 700);
    let (captures, _) = simulated(number, 80);
    let report = fleet(number, &captures);
    let breakdowns = &report.json["apps"][0]["breakdowns"];
    let all = rows(breakdowns, "rows");
    let rated = captures.iter().filter(|rows| rows.capture.as_ref().unwrap().counted);
    let by_version = sum(rows(&report.json["apps"][0], "versions"), "devices");
    let devices: BTreeSet<&str> =
        rated.map(|rows| &*rows.capture.as_ref().unwrap().device).collect();
    // Each counts once, whatever versions it had.
    assert!(by_version > devices.len() as u64, "{by_version}");
    assert_eq!(report.json["apps"][0]["devices"], devices.len());
    let named = |field: &str| all.iter().filter(|row| !row[field].is_null()).count();
    assert!(named("cause") >= 4 && named("screen") == 3, "{breakdowns}");
    let is_close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    for row in all.iter().filter(|row| row["screen"].is_null()) {
        let (cause, key) = (row["cause"].as_str(), text(row, "key"));
        let mut fleet = Sum::default();
        captures.iter().for_each(|rows| fleet.add(rows, cause, key));
        assert!(is_close(real(&row["ms_in_1000"]), fleet.rate()), "{row}");
        for group in rows(row, "groups") {
            let (by, value) = (text(group, "dimension"), text(group, "value"));
            if by == "class" {
                continue;
            }
            let mut sum = Sum::default();
            for rows in &captures {
                let capture = rows.capture.as_ref().unwrap();
                let is_it = match by {
                    "model" => capture.model.as_deref() == Some(value),
                    "API level" => capture.api.unwrap().to_string() == value,
                    "version" => capture.ver == value,
                    "hour (UTC)" => format!("{:02}", capture.made_ms / 3_600_000 % 24) == value,
                    other => panic!("{other}"),
                };
                if is_it {
                    sum.add(rows, cause, key);
                }
            }
            assert!(is_close(real(&group["ms_in_1000"]), sum.rate()), "{by} {value}: {row}");
            assert_eq!(group["devices"], sum.devices.len(), "{by} {value}");
        }
    }
    // The old devices have seven times the plan's causes, the fast ones 0.6.
    let surely = |group: &&serde_json::Value| {
        group["dimension"] == "model" && real(&group["lift_from_to"][0]) > 1.0
    };
    let models: Vec<&str> =
        rows(&all[0], "groups").iter().filter(surely).map(|group| text(group, "value")).collect();
    let are_old = models.iter().all(|model| model.starts_with("Old"));
    assert!(!models.is_empty() && are_old, "{models:?}");
    assert!(report.text.contains("most by model Old"), "{}", report.text);
}
