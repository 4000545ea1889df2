//! Tests whether two versions differ by more than chance.
//!
//! There are as many tests as causes, so p-values are adjusted by Holm's method: the probability of any false alarm in a
//! comparison is below [`LEVEL`]. [`crate::compare::estimate`] makes the differences and their moments.

use statrs::distribution::{ContinuousCDF, Gamma, Normal, StudentsT};

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

/// Returns a count as a real number.
#[allow(clippy::cast_precision_loss, reason = "no fleet has 2^53 devices or frames")]
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}

/// Sums over clusters (devices), of a part and of the whole of which it is a part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clusters {
    /// Number of clusters.
    pub clusters: u64,
    /// Sum of the parts.
    pub part: f64,
    /// Sum of the wholes.
    pub whole: f64,
    /// Sum of the squares of the parts.
    pub part_squares: f64,
    /// Sum of the squares of the wholes.
    pub whole_squares: f64,
    /// Sum of the products of part and whole.
    pub products: f64,
}

impl Clusters {
    /// Returns the share of the part; 0 of nothing.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.whole > 0.0 { self.part / self.whole } else { 0.0 }
    }

    /// Returns the number of independent observations that would have the share's variance.
    fn observations(&self) -> f64 {
        let clusters = real(self.clusters);
        let share = self.share();
        let squares =
            self.part_squares - 2.0 * share * self.products + share * share * self.whole_squares;
        let variance = squares * clusters / (clusters - 1.0) / (self.whole * self.whole);
        let observations = share * (1.0 - share) / variance;
        if observations.is_finite() && observations > 0.0 {
            observations.clamp(1.0, self.whole)
        } else {
            clusters.min(self.whole)
        }
    }
}

/// Returns the interval (95 %) of a share, from clusters that were chosen at random: Wilson's, with as many observations as the
/// variance between clusters is worth. From 0 to 1 if there are too few clusters.
#[must_use]
pub fn share_interval(of: &Clusters) -> (f64, f64) {
    let degrees_of_freedom = real(of.clusters.saturating_sub(1));
    let Ok(distribution) = StudentsT::new(0.0, 1.0, degrees_of_freedom) else { return (0.0, 1.0) };
    if of.whole <= 0.0 {
        return (0.0, 1.0);
    }
    let (share, count) = (of.share(), of.observations());
    let squared = distribution.inverse_cdf(0.975).powi(2);
    let middle = (share + squared / (2.0 * count)) / (1.0 + squared / count);
    let spread = share * (1.0 - share) / count + squared / (4.0 * count * count);
    let half = (squared * spread).sqrt() / (1.0 + squared / count);
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

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

    #[test]
    fn the_interval_of_a_share_is_that_of_devices_not_of_frames() {
        // 30 of 100 devices of one frame: Wilson's interval of 99 observations.
        let single = Clusters {
            clusters: 100,
            part: 30.0,
            whole: 100.0,
            part_squares: 30.0,
            whole_squares: 100.0,
            products: 30.0,
        };
        let (low, high) = share_interval(&single);
        assert!((low - 0.2177).abs() < 1e-3 && (high - 0.3978).abs() < 1e-3, "{low} {high}");
        // 3 of 10 devices, each with ten frames: as many as 9 observations.
        let ten = Clusters {
            clusters: 10,
            part_squares: 300.0,
            whole_squares: 1000.0,
            products: 300.0,
            ..single
        };
        let (low, high) = share_interval(&ten);
        assert!(low < 0.1 && high > 0.63, "{low} {high}");
        assert_eq!(share_interval(&Clusters { clusters: 1, ..ten }), (0.0, 1.0));
        assert_eq!(share_interval(&Clusters::default()), (0.0, 1.0));
    }

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
