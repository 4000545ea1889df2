//! The platform's profiling (Android's ProfilingManager, API 35): when the app requests it, and how much it spends.
//!
//! The Android library in Kotlin implements it, and reads this section itself. The agent skips it ([`Elsewhere`]), so its
//! library has no reader for it; [`super::parse_to_serve`] checks it before a document is served.

use super::limits::*;
use super::{Match, Sampling};
use crate::json::{Decimal, Error, Value, Writer};
use crate::record::{Json, Path};
use crate::{record, words};
use std::marker::PhantomData;

/// Maximum number of requests and triggers: each is checked when a window begins, or when the app starts.
const MAX_RULES: usize = 16;
/// Seconds of a profile: the platform takes 1 to 600 (a system trace), 1 to 300 (the other kinds).
const DURATION_S: std::ops::RangeInclusive<Decimal> = Decimal::whole(1)..=Decimal::whole(600);
/// KiB of the platform's buffer: it allows 64 to 256,000, by kind.
const BUFFER_KB: std::ops::RangeInclusive<u32> = 64..=256_000;
/// Samples a second: the platform allows at most 200.
const FREQUENCY_HZ: std::ops::RangeInclusive<u32> = 1..=200;
/// Bytes between two samples of the heap: the platform's own limits.
const INTERVAL_BYTES: std::ops::RangeInclusive<u32> = 1..=65_536;
/// Hours between two results of a trigger: a month.
const PERIOD_H: std::ops::RangeInclusive<u32> = 0..=720;
/// Maximum costs: beyond the platform's own limits, nothing more is delivered.
const COST: std::ops::RangeInclusive<u32> = 0..=1000;

record! {
    /// Profiles that the app requests from Android's ProfilingManager (API 35). Off without rules. Results are not redacted:
    /// `redaction.strict` forbids them.
    pub struct Profiling {
        /// Profiles that the app asks for, each with a window. The first one that names the window counts.
        pub requests: Vec<ProfilingRequest> = Vec::new(); count(0..=MAX_RULES),
        /// Events after which the system gives the app a snapshot of its recording (API 36).
        pub triggers: Vec<ProfilingTrigger> = Vec::new(); count(0..=MAX_RULES),
        /// The costs that the app may have. The platform's own limits also apply.
        pub budget: ProfilingBudget = ProfilingBudget::default(),
        /// Maximum bytes of a compressed result. A larger one is discarded.
        pub max_bytes: u64 = 20_000_000; within(BYTES_PER_CAPTURE),
    }

    /// A profile that begins with a window's capture: when the window opens, or its trigger fires.
    pub struct ProfilingRequest {
        /// The ids of the windows.
        pub windows: Vec<String> = Vec::new(); required(); count(1..=MAX_WINDOWS),
        /// The kind of profile.
        pub kind: ProfileKind = ProfileKind::StackSampling; required(),
        /// Seconds that are recorded. A Java heap dump has none.
        pub duration_s: Decimal = Decimal::whole(10); within(DURATION_S),
        /// The size of the platform's buffer in KiB; without it the platform's default.
        pub buffer_kb: Option<u32> = None; within(BUFFER_KB),
        /// Stack samples a second; without it the platform's default (100).
        pub frequency_hz: Option<u32> = None; within(FREQUENCY_HZ),
        /// Bytes between two samples of a heap profile; without it the platform's default (4096).
        pub interval_bytes: Option<u32> = None; within(INTERVAL_BYTES),
        /// The share of devices that request it. Its salt is "profiling" by default.
        pub sampling: Sampling = Sampling::default(),
        /// Other conditions that a device must meet.
        pub matches["match"]: Match = Match::default(),
        /// When not all captures can be kept, those of a lower priority are deleted first.
        pub priority: u32 = 0,
    }

    /// An event after which the system gives the app a snapshot of its own recording.
    pub struct ProfilingTrigger {
        /// The event. Systems that do not know it ignore it.
        pub on: ProfilingEvent = ProfilingEvent::Anr; required(),
        /// Hours between two results of this event.
        pub period_h: u32 = 24; within(PERIOD_H),
        /// The share of devices that register it. Its salt is "profiling" by default.
        pub sampling: Sampling = Sampling::default(),
        /// Other conditions that a device must meet.
        pub matches["match"]: Match = Match::default(),
        /// When not all captures can be kept, those of a lower priority are deleted first.
        pub priority: u32 = 0,
    }

    /// The costs that the app may have: a request costs 10, a trigger's result 5. The defaults are the platform's limits.
    #[derive(Copy, Eq)]
    pub struct ProfilingBudget {
        /// Costs in any 60 minutes.
        pub per_hour: u32 = 10; within(COST),
        /// Costs in any 24 hours.
        pub per_day: u32 = 20; within(COST),
        /// Costs in any 7 days.
        pub per_week: u32 = 30; within(COST),
    }
}

words! {
    /// A kind of profile.
    pub enum ProfileKind {
        /// The stacks of the app's threads, at intervals.
        StackSampling = "stack_sampling",
        /// The scheduler, frames and markers of the app.
        SystemTrace = "system_trace",
        /// The objects of the Java heap. They contain the user's data.
        JavaHeapDump = "java_heap_dump",
        /// The stacks of native allocations, sampled.
        HeapProfile = "heap_profile",
    }

    /// An event of the system; each is Android's `ProfilingTrigger.TRIGGER_TYPE_` of that name.
    pub enum ProfilingEvent {
        /// The app did not respond.
        Anr = "anr",
        /// The app has called `reportFullyDrawn` after a cold start.
        AppFullyDrawn = "app_fully_drawn",
        /// The app was started cold.
        ColdStart = "cold_start",
        /// The Java heap was exhausted; the result is a heap dump.
        Oom = "oom",
        /// The system noticed an anomaly.
        Anomaly = "anomaly",
        /// The user has stopped the app in the settings.
        KillForceStop = "kill_force_stop",
        /// The user has removed the app from the recent apps.
        KillRecents = "kill_recents",
        /// The user has stopped the app in the task manager.
        KillTaskManager = "kill_task_manager",
        /// The app was killed because it used too much processor time.
        KillExcessiveCpuUsage = "kill_excessive_cpu_usage",
    }
}

/// A section that another reader of the document implements. Accepts any value; its schema is that of `T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere<T>(PhantomData<T>);

impl<T> Default for Elsewhere<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> Elsewhere<T> {
    /// Always true: it has no value that could be written.
    pub(super) const fn is_unwritten(&self) -> bool {
        true
    }
}

impl<T: Json + Default> Json for Elsewhere<T> {
    fn read(&mut self, _: Value<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        T::default().write(out);
    }

    fn check(&self, _: &mut Path) -> Result<(), Error> {
        Ok(())
    }
}
