//! Log-linear buckets of durations. A bucket is named by its middle, so that a query reads it like a value.
//!
//! Values below a limit have buckets of one width. From there on, each power of two has as many buckets as the others,
//! so that the distance from the middle is a bounded share of the value. Buckets are the same everywhere: sums by
//! bucket are added up over captures, days and parts.

/// The buckets of a kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    /// Width of the narrowest buckets, a power of two.
    width: u64,
    /// Buckets of a power of two, a power of two.
    steps: u64,
    /// The width grows up to this power of two.
    last: u32,
}

/// Buckets of frame durations in tenths of a millisecond: exact to 6.3 ms.
pub const FRAMES: Buckets = Buckets { width: 1, steps: 32, last: 34 };
/// Buckets of times of causes and of start-ups in nanoseconds.
pub const TIMES: Buckets = Buckets { width: 1024, steps: 16, last: 46 };

impl Buckets {
    /// Returns the middle of the value's bucket.
    #[must_use]
    pub const fn middle(self, value: u64) -> u64 {
        let mut width = self.width;
        // Values from steps * width on have a bucket of at most a `steps`-th of them.
        let mut end = self.first_end();
        while value >= end && end < 1 << self.last {
            width *= 2;
            end *= 2;
        }
        value - value % width + width / 2
    }

    /// End of the buckets of the narrowest width.
    const fn first_end(self) -> u64 {
        self.width * self.steps * 2
    }

    /// Returns the largest distance of a value from the middle of its bucket, in percent of the value. Values of less
    /// than `steps` times the smallest width are at most half that width away.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a small number")]
    pub fn error_percent(self) -> f64 {
        50.0 / self.steps as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distance_is_bounded(buckets: Buckets, value: u64) {
        let middle = buckets.middle(value);
        let distance = value.abs_diff(middle);
        let linear = buckets.width / 2;
        let share = value / (2 * buckets.steps);
        assert!(distance <= linear.max(share), "{value} is in the bucket of {middle}");
        assert_eq!(buckets.middle(middle), middle, "{value}");
    }

    proptest! {
        #[test]
        fn no_value_is_farther_from_its_middle_than_stated(value in 0_u64..1 << 46, bits in 0_u32..46) {
            for value in [value, value >> bits, 1 << bits, (1 << bits) - 1] {
                distance_is_bounded(TIMES, value);
                distance_is_bounded(FRAMES, value >> 12);
            }
        }
    }

    #[test]
    fn short_frames_are_exact() {
        assert!((0..64).all(|value| FRAMES.middle(value) == value));
        assert_eq!((FRAMES.middle(64), FRAMES.middle(65), FRAMES.middle(167)), (65, 65, 166));
        assert!((FRAMES.error_percent() - 1.5625).abs() < 1e-9);
    }
}
