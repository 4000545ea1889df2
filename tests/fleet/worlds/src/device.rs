//! The devices of a rollout. They differ by model, from each other, and in what they send.

use crate::{DAY_MS, RELEASE_DAYS, RELEASE_MS, Scenario};
use fastrand::Rng;

/// Factors of the models' times.
const MODELS: [f64; 4] = [0.8, 1.0, 1.4, 2.0];
/// Makers of the models.
const MAKERS: [&str; 4] = ["North", "East", "South", "West"];
/// Spread of the devices of a model: standard deviations of logarithms.
const SPREAD: f64 = 0.4;
/// Models from this factor on are slow.
const SLOW: f64 = 1.4;

/// A device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Install id.
    pub id: String,
    /// Model; its first word is the maker.
    pub model: String,
    /// Android API level.
    pub api: u64,
    /// Refresh rate of the display, Hz.
    pub hz: u64,
    /// Factor of the times of causes.
    pub(crate) factor: f64,
    /// Factor of the frequency of causes.
    pub(crate) rate: f64,
    /// Probability that it sends captures of a day.
    pub(crate) activity: f64,
    /// Unix times of its updates, and the versions that they lead to; the first one of a newcomer is its installation.
    pub(crate) updates: Vec<(i64, usize)>,
    /// True if it installed the app after the release.
    pub(crate) is_newcomer: bool,
    /// True for a bot.
    pub(crate) is_bot: bool,
    /// Days by which its clock is wrong.
    pub(crate) wrong_days: i64,
}

pub(crate) fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

impl Device {
    pub(crate) fn draw(rng: &mut Rng, scenario: &Scenario, days: i64) -> Self {
        let world = &scenario.world;
        let (model, maker) = (rng.usize(..MODELS.len()), rng.usize(..MAKERS.len()));
        let id = u128::from(rng.u64(..)) << 64 | u128::from(rng.u64(..));
        let factor = MODELS[model] * (SPREAD * normal(rng)).exp();
        let (is_newcomer, is_bot) = (world.is_newcomer(rng), world.is_bot(rng));
        let mean_days = scenario.adoption_days * world.delay(MODELS[model] >= SLOW);
        let wait_days = if is_newcomer {
            rng.f64() * days as f64
        } else {
            exponential(rng) * if is_bot { 1.0 } else { mean_days }
        };
        let update_ms = RELEASE_MS + (wait_days * DAY_MS as f64) as i64;
        let mut device = Self {
            id: format!("{id:032x}"),
            model: format!("{} {model}", MAKERS[maker]),
            api: 33 + rng.u64(0..2),
            hz: 60,
            factor,
            rate: (0.3 * normal(rng)).exp(),
            activity: (scenario.activity * (0.3 * normal(rng)).exp()).min(0.9),
            updates: Vec::new(),
            is_newcomer: is_newcomer || is_bot,
            is_bot,
            wrong_days: world.wrong_days(rng),
        };
        let installed = if device.is_newcomer { scenario.released_at(update_ms) } else { 1 };
        device.updates.push((update_ms, installed));
        for version in installed + 1..=scenario.releases {
            let released_ms = RELEASE_MS + (version as i64 - 1) * RELEASE_DAYS * DAY_MS;
            let wait_ms = (exponential(rng) * mean_days * DAY_MS as f64) as i64;
            let at_ms = released_ms + wait_ms;
            // A device that has this version does not update to an earlier one.
            device.updates.retain(|(before_ms, _)| *before_ms < at_ms);
            device.updates.push((at_ms, version));
        }
        device
    }

    /// Returns the version at a time, if the app is installed.
    pub(crate) fn version_at(&self, ms: i64) -> Option<usize> {
        let update = self.updates.iter().rev().find(|(update_ms, _)| *update_ms <= ms);
        update.map(|update| update.1).or((!self.is_newcomer).then_some(0))
    }
}
