//! The e-process of one hypothesis: the wealth of a gambler who bets that differences are positive.
//!
//! Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2023): bets by aGRAPA, from the mean
//! and variance of earlier observations, one-sided. If the mean difference is not positive, no strategy is expected to win: the
//! chance that the wealth ever reaches 1/a is at most a, whenever and however often somebody looks.
//!
//! A difference is divided by a bound that earlier differences determine, and clipped there. A difference of 0 changes
//! nothing: devices without a cause cost the gambler nothing.

use crate::significance::real;

/// The bound of a difference, in root mean squares of the earlier ones.
const BOUND: f64 = 3.0;
/// The mean under the hypothesis, of observations between 0 and 1.
const NULL: f64 = 0.5;
/// The largest bet: a loss takes at most nine tenths of the wealth.
const MOST: f64 = 0.9 / NULL;

/// Wealth, and the sums of earlier observations that determine the next bet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wealth {
    /// Natural logarithm of the wealth, which begins at 1.
    pub log: f64,
    /// Number of bets.
    pub bets: u64,
    /// Sum of the observations, each between 0 and 1.
    pub sum: f64,
    /// Sum of their squared distances from the mean at that time.
    pub squares: f64,
    /// Number of differences other than 0.
    pub differences: u64,
    /// Sum of the squares of these, clipped.
    pub difference_squares: f64,
}

impl Wealth {
    /// Bets on a difference. Returns the difference, clipped.
    pub fn take(&mut self, difference: f64) -> f64 {
        if difference == 0.0 || !difference.is_finite() {
            return 0.0;
        }
        let bound = BOUND * (self.difference_squares / real(self.differences.max(1))).sqrt();
        let clipped = if bound > 0.0 {
            let clipped = difference.clamp(-bound, bound);
            self.bet(f64::midpoint(clipped / bound, 1.0));
            clipped
        } else {
            difference
        };
        self.differences += 1;
        self.difference_squares += clipped * clipped;
        clipped
    }

    /// Bets that an observation between 0 and 1 is above its mean under the hypothesis.
    fn bet(&mut self, observation: f64) {
        // One more observation, of that mean and the largest variance, begins the sums.
        let begun = real(self.bets) + 1.0;
        let edge = (NULL + self.sum) / begun - NULL;
        let variance = (NULL * NULL + self.squares) / begun;
        let bet = (edge / (variance + edge * edge)).clamp(0.0, MOST);
        self.log += (bet * (observation - NULL)).ln_1p();
        self.bets += 1;
        self.sum += observation;
        let mean = (NULL + self.sum) / (begun + 1.0);
        self.squares += (observation - mean) * (observation - mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use proptest::prelude::*;

    /// Streams, and their wealth by the package `confseq` 0.0.11 of the paper's authors: `tests/fleet/confseq` made them.
    const CONFSEQ: &str = include_str!("../../../../tests/fleet/confseq/wealth.csv");

    #[test]
    fn wealth_is_that_of_confseq_on_the_same_streams() {
        let mut wealth = Wealth::default();
        let (mut stream, mut streams) = ("", 0);
        for line in CONFSEQ.lines().skip(1) {
            let [name, observation, expected] = *line.split(',').collect::<Vec<_>>() else {
                panic!("{line}");
            };
            if name != stream {
                (wealth, stream, streams) = (Wealth::default(), name, streams + 1);
            }
            wealth.bet(observation.parse().unwrap());
            let expected: f64 = expected.parse().unwrap();
            assert!((wealth.log - expected).abs() < 1e-9, "{line}: {}", wealth.log);
        }
        assert_eq!(streams, 4);
    }

    proptest! {
        /// The expected factor of any next bet is 1 for a symmetric difference: no strategy wins.
        #[test]
        fn the_next_bet_on_a_coin_is_fair(past in proptest::collection::vec(-9.0..9.0_f64, 0..40), next in 0.01..9.0_f64) {
            let mut wealth = Wealth::default();
            for difference in past {
                wealth.take(difference);
            }
            let after = |difference: f64| {
                let mut after = wealth;
                after.take(difference);
                (after.log - wealth.log).exp()
            };
            prop_assert!((f64::midpoint(after(next), after(-next)) - 1.0).abs() < 1e-9);
            prop_assert!(after(-next) >= 0.099);
        }

        /// The unit of the differences has no influence.
        #[test]
        fn differences_in_another_unit_give_the_same_wealth(all in proptest::collection::vec(-9.0..9.0_f64, 0..60)) {
            let [mut ms, mut us] = [Wealth::default(); 2];
            for difference in all {
                ms.take(difference);
                us.take(difference * 1024.0);
                ms.take(0.0);
            }
            prop_assert!((ms.log - us.log).abs() < 1e-9, "{} {}", ms.log, us.log);
        }
    }

    #[test]
    fn a_positive_mean_makes_rich_and_a_negative_one_does_not() {
        let mut rng = Rng::with_seed(7);
        let [mut up, mut down] = [Wealth::default(); 2];
        for _ in 0..2000 {
            let noise = rng.f64() - 0.5;
            up.take(noise + 0.1);
            down.take(noise - 0.1);
        }
        assert!(up.log > 50.0, "{up:?}");
        assert!(down.log < 3.0, "{down:?}");
    }
}
