//! Ledgers of simulated device-days, with every frame and start that they count.

use fastrand::Rng;
use tracetee_ledger::{Part, Pipeline, RowKey, Source, StartType};
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

impl DeviceDay {
    /// Makes a part of so many frames, of which about `late_percent` are late.
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
            let key = RowKey {
                screen: screen.to_owned(),
                refresh_mhz: 60_000,
                pipeline: Pipeline::Views,
                source: Source::FrameMetrics,
            };
            let row = sums.row(key);
            row.frames += 1;
            row.frozen += u64::from(overrun_us + PERIOD_US > FROZEN_US);
            if overrun_us > 0 {
                row.late += 1;
                row.overrun_us.record(overrun_us);
            }
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
