//! Finds for a device that updated others that did not, on each of its days: its controls.
//!
//! Both have captures of the days before the release and of the same day after it, and are alike. So whatever the calendar does
//! to all devices, or to all of their kind, it does to both: a push of the server, a weekend, data that grow, an update of the
//! system. A device that updates later is a control until then. Devices that are new to the app have no days before the release,
//! and are compared with none.

use super::constants::{
    DAYS_BEFORE, EARLY_IN, LEAST_FRAMES, LEAST_ON_SCREEN, MOST_CONTROLS, MOST_OBSERVATIONS,
};
use super::estimate::Values;
use super::observations::{Device, Fleet, Sums, at};
use crate::significance::real;
use crate::table::Text;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// Days after an update that are observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The first one: caches are cold, and code is compiled.
    FirstDay,
    /// All later ones.
    LaterDays,
}

/// A day of a device that updated, beside the same day of a control.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The device that updated, by its number in [`Fleet::devices`].
    pub updated: u32,
    /// The control, by its number.
    pub control: u32,
    /// Weight of the observations: the more controls the day has, the more it tells.
    pub weight: f64,
    /// Sums before the release and on the day: of the device that updated, then of its control.
    cells: [&'a Sums; 4],
}

/// The values of a series in a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// The series, by its number in [`Fleet::series`].
    pub series: u32,
    /// Share of the series' screen in the frames of all screens that the four cells have.
    pub weight: f64,
    /// The values.
    pub values: Values,
}

/// The devices of a fleet with their sums before the release.
#[derive(Debug)]
pub struct Before<'a> {
    fleet: &'a Fleet,
    /// Sums of each device; `None` if it has too few frames.
    sums: Vec<Option<Sums>>,
}

/// Returns the day of the release: that of the first updates.
fn release(fleet: &Fleet) -> u32 {
    let mut updates: Vec<u32> = fleet.devices.iter().filter_map(Device::update).collect();
    let early = updates.len() / EARLY_IN;
    updates.sort_unstable();
    updates.get(early).copied().unwrap_or(u32::MAX)
}

impl<'a> Before<'a> {
    /// Adds up the days before the release.
    pub(crate) fn new(fleet: &'a Fleet) -> Self {
        let release = release(fleet);
        let days = release.saturating_sub(DAYS_BEFORE)..release;
        let sums = |device: &Device| {
            let until = device.update().unwrap_or(u32::MAX);
            let earlier = device.days[0].iter();
            let before = earlier.filter(|sums| days.contains(&sums.day) && sums.day < until);
            Some(sum(before)).filter(|sums| sums.frame_count() >= LEAST_FRAMES)
        };
        Self { fleet, sums: fleet.devices.iter().map(sums).collect() }
    }

    /// Returns true if a device has enough frames before the release.
    pub(crate) fn has(&self, device: u32) -> bool {
        at(&self.sums, device).is_some_and(Option::is_some)
    }

    /// Finds the pairs.
    pub(crate) fn pairs(&'a self, after: After) -> Vec<Pair<'a>> {
        let mut updated: BTreeMap<Block<'_>, Vec<Candidate<'_>>> = BTreeMap::new();
        let mut controls: HashMap<Block<'_>, Vec<Candidate<'_>>, RandomState> = HashMap::default();
        let mut count = 0;
        for (number, (device, before)) in (0_u32..).zip(self.fleet.devices.iter().zip(&self.sums)) {
            let Some(before) = before else { continue };
            let candidate = |on: &'a Sums| Candidate { number, before, on };
            let is_enough = |on: &&Sums| on.frame_count() >= LEAST_FRAMES;
            let update = device.update().unwrap_or(u32::MAX);
            let kept = device.days[0].iter().filter(|on| on.day < update);
            for on in kept.filter(is_enough) {
                controls.entry((&device.alike, on.day)).or_default().push(candidate(on));
            }
            let is_after = |on: &&Sums| (on.day == update) == (after == After::FirstDay);
            for on in device.days[1].iter().filter(is_after).filter(is_enough) {
                updated.entry((&device.alike, on.day)).or_default().push(candidate(on));
                count += 1;
            }
        }
        let most = (MOST_OBSERVATIONS / count.max(1)).clamp(1, MOST_CONTROLS);
        let step = count.div_ceil(MOST_OBSERVATIONS).max(1);
        let mut found = Vec::new();
        for (block, updated) in updated {
            let Some(controls) = controls.get(&block) else { continue };
            let [count, others] = [updated.len(), controls.len()].map(|count| real(count as u64));
            let each = most.min(controls.len());
            // As least squares weigh a difference of two means.
            let weight = others / (count + others) / real(each as u64);
            // Each control has about as many devices as the others.
            for (index, of) in updated.iter().enumerate().step_by(step) {
                let begin = index * most;
                for next in begin..begin + each {
                    let Some(other) = controls.get(next % controls.len()) else { continue };
                    let cells = [of.before, of.on, other.before, other.on];
                    found.push(Pair { updated: of.number, control: other.number, weight, cells });
                }
            }
        }
        found
    }
}

/// Devices that are alike, on a day.
type Block<'a> = (&'a Text, u32);

/// A day of a device.
struct Candidate<'a> {
    number: u32,
    before: &'a Sums,
    on: &'a Sums,
}

fn sum<'a>(days: impl Iterator<Item = &'a Sums>) -> Sums {
    let (mut frames, mut times) = (BTreeMap::new(), BTreeMap::new());
    for sums in days {
        for (all, one) in [(&mut frames, &sums.frames), (&mut times, &sums.times)] {
            for &(of, count) in one {
                *all.entry(of).or_insert(0_u64) += count;
            }
        }
    }
    Sums { day: 0, frames: frames.into_iter().collect(), times: times.into_iter().collect() }
}

impl Pair<'_> {
    /// Returns the values of all series that have time in one of the four cells, on the screens that all of them have, in ms per
    /// thousand frames.
    pub(crate) fn observed(&self, fleet: &Fleet) -> Vec<Observed> {
        let mut screens: BTreeMap<u32, [u64; 4]> = BTreeMap::new();
        let mut times: BTreeMap<u32, [u64; 4]> = BTreeMap::new();
        for (index, cell) in self.cells.iter().enumerate() {
            for (all, one) in [(&mut screens, &cell.frames), (&mut times, &cell.times)] {
                for &(of, count) in one {
                    if let Some(value) = all.entry(of).or_default().get_mut(index) {
                        *value += count;
                    }
                }
            }
        }
        screens.retain(|_, frames| frames.iter().all(|count| *count >= LEAST_ON_SCREEN));
        let all: u64 = screens.values().flatten().sum();
        let mut found = Vec::new();
        for (series, times) in times {
            let frames = at(&fleet.screen_of, series).and_then(|screen| screens.get(screen));
            let Some(frames) = frames else { continue };
            let weight = real(frames.iter().sum()) / real(all.max(1));
            let mut values = times.map(real);
            for (value, frames) in values.iter_mut().zip(frames) {
                *value /= real(*frames) * 1e3;
            }
            found.push(Observed { series, weight, values });
        }
        found
    }

    /// Returns the day of the device that updated.
    pub(super) const fn day(&self) -> &Sums {
        self.cells[1]
    }
}
