//! Finds the version with which a cause became worse or better, for `tracetee bisect`.
//!
//! A device that sent versions before and after a change is its own control: its observation is the difference of its means,
//! so that no shift of the mix looks like a change. Of all places between two versions, the one with the largest score is
//! the change. There are as many tests as causes times places; by Bonferroni's rule, a fleet without a change has a finding with
//! a probability of at most [`LEVEL`].

use crate::guard::{Series, real};
use crate::table::Text;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// Nominal probability of any finding in a fleet without a change. The normal distribution's far tail is too thin for
/// differences that are limited: at a nominal 1 %, 2 of 100 fleets had a finding.
pub const LEVEL: f64 = 0.005;
/// Minimum number of devices on both sides of a change.
pub const LEAST_DEVICES: u64 = 30;
/// Differences are limited to so many root mean squares.
const BOUND: f64 = 4.0;

/// A device's frames on a screen, or its time of a cause, under a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Number of the device.
    pub device: u32,
    /// Place of the version.
    pub version: u32,
    /// Frames, or ns.
    pub amount: u64,
}

/// The values of an app's devices under all of its versions.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Versions, the earliest first.
    pub versions: Vec<Text>,
    /// Frames by screen, sorted by device and version.
    pub frames: Vec<Vec<Sent>>,
    /// Series with the place of their screen and their times, sorted by device and version; without those of 0.
    pub series: Vec<(Series, usize, Vec<Sent>)>,
}

/// A change of a cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// The screen.
    pub screen: Text,
    /// The cause; empty for all jank.
    pub cause: Text,
    /// Key of the cause.
    pub key: Text,
    /// The first version with the change, and the one before it.
    pub version: Text,
    /// The last version without it.
    pub before: Text,
    /// Mean before and after, ms per thousand frames, over devices that sent both.
    pub ms_in_1000: [f64; 2],
    /// Devices that sent both.
    pub devices: u64,
    /// p-value, adjusted for the number of tests.
    pub p: f64,
}

impl Change {
    /// Returns the change as a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { screen, cause, key, version, before, ms_in_1000: [was, is], devices, p } = self;
        let screen = if screen.is_empty() { "no screen" } else { screen };
        let cause = if cause.is_empty() { "all jank".to_owned() } else { format!("{cause} {key}") };
        format!(
            "{before} -> {version}: {screen}: {cause}, {was:.1} -> {is:.1} ms in 1,000 frames, {devices} devices, p {p:.1e}\n"
        )
    }
}

/// Sums at a place between two versions.
#[derive(Debug, Clone, Copy, Default)]
struct Split {
    devices: u64,
    before: f64,
    after: f64,
    sum: f64,
    squares: f64,
}

impl Split {
    fn score(&self) -> f64 {
        let count = real(self.devices);
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean) * count / (count - 1.0);
        if self.devices >= LEAST_DEVICES && variance > 0.0 {
            mean / (variance / count).sqrt()
        } else {
            0.0
        }
    }
}

impl History {
    /// Returns the change of each series that has one, the surest first.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let places = self.versions.len().saturating_sub(1);
        let tests = real((self.series.len() * places).max(1) as u64);
        let mut changes = Vec::new();
        let mut values = Values::default();
        for (series, screen, times) in &self.series {
            values.take(self.frames.get(*screen).map_or(&[][..], Vec::as_slice), times);
            let splits = values.splits(self.versions.len());
            let best = splits
                .iter()
                .enumerate()
                .max_by(|(_, a), (_, b)| a.score().abs().total_cmp(&b.score().abs()));
            let Some((place, split)) = best else { continue };
            let p = (2.0 * Normal::standard().sf(split.score().abs()) * tests).min(1.0);
            let versions = self.versions.get(place).zip(self.versions.get(place + 1));
            let (true, Some((before, version))) = (p < LEVEL, versions) else { continue };
            changes.push((
                split.score().abs(),
                Change {
                    screen: series.screen.clone().unwrap_or_default(),
                    cause: series.cause.clone(),
                    key: series.key.clone(),
                    version: version.clone(),
                    before: before.clone(),
                    ms_in_1000: [split.before, split.after].map(|sum| sum / real(split.devices)),
                    devices: split.devices,
                    p,
                },
            ));
        }
        // p-values of large scores are all 0.
        changes.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        changes.into_iter().map(|(_, change)| change).collect()
    }
}

/// Values of a series: version, and ms per thousand frames, of one device after the other.
#[derive(Debug, Default)]
struct Values {
    values: Vec<(usize, f64)>,
    /// Ends of the devices in `values`.
    ends: Vec<usize>,
}

impl Values {
    fn take(&mut self, frames: &[Sent], times: &[Sent]) {
        self.values.clear();
        self.ends.clear();
        let mut times = times.iter().peekable();
        for of_device in frames.chunk_by(|a, b| a.device == b.device) {
            for of in of_device {
                let key = (of.device, of.version);
                while times.next_if(|time| (time.device, time.version) < key).is_some() {}
                let time = times.next_if(|time| (time.device, time.version) == key);
                let value = real(time.map_or(0, |time| time.amount)) / real(of.amount.max(1)) / 1e3;
                self.values.push((usize::try_from(of.version).unwrap_or(usize::MAX), value));
            }
            self.ends.push(self.values.len());
        }
    }

    /// Calls a function with a device's means before and after each place that has both.
    fn each(&self, mut each: impl FnMut(usize, f64, f64)) {
        let mut begin = 0;
        for &end in &self.ends {
            let of_device = self.values.get(begin..end).unwrap_or_default();
            begin = end;
            let total: f64 = of_device.iter().map(|of| of.1).sum();
            let mut before = 0.0;
            for (count, pair) in (1_u64..).zip(of_device.windows(2)) {
                let [(version, value), (next, _)] = *pair else { continue };
                before += value;
                let left = real(of_device.len() as u64 - count);
                // Versions that the device has not sent do not change its means.
                for place in version..next {
                    each(place, before / real(count), (total - before) / left);
                }
            }
        }
    }

    fn splits(&self, versions: usize) -> Vec<Split> {
        let mut squares = vec![(0_u64, 0.0_f64); versions.saturating_sub(1)];
        self.each(|place, before, after| {
            let difference = after - before;
            if let Some((count, sum)) = squares.get_mut(place).filter(|_| difference != 0.0) {
                *count += 1;
                *sum += difference * difference;
            }
        });
        let bounds: Vec<f64> =
            squares.iter().map(|&(count, sum)| BOUND * (sum / real(count.max(1))).sqrt()).collect();
        let mut splits = vec![Split::default(); bounds.len()];
        self.each(|place, before, after| {
            let Some((split, bound)) = splits.get_mut(place).zip(bounds.get(place)) else { return };
            let difference = (after - before).clamp(-bound, *bound);
            split.devices += 1;
            split.before += before;
            split.after += after;
            split.sum += difference;
            split.squares += difference * difference;
        });
        splits
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers of a simulation"
)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::time::Instant;

    const VERSIONS: u32 = 12;

    /// A fleet whose devices each sent all versions; a section may take 10 % more from a version on.
    fn history(seed: u64, sections: usize, devices: u32, planted: Option<(usize, u32)>) -> History {
        let mut rng = Rng::with_seed(seed);
        let mut exponential = move || -(1.0 - rng.f64()).ln();
        let versions = (0..VERSIONS).map(|version| format!("1.{version}").into()).collect();
        let keys = (0..devices).flat_map(|of| (0..VERSIONS).map(move |version| (of, version)));
        let frames = keys.clone().map(|(device, version)| Sent { device, version, amount: 1000 });
        let factors: Vec<f64> = (0..devices).map(|_| 0.5 + exponential()).collect();
        let series = (0..sections).map(|section| {
            let mean = 1e6 * (1 + section % 50) as f64;
            let times = keys.clone().map(|(device, version)| {
                let noise = (0..4).map(|_| exponential()).sum::<f64>() / 4.0;
                let is_worse = planted.is_some_and(|(of, from)| of == section && version >= from);
                let value =
                    mean * factors[device as usize] * noise * if is_worse { 1.1 } else { 1.0 };
                Sent { device, version, amount: value as u64 }
            });
            let key = format!("section {section}").into();
            let screen = Some("Feed".into());
            (Series { screen, cause: "section".into(), key }, 0, times.collect())
        });
        History { versions, frames: vec![frames.clone().collect()], series: series.collect() }
    }

    /// Checks so many fleets with a planted change, and as many without.
    fn check(fleets: u64, sections: usize, devices: u32) {
        let (mut right, mut among_three, mut false_ones) = (0, 0, 0);
        let mut time = std::time::Duration::ZERO;
        for seed in 0..fleets {
            let mut rng = Rng::with_seed(seed ^ 0x5eed);
            let (section, version) = (rng.usize(..sections), rng.u32(1..VERSIONS));
            let history_of = history(seed, sections, devices, Some((section, version)));
            let begin = Instant::now();
            let changes = history_of.changes();
            time = time.max(begin.elapsed());
            let key = format!("section {section}");
            let place = changes.iter().position(|change| *change.key == *key);
            among_three += u64::from(place.is_some_and(|place| place < 3));
            let expected = format!("1.{version}");
            right += u64::from(place.is_some_and(|place| *changes[place].version == *expected));
            false_ones += u64::from(!history(!seed, sections, devices, None).changes().is_empty());
        }
        println!(
            "{VERSIONS} versions, {sections} sections, {devices} devices, {fleets} fleets: version right in {right}, section \
             among the first three in {among_three}; {false_ones} of as many null fleets have a finding; at most {time:?} a fleet"
        );
        assert!(
            right * 100 >= fleets * 95 && among_three * 100 >= fleets * 95,
            "{right} {among_three}"
        );
        assert!(false_ones * 100 <= fleets, "{false_ones} of {fleets}");
    }

    #[test]
    fn the_version_and_the_section_of_a_planted_change_are_found() {
        check(if cfg!(debug_assertions) { 3 } else { 40 }, 20, 2000);
    }

    /// Takes minutes: `cargo test --release -p tracetee-fleet --lib bisect -- --ignored --nocapture`.
    #[test]
    #[ignore = "takes minutes"]
    fn a_change_is_found_among_a_thousand_sections() {
        check(100, 1000, 2000);
    }

    #[test]
    fn a_shift_of_the_mix_is_no_change() {
        // Slow devices send later versions only; each device is as it was.
        let mut history = history(3, 5, 400, None);
        let is_slow = |sent: &Sent| sent.device.is_multiple_of(2);
        let is_sent =
            |sent: &Sent| is_slow(sent) == (sent.version >= 6) || sent.device.is_multiple_of(10);
        for (_, _, times) in &mut history.series {
            times.retain(is_sent);
            times.iter_mut().filter(|sent| is_slow(sent)).for_each(|sent| sent.amount *= 3);
        }
        history.frames[0].retain(is_sent);
        assert_eq!(history.changes(), []);
        for (_, _, times) in &mut history.series {
            times.iter_mut().filter(|sent| sent.version >= 6).for_each(|sent| sent.amount *= 3);
        }
        let changes = history.changes();
        assert_eq!(changes.len(), 5);
        assert!(changes.iter().all(|change| change.version == "1.6" && change.before == "1.5"));
    }
}
