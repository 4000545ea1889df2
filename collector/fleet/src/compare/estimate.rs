//! Estimates of a difference between two versions, from the observations of a cause.
//!
//! Values are winsorised: none counts for more than the quantile [`QUANTILE`] of all values above 0. Pairs are tested by
//! the signs that their differences have by chance, strata by the versions that their devices have by chance: if the versions
//! do not differ, an error has the first three moments of that distribution, however skewed the values are.

use super::bounds::{Bounded, bounded};
use super::observations::{Observations, Pair, StratumValues};
use crate::significance::{p_value, real};

/// Quantile of the values above 0 at which larger ones are cut, per cause, over both versions.
pub const QUANTILE: f64 = 0.99;

/// The difference that a part of the devices shows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shown {
    /// Devices of each version.
    pub devices: [u64; 2],
    /// Mean of both versions, ms per thousand frames.
    pub means: [f64; 2],
    /// Variance of the difference of the means, if the versions do not differ.
    pub variance: f64,
    /// Third moment of the difference, if the versions do not differ.
    third_moment: f64,
    /// Devices with a value above 0.
    pub devices_with: u64,
}

impl Shown {
    /// Returns the difference of the means.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.means[1] - self.means[0]
    }

    /// Returns the third moment of the difference, if the versions do not differ.
    #[must_use]
    pub const fn third_moment(&self) -> f64 {
        self.third_moment
    }

    /// Weighs both parts.
    fn mixed(self, other: Self, share: f64) -> Self {
        let rest = 1.0 - share;
        let mixed = |a: f64, b: f64, power: i32| a * share.powi(power) + b * rest.powi(power);
        Self {
            devices: [0, 1].map(|side| self.devices[side] + other.devices[side]),
            means: [0, 1].map(|side| mixed(self.means[side], other.means[side], 1)),
            variance: mixed(self.variance, other.variance, 2),
            third_moment: mixed(self.third_moment, other.third_moment, 3),
            devices_with: self.devices_with + other.devices_with,
        }
    }
}

/// The estimate of a cause.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The difference that pairs show.
    pub paired: Option<Shown>,
    /// The difference that strata show.
    pub stratified: Option<Shown>,
    /// Both, weighed by what they tell of all jank.
    pub both: Shown,
    /// Probability of a difference as large as that of `both`, or larger, if the versions do not differ.
    pub p: f64,
}

/// Estimates all causes, in their order.
#[must_use]
pub fn estimates(observations: &Observations) -> Vec<Estimate> {
    let mut share = None;
    (0..observations.causes.len())
        .map(|cause| {
            let paired = pairs(&observations.pairs(cause));
            let stratified = strata(observations, &observations.stratum_values(cause));
            if observations.is_bounded() {
                return unmatched(observations.unmatched_values(cause));
            }
            let share = *share.get_or_insert_with(|| match (paired, stratified) {
                (Some(a), Some(b)) if a.variance + b.variance > 0.0 => {
                    b.variance / (a.variance + b.variance)
                }
                (_, Some(_)) => 0.0,
                _ => 1.0,
            });
            let both = match (paired, stratified) {
                (Some(a), Some(b)) => a.mixed(b, share),
                (a, b) => a.or(b).unwrap_or_default(),
            };
            let p = p_value(both.difference(), both.variance, both.third_moment);
            Estimate { paired, stratified, both, p }
        })
        .collect()
}

/// Estimates the difference of devices of unknown models.
fn unmatched(values: [Vec<f64>; 2]) -> Estimate {
    let most = limit(values.iter().flatten().copied());
    let devices = values.each_ref().map(|values| values.len() as u64);
    let devices_with = values.iter().flatten().filter(|value| **value > 0.0).count() as u64;
    let values = values.map(|values| values.into_iter().map(|value| value.min(most)).collect());
    let Bounded { means, difference, variance } = bounded(values);
    let both = Shown { devices, means, variance, devices_with, ..Shown::default() };
    Estimate { both, p: p_value(difference, variance, 0.0), ..Estimate::default() }
}

/// Returns the value at which larger ones are cut.
fn limit(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    if values.is_empty() {
        return f64::INFINITY;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place below the number of devices"
    )]
    let place = (real(values.len() as u64) * QUANTILE).ceil() as usize - 1;
    let place = place.min(values.len() - 1);
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Estimates the difference that pairs show.
#[must_use]
pub fn pairs(pairs: &[Pair]) -> Option<Shown> {
    if pairs.is_empty() {
        return None;
    }
    let most = limit(pairs.iter().flat_map(|pair| [pair.old, pair.new]));
    let count = real(pairs.len() as u64);
    let mut shown = Shown { devices: [pairs.len() as u64; 2], ..Shown::default() };
    for pair in pairs {
        let (old, new) = (pair.old.min(most), pair.new.min(most));
        shown.means[0] += old / count;
        shown.means[1] += new / count;
        shown.variance += (new - old).powi(2) / count / count;
        shown.devices_with += u64::from(pair.old > 0.0 || pair.new > 0.0);
    }
    Some(shown)
}

/// Estimates the difference that strata show. A device is one observation, on however many screens.
#[must_use]
pub fn strata(observations: &Observations, strata: &[StratumValues<'_>]) -> Option<Shown> {
    if strata.is_empty() {
        return None;
    }
    let most = limit(strata.iter().flat_map(|stratum| &stratum.values).flatten().copied());
    let mut shown = Shown { devices: observations.stratified, ..Shown::default() };
    // Contribution of a device to the roots of the moments.
    let mut added = vec![[0.0; 2]; observations.devices.len()];
    let mut has_value = vec![false; observations.devices.len()];
    for StratumValues { stratum, values } in strata {
        let sums =
            values.each_ref().map(|values| values.iter().map(|of| of.min(most)).sum::<f64>());
        let [a, b] = values.each_ref().map(|values| real(values.len() as u64));
        let all = a + b;
        let mean = (sums[0] + sums[1]) / all;
        let weight = stratum.weight;
        shown.means[0] += weight * sums[0] / a;
        shown.means[1] += weight * sums[1] / b;
        // Moments of 1/b for a device of the later version, and -1/a for one of the earlier, in any order.
        let second = ((1.0 / a + 1.0 / b) / (all - 1.0)).sqrt();
        let third = ((1.0 / (b * b) - 1.0 / (a * a)) / all).cbrt();
        for (devices, values) in stratum.devices.iter().zip(values) {
            for (&device, value) in devices.iter().zip(values) {
                let device = usize::try_from(device).unwrap_or(usize::MAX);
                let centred = weight * (value.min(most) - mean);
                if let Some([root, cube_root]) = added.get_mut(device) {
                    *root += centred * second;
                    *cube_root += centred * third;
                }
                if let Some(has_value) = has_value.get_mut(device) {
                    *has_value |= *value > 0.0;
                }
            }
        }
    }
    shown.variance = added.iter().map(|[root, _]| root * root).sum();
    shown.third_moment = added.iter().map(|[_, cube_root]| cube_root.powi(3)).sum();
    shown.devices_with = has_value.iter().map(|&has_value| u64::from(has_value)).sum();
    Some(shown)
}
