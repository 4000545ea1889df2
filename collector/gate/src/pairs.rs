//! The change between two arms whose runs alternate, by the median of their pairs.
//!
//! The first run of an arm belongs to the first of the other, and so on: a drift of the phone concerns both of a pair. The
//! size is the Hodges-Lehmann estimate with its interval, the evidence Wilcoxon's signed-rank test; both are exact for any
//! number of pairs, and assume of the differences only that they are symmetric if nothing changed.

/// Maximum number of pairs: more only take time.
pub(crate) const MOST_PAIRS: usize = 200;

/// The change of a value.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Change {
    /// Number of pairs.
    pub pairs: usize,
    /// Median of the base.
    pub base: f64,
    /// Estimate of the change.
    pub by: f64,
    /// Interval of the change, 95 %; `None` with fewer pairs than it needs.
    pub interval: Option<[f64; 2]>,
    /// Probability of ranks that are at least as uneven, in either direction, if there was no change.
    pub p_value: f64,
}

impl Change {
    /// Returns the change of the second arm; `None` without a pair.
    pub(crate) fn of(base: &[f64], head: &[f64]) -> Option<Self> {
        let differences = base.iter().zip(head).take(MOST_PAIRS);
        let differences: Vec<f64> = differences.map(|(base, head)| head - base).collect();
        let pairs = differences.len();
        let mut means = Vec::with_capacity(pairs * (pairs + 1) / 2);
        for (index, first) in differences.iter().enumerate() {
            means.extend(
                differences.iter().skip(index).map(|second| f64::midpoint(*first, *second)),
            );
        }
        means.sort_by(f64::total_cmp);
        let ranks: Vec<usize> = (1..=pairs).map(|rank| 2 * rank).collect();
        let below = lowest(&chances(&ranks), TAIL);
        let interval = below.and_then(|below| {
            let last = means.len().checked_sub(1 + below)?;
            Some([*means.get(below)?, *means.get(last)?])
        });
        let base: Vec<f64> = base.iter().take(pairs).copied().collect();
        let (base, by, p_value) = (median(base)?, median(means)?, p_value(differences));
        Some(Self { pairs, base, by, interval, p_value })
    }

    /// Returns the change in percent of the base.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.base > 0.0 { 100.0 * self.by / self.base } else { 0.0 }
    }
}

/// Probability on each side of an interval of 95 %.
const TAIL: f64 = 0.025;

/// Returns the smallest number of pairs with which any p-value is as small as this.
#[must_use]
pub(crate) fn pairs_needed(p_value: f64) -> usize {
    (1..MOST_PAIRS)
        .find(|&pairs| 2.0 * 0.5_f64.powi(signed(pairs)) <= p_value)
        .unwrap_or(MOST_PAIRS)
}

fn signed(pairs: usize) -> i32 {
    i32::try_from(pairs).unwrap_or(i32::MAX)
}

/// Returns the median of values.
#[must_use]
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let high = values.get(middle).copied()?;
    let low = values.get(values.len().div_ceil(2).checked_sub(1)?).copied()?;
    Some(f64::midpoint(low, high))
}

/// Returns the p-value of the signed-rank test. Differences of 0 are omitted; equal ones share their ranks.
fn p_value(mut differences: Vec<f64>) -> f64 {
    differences.retain(|difference| *difference != 0.0);
    differences.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks, so that shared ones are whole.
    let mut ranks = Vec::with_capacity(differences.len());
    for equal in differences.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let rank = 2 * ranks.len() + equal.len() + 1;
        ranks.extend(std::iter::repeat_n(rank, equal.len()));
    }
    let all: usize = ranks.iter().sum();
    let ranked = differences.iter().zip(&ranks);
    let positive: usize = ranked.filter(|(value, _)| **value > 0.0).map(|(_, rank)| rank).sum();
    let fewer = positive.min(all - positive);
    let tail: f64 = chances(&ranks).iter().take(fewer + 1).sum();
    (2.0 * tail).min(1.0)
}

/// Returns the probability of each sum of ranks if the signs are random.
fn chances(ranks: &[usize]) -> Vec<f64> {
    let mut chances = vec![1.0];
    for &rank in ranks {
        let mut next = vec![0.0; chances.len() + rank];
        for (sum, chance) in chances.iter().enumerate() {
            for sum in [sum, sum + rank] {
                if let Some(next) = next.get_mut(sum) {
                    *next += chance / 2.0;
                }
            }
        }
        chances = next;
    }
    chances
}

/// Returns how many of the lowest pairwise means are outside an interval. `chances`: probabilities of twice the sum of
/// ranks.
fn lowest(chances: &[f64], tail: f64) -> Option<usize> {
    let mut sum = 0.0;
    let whole = chances.iter().step_by(2).map(|chance| {
        sum += chance;
        sum
    });
    whole.take_while(|&sum| sum <= tail).count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_test_is_that_of_scipy() {
        let base = [0.0; 10];
        let head = [1.83, 0.5, 1.62, 2.48, 1.68, 1.88, -1.55, -3.06, 1.3, 0.7];
        // scipy 1.17.1: wilcoxon(head, method="exact"); the 9th of the means from either end is that of its tables.
        let change = Change::of(&base, &head).unwrap();
        assert!(near(change.p_value, 0.193_359_375), "{change:?}");
        assert!(near(change.by, 1.165), "{change:?}");
        let [low, high] = change.interval.unwrap();
        assert!(near(low, -0.615) && near(high, 1.83), "{change:?}");
        // With shared ranks: method=PermutationMethod().
        let equal = [1.0, 1.0, -2.0, 3.0, 3.0, -3.0, 4.0, 5.0];
        assert!(near(Change::of(&[0.0; 8], &equal).unwrap().p_value, 0.195_312_5));
        // Without a difference, and of one sign alone.
        assert!(near(Change::of(&base, &base).unwrap().p_value, 1.0));
        assert!(near(Change::of(&base, &[1.0; 10]).unwrap().p_value, 2.0 / 1024.0));
    }

    #[test]
    fn intervals_hold_and_nothing_is_found_where_nothing_changed() {
        let mut rng = Rng::with_seed(3);
        let (mut outside, mut found) = (0, 0);
        for _ in 0..2000 {
            // Heavy tails, and a phone that becomes slower with each pair.
            let run = |rng: &mut Rng, pair: usize| {
                8.0 + crate::real(pair) / 3.0 + (1.0 - rng.f64()).powf(-0.6)
            };
            let base: Vec<f64> = (0..10).map(|pair| run(&mut rng, pair)).collect();
            let head: Vec<f64> = (0..10).map(|pair| run(&mut rng, pair)).collect();
            let change = Change::of(&base, &head).unwrap();
            let [low, high] = change.interval.unwrap();
            outside += usize::from(low > 0.0 || high < 0.0);
            found += usize::from(change.p_value <= 0.01);
        }
        assert!((60..=130).contains(&outside), "{outside} of 2,000; 98 are expected");
        assert!(found <= 32, "{found} of 2,000 at 1 %");
    }

    #[test]
    fn few_pairs_have_no_interval() {
        assert_eq!(Change::of(&[], &[]), None);
        assert_eq!(Change::of(&[1.0; 5], &[2.0; 5]).unwrap().interval, None);
        assert!(Change::of(&[1.0; 6], &[2.0; 6]).unwrap().interval.is_some());
        assert_eq!([0.05, 0.01, 0.001].map(pairs_needed), [6, 8, 11]);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
