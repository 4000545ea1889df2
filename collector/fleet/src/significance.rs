//! Tests whether two versions differ by more than chance.
//!
//! There are as many tests as causes, so p-values are adjusted by Holm's method: the probability of any false alarm in a
//! comparison is below [`LEVEL`]. [`crate::compare::estimate`] makes the differences and their moments.

use statrs::distribution::{ContinuousCDF, Gamma, Normal};

/// Probability of a false alarm in a whole comparison: half of what a user is promised, 1 %, because errors are estimates.
pub const LEVEL: f64 = 0.005;
/// Minimum number of devices of a version for a verdict.
pub const LEAST_DEVICES: u64 = 20;
/// Minimum number of devices with time of a cause, in both versions together, for a test of the cause.
pub const LEAST_DEVICES_WITH: u64 = 10;
/// Minimum difference, as a share of the earlier version's value, for a verdict.
pub const LEAST_CHANGE: f64 = 0.02;

/// Skewness below which a distribution counts as normal.
const LEAST_SKEWNESS: f64 = 1e-3;

/// Returns the probability of a difference as large as this, or larger, if there is none (two-sided). The distribution of the
/// difference is Pearson's third, with this variance and third moment around 0.
#[must_use]
pub fn p_value(difference: f64, variance: f64, third_moment: f64) -> f64 {
    if variance <= 0.0 || variance.is_nan() {
        // All devices of both versions have the same value.
        return 1.0;
    }
    let score = difference / variance.sqrt();
    let skewness = third_moment / variance.powf(1.5);
    let (score, skewness) = if skewness < 0.0 { (-score, -skewness) } else { (score, skewness) };
    let least_tail = if skewness < LEAST_SKEWNESS {
        Normal::standard().sf(score.abs())
    } else {
        let shape = 4.0 / (skewness * skewness);
        let Ok(distribution) = Gamma::new(shape, 1.0) else { return 1.0 };
        let value = shape + score * shape.sqrt();
        if value <= 0.0 { 0.0 } else { distribution.sf(value).min(distribution.cdf(value)) }
    };
    (2.0 * least_tail).min(1.0)
}

/// Adjusts p-values by Holm's method, so that each can be compared with [`LEVEL`].
#[must_use]
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let chance = |place: usize| p_values.get(place).copied().unwrap_or(1.0);
    order.sort_by(|&a, &b| chance(a).total_cmp(&chance(b)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &place) in order.iter().enumerate() {
        let tests = u32::try_from(p_values.len() - rank).unwrap_or(u32::MAX);
        least = least.max(chance(place) * f64::from(tests)).min(1.0);
        if let Some(adjusted) = adjusted.get_mut(place) {
            *adjusted = least;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6 + expected * 1e-4, "{found} is not {expected}");
    }

    #[test]
    fn chances_are_those_of_scipy() {
        // 2 * scipy.stats.norm.sf(2.5), 2 * scipy.stats.pearson3.sf(2.5, 0.8), 2 * scipy.stats.pearson3.cdf(-2, 0.8)
        is_near(p_value(2.5, 1.0, 0.0), 0.012_419_330_651_552_318);
        is_near(p_value(-5.0, 4.0, 0.0), 0.012_419_330_651_552_318);
        is_near(p_value(2.5, 1.0, 0.8), 0.037_185_7);
        is_near(p_value(5.0, 4.0, 6.4), 0.037_185_7);
        is_near(p_value(-2.5, 1.0, -0.8), 0.037_185_7);
        is_near(p_value(-2.0, 1.0, 0.8), 0.002_405_6);
    }

    #[test]
    fn equal_values_show_nothing_and_a_difference_without_an_error_cannot_be() {
        assert!(p_value(0.0, 0.0, 0.0) >= 1.0);
        assert!(p_value(0.0, 1.0, 0.5) > 0.9);
        assert!(p_value(40.0, 1.0, 0.5) < 1e-9);
        assert!(p_value(-40.0, 1.0, 0.5) <= 0.0);
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
