//! The ground truth about a simulated fleet.

use crate::ledger::DeviceDay;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The ground truth, which a report must state.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Truth {
    /// Truth by version.
    pub versions: BTreeMap<String, TrueVersion>,
    /// Truth by cause and key.
    pub causes: BTreeMap<String, TrueCause>,
    /// Devices and captures with anomalies from the plan's world.
    pub world: TrueWorld,
}

/// Counts of the anomalies in a plan's world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TrueWorld {
    /// Devices that installed the later version.
    pub newcomers: u64,
    /// Devices that are bots.
    pub bots: u64,
    /// Devices with wrong clocks.
    pub wrong_clocks: u64,
    /// Captures that were not sent.
    pub unsent: u64,
    /// Captures with an implausible record of a frame; the truth counts the actual frame.
    pub garbage: u64,
}

/// A version.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TrueVersion {
    /// Devices that sent captures.
    #[serde(serialize_with = "count_of")]
    pub devices: BTreeSet<u64>,
    /// All captures.
    pub captures: u64,
    /// Scheduled captures; the following fields count only these.
    pub counted: u64,
    /// All frames.
    #[serde(flatten)]
    pub all: TrueFrames,
    /// Frames by pipeline.
    pub pipelines: BTreeMap<String, TrueFrames>,
    /// Frames by the capture's day, counted from the plan's first; a wrong clock does not move them.
    pub days: BTreeMap<u64, TrueFrames>,
    /// Frames after the update on the days of devices' updates.
    pub first_days: TrueFrames,
    /// Ledgers.
    pub ledgers: u64,
    /// Process ends by reason, and how many of them a user saw.
    pub deaths: BTreeMap<String, [u64; 2]>,
}

/// Counted frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TrueFrames {
    /// Frames.
    pub frames: u64,
    /// Late frames.
    pub slow: u64,
    /// Frames that miss a vsync that a viewer expects.
    pub janky: u64,
    /// Frames longer than 700 ms.
    pub frozen: u64,
    /// Time past the deadlines.
    pub jank_ns: u64,
}

impl TrueFrames {
    /// Adds the truth about other frames.
    pub(super) fn count(&mut self, other: &Self) {
        self.frames += other.frames;
        self.slow += other.slow;
        self.janky += other.janky;
        self.frozen += other.frozen;
        self.jank_ns += other.jank_ns;
    }
}

/// Truth about a cause, in late frames of all captures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TrueCause {
    /// Devices.
    #[serde(serialize_with = "count_of")]
    pub devices: BTreeSet<u64>,
    /// Captures.
    pub captures: u64,
    /// Late frames.
    pub frames: u64,
    /// Time of the cause in these frames.
    pub self_ns: u64,
    /// Share of the time of these frames past their deadlines.
    pub overrun_ns: u64,
}

fn count_of<S: serde::Serializer>(set: &BTreeSet<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(set.len() as u64)
}

impl Truth {
    /// Adds the truth about ledgers.
    pub(super) fn count_ledgers(&mut self, ledgers: &[DeviceDay]) {
        for DeviceDay { meta, part, .. } in ledgers {
            let version = meta.version_name.clone().unwrap_or_default();
            let of_version = self.versions.entry(version).or_default();
            of_version.ledgers += 1;
            let of_parts = [&part.sums.exits, &part.sums.visible_exits];
            for (number, counts) in of_parts.into_iter().enumerate() {
                for (reason, count) in counts.iter() {
                    of_version.deaths.entry(reason.to_owned()).or_default()[number] += count;
                }
            }
        }
    }

    /// Adds the truth about other devices.
    pub fn add(&mut self, other: Self) {
        for (name, more) in other.versions {
            let sum = self.versions.entry(name).or_default();
            sum.devices.extend(more.devices);
            sum.captures += more.captures;
            sum.counted += more.counted;
            sum.all.count(&more.all);
            for (pipeline, more) in more.pipelines {
                sum.pipelines.entry(pipeline).or_default().count(&more);
            }
            for (day, more) in more.days {
                sum.days.entry(day).or_default().count(&more);
            }
            sum.first_days.count(&more.first_days);
            sum.ledgers += more.ledgers;
            for (reason, more) in more.deaths {
                let sum = sum.deaths.entry(reason).or_default();
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        for (name, more) in other.causes {
            let sum = self.causes.entry(name).or_default();
            sum.devices.extend(more.devices);
            sum.captures += more.captures;
            sum.frames += more.frames;
            sum.self_ns += more.self_ns;
            sum.overrun_ns += more.overrun_ns;
        }
        let (sum, more) = (&mut self.world, other.world);
        sum.newcomers += more.newcomers;
        sum.bots += more.bots;
        sum.wrong_clocks += more.wrong_clocks;
        sum.unsent += more.unsent;
        sum.garbage += more.garbage;
    }
}

/// Returns `self_ns * overrun_ns / dur_ns`.
pub(super) fn share(self_ns: u64, overrun_ns: u64, dur_ns: u64) -> u64 {
    let product = u128::from(self_ns) * u128::from(overrun_ns);
    u64::try_from(product / u128::from(dur_ns.max(1))).unwrap_or(u64::MAX)
}
