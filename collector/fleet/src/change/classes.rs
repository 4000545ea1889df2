//! Classes of devices by their frame times, so that fast devices are compared with fast ones.
//!
//! The class of a device comes from the time within which it completes a tenth of its frames: late frames do not move it. The
//! caller takes the frames under the earlier version, so that the later one cannot move it either.

use std::time::Duration;

/// Classes of a factor of two in frame time.
const CLASSES_OF_OCTAVE: f64 = 2.0;
/// Frame time in the middle of class 0, ms: a period at 60 Hz.
const MIDDLE_MS: f64 = 1000.0 / 60.0;

/// Returns the class of a frame time.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the logarithm of any frame time is small"
)]
pub fn class_of(ns: u64) -> i32 {
    ((ns.max(1) as f64 / 1e6 / MIDDLE_MS).log2() * CLASSES_OF_OCTAVE).round() as i32
}

/// Returns the class of a frame time in ms, as people write it.
///
/// # Errors
/// If it is no such time.
pub fn parse(text: &str) -> Result<i32, String> {
    let ms = text.parse::<f64>().ok().filter(|ms| (0.01..=10_000.0).contains(ms));
    let ms = ms.ok_or("not a time of a frame in ms, from 0.01 to 10000")?;
    Ok(class_of(Duration::from_secs_f64(ms / 1e3).as_nanos().try_into().unwrap_or(u64::MAX)))
}

/// Returns the frame times at which a class begins and ends, ms.
#[must_use]
pub fn range_ms(class: i32) -> [f64; 2] {
    [-0.5, 0.5].map(|half| MIDDLE_MS * ((f64::from(class) + half) / CLASSES_OF_OCTAVE).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_the_frame_times_of_its_range() {
        for ns in [900_000, 2_400_000, 8_333_333, 16_600_000, 16_800_000, 700_000_000] {
            let class = class_of(ns);
            let [begin, end] = range_ms(class);
            let ms = f64::from(u32::try_from(ns).unwrap()) / 1e6;
            assert!(begin <= ms && ms < end, "{ns}: {class}, {begin} to {end}");
        }
        assert_eq!(class_of(16_600_000), class_of(16_800_000));
        assert_eq!(class_of(8_000_000) - class_of(4_000_000), 2);
        assert_eq!(class_of(0), class_of(1));
    }
}
