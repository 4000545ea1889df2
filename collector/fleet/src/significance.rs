//! Tests whether two versions differ by more than chance.
//!
//! A device is one observation: its frames are not independent of each other. Welch's t-test of the two
//! means (variances may differ). There are as many tests as causes, so p-values are adjusted by Holm's method: the
//! probability of any false alarm in a comparison is below [`LEVEL`].

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability of a false alarm in a whole comparison.
pub const LEVEL: f64 = 0.01;
/// Minimum number of devices of a version for a verdict.
pub const LEAST_DEVICES: u64 = 20;
/// Minimum difference, as a share of the earlier version's value, for a verdict.
pub const LEAST_CHANGE: f64 = 0.05;

/// Sums over a version's devices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Number of devices.
    pub devices: u64,
    /// Sum of the devices' values.
    pub total: f64,
    /// Sum of the squares of the values.
    pub sum_of_squares: f64,
}

impl Sample {
    #[allow(clippy::cast_precision_loss, reason = "no fleet has 2^53 devices")]
    fn count(self) -> f64 {
        self.devices as f64
    }

    /// Returns the mean; 0 without devices.
    #[must_use]
    pub fn mean(self) -> f64 {
        if self.devices == 0 { 0.0 } else { self.total / self.count() }
    }

    /// Returns the variance of the mean.
    fn variance_of_mean(self) -> f64 {
        let count = self.count();
        let variance = (self.sum_of_squares - count * self.mean() * self.mean()) / (count - 1.0);
        variance.max(0.0) / count
    }
}

/// Returns the probability of a difference as large as this, or larger, if there is none (two-sided).
#[must_use]
pub fn p_value(a: Sample, b: Sample) -> f64 {
    if a.devices < 2 || b.devices < 2 {
        return 1.0;
    }
    let (of_a, of_b) = (a.variance_of_mean(), b.variance_of_mean());
    let both = of_a + of_b;
    let difference = (b.mean() - a.mean()).abs();
    // Rounding: all devices of a version have the same value.
    if both <= f64::EPSILON * (a.mean().abs() + b.mean().abs()) {
        return if difference <= 1e-9 * (a.mean().abs() + b.mean().abs()) { 1.0 } else { 0.0 };
    }
    let degrees_of_freedom =
        both * both / (of_a * of_a / (a.count() - 1.0) + of_b * of_b / (b.count() - 1.0));
    match StudentsT::new(0.0, 1.0, degrees_of_freedom) {
        Ok(distribution) => 2.0 * distribution.sf(difference / both.sqrt()),
        Err(_) => 1.0,
    }
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

    fn sample(values: &[f64]) -> Sample {
        Sample {
            devices: values.len() as u64,
            total: values.iter().sum(),
            sum_of_squares: values.iter().map(|value| value * value).sum(),
        }
    }

    #[test]
    fn the_chance_is_what_scipy_says() {
        // scipy.stats.ttest_ind(a, b, equal_var=False)
        let a = sample(&[
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ]);
        let b = sample(&[
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5,
            31.3,
        ]);
        let found = p_value(a, b);
        assert!((found - 0.006_460_41).abs() < 1e-8, "{found}");
        assert!((p_value(b, a) - found).abs() < 1e-12);
        assert!((p_value(a, a) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn few_devices_and_equal_ones_show_nothing() {
        assert!(p_value(sample(&[1.0]), sample(&[9.0, 9.1])) >= 1.0);
        assert!(p_value(sample(&[3.0; 30]), sample(&[3.0; 30])) >= 1.0);
        assert!(p_value(sample(&[3.0; 30]), sample(&[4.0; 30])) <= 0.0);
        assert!(p_value(Sample::default(), Sample::default()) >= 1.0);
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
