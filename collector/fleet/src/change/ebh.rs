//! Which of many e-processes count: e-BH by Wang and Ramdas, "False discovery rate control with e-values" (2022), with weights.
//!
//! The weights of all hypotheses, also of those that come later, add up to at most 1. It needs no independence: the weighted
//! sum of e-processes is one itself, so the chance of any rejection, at any look, is at most the level if no hypothesis is false.

use crate::significance::real;

/// Returns the indices of the rejected hypotheses, the strongest first. `all`: logarithms of wealth times weight.
pub(crate) fn rejected(all: &[f64], level: f64) -> Vec<usize> {
    // Less can never be rejected, even with all others: most hypotheses need not be sorted.
    let least = -(level * real(all.len() as u64)).ln();
    let mut order: Vec<(usize, f64)> =
        all.iter().copied().enumerate().filter(|(_, score)| *score >= least).collect();
    order.sort_by(|(a_index, a), (b_index, b)| b.total_cmp(a).then(a_index.cmp(b_index)));
    let is_enough = |(rank, (_, score)): (usize, &(usize, f64))| {
        *score >= -(level * real(rank as u64 + 1)).ln()
    };
    let count = order.iter().enumerate().rposition(is_enough).map_or(0, |last| last + 1);
    order.truncate(count);
    order.into_iter().map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn many_strong_ones_help_each_other() {
        let all = |e_values: &[f64]| -> Vec<f64> {
            let weight = 1.0 / real(e_values.len() as u64);
            e_values.iter().map(|e| (e * weight).ln()).collect()
        };
        // K = 4 at the level 0.05: one needs 80, two need 40 each, four need 20 each.
        assert_eq!(rejected(&all(&[81.0, 1.0, 1.0, 1.0]), 0.05), [0]);
        assert_eq!(rejected(&all(&[1.0, 79.0, 1.0, 1.0]), 0.05), [0; 0]);
        assert_eq!(rejected(&all(&[1.0, 79.0, 41.0, 1.0]), 0.05), [1, 2]);
        assert_eq!(rejected(&all(&[21.0; 4]), 0.05), [0, 1, 2, 3]);
        assert_eq!(rejected(&[], 0.05), [0; 0]);
    }

    proptest! {
        #[test]
        fn the_largest_set_in_which_all_are_strong_enough_is_rejected(all in proptest::collection::vec(-7.0..9.0_f64, 0..30)) {
            let naive = (0..=all.len()).rev().find(|&count| {
                let limit = 1.0 / (0.1 * real(count.max(1) as u64));
                all.iter().filter(|score| score.exp() >= limit).count() >= count
            });
            prop_assert_eq!(rejected(&all, 0.1).len(), naive.unwrap_or(0));
        }
    }
}
