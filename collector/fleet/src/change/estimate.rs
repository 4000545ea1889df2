//! The size of a change and the evidence for it, from the observations of one series.
//!
//! An observation has four values: before the release and on a day after it, of a device that updated and of a control. Without
//! a change the two devices could be exchanged, and so their ratio of ratios is as often above 1 as below, whatever the calendar
//! did, and however heavy the tails are. [`evidence`] limits it to -1 … 1; its sign changes if the two are exchanged. So under the
//! hypothesis "no change" the mean is 0. A device is in many observations: the variance of their sum counts those that share one
//! (Aronow, Samii and Assenova, "Cluster-robust variance estimation for dyadic data", 2015).

use super::constants::{FLOOR, GUARD_SIZES, LEAST_CHANGE};
use crate::significance::real;
use foldhash::fast::RandomState;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::{HashMap, HashSet};

/// Values of a series in ms per thousand frames: before and after of a device that updated, then of its control.
pub type Values = [f64; 4];

/// Quantile of the normal distribution for an interval of 95 %.
const QUANTILE: f64 = 1.96;
/// Limit of a reported change, as a logarithm: a factor of 148.
const MOST: f64 = 5.0;
/// Halvings of the interval in which a change is looked for.
const HALVINGS: usize = 24;
/// One in so many values is cut in means: the largest ones.
const CUT_IN: usize = 100;

/// Returns the evidence of an observation that the values after the update are more than `factor` times those that the control
/// lets expect: between -1 and 1, with another sign if the two devices are exchanged and the factor is 1.
pub(crate) fn evidence([before, after, control_before, control_after]: Values, factor: f64) -> f64 {
    let after = after / factor;
    let floor = FLOOR * (before + after + control_before + control_after);
    let [more, less] =
        [(after + floor) * (control_before + floor), (before + floor) * (control_after + floor)];
    if more + less > 0.0 { (more - less) / (more + less) } else { 0.0 }
}

/// Values of two devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Number of the device that updated.
    pub updated: u32,
    /// Number of its control.
    pub control: u32,
    /// Weight.
    pub weight: f64,
    /// The values.
    pub values: Values,
}

/// The size of a change, and the evidence for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Devices that updated and have time of it, or a control with time of it.
    pub devices: u64,
    /// Mean before and after of the devices that updated, as seen, ms per thousand frames; the largest hundredth of the values is cut.
    pub ms_in_1000: [f64; 2],
    /// Mean of their controls on the same days.
    pub control_ms_in_1000: [f64; 2],
    /// Change beyond that of the controls, percent; limited to a factor of 148.
    pub percent: f64,
    /// Interval of the change, 95 %.
    pub percent_interval: [f64; 2],
    /// Standard score of "no change": positive if the later version has more.
    pub score: f64,
    /// Standard error of the logarithm of the change.
    #[serde(skip)]
    pub error: f64,
    /// Standard error of twice the mean evidence. No value of a series changes its scale, be the series new or old.
    #[serde(skip)]
    pub evidence_error: f64,
}

impl Estimate {
    /// Returns the change with its interval as a text.
    pub(crate) fn size(&self) -> String {
        let Self { percent, percent_interval: [low, high], .. } = self;
        format!("{percent:+.0} % ({low:+.0} to {high:+.0})")
    }

    /// Returns true if the change is large enough to be one.
    pub(crate) fn is_change(&self) -> bool {
        self.percent.abs() > 100.0 * LEAST_CHANGE
    }

    /// Returns the probability of a score as large, in either direction, if nothing changed.
    pub(crate) fn p_value(&self) -> f64 {
        (2.0 * Normal::standard().sf(self.score.abs())).min(1.0)
    }

    /// Returns the logarithm of the evidence that there is more, for one who may look at any time: of the score as it grows with the
    /// information, under a normal mixture of sizes (Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
    /// central limit theory and asymptotic confidence sequences", 2021). The chance that it ever reaches 1/a is at most a.
    pub(crate) fn log_evidence(&self) -> f64 {
        log_mixture(self.score.max(0.0), self.evidence_error)
    }
}

/// Logarithm of the mean evidence of a score over the sizes of a change for which a guard looks.
fn log_mixture(score: f64, error: f64) -> f64 {
    let logs = GUARD_SIZES.map(|size| {
        let information = (size / error).powi(2);
        let share = information / (information + 1.0);
        score * score * share / 2.0 - information.ln_1p() / 2.0
    });
    let most = logs.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.map(|log| (log - most).exp()).into_iter().sum();
    most + (sum / real(logs.len() as u64)).ln()
}

/// Sums over observations: of the evidence, of its slope in the logarithm of the factor, and the variance of the first.
fn sums(all: &[Observation], factor: f64) -> [f64; 3] {
    let mut of_devices: HashMap<u32, f64, RandomState> = HashMap::default();
    let [mut sum, mut slope, mut own] = [0.0; 3];
    for Observation { updated, control, weight, values } in all {
        let evidence = evidence(*values, factor);
        slope += weight * (1.0 - evidence * evidence) / 2.0;
        let evidence = weight * evidence;
        sum += evidence;
        own += evidence * evidence;
        *of_devices.entry(*updated).or_default() += evidence;
        *of_devices.entry(*control).or_default() += evidence;
    }
    let squares: f64 = of_devices.values().map(|of| of * of).sum();
    [sum, slope, (squares - own).max(own)]
}

/// Returns the size of a change. `all` has the observations with time in one of the four values, `observations` counts the others, too.
pub(crate) fn estimate(all: &[Observation], observations: u64) -> Estimate {
    let devices: HashSet<u32, RandomState> = all.iter().map(|of| of.updated).collect();
    let is_more = |factor: f64| {
        all.iter().map(|of| of.weight * evidence(of.values, factor)).sum::<f64>() > 0.0
    };
    let [mut low, mut high] = [-MOST, MOST];
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_more(middle.exp()) { low = middle } else { high = middle }
    }
    let change = f64::midpoint(low, high);
    let [_, slope, variance] = sums(all, change.exp());
    let half = QUANTILE * variance.sqrt() / slope.max(f64::MIN_POSITIVE);
    let percent = |change: f64| 100.0 * (change.clamp(-MOST, MOST).exp() - 1.0);
    let [sum, slope, variance] = sums(all, 1.0);
    let mean = |index: usize| {
        let mut values: Vec<f64> =
            all.iter().filter_map(|of| of.values.get(index).copied()).collect();
        values.sort_by(f64::total_cmp);
        let most = values.get(values.len() - values.len().div_ceil(CUT_IN)).copied();
        let most = most.unwrap_or_default();
        // Of no values the sum is -0.
        (0.0 + values.iter().map(|value| value.min(most)).sum::<f64>()) / real(observations.max(1))
    };
    let weights: f64 = all.iter().map(|of| of.weight).sum();
    let known = Estimate {
        devices: devices.len() as u64,
        ms_in_1000: [mean(0), mean(1)],
        control_ms_in_1000: [mean(2), mean(3)],
        percent: percent(change),
        percent_interval: [percent(change - half), percent(change + half)],
        score: sum / variance.sqrt(),
        error: variance.sqrt() / slope.max(f64::MIN_POSITIVE),
        evidence_error: 2.0 * variance.sqrt() / weights.max(f64::MIN_POSITIVE),
    };
    if variance > 0.0 {
        return known;
    }
    let percent_interval = [-100.0, percent(MOST)];
    let [error, evidence_error] = [f64::INFINITY; 2];
    Estimate { percent: 0.0, percent_interval, score: 0.0, error, evidence_error, ..known }
}

/// Returns the error of the logarithm of a change at which a guard finds a change of this size, with a quantile of its power, if it
/// needs this logarithm of evidence. `ratio`: the evidence's error in units of this one.
pub(crate) fn error_needed(log_change: f64, log_evidence: f64, quantile: f64, ratio: f64) -> f64 {
    let [mut low, mut high] = [f64::MIN_POSITIVE, log_change];
    for _ in 0..HALVINGS {
        let error = f64::midpoint(low, high);
        let score = (log_change / error - quantile).max(0.0);
        let is_found = log_mixture(score, ratio * error) > log_evidence;
        if is_found { low = error } else { high = error }
    }
    low
}

/// Adjusts p-values by Holm's method, so that each can be compared with [`super::constants::LEVEL`].
pub(crate) fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let chance = |index: usize| p_values.get(index).copied().unwrap_or(1.0);
    order.sort_by(|&a, &b| chance(a).total_cmp(&chance(b)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        let tests = real((p_values.len() - rank) as u64);
        least = least.max(chance(index) * tests).min(1.0);
        if let Some(adjusted) = adjusted.get_mut(index) {
            *adjusted = least;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exchanged_devices_give_the_opposite_evidence(values in proptest::array::uniform4(0.0..1e6_f64)) {
            let [before, after, control_before, control_after] = values;
            let exchanged = [control_before, control_after, before, after];
            let [one, other] = [evidence(values, 1.0), evidence(exchanged, 1.0)];
            prop_assert!((one + other).abs() < 1e-12 && one.abs() <= 1.0);
        }
    }

    /// Observations of devices whose level differs by a factor of ten, with a heavy tail, on days that differ by a factor of two. Each
    /// device is in three.
    fn fleet(rng: &mut Rng, change: f64) -> Vec<Observation> {
        let mut cells = || {
            let level = rng.f64() * 10.0 + 1.0;
            [level, 2.0 * level].map(|level| level * rng.f64().powi(-1).min(500.0))
        };
        let devices: Vec<[f64; 2]> = (0..1500).map(|_| cells()).collect();
        let pair = |updated: u32, of: u32| {
            let control = 1000 + (updated * 7 + of * 131) % 500;
            let at = |device: u32| devices[usize::try_from(device).unwrap()];
            let ([before, after], [control_before, control_after]) = (at(updated), at(control));
            let values = [before, change * after, control_before, control_after];
            Observation { updated, control, weight: 1.0, values }
        };
        (0..1000)
            .flat_map(|updated| (0..3).map(move |of| (updated, of)))
            .map(|(a, b)| pair(a, b))
            .collect()
    }

    #[test]
    fn a_change_is_estimated_beyond_that_of_the_controls() {
        let mut rng = Rng::with_seed(5);
        let found = estimate(&fleet(&mut rng, 1.5), 3000);
        let [low, high] = found.percent_interval;
        assert!(low < 50.0 && 50.0 < high && low > 10.0 && high < 100.0, "{found:?}");
        assert!(found.score > 3.0 && found.devices == 1000, "{found:?}");
    }

    #[test]
    fn without_a_change_few_scores_are_large_and_hardly_any_guard_is_sure() {
        let mut rng = Rng::with_seed(6);
        let all: Vec<Estimate> = (0..400).map(|_| estimate(&fleet(&mut rng, 1.0), 3000)).collect();
        let large = all.iter().filter(|of| of.score.abs() > 1.96).count();
        assert!((8..=34).contains(&large), "{large} of 400, 20 are expected");
        let sure = all.iter().filter(|of| of.log_evidence() > 100.0_f64.ln()).count();
        assert!(sure <= 4, "{sure} of 400");
    }

    #[test]
    fn a_cause_that_only_the_later_version_has_is_a_change() {
        let of = |updated| Observation {
            updated,
            control: 99,
            weight: 1.0,
            values: [0.0, 3.0, 0.0, 0.0],
        };
        let all: Vec<Observation> = (0..30).map(of).collect();
        assert!(estimate(&all, 100).percent > 1000.0);
    }

    #[test]
    fn p_values_are_those_of_scipy() {
        // 2 * scipy.stats.norm.sf(2.5)
        let found = Estimate { score: -2.5, ..Estimate::default() };
        assert!((found.p_value() - 0.012_419_330_651_552_318).abs() < 1e-9);
    }

    #[test]
    fn the_evidence_is_the_mean_of_two_normal_mixtures_of_confseq() {
        // TwoSidedNormalMixture::log_superMG of confseq 0.0.11, for the scores, at three values of information.
        let scores = [2.0, 4.0, 8.0];
        let small = [0.087_334_747_915_312_02, 0.440_275_924_385_900_24, 1.852_040_630_268_253];
        let middle = [0.653_426_409_720_027_3, 3.653_426_409_720_027, 15.653_426_409_720_026];
        let large = [0.465_746_269_148_362_26, 6.112_805_092_677_773, 28.701_040_386_795_416];
        let [first, second] = GUARD_SIZES;
        assert!((second / first - 4.0).abs() < 1e-12);
        for (error, pair) in [(second, [small, middle]), (first, [middle, large])] {
            for (index, score) in scores.into_iter().enumerate() {
                let [a, b] = pair.map(|logs: [f64; 3]| logs[index].exp());
                let expected = f64::midpoint(a, b).ln();
                let found = log_mixture(score, error);
                assert!((found - expected).abs() < 1e-9, "{score} {error}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_error_at_which_a_guard_finds_a_change_has_the_evidence() {
        for ratio in [1.0, 0.6] {
            let error = error_needed(0.1, 9.0, 0.0, ratio);
            let (score, evidence_error) = (0.1 / error, ratio * error);
            let found = Estimate { score, evidence_error, ..Estimate::default() };
            assert!((found.log_evidence() - 9.0).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn holm_multiplies_by_what_is_left_to_test() {
        let adjusted = adjust(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (found, expected) in adjusted.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(adjust(&[]).is_empty());
    }
}
