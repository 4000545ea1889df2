//! A simulated fleet: devices whose captures have known causes of jank, and the ground truth about them. For load tests,
//! demos, and tests of reports.
//!
//! A device depends on the plan, the seed and its number alone, so that any number of threads may make devices, and
//! the same devices can be made again.

use crate::rows::version_of;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use text::Text;
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::json::Decimal;
use truth::share;
use uuid::Uuid;

mod text;
mod truth;

pub use truth::{TrueCause, TrueVersion, Truth};

/// Refresh rate of the display.
const HZ: Decimal = Decimal::whole(60);
/// Refresh period in whole microseconds, the precision of the trace.
const VSYNC_US: u64 = 16_667;
/// The frame budget by the analysis.
const PERIOD_NS: u64 = 16_666_667;

/// Time that a slow frame takes in addition to the 2.2 to 4.5 ms of others: between one and two periods in total.
const SLOW_US: std::ops::Range<u64> = 15_000..28_000;

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
    /// Causes of late frames.
    pub causes: Vec<PlannedCause>,
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

/// How a cause is planted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// The slice is work inside of the frame.
    #[default]
    Work,
    /// The slice is a message that the main thread handles when the frame's vsync comes. It is planted only after a
    /// frame of one period, which has asked for that vsync.
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
    /// How it is planted.
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
    /// Versions with the cause; empty: all.
    #[serde(default)]
    pub versions: Vec<String>,
}

impl Default for Plan {
    fn default() -> Self {
        let cause =
            |slice: &str, cause: &str, in_10000, ms, screens: &[&str], versions: &[&str]| {
                let names = |of: &[&str]| of.iter().map(|&name| name.to_owned()).collect();
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
            frames: 120,
            slow_in_10000: 400,
            triggered_percent: 10,
            days: 7,
            from_s: 1_790_000_000,
        }
    }
}

/// A capture as a device sends it.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The capture's id, a UUID of version 7.
    pub id: Uuid,
    /// The metadata.
    pub meta: CaptureMeta,
    /// The text.
    pub text: String,
}

impl Simulated {
    /// Returns the body of the upload: the compressed text.
    ///
    /// # Errors
    /// The error of zstd.
    pub fn body(&self) -> std::io::Result<Vec<u8>> {
        zstd::bulk::compress(self.text.as_bytes(), 1)
    }
}

impl Plan {
    /// Returns what is wrong with a plan, if anything.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        if self.versions.iter().map(|version| version.share).sum::<u64>() == 0 {
            return Some("versions: at least one must have a share above 0");
        }
        if self.screens.is_empty() {
            return Some("screens: name at least one");
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
        None
    }

    /// Makes the captures of a device, and the truth about them.
    #[must_use]
    pub fn device(&self, seed: u64, number: u64) -> (Vec<Simulated>, Truth) {
        // Neighbours' generators must not be alike.
        let mut rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.u64(..);
        let mut at =
            rng.u64(0..self.versions.iter().map(|version| version.share).sum::<u64>().max(1));
        let version = self.versions.iter().find(|version| {
            let is_it = at < version.share;
            at = at.saturating_sub(version.share);
            is_it
        });
        let mut truth = Truth::default();
        let Some(version) = version else { return (Vec::new(), truth) };
        let install_id =
            format!("{:032x}", u128::from(rng.u64(..)) << 64 | u128::from(rng.u64(..)));
        let mut captures = Vec::new();
        let kinds: &[&str] = if rng.u64(0..100) < self.triggered_percent {
            &["schedule", "triggers"]
        } else {
            &["schedule"]
        };
        for &opens in kinds {
            let made_ms = self.from_s * 1000 + rng.u64(0..self.days * 86_400_000);
            let mut random = [0; 10];
            random.fill_with(|| rng.u8(..));
            let id = uuid::Builder::from_unix_timestamp_millis(made_ms, &random).into_uuid();
            let mut meta = CaptureMeta {
                id: Some(id.to_string()),
                app: Some(self.app.clone()),
                install_id: Some(install_id.to_string()),
                opens: Some(opens.to_owned()),
                version_name: Some(version.name.clone()),
                version_code: Some(version.code),
                api: Some(34),
                os: Some("android".to_owned()),
                window: Some(if opens == "schedule" { "sample" } else { "jank" }.to_owned()),
                why: Some("simulated".to_owned()),
                refresh_hz: Some(HZ),
                pid: Some(4000),
                ..CaptureMeta::default()
            };
            let text = self.capture(&mut rng, &meta, number, &version.name, opens, &mut truth);
            meta.made_ms = Some(made_ms);
            captures.push(Simulated { id, meta, text });
        }
        (captures, truth)
    }

    fn capture(
        &self,
        rng: &mut Rng,
        about: &CaptureMeta,
        device: u64,
        version: &str,
        opens: &str,
        truth: &mut Truth,
    ) -> String {
        let mut text = Text::new(about);
        let of_version = truth.versions.entry(version_of(about)).or_default();
        of_version.devices.insert(device);
        of_version.captures += 1;
        let is_counted = opens == "schedule";
        of_version.counted += u64::from(is_counted);
        let mut seen = BTreeSet::new();
        // The frame before, if it began when it was due.
        let mut before: Option<u64> = None;
        let mut at = 1_000_000 + rng.u64(0..1_000_000_000);
        let of_a_screen = self.frames.div_ceil(self.screens.len() as u64);
        for frame in 0..self.frames {
            let screen =
                usize::try_from(frame / of_a_screen).ok().and_then(|at| self.screens.get(at));
            let Some(screen) = screen else { break };
            if frame % of_a_screen == 0 {
                text.main(at, &format!("I|4000|screen:{screen}"));
                at += 1;
            }
            let planted = self.causes.iter().find(|cause| {
                let is_here = (cause.screens.is_empty() || cause.screens.contains(screen))
                    && (cause.versions.is_empty() || cause.versions.iter().any(|of| of == version));
                is_here && rng.u64(0..10_000) < cause.in_10000
            });
            // A message before the frame delays it only if the frame before has asked for the vsync.
            let planted = planted.filter(|cause| {
                cause.plant != Plant::Before
                    || before.is_some_and(|before| at - before <= VSYNC_US + 1)
            });
            let cause_us = planted.map_or(0, |cause| cause.ms * 500 + rng.u64(0..=cause.ms * 1000));
            let is_slow = planted.is_none() && rng.u64(0..10_000) < self.slow_in_10000;
            let slow_us = if is_slow { rng.u64(SLOW_US) } else { 0 };
            let planted_slice = planted.map(|cause| (&*cause.slice, cause.plant, cause_us));
            let drawn = text.frame(rng, at, frame, planted_slice, slow_us);
            let end = drawn.end;
            // Delayed frames were due a period after the frame before.
            let due_ns = match before.filter(|_| drawn.begin != at) {
                Some(before) => before * 1000 + PERIOD_NS,
                None => at * 1000,
            };
            let dur_ns = end * 1000 - due_ns;
            let jank_ns = dur_ns.saturating_sub(PERIOD_NS);
            let is_janky = dur_ns > 2 * PERIOD_NS;
            let is_late = jank_ns > 0;
            if is_counted {
                of_version.frames += 1;
                of_version.slow += u64::from(is_late);
                of_version.janky += u64::from(is_janky);
                of_version.frozen += u64::from(dur_ns > 700_000_000);
                of_version.jank_ns += jank_ns;
            }
            if let (Some(cause), true) = (planted, is_late) {
                let name = format!("{}: {}", cause.cause, cause.key);
                let of_cause = truth.causes.entry(name.clone()).or_default();
                of_cause.devices.insert(device);
                of_cause.captures += u64::from(seen.insert(name));
                of_cause.frames += 1;
                let self_ns = match cause.plant {
                    Plant::Before => (at + cause_us) * 1000 - due_ns,
                    _ => cause_us * 1000,
                };
                of_cause.self_ns += self_ns;
                of_cause.overrun_ns += share(self_ns, jank_ns, dur_ns);
            }
            before = (drawn.begin == at).then_some(at);
            // The next vsync.
            at += (end - at).div_ceil(VSYNC_US).max(1) * VSYNC_US;
        }
        text.finish()
    }
}

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;
