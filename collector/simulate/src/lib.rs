//! A simulated fleet: devices whose captures have known causes of jank, and their ground truth. For load tests,
//! demos, and tests of reports.
//!
//! A device depends only on the plan, the seed and its number, so any number of threads may make devices, and the same
//! devices can be made again.

use fastrand::Rng;
use ledger::DeviceDay;
use tracetee_ledger::Sums;
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::json::Decimal;
use uuid::Uuid;

mod capture;
pub mod ledger;
mod pipelines;
mod plan;
mod text;
mod truth;
mod world;

pub use plan::{
    Plan, PlannedCause, PlannedChange, PlannedClass, PlannedDeath, PlannedPipeline, PlannedRollout,
    PlannedVersion, Plant,
};
pub use truth::{TrueCause, TrueFrames, TrueVersion, Truth};
pub use world::{DateEffect, Moment, World};

/// Refresh rate of the display.
const HZ: Decimal = Decimal::whole(60);
/// Refresh period in whole microseconds, the precision of the trace.
const VSYNC_US: u64 = 16_667;
/// The frame budget by the analysis.
const PERIOD_NS: u64 = 16_666_667;
/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// A capture as a device sends it.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The capture's id, a UUID of version 7.
    pub id: Uuid,
    /// The metadata.
    pub meta: CaptureMeta,
    /// The text.
    pub text: String,
    /// Counts of its frames in the device's ledger.
    pub sums: Sums,
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

/// The largest factor of a capture's times.
const MOST: f64 = 1000.0;

/// Rounds a factor to thousandths.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a factor is above 0")]
fn in_1000(factor: f64) -> u64 {
    (factor.min(MOST) * 1000.0).round() as u64
}

impl Plan {
    /// Makes the captures of a device, the truth about them, and its ledgers.
    #[must_use]
    pub fn device(&self, seed: u64, number: u64) -> (Vec<Simulated>, Truth, Vec<DeviceDay>) {
        // Neighbours' generators must not be alike.
        let mut rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.u64(..);
        let version = plan::devices::chosen(&mut rng, &self.versions, |version| version.share);
        let (mut captures, mut truth) = (Vec::new(), Truth::default());
        let Some(version) = version else { return (captures, truth, Vec::new()) };
        let device = self.planned_device(&mut rng, version);
        let install_id =
            format!("{:032x}", u128::from(rng.u64(..)) << 64 | u128::from(rng.u64(..)));
        let meta_of = |version: &PlannedVersion| CaptureMeta {
            app: Some(self.app.clone()),
            install_id: Some(install_id.clone()),
            version_name: Some(version.name.clone()),
            version_code: Some(version.code),
            model: device.model.clone(),
            api: Some(device.api),
            ..CaptureMeta::default()
        };
        let of_days = self.world.days(&mut rng, usize::try_from(self.days).unwrap_or(0));
        truth.world.newcomers = device.is_newcomer.into();
        truth.world.bots = device.is_bot.into();
        truth.world.wrong_clocks = (device.wrong_days != 0).into();
        let is_triggered = rng.u64(0..100) < self.triggered_percent;
        let scheduled = self.rollout.as_ref().map_or(1, |rollout| rollout.captures);
        let scheduled = (0..scheduled).map(|_| "schedule");
        for opens in scheduled.chain(is_triggered.then_some("triggers")) {
            let at_ms = rng.u64(device.times_ms(self));
            let day = (at_ms - self.from_s * 1000) / DAY_MS;
            let of_day = usize::try_from(day).ok().and_then(|day| of_days.get(day)).copied();
            let of_day = of_day.unwrap_or(1.0);
            if !self.world.is_sent(&mut rng, of_day) {
                truth.world.unsent += 1;
                continue;
            }
            let made_ms = at_ms.saturating_add_signed(device.wrong_days * DAY_MS.cast_signed());
            let mut random = [0; 10];
            random.fill_with(|| rng.u8(..));
            let id = uuid::Builder::from_unix_timestamp_millis(made_ms, &random).into_uuid();
            let mut meta = CaptureMeta {
                id: Some(id.to_string()),
                opens: Some(opens.to_owned()),
                os: Some("android".to_owned()),
                window: Some(if opens == "schedule" { "sample" } else { "jank" }.to_owned()),
                why: Some("simulated".to_owned()),
                refresh_hz: Some(HZ),
                pid: Some(4000),
                notes_stops: Some(true),
                ..meta_of(device.version_at(at_ms))
            };
            let moment = Moment {
                ms: at_ms.cast_signed(),
                release_ms: self.release_ms().cast_signed(),
                model: device.model.as_deref().unwrap_or_default(),
                is_first_day: device.is_first_day(at_ms),
                is_newcomer: device.is_newcomer,
                is_bot: device.is_bot,
            };
            let factor = of_day * self.world.factor(&moment) * self.world.tail(&mut rng);
            let is_garbage = self.world.is_garbage(&mut rng);
            truth.world.garbage += u64::from(is_garbage);
            let about = capture::About {
                meta: &meta,
                device: number,
                class: device.class,
                in_1000: in_1000(factor),
                day,
                is_first_day: moment.is_first_day,
                is_garbage,
            };
            let (text, sums) = capture::capture(self, &mut rng, &about, &mut truth);
            meta.made_ms = Some(made_ms);
            captures.push(Simulated { id, meta, text, sums });
        }
        let ledgers = self.ledgers(&mut rng, &device, meta_of, &captures);
        truth.count_ledgers(&ledgers);
        (captures, truth, ledgers)
    }
}

#[cfg(test)]
mod tests;
