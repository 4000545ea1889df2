//! Arranges devices into pairs and strata: [`Collected::arrange`].

use super::classes::{ModelClasses, class_of};
use super::collected::{Collected, Rules, Sent, Side, Visit};
use super::observations::{
    CauseName, Likeness, NotCompared, Observations, Portion, Screen, Sparse, Stratum, StratumKey,
};
use crate::significance::real;
use std::collections::BTreeMap;

const SIDES: [Side; 2] = [Side::From, Side::To];

/// The part that a device under a version has in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// None.
    Out,
    /// In the pair with this number.
    Pair(u32),
    /// In strata.
    Single,
    /// Of an unknown model, with this place among those.
    Unmatched(u32),
}

impl Collected {
    /// Arranges the devices for a comparison.
    #[must_use]
    pub fn arrange(self, rules: &Rules) -> Observations {
        let mut arranged = Arranged::new(self, rules);
        arranged.weigh_screens();
        arranged.find_pairs(rules);
        arranged.find_strata(rules);
        arranged.take_values();
        arranged.found
    }
}

struct Arranged {
    sent: [Vec<Sent>; 2],
    parts: [Vec<Part>; 2],
    /// Place of each screen among those that both versions have.
    screens: Vec<Option<usize>>,
    names: Vec<crate::table::Text>,
    models: ModelClasses,
    /// Stratum and place in it of a device's screen, by version and place of the device.
    places: [Vec<Vec<(u32, u32, u32)>>; 2],
    found: Observations,
}

fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn at<T>(all: &[T], number: u32) -> Option<&T> {
    usize::try_from(number).ok().and_then(|place| all.get(place))
}

/// Milliseconds per thousand frames.
fn ms_in_1000(ns: u64, frames: u64) -> f64 {
    real(ns) / real(frames.max(1)) / 1e3
}

impl Sent {
    fn frames(&self) -> u64 {
        self.visits.iter().map(|visit| visit.frames).sum()
    }

    fn visit(&self, screen: u32) -> Option<&Visit> {
        self.visits.iter().find(|visit| visit.screen == screen && visit.frames > 0)
    }
}

impl Arranged {
    /// Leaves out devices without frames, and test devices.
    fn new(collected: Collected, rules: &Rules) -> Self {
        let mut not_compared = NotCompared::default();
        let mut sent = collected.sent;
        for (sent, left_out) in sent.iter_mut().zip(&mut not_compared.test_devices) {
            sent.retain(|sent| {
                let is_out = sent.traits.is_test && !rules.has_test_devices;
                *left_out += u64::from(is_out);
                !is_out && sent.frames() > 0
            });
        }
        let earlier = sent.first().into_iter().flatten();
        let models = ModelClasses::of_devices(
            earlier.map(|sent| (&sent.traits.model, sent.traits.quick_ns)),
        );
        let causes = collected.cause_names.into_iter();
        let found = Observations {
            devices: collected.devices.all,
            causes: causes.map(|(cause, key)| CauseName { cause, key }).collect(),
            sent: [&sent[0], &sent[1]].map(|sent| sent.len() as u64),
            not_compared,
            ..Observations::default()
        };
        Self {
            parts: [&sent[0], &sent[1]].map(|sent| vec![Part::Single; sent.len()]),
            places: [&sent[0], &sent[1]].map(|sent| vec![Vec::new(); sent.len()]),
            screens: vec![None; collected.screens.all.len()],
            names: collected.screens.all,
            models,
            sent,
            found,
        }
    }

    /// Weighs each screen by its share in both versions' frames: the mean over their devices.
    fn weigh_screens(&mut self) {
        let mut shares = vec![[0.0; 2]; self.names.len()];
        for (side, sent) in self.sent.iter().enumerate() {
            for of in sent {
                let part = 1.0 / real(of.frames()) / real(sent.len() as u64);
                for visit in &of.visits {
                    let place = usize::try_from(visit.screen).unwrap_or(usize::MAX);
                    let share = shares.get_mut(place).and_then(|shares| shares.get_mut(side));
                    if let Some(share) = share {
                        *share += real(visit.frames) * part;
                    }
                }
            }
        }
        for ((name, shares), place) in self.names.iter().zip(shares).zip(&mut self.screens) {
            let share = (shares[0] + shares[1]) / 2.0;
            let screen = Screen { name: name.clone(), share, shares };
            if shares.iter().all(|share| *share > 0.0) {
                *place = Some(self.found.screens.len());
                self.found.screens.push(screen);
            } else if share > 0.0 {
                self.found.screens_not_compared.push(screen);
            }
        }
        let total: f64 = self.found.screens.iter().map(|screen| screen.share).sum();
        self.found.screens.iter_mut().for_each(|screen| screen.share /= total);
    }

    /// The weight of a screen, if both versions have it.
    fn weight(&self, screen: u32) -> Option<f64> {
        let place = (*at(&self.screens, screen)?)?;
        self.found.screens.get(place).map(|screen| screen.share)
    }

    /// Finds the devices that sent both versions.
    fn find_pairs(&mut self, rules: &Rules) {
        let mut later = vec![None; self.found.devices.len()];
        for (place, sent) in self.sent[1].iter().enumerate() {
            if let Some(of) = later.get_mut(usize::try_from(sent.device).unwrap_or(usize::MAX)) {
                *of = Some(place);
            }
        }
        let mut pairs = Vec::new();
        for (place, old) in self.sent[0].iter().enumerate() {
            let Some(other) = at(&later, old.device).copied().flatten() else { continue };
            let Some(new) = self.sent[1].get(other) else { continue };
            let is_shared = old.visits.iter().any(|visit| new.visit(visit.screen).is_some());
            pairs.push((place, other, old.device, is_shared));
        }
        let is_enough = pairs.len() >= rules.least_pairs;
        for (place, other, device, is_shared) in pairs {
            let is_pair = is_enough && is_shared;
            let pair = Part::Pair(number(self.found.paired.len()));
            // One vote a device: if not as a pair, for the later version.
            let parts = if is_pair { [pair, pair] } else { [Part::Out, Part::Single] };
            for ((all, place), part) in self.parts.iter_mut().zip([place, other]).zip(parts) {
                if let Some(of) = all.get_mut(place) {
                    *of = part;
                }
            }
            if is_pair {
                self.found.paired.push(device);
            }
        }
    }

    /// Returns the stratum of a device: the traits that it shares with those it is compared with.
    fn likeness(&self, sent: &Sent) -> Option<Likeness> {
        let traits = &sent.traits;
        Some(Likeness {
            model_class: self.models.class(&traits.model)?,
            device_class: class_of(traits.quick_ns),
            api: traits.api,
            hz: traits.hz,
        })
    }

    /// Finds the strata of the devices that are in no pair, and the mix of all.
    fn find_strata(&mut self, rules: &Rules) {
        let mut strata: BTreeMap<StratumKey, [Vec<(usize, u32)>; 2]> = BTreeMap::new();
        let mut mix: BTreeMap<Option<Likeness>, [u64; 2]> = BTreeMap::new();
        for side in [0, 1] {
            for (place, sent) in self.sent[side].iter().enumerate() {
                let likeness = self.likeness(sent);
                mix.entry(likeness.clone()).or_default()[side] += 1;
                if self.parts[side].get(place) != Some(&Part::Single) {
                    continue;
                }
                let Some(likeness) = likeness else {
                    let is_unknown = sent.traits.model.is_empty();
                    let unmatched = &mut self.found.unmatched[side];
                    if let (true, Some(part)) = (is_unknown, self.parts[side].get_mut(place)) {
                        *part = Part::Unmatched(number(unmatched.len()));
                        unmatched.push(sent.device);
                    }
                    let NotCompared { unknown_model, unseen_model, .. } =
                        &mut self.found.not_compared;
                    (if is_unknown { unknown_model } else { unseen_model })[side] += 1;
                    continue;
                };
                for visit in sent.visits.iter().filter(|visit| visit.frames > 0) {
                    let Some(screen) = at(&self.screens, visit.screen).copied().flatten() else {
                        continue;
                    };
                    let key = StratumKey { likeness: likeness.clone(), screen };
                    strata.entry(key).or_default()[side].push((place, visit.screen));
                }
            }
        }
        let is_enough = |of: &[Vec<_>; 2]| of.iter().all(|of| of.len() >= rules.least_in_stratum);
        strata.retain(|_, devices| is_enough(devices));
        for (key, members) in strata {
            let stratum = number(self.found.strata.len());
            let mut devices = [Vec::new(), Vec::new()];
            for side in [0, 1] {
                for (member, &(place, screen)) in members[side].iter().enumerate() {
                    devices[side].extend(self.sent[side].get(place).map(|sent| sent.device));
                    if let Some(places) = self.places[side].get_mut(place) {
                        places.push((screen, stratum, number(member)));
                    }
                }
            }
            self.found.strata.push(Stratum { key, weight: 0.0, devices });
        }
        self.weigh_strata();
        self.count(mix);
    }

    /// Weighs strata: screens by their share; those of a screen so that the error of the difference is smallest (Mantel
    /// and Haenszel).
    fn weigh_strata(&mut self) {
        let information = |stratum: &Stratum| {
            let [a, b] = [0, 1].map(|side| real(stratum.devices[side].len() as u64));
            a * b / (a + b)
        };
        let mut of_screens = vec![0.0; self.found.screens.len()];
        for stratum in &self.found.strata {
            if let Some(sum) = of_screens.get_mut(stratum.key.screen) {
                *sum += information(stratum);
            }
        }
        let screens = self.found.screens.iter().zip(&of_screens);
        let compared: f64 =
            screens.filter(|(_, sum)| **sum > 0.0).map(|(screen, _)| screen.share).sum();
        for stratum in &mut self.found.strata {
            let place = stratum.key.screen;
            let share = self.found.screens.get(place).map_or(0.0, |screen| screen.share);
            let of_screen = of_screens.get(place).copied().unwrap_or(1.0);
            stratum.weight = share / compared * information(stratum) / of_screen;
        }
    }

    /// Counts devices that are compared and that are not.
    fn count(&mut self, mix: BTreeMap<Option<Likeness>, [u64; 2]>) {
        for side in [0, 1] {
            let parts = self.parts[side].iter().zip(&self.places[side]);
            for ((part, places), sent) in parts.zip(&self.sent[side]) {
                let is_in = !places.is_empty();
                self.found.stratified[side] += u64::from(is_in);
                let is_left = *part == Part::Single && !is_in;
                if is_left && self.models.class(&sent.traits.model).is_some() {
                    self.found.not_compared.without_likeness[side] += 1;
                }
            }
        }
        let has_stratum = |likeness: &Likeness| {
            self.found.strata.iter().any(|stratum| stratum.key.likeness == *likeness)
        };
        self.found.mix = mix
            .into_iter()
            .map(|(likeness, devices)| {
                let is_compared = likeness.as_ref().is_some_and(has_stratum);
                Portion { likeness, devices, is_compared }
            })
            .collect();
        let largest = |portion: &Portion| std::cmp::Reverse(portion.devices.iter().sum::<u64>());
        self.found.mix.sort_by_key(largest);
    }

    /// Takes the devices' values.
    fn take_values(&mut self) {
        let mut values: Vec<Sparse> = Vec::new();
        values.resize_with(self.found.causes.len(), Sparse::default);
        // The weights of the screens that a device has under both versions.
        let mut totals = vec![0.0; self.found.paired.len()];
        let mut shared: Vec<Vec<u32>> = vec![Vec::new(); totals.len()];
        let mut old: Vec<Option<usize>> = vec![None; totals.len()];
        for (place, part) in self.parts[0].iter().enumerate() {
            if let Part::Pair(pair) = *part
                && let Some(of) = old.get_mut(usize::try_from(pair).unwrap_or(usize::MAX))
            {
                *of = Some(place);
            }
        }
        for (place, part) in self.parts[1].iter().enumerate() {
            let Part::Pair(pair) = *part else { continue };
            let pair = usize::try_from(pair).unwrap_or(usize::MAX);
            let Some(old) = old.get(pair).copied().flatten() else { continue };
            let (old, new) = (self.sent[0].get(old), self.sent[1].get(place));
            for visit in new.into_iter().flat_map(|new| &new.visits) {
                let is_in_both =
                    visit.frames > 0 && old.is_some_and(|old| old.visit(visit.screen).is_some());
                if let (true, Some(weight)) = (is_in_both, self.weight(visit.screen)) {
                    if let Some(total) = totals.get_mut(pair) {
                        *total += weight;
                    }
                    if let Some(screens) = shared.get_mut(pair) {
                        screens.push(visit.screen);
                    }
                }
            }
        }
        for side in SIDES {
            let sent = &self.sent[side.place()];
            let parts = self.parts[side.place()].iter().zip(&self.places[side.place()]);
            for (sent, (part, places)) in sent.iter().zip(parts) {
                let jank = sent.visits.iter().map(|visit| (visit.screen, 0, visit.jank_ns));
                for (screen, cause, ns) in jank.chain(sent.causes.iter().copied()) {
                    if ns == 0 {
                        continue;
                    }
                    let Some(visit) = sent.visit(screen) else { continue };
                    let value = ms_in_1000(ns, visit.frames);
                    let Some(values) = values.get_mut(usize::try_from(cause).unwrap_or(usize::MAX))
                    else {
                        continue;
                    };
                    if let Part::Unmatched(of) = *part {
                        let visits = sent.visits.iter().filter(|visit| visit.frames > 0);
                        let total: f64 = visits.filter_map(|visit| self.weight(visit.screen)).sum();
                        if let Some(weight) = self.weight(screen) {
                            values.unmatched.push((side, of, value * weight / total));
                        }
                    } else if let Part::Pair(pair) = *part {
                        let is_shared = at(&shared, pair).is_some_and(|of| of.contains(&screen));
                        let total = at(&totals, pair).copied().unwrap_or_default();
                        if let (true, Some(weight)) = (is_shared, self.weight(screen)) {
                            values.paired.push((pair, side, value * weight / total));
                        }
                    } else if let Some((_, stratum, member)) =
                        places.iter().find(|(of, ..)| *of == screen)
                    {
                        values.stratified.push((*stratum, side, *member, value));
                    }
                }
            }
        }
        self.found.values = values;
    }
}
