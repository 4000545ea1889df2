//! Counts as numbers and texts, and intervals of shares over devices.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Returns a count as a real number.
#[allow(clippy::cast_precision_loss, reason = "no fleet has 2^53 devices or frames")]
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}

/// Writes `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

    /// Adds a cluster.
    pub(crate) fn add(&mut self, part: f64, whole: f64) {
        self.clusters += 1;
        self.part += part;
        self.whole += whole;
        self.part_squares += part * part;
        self.whole_squares += whole * whole;
        self.products += part * whole;
    }

    /// Returns the variance of the share.
    fn variance(&self) -> f64 {
        let clusters = real(self.clusters);
        let share = self.share();
        let squares =
            self.part_squares - 2.0 * share * self.products + share * share * self.whole_squares;
        squares * clusters / (clusters - 1.0) / (self.whole * self.whole)
    }

    /// Returns the interval of the share where it is a ratio that may exceed 1. `tail`: probability that one of its ends is wrong.
    pub(crate) fn ratio_interval(&self, tail: f64) -> [f64; 2] {
        let degrees_of_freedom = real(self.clusters.saturating_sub(1));
        let Ok(distribution) = StudentsT::new(0.0, 1.0, degrees_of_freedom) else {
            return [0.0, f64::MAX];
        };
        // Of the logarithm: means of times are skewed to the right.
        let error = self.variance().max(0.0).sqrt() / self.share();
        let half = distribution.inverse_cdf(1.0 - tail) * if error.is_nan() { 0.0 } else { error };
        [-half, half].map(|half| self.share() * half.exp())
    }

    /// Returns the number of independent observations that would have the share's variance.
    fn observations(&self) -> f64 {
        let clusters = real(self.clusters);
        let share = self.share();
        let observations = share * (1.0 - share) / self.variance();
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
pub fn share_interval(clusters: &Clusters) -> (f64, f64) {
    let degrees_of_freedom = real(clusters.clusters.saturating_sub(1));
    let Ok(distribution) = StudentsT::new(0.0, 1.0, degrees_of_freedom) else { return (0.0, 1.0) };
    if clusters.whole <= 0.0 {
        return (0.0, 1.0);
    }
    let (share, count) = (clusters.share(), clusters.observations());
    let squared = distribution.inverse_cdf(0.975).powi(2);
    let middle = (share + squared / (2.0 * count)) / (1.0 + squared / count);
    let spread = share * (1.0 - share) / count + squared / (4.0 * count * count);
    let half = (squared * spread).sqrt() / (1.0 + squared / count);
    ((middle - half).max(0.0), (middle + half).min(1.0))
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
}
