//! The devices of a simulated fleet: classes with their speeds and models, the transition from a version to the next, and
//! the changes in a version.

use super::{Plan, PlannedCause, PlannedVersion, has};
use crate::DAY_MS;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// A class of devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedClass {
    /// Name, by which changes choose it.
    pub name: String,
    /// Share of devices, in proportion to the other classes.
    pub share: u64,
    /// Models of the devices, each as frequent as the others.
    pub models: Vec<String>,
    /// Android API levels, each as frequent as the others.
    #[serde(default = "apis")]
    pub apis: Vec<u64>,
    /// Time that all work takes, percent of the plan's.
    #[serde(default = "whole")]
    pub slowness_percent: u64,
    /// Frequency of causes, percent of the plan's.
    #[serde(default = "whole")]
    pub causes_percent: u64,
    /// Mean time from a release to the device's update, hours: the class's adoption curve.
    #[serde(default)]
    pub update_hours: u64,
}

const fn whole() -> u64 {
    100
}

fn apis() -> Vec<u64> {
    vec![34]
}

/// The transition from a version to the next: a device's captures before its update have the old version, later ones the
/// new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRollout {
    /// Name of the previous version.
    pub from: String,
    /// Name of the version after.
    pub to: String,
    /// Time from the first day's begin to the release, hours.
    pub release_hour: u64,
    /// Captures by schedule that each device sends.
    pub captures: u64,
}

/// A change of a cause by a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedChange {
    /// Name of the version.
    pub version: String,
    /// Slice of the cause.
    pub slice: String,
    /// Screens with the change; empty: all.
    #[serde(default)]
    pub screens: Vec<String>,
    /// Classes with the change; if empty, all.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Frequency of the cause, percent of its usual value.
    #[serde(default = "whole")]
    pub rate_percent: u64,
    /// Time of the cause, percent of its usual value.
    #[serde(default = "whole")]
    pub time_percent: u64,
}

/// A factor of a cause, percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changed {
    pub(crate) rate_percent: u64,
    pub(crate) time_percent: u64,
}

/// A device of a plan.
pub(crate) struct PlannedDevice<'a> {
    pub(crate) class: Option<&'a PlannedClass>,
    pub(crate) model: Option<String>,
    pub(crate) api: u64,
    version: &'a PlannedVersion,
    /// The version after the update, and the time of the update, Unix time in ms.
    later: Option<(&'a PlannedVersion, u64)>,
    /// True if it installed the later version.
    pub(crate) is_newcomer: bool,
    pub(crate) is_bot: bool,
    /// Days by which its clock is wrong.
    pub(crate) wrong_days: i64,
}

impl<'a> PlannedDevice<'a> {
    /// Returns the times at which it sends captures, Unix time in ms.
    pub(crate) fn times_ms(&self, plan: &Plan) -> std::ops::Range<u64> {
        let begin = plan.from_s * 1000;
        let update = self.later.filter(|_| self.is_newcomer).map_or(begin, |(_, ms)| ms);
        update..(begin + plan.days * DAY_MS).max(update + 1)
    }

    /// True on the day of the update, after it.
    pub(crate) fn is_first_day(&self, ms: u64) -> bool {
        self.later.is_some_and(|(_, update)| ms >= update && ms / DAY_MS == update / DAY_MS)
    }

    pub(crate) fn version_at(&self, ms: u64) -> &'a PlannedVersion {
        self.later.filter(|&(_, update_ms)| ms >= update_ms).map_or(self.version, |(to, _)| to)
    }
}

/// Chooses one of several, by their shares.
pub(crate) fn chosen<'a, T>(rng: &mut Rng, all: &'a [T], share: fn(&T) -> u64) -> Option<&'a T> {
    let mut left = rng.u64(0..all.iter().map(share).sum::<u64>().max(1));
    all.iter().find(|one| {
        let is_it = left < share(one);
        left = left.saturating_sub(share(one));
        is_it
    })
}

impl Plan {
    /// Draws a device. A plan without classes and rollout draws nothing.
    pub(crate) fn planned_device<'a>(
        &'a self,
        rng: &mut Rng,
        version: &'a PlannedVersion,
    ) -> PlannedDevice<'a> {
        let mut device = PlannedDevice {
            class: None,
            model: None,
            api: 34,
            version,
            later: None,
            is_newcomer: self.world.is_newcomer(rng),
            is_bot: self.world.is_bot(rng),
            wrong_days: self.world.wrong_days(rng),
        };
        if !self.classes.is_empty() {
            device.class = chosen(rng, &self.classes, |class| class.share);
        }
        if let Some(class) = device.class {
            device.model = rng.choice(&class.models).cloned();
            device.api = rng.choice(&class.apis).copied().unwrap_or(device.api);
        }
        let Some(rollout) = &self.rollout else { return device };
        let named = |name: &str| self.versions.iter().find(|version| version.name == name);
        if let (Some(from), Some(to)) = (named(&rollout.from), named(&rollout.to)) {
            let mean_ms = device.class.map_or(0, |class| class.update_hours) * 3_600_000;
            let is_slow = device.class.is_some_and(|class| class.slowness_percent > 100);
            // An exponential distribution: in each hour, the same share of the remaining devices updates.
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "some days in ms"
            )]
            let mut wait_ms =
                (-(1.0 - rng.f64()).ln() * mean_ms as f64 * self.world.delay(is_slow)) as u64;
            let release_ms = self.release_ms();
            if device.is_newcomer {
                let end_ms = self.from_s * 1000 + self.days * DAY_MS;
                wait_ms = rng.u64(0..end_ms.saturating_sub(release_ms).max(1));
            }
            (device.version, device.later) = (from, Some((to, release_ms + wait_ms)));
        }
        device
    }

    /// Returns the Unix time of the release, ms; without a rollout the begin of the first day.
    pub(crate) fn release_ms(&self) -> u64 {
        let hours = self.rollout.as_ref().map_or(0, |rollout| rollout.release_hour);
        self.from_s * 1000 + hours * 3_600_000
    }

    /// Returns the screens of a version.
    pub(crate) fn screens_of(&self, version: &str) -> Vec<&str> {
        let is_later = self.rollout.as_ref().is_none_or(|rollout| rollout.to == version);
        let is_there = |screen: &&str| {
            is_later || !self.world.later_screens.iter().any(|later| later == screen)
        };
        self.screens.iter().map(String::as_str).filter(is_there).collect()
    }

    /// The changes of a cause on a screen of a device with a version.
    pub(crate) fn change(
        &self,
        version: &str,
        cause: &PlannedCause,
        screen: &str,
        class: Option<&PlannedClass>,
    ) -> Changed {
        let class = class.map_or("", |class| &class.name);
        let mut changed = Changed { rate_percent: 100, time_percent: 100 };
        for change in &self.changes {
            let is_here = change.version == version
                && change.slice == cause.slice
                && has(&change.screens, screen)
                && has(&change.classes, class);
            if is_here {
                changed.rate_percent = changed.rate_percent * change.rate_percent / 100;
                changed.time_percent = changed.time_percent * change.time_percent / 100;
            }
        }
        changed
    }

    /// Returns an error in the plan's devices, if there is one.
    pub(super) fn fault_of_fleet(&self) -> Option<&'static str> {
        let of_classes = |is_wrong: fn(&PlannedClass) -> bool| self.classes.iter().any(is_wrong);
        if !self.classes.is_empty() && self.classes.iter().all(|class| class.share == 0) {
            return Some("classes: at least one must have a share above 0");
        }
        if of_classes(|class| class.models.is_empty() || class.apis.is_empty()) {
            return Some("classes: name at least one model and one API level of each");
        }
        if of_classes(|class| !(50..=300).contains(&class.slowness_percent)) {
            return Some("classes: slowness_percent must be between 50 and 300");
        }
        if of_classes(|class| class.causes_percent > 10_000 || class.update_hours > 100_000) {
            return Some(
                "classes: causes_percent must be at most 10,000, and update_hours at most 100,000",
            );
        }
        let is_large = |change: &PlannedChange| change.rate_percent.max(change.time_percent) > 1000;
        if self.changes.iter().any(is_large) {
            return Some("changes: rate_percent and time_percent must be at most 1,000");
        }
        let is_named = |name: &str| self.versions.iter().any(|version| version.name == name);
        match &self.rollout {
            Some(one) if !is_named(&one.from) || !is_named(&one.to) => {
                Some("rollout: name two versions of the plan")
            }
            Some(one) if !(1..=1000).contains(&one.captures) || one.release_hour > 1_000_000 => {
                Some(
                    "rollout: captures must be between 1 and 1,000, and release_hour at most 1,000,000",
                )
            }
            None if self.world.newcomers_percent > 0 || !self.world.later_screens.is_empty() => {
                Some("world: newcomers_percent and later_screens need a rollout")
            }
            _ => None,
        }
    }
}
