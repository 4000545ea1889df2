//! Lines up the days of devices under two versions, so that nothing but the version tells them apart.
//!
//! A device is compared with itself before its update, and each day with the same day of devices that are like it and had not
//! updated yet: effects of the device and of the day are taken away from both (two-way fixed effects). So whatever the calendar does
//! to all devices, or to all of their kind, is no change: a push of the server, a weekend, data that grow, an update of the
//! system. A day on which no device of the kind has the earlier version is left out, as are devices that sent nothing
//! before their update.

use super::constants::{DAYS_BEFORE, EARLY_IN, FLOOR, FLOOR_DEATHS, LEAST_ALIKE, USUAL_FRAMES};
use super::estimate::QUANTILE;
use super::observations::{Device, Fleet, Sums};
use super::{Series, Source};
use crate::ledger::NS_OF_MS;
use crate::significance::real;
use crate::table::Text;
use std::collections::BTreeMap;

/// Rounds in which effects of devices and days are taken away in turn, unless less is left of them before.
const ROUNDS: usize = 200;
/// Size of the effects that may be left in updates, and in values of which errors are estimated.
const PRECISIONS: [f64; 2] = [1e-7, 1e-3];
/// Limit of the share of a row in its cell when errors are estimated.
const MOST_LEVERAGE: f64 = 0.9;
/// One in this many times, the largest, is reduced to the next smaller one, because it may be impossible.
const CUT_IN: usize = 100;

/// Days after an update that are observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The first one: caches are cold, and code is compiled.
    FirstDay,
    /// All later ones.
    LaterDays,
}

/// A day of a device under one of the versions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    /// The device, by its index in [`Fleet::devices`].
    pub(crate) device: usize,
    /// Number of the day of devices that are alike.
    pub(crate) cell: usize,
    /// True if the device has updated.
    pub(crate) is_later: bool,
    /// True if the release was before.
    pub(crate) is_since: bool,
    /// The sums of the day.
    pub(crate) sums: &'a Sums,
}

/// The days of a fleet's devices.
#[derive(Debug)]
pub(crate) struct Days<'a> {
    /// The fleet.
    pub(crate) fleet: &'a Fleet,
    /// The days, by device.
    pub(crate) rows: Vec<Row<'a>>,
    /// Frames by screen: the row, and their number.
    frames: Vec<Vec<(usize, f64)>>,
    /// Times by series: the row, and ns.
    times: Vec<Vec<(usize, f64)>>,
    cells: usize,
}

/// A row that is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compared {
    /// Index of the row.
    pub(crate) row: usize,
    /// The device, by its index.
    pub(crate) device: usize,
    /// Number of the day of devices that are alike.
    pub(crate) cell: usize,
    /// True if the device has updated.
    pub(crate) is_later: bool,
    /// Weight, which grows with the frames.
    pub(crate) weight: f64,
    /// Part of the device's update effect that neither the device nor the day explains.
    pub(crate) update: f64,
    /// Share of the row in its cell.
    leverage: f64,
}

impl Compared {
    /// Returns the part of a value in the score of its device. The fewer rows a cell has, the closer its effect is to their values.
    fn part(&self) -> f64 {
        self.weight * self.update / (1.0 - self.leverage.min(MOST_LEVERAGE))
    }
}

/// Index of a group of rows: a device, or a cell.
type Key = fn(&Compared) -> usize;

/// The rows that are compared on some screens, with their weights.
#[derive(Debug)]
pub(crate) struct Design {
    /// The rows.
    pub(crate) rows: Vec<Compared>,
    devices: usize,
    cells: usize,
}

/// Returns the day of the release: the day of the first updates.
fn release(fleet: &Fleet) -> u32 {
    let mut updates: Vec<u32> = fleet.devices.iter().filter_map(Device::update).collect();
    let early = updates.len() / EARLY_IN;
    updates.sort_unstable();
    updates.get(early).copied().unwrap_or(u32::MAX)
}

/// Returns a number for each kind of devices. Kinds with few devices share one with the next, which is the most like them.
fn kinds(fleet: &Fleet) -> BTreeMap<&Text, usize> {
    let mut counts: BTreeMap<&Text, usize> = BTreeMap::new();
    for device in fleet.devices.iter().filter(|device| !device.days[0].is_empty()) {
        *counts.entry(&device.alike).or_default() += 1;
    }
    let (mut number, mut devices) = (0, 0);
    for count in counts.values_mut() {
        devices += *count;
        *count = number;
        if devices >= LEAST_ALIKE {
            (number, devices) = (number + 1, 0);
        }
    }
    counts
}

impl<'a> Days<'a> {
    /// Collects the days.
    pub(crate) fn new(fleet: &'a Fleet, after: After) -> Self {
        let (release, kinds, days) = (release(fleet), kinds(fleet), fleet.days.len());
        let last_kind = kinds.values().max().copied().unwrap_or_default();
        let mut found = Self {
            fleet,
            rows: Vec::new(),
            frames: vec![Vec::new(); fleet.screens.len()],
            times: vec![Vec::new(); fleet.series.len()],
            cells: (last_kind + 1) * days,
        };
        for (index, device) in fleet.devices.iter().enumerate() {
            let Some(kind) = kinds.get(&device.alike) else { continue };
            let update = device.update().unwrap_or(u32::MAX);
            let earlier = device.days[0].iter().filter(|sums| sums.day < update);
            let earlier = earlier.filter(|sums| sums.day >= release.saturating_sub(DAYS_BEFORE));
            let is_after = |sums: &&Sums| (sums.day == update) == (after == After::FirstDay);
            let later = device.days[1].iter().filter(is_after);
            for sums in earlier.chain(later) {
                let row = found.rows.len();
                for (all, one) in
                    [(&mut found.frames, &sums.frames), (&mut found.times, &sums.times)]
                {
                    for &(number, count) in one {
                        let of_number = all.get_mut(number as usize);
                        of_number.into_iter().for_each(|rows| rows.push((row, real(count))));
                    }
                }
                let cell = kind * days + sums.day as usize;
                let [is_later, is_since] = [update, release].map(|from| sums.day >= from);
                found.rows.push(Row { device: index, cell, is_later, is_since, sums });
            }
        }
        found
    }

    /// Chooses the rows with frames on some screens that can be compared.
    pub(crate) fn design(&self, screens: &[u32]) -> Design {
        let frames = self.frames_on(screens);
        let rows =
            self.rows.iter().zip(&frames).enumerate().filter(|(_, (_, frames))| **frames > 0.0);
        let rows = rows.map(|(row, (&Row { device, cell, is_later, .. }, frames))| {
            let weight = frames / (frames + USUAL_FRAMES);
            let update = if is_later { 1.0 } else { 0.0 };
            Compared { row, device, cell, is_later, weight, update, leverage: 0.0 }
        });
        let (devices, cells) = (self.fleet.devices.len(), self.cells);
        let mut design = Design { rows: rows.collect(), devices, cells };
        loop {
            let mut is_known = vec![false; cells];
            let (mut earlier, mut all) = (vec![0; devices], vec![0; devices]);
            for row in &design.rows {
                all[row.device] += 1;
                if !row.is_later {
                    is_known[row.cell] = true;
                    earlier[row.device] += 1;
                }
            }
            let count = design.rows.len();
            design
                .rows
                .retain(|row| is_known[row.cell] && earlier[row.device] > 0 && all[row.device] > 1);
            if design.rows.len() == count {
                break;
            }
        }
        let mut update: Vec<f64> = design.rows.iter().map(|row| row.update).collect();
        design.take_effects_away(&mut update, PRECISIONS[0]);
        let weights = design.sums(cells, |row| row.cell, |_| 1.0);
        for (row, update) in design.rows.iter_mut().zip(update) {
            (row.update, row.leverage) = (update, row.weight / weights[row.cell]);
        }
        design
    }

    /// Returns the frames of each row on some screens.
    fn frames_on(&self, screens: &[u32]) -> Vec<f64> {
        let mut found = vec![0.0; self.rows.len()];
        for (row, frames) in screens.iter().flat_map(|&screen| &self.frames[screen as usize]) {
            found[*row] += frames;
        }
        found
    }
}

/// Values of a series, or of several together.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Value of each compared row: its time, as a share of the usual time for its frames on each screen.
    pub(crate) shares: Vec<f64>,
    /// The same, of all of its time: the largest times of `shares` are cut.
    pub(crate) uncut: Vec<f64>,
    /// Share of a usual value that is added to each.
    pub(crate) floor: f64,
    /// Mean times, ms per thousand frames: of devices that update, before it and after it, then of the others, before the release and since.
    pub(crate) ms_in_1000: [f64; 4],
    /// Devices with time of it.
    pub(crate) devices: u64,
}

impl Days<'_> {
    /// Returns true if the earlier version has frames on a screen.
    pub(crate) fn is_shared(&self, screen: u32) -> bool {
        self.frames[screen as usize].iter().any(|(row, _)| !self.rows[*row].is_later)
    }

    /// Returns the series with time, by name, that are on screens of both versions.
    pub(crate) fn series(&self) -> impl Iterator<Item = (&Series, u32)> {
        let all = (0_u32..).zip(&self.fleet.series).zip(&self.fleet.screen_of);
        let has_time = |number: u32| !self.times[number as usize].is_empty();
        let known =
            all.filter(move |((number, _), screen)| has_time(*number) && self.is_shared(**screen));
        known.map(|((number, series), _)| (series, number))
    }

    /// Returns the screens of some series.
    pub(crate) fn screens(&self, series: &[u32]) -> Vec<u32> {
        series.iter().map(|&series| self.fleet.screen_of[series as usize]).collect()
    }

    /// Returns the values of some series, each on a screen of its own. Mean times are those in the frames of `screens`.
    pub(crate) fn values(&self, design: &Design, series: &[u32], screens: &[u32]) -> Values {
        let [mut times, mut uncut, mut usual] = [(); 3].map(|()| vec![0.0; self.rows.len()]);
        for &series in series {
            let frames = self.frames_on(&[self.fleet.screen_of[series as usize]]);
            let of_rows = self.times[series as usize].iter().filter(|(row, _)| frames[*row] > 0.0);
            let mut rates: Vec<f64> = of_rows.clone().map(|(row, ns)| ns / frames[*row]).collect();
            rates.sort_by(f64::total_cmp);
            let most = rates.len().checked_sub(1 + rates.len().div_ceil(CUT_IN));
            let most = most.or(rates.len().checked_sub(1)).map_or(0.0, |most| rates[most]);
            let mut sum = 0.0;
            for (row, ns) in of_rows {
                let time = ns.min(most * frames[*row]);
                times[*row] += time;
                uncut[*row] += ns;
                sum += time;
            }
            let mean = sum / frames.iter().sum::<f64>().max(1.0);
            usual.iter_mut().zip(&frames).for_each(|(usual, frames)| *usual += mean * frames);
        }
        let mut is_updated = vec![None; design.devices];
        let mut with = vec![false; design.devices];
        for row in &design.rows {
            *is_updated[row.device].get_or_insert(false) |= row.is_later;
            with[row.device] |= times[row.row] > 0.0;
        }
        let mut sums = [[0.0; 2]; 4];
        for ((row, time), frames) in self.rows.iter().zip(&times).zip(self.frames_on(screens)) {
            let Some(is_updated) = is_updated[row.device] else { continue };
            let is_after = if is_updated { row.is_later } else { row.is_since };
            let [sum, of_frames] = &mut sums[usize::from(!is_updated) * 2 + usize::from(is_after)];
            (*sum, *of_frames) = (*sum + time, *of_frames + frames);
        }
        let shares = |times: &[f64]| {
            let share = |row: &Compared| times[row.row] / usual[row.row].max(f64::MIN_POSITIVE);
            design.rows.iter().map(share).collect()
        };
        let mut floor = FLOOR;
        if self.fleet.source == Source::Deaths {
            let all: f64 = design.rows.iter().map(|row| usual[row.row]).sum();
            let mean = all / real(design.rows.len().max(1) as u64);
            floor = floor.max(FLOOR_DEATHS * real(NS_OF_MS) / mean.max(f64::MIN_POSITIVE));
        }
        Values {
            floor,
            shares: shares(&times),
            uncut: shares(&uncut),
            ms_in_1000: sums.map(|[times, frames]: [f64; 2]| times / frames.max(1.0) / 1e3),
            devices: with.iter().filter(|with| **with).count() as u64,
        }
    }
}

impl Design {
    /// Adds up what rows have, by device or by cell, by their weights.
    fn sums(&self, count: usize, key: Key, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; count];
        for (index, row) in self.rows.iter().enumerate() {
            sums[key(row)] += row.weight * value(index);
        }
        sums
    }

    /// Takes the effects of devices and of cells away from the values of the rows.
    fn take_effects_away(&self, values: &mut [f64], precision: f64) {
        let keys: [(_, Key); 2] = [(self.cells, |row| row.cell), (self.devices, |row| row.device)];
        let weights = keys.map(|(count, key)| self.sums(count, key, |_| 1.0));
        for _ in 0..ROUNDS {
            let mut left = 0.0_f64;
            for ((count, key), weights) in keys.iter().zip(&weights) {
                let sums = self.sums(*count, *key, |index| values[index]);
                for (row, value) in self.rows.iter().zip(&mut *values) {
                    let effect = sums[key(row)] / weights[key(row)];
                    *value -= effect;
                    left = left.max(effect.abs());
                }
            }
            if left < precision {
                break;
            }
        }
    }

    /// Returns a score of the update for each device that sends values: positive if values are higher after it.
    pub(crate) fn scores(&self, mut values: Vec<f64>) -> Vec<f64> {
        self.take_effects_away(&mut values, PRECISIONS[1]);
        let mut scores = vec![0.0; self.devices];
        for (row, value) in self.rows.iter().zip(values) {
            scores[row.device] += row.part() * value;
        }
        scores
    }

    /// Returns the interval of the change of the sum of values, 95 %, percent of the sum without the change.
    pub(crate) fn sum_percent_interval(&self, values: &[f64]) -> Option<[f64; 2]> {
        let (mut change, mut information, mut later, mut weight) = (0.0, 0.0, 0.0, 0.0);
        for (row, value) in self.rows.iter().zip(values) {
            change += row.weight * row.update * value;
            if row.is_later {
                information += row.weight * row.update;
                later += row.weight * value;
                weight += row.weight;
            }
        }
        let change = change / information;
        let without = later / weight - change;
        let rest =
            |(row, value): (&Compared, &f64)| value - if row.is_later { change } else { 0.0 };
        let scores = self.scores(self.rows.iter().zip(values).map(rest).collect());
        let spread = scores.iter().map(|score| score * score).sum::<f64>().sqrt();
        let ends = [-QUANTILE, QUANTILE].map(|errors| change + errors * spread / information);
        (information > 0.0 && without > 0.0).then(|| ends.map(|end| 100.0 * end / without))
    }

    /// Returns the spread of the sum of the scores if values depend neither on the update nor on the device. A small group of devices
    /// may have none of the rare values, and would then show no spread.
    pub(crate) fn usual_spread(&self, values: &[f64]) -> f64 {
        let count = real(values.len().max(1) as u64);
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (variance * self.rows.iter().map(|row| row.part().powi(2)).sum::<f64>()).sqrt()
    }
}
