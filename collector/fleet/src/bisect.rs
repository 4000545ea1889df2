//! Finds the version with which a cause became worse or better, for `tracetee bisect`.
//!
//! A device that sent versions before and after a change is its own control: its observation is the difference of its means,
//! so that no shift of the mix looks like a change. Of all places between two versions, the one with the largest score is
//! the change. There are as many tests as causes times places; by Bonferroni's rule, a fleet without a change has a finding with
//! a probability of at most [`LEVEL`].

use crate::guard::Series;
use crate::significance::real;
use crate::table::Text;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use tracetee_trace::shown;

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
        let (screen, before, version) = (shown(screen), shown(before), shown(version));
        let cause = if cause.is_empty() {
            "all jank".to_owned()
        } else {
            format!("{} {}", shown(cause), shown(key))
        };
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
#[path = "bisect_tests.rs"]
mod tests;
