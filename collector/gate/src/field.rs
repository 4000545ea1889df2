//! Estimates the change in the field: in frames of its captures, a section takes longer by the same factor as in the lab.
//!
//! A factor, not a time: a phone on which the section takes twice the time loses twice the time. A frame ends later by the
//! section's time on its main thread; it is late if that exceeds the time left to its deadline. A frame that it delays in
//! turn is not counted, nor is a section that the field's build does not have.

use crate::lab::{each, ms_of, rated};
use fastrand::Rng;
use std::collections::BTreeMap;
use tracetee_fleet::capture::Capture;
use tracetee_jank::normalize;

/// Draws from which an interval is made, and the seed: the same captures give the same interval.
const DRAWS: usize = 1000;
const SEED: u64 = 11;
/// Minimum number of devices with the section for an interval over devices.
const LEAST_DEVICES: usize = 10;

/// Frames of the field's captures, by device.
#[derive(Debug, Default)]
pub struct Field {
    devices: BTreeMap<String, Device>,
    /// The sections to search for.
    sections: Vec<String>,
    /// Source of the app's ledgers that has most frames, and its late frames, percent.
    pub of_ledgers: Option<(String, f64)>,
}

#[derive(Debug, Default)]
struct Device {
    frames: usize,
    late: usize,
    /// The frames with each section.
    with: Vec<Vec<With>>,
}

impl Device {
    fn with(&self, section: usize) -> &[With] {
        self.with.get(section).map_or(&[], |frames| frames)
    }
}

/// A frame with a section.
#[derive(Debug, Clone, Copy)]
struct With {
    /// Factor of the section's time above which the frame is late.
    factor: f64,
    was_late: bool,
}

/// The change of late frames that is expected.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Expected {
    /// Devices whose captures were read.
    pub devices: usize,
    /// Devices with the section in a frame.
    pub devices_with: usize,
    /// Frames with the section, percent of all frames, and of late frames.
    pub with_percent: [f64; 2],
    /// Late frames today, percent of all frames.
    pub late_percent: f64,
    /// Origin of that number: `captures` (the captures read), or a source of ledgers (all devices).
    pub late_from: String,
    /// Expected change, percentage points.
    pub points: f64,
    /// Interval of the change over devices and runs of the lab, 95 %; `None` with fewer than ten devices that have the section.
    pub interval: Option<[f64; 2]>,
}

impl Field {
    /// Makes an empty field, in which these sections are searched for.
    #[must_use]
    pub fn new(sections: Vec<String>) -> Self {
        Self { sections, ..Self::default() }
    }

    /// Adds the frames of a capture of a device.
    pub fn add(&mut self, device: &str, capture: &Capture) {
        let frames = rated(capture);
        let names = capture.trace.names.select(|name| self.sections.contains(&normalize(name)));
        let mut times: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        each(capture, |frame, name, ns| {
            if names.has(name) {
                let name = normalize(capture.trace.names.text(name));
                let section = self.sections.iter().position(|section| *section == name);
                section
                    .into_iter()
                    .for_each(|section| *times.entry((section, frame)).or_default() += ns);
            }
        });
        let device = self.devices.entry(device.to_owned()).or_default();
        device.frames += frames.len();
        device.late += frames.iter().filter(|frame| frame.slow).count();
        device.with.resize_with(self.sections.len(), Vec::new);
        for ((section, frame), ns) in times {
            let (Some(with), Some(frame)) = (device.with.get_mut(section), frames.get(frame))
            else {
                continue;
            };
            let allowed_ns = frame.deadline_ns.saturating_sub(frame.start_ns);
            let left = ms_of(allowed_ns) - ms_of(frame.dur_ns);
            let factor = 1.0 + left / ms_of(ns.max(1));
            // The display's data may contradict the deadline.
            let factor = if frame.slow { factor.min(1.0) } else { factor.max(1.0) };
            with.push(With { factor, was_late: frame.slow });
        }
    }

    /// Returns the change of late frames if a section's time grows by a factor. `ratios`: draws of it, by the runs of the lab.
    #[must_use]
    pub fn expected(&self, section: &str, ratio: f64, ratios: &[f64]) -> Option<Expected> {
        let section = self.sections.iter().position(|name| name == section)?;
        let devices: Vec<&Device> = self.devices.values().collect();
        let sum = |value: &dyn Fn(&Device) -> usize| -> f64 {
            crate::real(devices.iter().map(|device| value(device)).sum())
        };
        let frames = sum(&|device| device.frames).max(1.0);
        let late = sum(&|device| device.late);
        let with = sum(&|device| device.with(section).len());
        let late_with =
            sum(&|device| device.with(section).iter().filter(|frame| frame.was_late).count());
        let devices_with = devices.iter().filter(|device| !device.with(section).is_empty()).count();
        let more = |device: &Device, ratio| more_late(device.with(section), ratio);
        let points = 100.0 * devices.iter().map(|device| more(device, ratio)).sum::<f64>() / frames;
        let of_captures = || ("captures".to_owned(), 100.0 * late / frames);
        let (late_from, late_percent) = self.of_ledgers.clone().unwrap_or_else(of_captures);
        let mut rng = Rng::with_seed(SEED);
        let draws = (devices_with >= LEAST_DEVICES && !ratios.is_empty()).then(|| {
            let mut draws: Vec<f64> = Vec::with_capacity(DRAWS);
            for _ in 0..DRAWS {
                let ratio = rng.choice(ratios).copied().unwrap_or(ratio);
                let (mut late, mut frames) = (0.0, 0.0);
                for _ in 0..devices.len() {
                    if let Some(device) = rng.choice(&devices) {
                        late += more(device, ratio);
                        frames += crate::real(device.frames);
                    }
                }
                draws.push(100.0 * late / f64::max(frames, 1.0));
            }
            draws.sort_by(f64::total_cmp);
            draws
        });
        let rank = |draws: &[f64], share: usize| draws.get(draws.len() * share / 1000).copied();
        let interval = draws.and_then(|draws| Some([rank(&draws, 25)?, rank(&draws, 975)?]));
        Some(Expected {
            devices: self.devices.len(),
            devices_with,
            with_percent: [100.0 * with / frames, 100.0 * late_with / late.max(1.0)],
            late_percent,
            late_from,
            points,
            interval,
        })
    }
}

/// Returns the number of frames that are late with this factor, minus those that were late without it.
fn more_late(frames: &[With], ratio: f64) -> f64 {
    let change = frames.iter().map(|frame| match (frame.was_late, frame.factor < ratio) {
        (false, true) => 1.0,
        (true, false) if ratio < 1.0 => -1.0,
        _ => 0.0,
    });
    change.sum()
}
