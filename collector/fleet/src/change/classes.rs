//! Classes of devices by their frame times, so that fast devices are compared with fast ones.
//!
//! The class of a model comes from its devices under the earlier version alone: the later version cannot move it. The
//! class of a device comes from the time within which it completes a tenth of its frames: early adopters with faster
//! devices of the same model have another class. Late frames do not move that time. A version that makes nearly all frames
//! slower, by a third or more, does: then its devices have no match, and only pairs show the difference.

use crate::table::Text;
use foldhash::fast::RandomState;
use std::collections::HashMap;
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

/// Classes of the models that the earlier version has.
#[derive(Debug, Default)]
pub struct ModelClasses {
    classes: HashMap<Text, i32, RandomState>,
}

impl ModelClasses {
    /// Takes the models and quick frame times (ns) of devices under the earlier version: the median of a model's devices
    /// decides. Devices without a model have no part in it.
    #[must_use]
    pub fn of_devices<'a>(devices: impl Iterator<Item = (&'a Text, u64)>) -> Self {
        let mut times: HashMap<&Text, Vec<u64>, RandomState> = HashMap::default();
        for (model, ns) in devices.filter(|(model, _)| !model.is_empty()) {
            times.entry(model).or_default().push(ns);
        }
        let median = |mut times: Vec<u64>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        };
        let classes = times.into_iter().map(|(model, ns)| (model.clone(), class_of(median(ns))));
        Self { classes: classes.collect() }
    }

    /// Returns the class of a model, if the earlier version has it.
    #[must_use]
    pub fn class(&self, model: &str) -> Option<i32> {
        self.classes.get(model).copied()
    }
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

    #[test]
    fn the_median_of_its_devices_decides_on_the_class_of_a_model() {
        let [fast, slow, none] = ["fast", "slow", ""].map(Text::from);
        let times = [(&fast, 4), (&fast, 4), (&fast, 90), (&slow, 16), (&none, 1)];
        let models =
            ModelClasses::of_devices(times.map(|(model, ms)| (model, ms * 1_000_000)).into_iter());
        assert_eq!(models.class("fast"), Some(class_of(4_000_000)));
        assert_eq!(models.class("slow"), Some(class_of(16_000_000)));
        assert_eq!((models.class(""), models.class("unseen")), (None, None));
    }
}
