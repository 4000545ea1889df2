//! The plan of a simulated fleet.

use crate::World;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracetee_ledger::Pipeline;

pub(crate) mod devices;

pub use devices::{PlannedChange, PlannedClass, PlannedRollout};

/// A thread that swaps buffers less often draws no animation.
const LEAST_OF_A_LOOP: u64 = 3;

/// The plan of a simulated fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The app.
    pub app: String,
    /// The app's versions.
    pub versions: Vec<PlannedVersion>,
    /// The app's screens; each capture goes through all of them.
    pub screens: Vec<String>,
    /// Pipelines of the screens that Android's views do not draw, by the screen's name.
    #[serde(default)]
    pub pipelines: BTreeMap<String, PlannedPipeline>,
    /// Causes of late frames.
    pub causes: Vec<PlannedCause>,
    /// Changes of causes by a version.
    #[serde(default)]
    pub changes: Vec<PlannedChange>,
    /// Classes of devices; without any, devices do not name their model.
    #[serde(default)]
    pub classes: Vec<PlannedClass>,
    /// Ends of processes, which ledgers count; without any, devices send no ledgers.
    #[serde(default)]
    pub deaths: Vec<PlannedDeath>,
    /// The transition from a version to the next; without it, each device has one version, by the versions' shares.
    pub rollout: Option<PlannedRollout>,
    /// Influences on jank besides the versions.
    #[serde(default)]
    pub world: World,
    /// Number of causes that a frame of views can have at once, in the order of `causes`; 0 and 1: one.
    #[serde(default)]
    pub causes_in_frame: usize,
    /// True if a late frame of views delays the next one, which becomes due meanwhile.
    #[serde(default)]
    pub queued: bool,
    /// Number of frames of a capture.
    pub frames: u64,
    /// Frames in ten thousand that have no cause and take between one and two periods: slow, but not janky.
    #[serde(default)]
    pub slow_in_10000: u64,
    /// Percentage of devices with an additional capture that jank has triggered.
    pub triggered_percent: u64,
    /// Number of days over which the captures are spread.
    pub days: u64,
    /// Begin of the first day, Unix time in s.
    pub from_s: u64,
}

/// A version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedVersion {
    /// The version's name.
    pub name: String,
    /// The version's code.
    pub code: u64,
    /// Share of devices, in proportion to the other versions.
    pub share: u64,
}

/// The way in which a screen's frames are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedPipeline {
    /// Flutter: a UI thread and a raster thread, with the engine's markers.
    Flutter,
    /// A game: a thread that swaps buffers of OpenGL ES, 60 times a second.
    Gl,
}

impl PlannedPipeline {
    /// Returns the pipeline that the analysis must find.
    pub(crate) const fn found(self) -> Pipeline {
        match self {
            Self::Flutter => Pipeline::Flutter,
            Self::Gl => Pipeline::Gl,
        }
    }
}

/// The way in which a cause appears in a simulated frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// The slice is work inside the frame.
    #[default]
    Work,
    /// The slice is a message that the main thread handles when the frame's vsync arrives. It is planted only after a frame
    /// of one period, which requested that vsync.
    Before,
    /// The main thread sleeps in the slice until a timer wakes it.
    Sleep,
    /// The main thread sleeps in the slice until the thread `worker` wakes it.
    Wait,
    /// The main thread reads from a disk in the slice.
    Disk,
    /// No processor is free in the slice.
    Processor,
}

/// A cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCause {
    /// The slice, as Android writes it.
    pub slice: String,
    /// The way in which the cause appears.
    #[serde(default)]
    pub plant: Plant,
    /// The cause that the analysis must find.
    pub cause: String,
    /// The key that the analysis must find.
    pub key: String,
    /// Frames in ten thousand that have the cause.
    pub in_10000: u64,
    /// Mean time in such a frame, ms; times vary from half to one and a half of it.
    pub ms: u64,
    /// Screens with the cause; empty: all.
    #[serde(default)]
    pub screens: Vec<String>,
    /// Versions that have the cause; if empty, all.
    #[serde(default)]
    pub versions: Vec<String>,
}

/// A reason of ends of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlannedDeath {
    /// The reason, as ledgers name it.
    pub reason: String,
    /// Ends in ten thousand days of a device; on the day of its update, with each version.
    pub in_10000: u64,
    /// Share of them that a user saw, percent; the other processes were in the background or frozen.
    pub seen_percent: u64,
    /// Versions that have it; if empty, all.
    pub versions: Vec<String>,
}

impl Default for Plan {
    fn default() -> Self {
        let cause =
            |slice: &str, cause: &str, in_10000, ms, screens: &[&str], versions: &[&str]| {
                let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
                PlannedCause {
                    slice: slice.to_owned(),
                    plant: Plant::Work,
                    cause: cause.to_owned(),
                    key: slice.to_owned(),
                    in_10000,
                    ms,
                    screens: names(screens),
                    versions: names(versions),
                }
            };
        let version =
            |name: &str, code, share| PlannedVersion { name: name.to_owned(), code, share };
        let mut lock = cause(
            "monitor contention with owner cache (4711) at void com.example.Cache.put(int)(Cache.java:42) \
             waiters=0 blocking from int com.example.Cache.get(int)(Cache.java:17)",
            "lock",
            120,
            80,
            &["Detail"],
            &[],
        );
        lock.key = "com.example.Cache.get held by com.example.Cache.put".to_owned();
        Self {
            app: "com.example.shop".to_owned(),
            versions: vec![version("2.0", 200, 1), version("2.1", 210, 1)],
            screens: ["Feed", "Detail", "Settings"].map(str::to_owned).to_vec(),
            pipelines: BTreeMap::new(),
            causes: vec![
                cause("inflate", "inflate", 300, 90, &["Feed"], &[]),
                lock,
                cause("binder transaction", "binder", 100, 60, &["Settings"], &[]),
                cause("GC: Wait For Completion Alloc", "gc", 30, 70, &[], &[]),
                cause("Feed.bind", "section", 250, 100, &["Feed"], &["2.1"]),
                PlannedCause {
                    plant: Plant::Before,
                    ..cause("Sync$Handler: onMessage", "section", 60, 95, &["Detail"], &[])
                },
                PlannedCause {
                    plant: Plant::Sleep,
                    ..cause("Prices.load", "sleep", 80, 60, &["Settings"], &[])
                },
                PlannedCause {
                    plant: Plant::Disk,
                    ..cause("Icons.read", "io", 60, 50, &["Feed"], &[])
                },
            ],
            changes: Vec::new(),
            deaths: Vec::new(),
            classes: Vec::new(),
            rollout: None,
            world: World::default(),
            causes_in_frame: 1,
            queued: false,
            frames: 120,
            slow_in_10000: 400,
            triggered_percent: 10,
            days: 7,
            from_s: 1_790_000_000,
        }
    }
}

impl Plan {
    /// Returns the plan of a rollout whose regression a comparison and a guard find with 300 devices: 2.1 adds `Feed.bind`,
    /// and devices that update later are the controls of the others.
    #[must_use]
    pub fn rollout() -> Self {
        let [from, to] = ["2.0", "2.1"].map(str::to_owned);
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
            version: to.clone(),
            slice: "Feed.bind".to_owned(),
            screens: Vec::new(),
            classes: Vec::new(),
            rate_percent: 100,
            time_percent: 300,
        };
        Self {
            rollout: Some(PlannedRollout { from, to, release_hour: 120, captures: 14 }),
            classes: vec![phones],
            changes: vec![worse],
            days: 14,
            // With 90, less than half of the fleet is compared.
            frames: 240,
            ..Self::default()
        }
    }

    /// Returns an error in a plan, if there is one.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        if self.versions.iter().map(|version| version.share).sum::<u64>() == 0 {
            return Some("versions: at least one must have a share above 0");
        }
        if let Some(fault) = self.fault_of_fleet().or_else(|| self.world.fault()) {
            return Some(fault);
        }
        if self.screens.iter().all(|screen| self.world.later_screens.contains(screen)) {
            return Some("screens: name at least one that all versions have");
        }
        if self.frames == 0 || self.frames > 100_000 {
            return Some("frames: must be between 1 and 100,000");
        }
        if self.days == 0 {
            return Some("days: must be at least 1");
        }
        let is_long = |cause: &PlannedCause| cause.ms > 100_000 || cause.in_10000 > 10_000;
        if self.causes.iter().any(is_long) {
            return Some("causes: ms must be at most 100,000, and in_10000 at most 10,000");
        }
        if self.slow_in_10000 > 10_000 {
            return Some("slow_in_10000: must be at most 10,000");
        }
        let is_wrong = |death: &PlannedDeath| death.in_10000 > 10_000 || death.seen_percent > 100;
        if self.deaths.iter().any(is_wrong) {
            return Some("deaths: in_10000 must be at most 10,000, and seen_percent at most 100");
        }
        if self.pipelines.keys().any(|screen| !self.screens.contains(screen)) {
            return Some("pipelines: name screens of the plan");
        }
        let is_elsewhere = |cause: &PlannedCause| {
            cause.plant != Plant::Work
                && self.pipelines.keys().any(|screen| Self::has_on(cause, screen))
        };
        if self.causes.iter().any(is_elsewhere) {
            return Some("causes: on a screen with its own pipeline, plant must be work");
        }
        let screens = self.screens.len() as u64;
        let of_the_last =
            self.frames.saturating_sub(self.frames.div_ceil(screens).saturating_mul(screens - 1));
        if of_the_last < LEAST_OF_A_LOOP
            && self.pipelines.values().any(|pipeline| *pipeline == PlannedPipeline::Gl)
        {
            return Some("frames: a screen of the pipeline gl needs at least 3");
        }
        None
    }

    /// True if a frame of the cause may be on the screen.
    pub(crate) fn has_on(cause: &PlannedCause, screen: &str) -> bool {
        has(&cause.screens, screen)
    }
}

/// True if a list of a plan contains a name, or is empty, which means all names.
pub(crate) fn has(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}
