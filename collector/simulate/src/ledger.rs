//! Ledgers of simulated device-days, with every frame and start that they count.

use crate::plan::{devices::PlannedDevice, has};
use crate::{DAY_MS, Plan, PlannedDeath, PlannedVersion, Simulated};
use fastrand::Rng;
use tracetee_ledger::{Part, Pipeline, RowKey, Source, StartType, Sums};
use tracetee_protocol::CaptureMeta;

/// Shortest time of a frozen frame, µs.
const FROZEN_US: u64 = 700_000;
/// Time that a frame of the simulated display has, µs.
const PERIOD_US: u64 = 16_667;

/// A part of the ledger of a simulated device-day.
#[derive(Debug, Clone)]
pub struct DeviceDay {
    /// Metadata that go with the part.
    pub meta: CaptureMeta,
    /// The part.
    pub part: Part,
    /// Screen and overrun (µs, 0 in time) of each frame.
    pub frames: Vec<(&'static str, u64)>,
    /// Time to the first drawn frame of each start, ms.
    pub starts: Vec<(StartType, u64)>,
}

/// The screens of the simulated app.
pub const SCREENS: [&str; 8] =
    ["", "Feed", "Search", "Product", "Cart", "Checkout", "Profile", "Settings"];

/// Counts a frame.
pub(crate) fn count(sums: &mut Sums, at: (&str, Pipeline), is_frozen: bool, overrun_us: u64) {
    let (screen, pipeline, source) = (at.0.to_owned(), at.1, Source::FrameMetrics);
    let row = sums.row(RowKey { screen, refresh_mhz: 60_000, pipeline, source });
    row.frames += 1;
    row.frozen += u64::from(is_frozen);
    if overrun_us > 0 {
        row.late += 1;
        row.overrun_us.record(overrun_us);
    }
}

impl DeviceDay {
    /// Returns the body of the upload: the compressed part.
    ///
    /// # Errors
    /// The error of zstd, or a part that is too large.
    pub fn body(&self) -> std::io::Result<Vec<u8>> {
        let bytes = self.part.encode().ok_or(std::io::ErrorKind::InvalidData)?;
        zstd::bulk::compress(&bytes, 1)
    }

    /// Makes a part with this many frames, of which about `late_percent` are late.
    #[must_use]
    pub fn new(
        rng: &mut Rng,
        [app, device]: [&str; 2],
        [day, version_code, part]: [u32; 3],
        frames: usize,
        late_percent: u8,
    ) -> Self {
        let meta = CaptureMeta {
            app: Some(app.to_owned()),
            install_id: Some(device.to_owned()),
            version_name: Some(format!("{}.{}", version_code / 10, version_code % 10)),
            version_code: Some(version_code.into()),
            model: Some(format!("model {}", device.len() % 3)),
            api: Some(34),
            ..CaptureMeta::default()
        };
        let mut made = Self {
            meta,
            part: Part { day, version_code: version_code.into(), part, ..Part::default() },
            frames: Vec::new(),
            starts: Vec::new(),
        };
        let sums = &mut made.part.sums;
        for _ in 0..frames {
            let screen = SCREENS[rng.usize(..SCREENS.len())];
            // From microseconds to seconds, most of them short.
            let late_us = 1 + (rng.u64(1..1 << 21) >> rng.u32(0..21));
            let overrun_us = if rng.u8(0..100) < late_percent { late_us } else { 0 };
            let is_frozen = overrun_us + PERIOD_US > FROZEN_US;
            count(sums, (screen, Pipeline::Views), is_frozen, overrun_us);
            made.frames.push((screen, overrun_us));
        }
        for kind in StartType::ALL {
            for _ in 0..rng.usize(0..4) {
                let ms = rng.u64(50..8_000);
                sums.start(kind, Some(ms), rng.bool().then_some(ms + 200));
                made.starts.push((kind, ms));
            }
        }
        sums.observed_s = rng.u64(60..7_200);
        sums.sessions = rng.u64(1..9);
        sums.slow_sessions = rng.u64(..sums.sessions);
        sums.own_cost_us = rng.u64(1..50_000);
        sums.major_faults = rng.u64(..500);
        sums.exits.record("low_memory", rng.u64(0..3));
        if rng.u8(0..20) == 0 {
            sums.exits.record("anr", 1);
            sums.visible_exits.record("anr", 1);
        }
        made
    }
}

/// Draws the ends of a version's processes on a day.
fn end(rng: &mut Rng, deaths: &[PlannedDeath], version: &str, sums: &mut Sums) {
    for PlannedDeath { reason, in_10000, seen_percent, versions } in deaths {
        let is_seen = rng.u64(0..100) < *seen_percent;
        if has(versions, version) && rng.u64(0..10_000) < *in_10000 {
            sums.exits.record(reason, 1);
            sums.visible_exits.record(reason, is_seen.into());
        }
    }
}

impl Plan {
    /// Makes the ledgers of a device that sends `captures`: one for each of its days and versions, with the frames of the
    /// captures. A device with a wrong clock sends none: the collector refuses most of its days.
    pub(crate) fn ledgers(
        &self,
        rng: &mut Rng,
        device: &PlannedDevice<'_>,
        meta_of: impl Fn(&PlannedVersion) -> CaptureMeta,
        captures: &[Simulated],
    ) -> Vec<DeviceDay> {
        let mut made = Vec::new();
        if self.deaths.is_empty() || device.wrong_days != 0 {
            return made;
        }
        let times = device.times_ms(self);
        for day in times.start / DAY_MS..times.end.div_ceil(DAY_MS) {
            let ends = [day, day + 1].map(|day| (day * DAY_MS).clamp(times.start, times.end));
            let mut versions = [ends[0], ends[1] - 1].map(|ms| device.version_at(ms)).to_vec();
            versions.dedup();
            for version in versions {
                let of_day = u32::try_from(day).unwrap_or_default();
                let mut part = Part { day: of_day, version_code: version.code, ..Part::default() };
                let is_of = |one: &&Simulated| {
                    let of_it = (one.meta.version_code, one.meta.made_ms.map(|ms| ms / DAY_MS));
                    of_it == (Some(version.code), Some(day))
                };
                captures.iter().filter(is_of).for_each(|one| part.sums.merge(&one.sums));
                end(rng, &self.deaths, &version.name, &mut part.sums);
                let meta = meta_of(version);
                made.push(DeviceDay { meta, part, frames: Vec::new(), starts: Vec::new() });
            }
        }
        made
    }
}
