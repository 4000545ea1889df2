//! A difference between devices of unknown models, as far as no shift of the mix explains it.
//!
//! Nothing says which of them are alike, so a difference may be the mix: kinds of devices that are more, or less, frequent
//! under the later version. It counts only beyond what the earlier version's devices would show if each kind were up to
//! [`FACTOR`] times more, or less, frequent (the bounds of a marginal sensitivity model).

use crate::significance::real;

/// Largest shift of the frequency of a kind of device.
pub const FACTOR: f64 = 5.0;

/// Mean and variance of the mean of weighted values.
#[derive(Debug, Clone, Copy)]
struct Weighted {
    mean: f64,
    variance: f64,
}

/// Means of both versions, and a difference beyond the bounds with its variance.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bounded {
    pub(super) means: [f64; 2],
    /// 0 if a shift of the mix may explain the difference.
    pub(super) difference: f64,
    pub(super) variance: f64,
}

/// Weighs sorted values: the last ones [`FACTOR`] times, the others by its inverse, so that the mean weight is 1.
fn weighted(sorted: &[f64]) -> Weighted {
    let count = real(sorted.len() as u64);
    // The share of the last ones, in devices.
    let last = count / (FACTOR + 1.0);
    let weight = |place: usize| {
        let of_last = (real(place as u64) + 1.0 - (count - last)).clamp(0.0, 1.0);
        of_last * FACTOR + (1.0 - of_last) / FACTOR
    };
    let mean = sorted.iter().enumerate().map(|(at, value)| weight(at) * value).sum::<f64>() / count;
    let squares =
        sorted.iter().enumerate().map(|(at, value)| (weight(at) * (value - mean)).powi(2));
    Weighted { mean, variance: squares.sum::<f64>() / count / count }
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = real(values.len() as u64);
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

/// Compares values of devices of both versions.
pub(super) fn bounded([mut old, new]: [Vec<f64>; 2]) -> Bounded {
    let ((was, old_spread), (is, new_spread)) = (mean_and_variance(&old), mean_and_variance(&new));
    let means = [was, is];
    old.sort_unstable_by(|a, b| if is > was { a.total_cmp(b) } else { b.total_cmp(a) });
    let bound = weighted(&old);
    let beyond = is - bound.mean;
    // Few devices may have none of it by chance: the spread is at least that of the others.
    let variance = bound.variance + old_spread.max(new_spread) / real(new.len() as u64);
    let is_explained = (beyond > 0.0) != (is > was);
    Bounded { means, difference: if is_explained { 0.0 } else { beyond }, variance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_of_two_kinds_is_explained_and_a_value_that_none_had_is_not() {
        let mixed = |low: usize, high: usize| [vec![1.0; low], vec![9.0; high]].concat();
        assert!(bounded([mixed(80, 20), mixed(20, 80)]).difference.abs() < 1e-9);
        assert!(bounded([mixed(20, 80), mixed(80, 20)]).difference.abs() < 1e-9);
        let more = bounded([mixed(80, 20), vec![12.0; 100]]);
        assert!(more.difference > 3.0 && more.variance > 0.0, "{more:?}");
        let less = bounded([mixed(80, 20), vec![0.0; 100]]);
        assert!(less.difference < -1.0 && less.variance > 0.0, "{less:?}");
    }

    #[test]
    fn the_mean_weight_is_one() {
        let all: Vec<f64> = vec![1.0; 37];
        assert!((weighted(&all).mean - 1.0).abs() < 1e-9);
    }
}
