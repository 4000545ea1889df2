//! A log-linear histogram: 16 buckets for each power of two.
//!
//! A bucket's middle differs from each of its values by 1/32 (3.125 %) at most; values below 16 are exact.

use crate::codec::{Reader, Writer};

/// Bits of a value that choose its bucket within a power of two.
const SUB_BITS: u32 = 4;
/// Buckets of a power of two.
const SUBS: u16 = 1 << SUB_BITS;
/// Number of buckets: those for values below 16, and those for 60 powers of two.
const BUCKETS: u16 = SUBS * 61;

/// A histogram of whole numbers, with their exact sum. Adding saturates, so that it stays associative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    sum: u64,
    /// Index and count of the buckets that are not empty, by index.
    buckets: Vec<(u16, u64)>,
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.add(index(value), value, 1);
    }

    fn add(&mut self, index: u16, sum: u64, count: u64) {
        self.sum = self.sum.saturating_add(sum);
        match self.buckets.binary_search_by_key(&index, |bucket| bucket.0) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (index, count)),
        }
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for &(index, count) in &other.buckets {
            self.add(index, 0, count);
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |count, bucket| count.saturating_add(bucket.1))
    }

    /// Sum of the values; exact.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Smallest value, largest value and count of each bucket that is not empty, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().map(|&(index, count)| {
            let (low, high) = bounds(index);
            (low, high, count)
        })
    }

    /// Writes the number of buckets, their counts, each with a bit that says whether a gap follows, and the sum.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.buckets.len() as u64);
        let mut next = 0;
        for &(index, count) in &self.buckets {
            let gap = u64::from(index - next);
            // A count that has no room for the bit is written after the gap.
            out.number((count.min(MOST_WITH_BIT) << 1) | u64::from(gap > 0));
            if gap > 0 {
                out.number(gap);
            }
            if count >= MOST_WITH_BIT {
                out.number(count - MOST_WITH_BIT);
            }
            next = index + 1;
        }
        if !self.buckets.is_empty() {
            out.number(self.sum);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut histogram = Self::default();
        let (mut next, mut least, mut most) = (0_u64, 0_u64, 0_u64);
        for _ in 0..from.number()? {
            let word = from.number()?;
            let mut count = word >> 1;
            if word & 1 == 1 {
                next = next.checked_add(from.number().filter(|&gap| gap > 0)?)?;
            }
            if count == MOST_WITH_BIT {
                count = count.checked_add(from.number()?)?;
            }
            let index = u16::try_from(next).ok().filter(|&index| index < BUCKETS)?;
            let (low, high) = bounds(index);
            least = least.saturating_add(low.saturating_mul(count));
            most = most.saturating_add(high.saturating_mul(count));
            histogram.buckets.push((index, Some(count).filter(|&count| count > 0)?));
            next += 1;
        }
        if !histogram.buckets.is_empty() {
            histogram.sum = from.number().filter(|sum| (least..=most).contains(sum))?;
        }
        Some(histogram)
    }
}

/// A count that is smaller is written in one number with the gap's bit.
const MOST_WITH_BIT: u64 = u64::MAX >> 1;

/// Index of the bucket of `value`.
fn index(value: u64) -> u16 {
    let power = value.max(1).ilog2();
    let shift = power.saturating_sub(SUB_BITS);
    // Below 16 the value itself; above, `value >> shift` is 16 to 31.
    let within = u16::try_from(value >> shift).unwrap_or(0);
    u16::try_from(shift).unwrap_or(0) * SUBS + within
}

/// Smallest and largest value of a bucket.
fn bounds(index: u16) -> (u64, u64) {
    let shift = u32::from(index / SUBS).saturating_sub(1);
    let within = u64::from(index) - u64::from(SUBS) * u64::from(shift);
    (within << shift, (within << shift) + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::quantile;
    use proptest::prelude::*;

    #[test]
    fn buckets_cover_all_numbers_without_gap_or_overlap() {
        let mut next = Some(0);
        for bucket in 0..BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!(Some(low), next, "{bucket}");
            assert_eq!((index(low), index(high)), (bucket, bucket));
            next = high.checked_add(1);
        }
        assert_eq!(next, None);
    }

    #[test]
    fn a_sum_that_the_buckets_cannot_have_and_empty_buckets_are_refused() {
        let read = |numbers: &[u64]| {
            let mut bytes = Writer::default();
            numbers.iter().for_each(|&number| bytes.number(number));
            Histogram::read(&mut Reader::new(&bytes.bytes))
        };
        let (low, high) = bounds(100);
        let sums = [3 * low - 1, 3 * low, 3 * high, 3 * high + 1];
        let is_read = sums.map(|sum| read(&[1, 3 << 1 | 1, 100, sum]).is_some());
        assert_eq!(is_read, [false, true, true, false]);
        assert!(read(&[1, 1, 100, 0]).is_none(), "no value");
        assert!(read(&[1, 1 << 1 | 1, 0, 0]).is_none(), "no gap");
        assert!(read(&[1, 1 << 1 | 1, BUCKETS.into(), u64::MAX]).is_none(), "no such bucket");
    }

    proptest! {
        #[test]
        fn a_quantile_differs_from_the_exact_one_by_a_32nd_at_most(
            powers in prop::collection::vec((0_u32..64, any::<u64>()), 1..400), per_mille in 0_u32..=1000,
        ) {
            let mut values: Vec<u64> = powers.iter().map(|&(power, bits)| bits >> power).collect();
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(value));
            values.sort_unstable();
            let rank = (values.len() * per_mille as usize).div_ceil(1000).max(1);
            let (exact, found) = (values[rank - 1], quantile(&histogram, per_mille).unwrap());
            prop_assert!(u128::from(exact.abs_diff(found)) * 32 <= u128::from(exact), "{exact} {found}");
            prop_assert_eq!(histogram.count(), values.len() as u64);
            prop_assert_eq!(histogram.sum(), values.iter().fold(0, |sum: u64, &value| sum.saturating_add(value)));
            let mut bytes = Writer::default();
            histogram.write(&mut bytes);
            prop_assert_eq!(Histogram::read(&mut Reader::new(&bytes.bytes)), Some(histogram));
        }
    }
}
