//! Knobs of a simulated world: influences on jank other than the app's code.
//!
//! Each knob breaks an assumption that a comparison of two versions could make: that only the version changes on a date,
//! that a device is the same each day, that each session is sent. The default turns all of them off. The generator of
//! captures reads them, and so does that of rows in `tests/fleet/worlds`. Factors concern the times of causes.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// The largest factor of a capture in the tail, and the exponent of its distribution (Pareto's): the variance is infinite.
const MOST_OF_TAIL: f64 = 1000.0;
const TAIL_EXPONENT: f64 = 1.2;
/// Factor of the times of a bot: a machine that is not a phone.
const BOT: f64 = 12.0;
/// Days by which wrong clocks are wrong.
const WRONG_DAYS: [i64; 6] = [-2000, -40, -3, 5, 400, 3650];

/// The knobs. Shares and factors are in percent unless their names say otherwise; 100 means no change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct World {
    /// Changes on dates, of both versions: a server push, a maker's system update.
    pub dates: Vec<DateEffect>,
    /// Factor on Saturdays and Sundays.
    pub weekend_percent: u64,
    /// Rise of all times a day, in thousandths; below 0: their fall. Users' data grow, or a service becomes faster.
    pub growth_in_1000: i64,
    /// Factor on the day of a device's update, after it: caches are cold, code is not compiled.
    pub first_day_percent: u64,
    /// Share of devices that install the app after the release.
    pub newcomers_percent: u64,
    /// Factor of newcomers, on all days.
    pub newcomer_percent: u64,
    /// Spread of a device's days: the standard deviation of the logarithm of their factors.
    pub spread_percent: u64,
    /// Correlation of the logarithm with that of the previous day.
    pub autocorrelation_percent: u64,
    /// Captures in a thousand whose times are multiplied by a draw of Pareto's distribution.
    pub tails_in_1000: u64,
    /// Exponent of a day's factor in the probability that its captures are sent: with 100, days that are twice as slow are sent
    /// twice as often.
    pub selective_percent: u64,
    /// Factor by which slow devices update later than others; below 100: earlier.
    pub late_if_slow_percent: u64,
    /// Devices in a thousand that are bots: much slower than phones, and the first to update.
    pub bots_in_1000: u64,
    /// Devices in a thousand whose clocks are days or years wrong.
    pub wrong_clocks_in_1000: u64,
    /// Captures with impossible times, per ten thousand.
    pub garbage_in_10000: u64,
    /// Screens that only the later version has.
    pub later_screens: Vec<String>,
}

/// A change of both versions on a date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DateEffect {
    /// First day, counted from the release.
    pub from_day: i64,
    /// Factor from then on.
    pub percent: u64,
    /// First word of the affected models' names; if empty, all.
    #[serde(default)]
    pub maker: String,
}

/// The moment of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Unix time, ms.
    pub ms: i64,
    /// Unix time of the release, ms.
    pub release_ms: i64,
    /// Model of the device.
    pub model: &'a str,
    /// True on the day of the device's update, after it.
    pub is_first_day: bool,
    /// True if the device installed the app after the release.
    pub is_newcomer: bool,
    /// True for a bot.
    pub is_bot: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            dates: Vec::new(),
            weekend_percent: 100,
            growth_in_1000: 0,
            first_day_percent: 100,
            newcomers_percent: 0,
            newcomer_percent: 100,
            spread_percent: 0,
            autocorrelation_percent: 0,
            tails_in_1000: 0,
            selective_percent: 0,
            late_if_slow_percent: 100,
            bots_in_1000: 0,
            wrong_clocks_in_1000: 0,
            garbage_in_10000: 0,
            later_screens: Vec::new(),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "knobs and days are small")]
const fn real(value: i64) -> f64 {
    value as f64
}

fn share(percent: u64) -> f64 {
    real(percent.try_into().unwrap_or(i64::MAX)) / 100.0
}

/// Draws from the standard normal distribution: the sum of twelve has the variance 1.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// Draws whether a rare event occurs. A knob that is off draws nothing.
fn is_one_of(rng: &mut Rng, share: u64, all: u64) -> bool {
    share > 0 && rng.u64(0..all) < share
}

impl World {
    /// Returns an error in the knobs, if there is one.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let percents = [
            self.weekend_percent,
            self.first_day_percent,
            self.newcomer_percent,
            self.spread_percent,
            self.selective_percent,
            self.late_if_slow_percent,
        ];
        let percents = percents.into_iter().chain(self.dates.iter().map(|date| date.percent));
        if percents.max() > Some(1000) || !(-200..=200).contains(&self.growth_in_1000) {
            return Some("world: percents must be at most 1,000, growth_in_1000 from -200 to 200");
        }
        let most = [
            (self.newcomers_percent, 100),
            (self.autocorrelation_percent, 100),
            (self.tails_in_1000, 1000),
            (self.bots_in_1000, 1000),
            (self.wrong_clocks_in_1000, 1000),
            (self.garbage_in_10000, 10_000),
        ];
        let is_more_than_all = most.iter().any(|(share, all)| share > all);
        is_more_than_all.then_some("world: a share is larger than all")
    }

    /// Returns the factor of all times at a moment, without a device's days and tails.
    #[must_use]
    pub fn factor(&self, moment: &Moment<'_>) -> f64 {
        let day = (moment.ms - moment.release_ms).div_euclid(DAY_MS);
        let mut factor = (1.0 + real(self.growth_in_1000) / 1000.0)
            .powf(real(moment.ms - moment.release_ms) / real(DAY_MS));
        for date in &self.dates {
            if day >= date.from_day && moment.model.starts_with(&date.maker) {
                factor *= share(date.percent);
            }
        }
        // The first of January 1970 was a Thursday.
        let is_weekend = matches!(moment.ms.div_euclid(DAY_MS).rem_euclid(7), 2 | 3);
        let knobs = [
            (is_weekend, self.weekend_percent),
            (moment.is_first_day, self.first_day_percent),
            (moment.is_newcomer, self.newcomer_percent),
        ];
        factor *= knobs.iter().filter(|one| one.0).map(|one| share(one.1)).product::<f64>();
        if moment.is_bot { factor * BOT } else { factor }
    }

    /// Draws the factors of a device's days.
    #[must_use]
    pub fn days(&self, rng: &mut Rng, count: usize) -> Vec<f64> {
        if self.spread_percent == 0 {
            return vec![1.0; count];
        }
        let correlation = share(self.autocorrelation_percent).min(1.0);
        let mut before = normal(rng);
        let mut next = || {
            before = correlation * before + (1.0 - correlation * correlation).sqrt() * normal(rng);
            (share(self.spread_percent) * before).exp()
        };
        (0..count).map(|_| next()).collect()
    }

    /// Draws the factor of a capture, in addition to the factor of its day.
    #[must_use]
    pub fn tail(&self, rng: &mut Rng) -> f64 {
        if is_one_of(rng, self.tails_in_1000, 1000) {
            (1.0 - rng.f64()).powf(-1.0 / TAIL_EXPONENT).min(MOST_OF_TAIL)
        } else {
            1.0
        }
    }

    /// Returns the factor of the probability that a day's captures are sent, by the day's factor.
    #[must_use]
    pub fn sending(&self, day: f64) -> f64 {
        day.powf(share(self.selective_percent))
    }

    /// Draws whether a capture is sent, by its day's factor: without selection each is.
    #[must_use]
    pub fn is_sent(&self, rng: &mut Rng, day: f64) -> bool {
        self.selective_percent == 0 || rng.f64() < self.sending(day) / 2.0
    }

    /// Returns the factor of the time until a device updates, by its slowness.
    #[must_use]
    pub fn delay(&self, is_slow: bool) -> f64 {
        if is_slow { share(self.late_if_slow_percent) } else { 1.0 }
    }

    /// Draws whether a device installs the app after the release.
    #[must_use]
    pub fn is_newcomer(&self, rng: &mut Rng) -> bool {
        is_one_of(rng, self.newcomers_percent, 100)
    }

    /// Draws whether a device is a bot.
    #[must_use]
    pub fn is_bot(&self, rng: &mut Rng) -> bool {
        is_one_of(rng, self.bots_in_1000, 1000)
    }

    /// Draws the number of days by which a device's clock is wrong.
    #[must_use]
    pub fn wrong_days(&self, rng: &mut Rng) -> i64 {
        let is_wrong = is_one_of(rng, self.wrong_clocks_in_1000, 1000);
        if is_wrong { rng.choice(WRONG_DAYS).unwrap_or_default() } else { 0 }
    }

    /// Draws whether a capture has times that cannot be.
    #[must_use]
    pub fn is_garbage(&self, rng: &mut Rng) -> bool {
        is_one_of(rng, self.garbage_in_10000, 10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday.
    const RELEASE_MS: i64 = 20_703 * DAY_MS;

    fn at(day: i64, hour: i64) -> Moment<'static> {
        Moment {
            ms: RELEASE_MS + day * DAY_MS + hour * 3_600_000,
            release_ms: RELEASE_MS,
            model: "North 5",
            is_first_day: false,
            is_newcomer: false,
            is_bot: false,
        }
    }

    fn is_about(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn the_default_world_changes_and_draws_nothing() {
        let (world, mut rng) = (World::default(), Rng::with_seed(1));
        let moment = Moment { is_first_day: true, is_newcomer: true, ..at(5, 12) };
        assert!(is_about(world.factor(&moment), 1.0));
        assert!(world.days(&mut rng, 3).iter().all(|&day| is_about(day, 1.0)));
        assert!(is_about(world.tail(&mut rng) * world.sending(3.0) * world.delay(true), 1.0));
        assert!(!world.is_newcomer(&mut rng) && !world.is_bot(&mut rng));
        assert!(world.wrong_days(&mut rng) == 0 && !world.is_garbage(&mut rng));
        assert_eq!(rng.u64(..), Rng::with_seed(1).u64(..));
    }

    #[test]
    fn each_knob_of_the_date_acts_on_its_days_and_devices() {
        let effect =
            |maker: &str| DateEffect { from_day: 4, percent: 130, maker: maker.to_owned() };
        let world = World { dates: vec![effect("North"), effect("South")], ..World::default() };
        assert!(is_about(world.factor(&at(3, 23)), 1.0));
        assert!(is_about(world.factor(&at(4, 0)), 1.3));
        let weekend = World { weekend_percent: 120, ..World::default() };
        let factors: Vec<f64> = (0..8).map(|day| weekend.factor(&at(day, 5))).collect();
        assert_eq!(factors, [1.0, 1.0, 1.0, 1.0, 1.0, 1.2, 1.2, 1.0]);
        let growth = World { growth_in_1000: 10, ..World::default() };
        assert!(is_about(growth.factor(&at(2, 0)), 1.01_f64.powi(2)));
        assert!(is_about(growth.factor(&at(-1, 0)), 1.0 / 1.01));
        let first = World { first_day_percent: 115, newcomer_percent: 130, ..World::default() };
        assert!(is_about(first.factor(&Moment { is_first_day: true, ..at(0, 1) }), 1.15));
        assert!(is_about(first.factor(&Moment { is_newcomer: true, ..at(0, 1) }), 1.3));
        assert!(is_about(first.factor(&Moment { is_bot: true, ..at(0, 1) }), BOT));
    }

    #[test]
    fn days_have_the_spread_and_the_correlation_that_the_knobs_say() {
        let world = World { spread_percent: 50, autocorrelation_percent: 80, ..World::default() };
        let logs: Vec<f64> =
            world.days(&mut Rng::with_seed(2), 100_000).iter().map(|day| day.ln()).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / 100_000.0;
        let variance = mean(&mut logs.iter().map(|log| log * log));
        let product = mean(&mut logs.windows(2).map(|pair| pair[0] * pair[1]));
        assert!((variance.sqrt() - 0.5).abs() < 0.02, "{variance}");
        assert!((product / variance - 0.8).abs() < 0.02, "{product} {variance}");
    }

    #[test]
    fn shares_of_devices_and_captures_are_those_of_the_knobs() {
        let world = World {
            newcomers_percent: 15,
            tails_in_1000: 20,
            bots_in_1000: 30,
            wrong_clocks_in_1000: 200,
            garbage_in_10000: 500,
            ..World::default()
        };
        let mut rng = Rng::with_seed(3);
        let mut share = |is: &dyn Fn(&mut Rng) -> bool| {
            let count = (0..20_000).filter(|_| is(&mut rng)).count();
            real(i64::try_from(count).unwrap()) / 20_000.0
        };
        assert!((share(&|rng| world.is_newcomer(rng)) - 0.15).abs() < 0.01);
        assert!((share(&|rng| world.tail(rng) > 1.0) - 0.02).abs() < 0.005);
        assert!((share(&|rng| world.is_bot(rng)) - 0.03).abs() < 0.005);
        assert!((share(&|rng| world.wrong_days(rng) != 0) - 0.2).abs() < 0.01);
        assert!((share(&|rng| world.is_garbage(rng)) - 0.05).abs() < 0.01);
        let selective = World { selective_percent: 100, ..World::default() };
        assert!(is_about(selective.sending(2.0), 2.0) && is_about(world.sending(2.0), 1.0));
        let late = World { late_if_slow_percent: 300, ..World::default() };
        assert!(is_about(late.delay(true), 3.0) && is_about(late.delay(false), 1.0));
    }
}
