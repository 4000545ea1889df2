//! A look at the fleet: takes the devices that have come, day by day.
//!
//! A device counts when it has enough frames, and with the values that it has then: late captures do not change what it has
//! added. Devices of a day are taken in the order of their digests, which nobody chooses.

use super::ebh::{self, Weighted};
use super::fleet::{Fleet, Seen};
use super::{Digest, EARLY, Guard, Hypothesis, LEAST_FRAMES, LEVEL, Part, Rejection, Series, Use};
use crate::table::Text;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Frames under the later version for each one under the earlier version, at most. The more frames, the less often the value
/// of a device is 0 or extreme: with many more, a mean of nothing could look like a rise.
const MOST_FRAMES: u64 = 2;

/// Two devices to compare, or one with itself.
struct Arrival<'a> {
    day: &'a Text,
    digest: Digest,
    part: Part,
    earlier: &'a Seen,
    later: &'a Seen,
}

fn is_enough(earlier: &Seen, later: &Seen) -> bool {
    let [before, after] = [earlier, later].map(Seen::frame_count);
    before >= LEAST_FRAMES && after >= LEAST_FRAMES && after / MOST_FRAMES <= before
}

impl Guard {
    /// Takes the devices that have come since the last look.
    pub fn look(&mut self, fleet: &Fleet) {
        self.begin(fleet);
        let mut by_day: BTreeMap<&Text, Vec<Arrival<'_>>> = BTreeMap::new();
        for arrival in self.pairs(fleet).into_iter().chain(self.strangers(fleet)) {
            by_day.entry(arrival.day).or_default().push(arrival);
        }
        for (day, mut arrivals) in by_day {
            arrivals.sort_by_key(|arrival| (arrival.part, arrival.digest));
            let mut places = HashMap::default();
            for arrival in arrivals {
                self.take(fleet, &arrival, &mut places);
            }
            self.reject(day);
        }
    }

    /// Finds the family of hypotheses at the first look: the classes and series of the earlier version.
    fn begin(&mut self, fleet: &Fleet) {
        if self.first > 0 {
            return;
        }
        let classes: BTreeSet<i32> = fleet.earlier.iter().filter_map(|seen| seen.class).collect();
        self.classes = classes.into_iter().collect();
        let used = fleet.earlier.iter().flat_map(|seen| seen.times.iter().map(|of| of.0));
        let used: BTreeSet<u32> = used.collect();
        self.place(&Series::default());
        for place in used {
            let series = usize::try_from(place).ok().and_then(|place| fleet.series.get(place));
            for series in series.into_iter().flat_map(|series| [series.total(), series.clone()]) {
                self.place(&series);
            }
        }
        self.first = self.series.len() as u64;
    }

    fn mark(&mut self, mark: Use, digest: Digest) {
        if self.used.insert((mark, digest)) {
            self.changed.used.push((mark, digest));
        }
    }

    fn pairs<'a>(&mut self, fleet: &'a Fleet) -> Vec<Arrival<'a>> {
        let mut found = Vec::new();
        for later in &fleet.later {
            let Some(earlier) = fleet.under_earlier(later) else { continue };
            let digest = later.digest;
            if is_enough(earlier, later) && !self.used.contains(&(Use::Pair, digest)) {
                self.mark(Use::Pair, digest);
                found.push(Arrival { day: &later.day, digest, part: Part::Pairs, earlier, later });
            }
        }
        found
    }

    /// Finds a device of the earlier version for each one that sent the later version only.
    fn strangers<'a>(&mut self, fleet: &'a Fleet) -> Vec<Arrival<'a>> {
        let mut all: Vec<(&Text, Digest, &Seen)> = fleet
            .later
            .iter()
            .filter(|later| later.frame_count() >= LEAST_FRAMES)
            .map(|later| (&later.day, later.digest, later))
            .filter(|(_, digest, _)| {
                ![Use::Early, Use::Later].iter().any(|&of| self.used.contains(&(of, *digest)))
            })
            .collect();
        all.sort_by(|(a_day, a, _), (b_day, b, _)| (a_day, a).cmp(&(b_day, b)));
        let left_out = usize::try_from(EARLY.saturating_sub(self.early)).unwrap_or(usize::MAX);
        let others = all.split_off(left_out.min(all.len()));
        self.early += all.len() as u64;
        for (_, digest, _) in all {
            self.mark(Use::Early, digest);
        }
        // The earlier version's devices, by likeness, in an order that nobody chooses; also those that sent the later
        // version since: without them, only those would be left that never update.
        let mut waiting: HashMap<&Text, Vec<(Digest, &Seen)>, RandomState> = HashMap::default();
        for earlier in fleet.earlier.iter().filter(|seen| !seen.likeness.is_empty()) {
            let digest = earlier.digest;
            if earlier.frame_count() >= LEAST_FRAMES && !self.used.contains(&(Use::Earlier, digest))
            {
                waiting.entry(&earlier.likeness).or_default().push((digest, earlier));
            }
        }
        waiting
            .values_mut()
            .for_each(|of| of.sort_by_key(|(digest, _)| std::cmp::Reverse(*digest)));
        let mut found = Vec::new();
        for (day, digest, later) in others {
            if fleet.under_earlier(later).is_some() {
                continue;
            }
            let Some(waiting) = waiting.get_mut(&later.likeness) else { continue };
            let Some(&(of_earlier, earlier)) = waiting.last() else { continue };
            if !is_enough(earlier, later) {
                continue;
            }
            waiting.pop();
            self.mark(Use::Earlier, of_earlier);
            self.mark(Use::Later, digest);
            found.push(Arrival { day, digest, part: Part::Strangers, earlier, later });
        }
        found
    }

    fn take(
        &mut self,
        fleet: &Fleet,
        arrival: &Arrival<'_>,
        places: &mut HashMap<Option<u32>, u32, RandomState>,
    ) {
        let class = arrival.later.class.filter(|class| self.classes.binary_search(class).is_ok());
        let differences = fleet.differences(arrival.earlier, arrival.later);
        for of in differences {
            let series = *places.entry(of.series).or_insert_with(|| {
                let place = of.series.and_then(|series| usize::try_from(series).ok());
                let series = place.and_then(|place| fleet.series.get(place));
                self.place(series.unwrap_or(&Series::default()))
            });
            for class in [None, class].into_iter().take(1 + usize::from(class.is_some())) {
                let hypothesis = Hypothesis { part: arrival.part, class, series };
                let evidence = self.evidence.entry(hypothesis).or_default();
                evidence.sum += evidence.wealth.take(of.value);
                evidence.earlier += of.earlier;
                evidence.devices += 1;
                self.changed.evidence.insert(hypothesis);
            }
        }
    }

    /// Marks the hypotheses that are rejected now, and counts the day for those that were rejected before.
    fn reject(&mut self, day: &Text) {
        let mut all: Vec<(Hypothesis, Weighted)> = self
            .evidence
            .iter()
            .filter(|(_, of)| of.wealth.log > 0.0 || of.rejection.is_some())
            .map(|(&of, evidence)| {
                (of, Weighted { log: evidence.wealth.log, weight: self.weight(of) })
            })
            .collect();
        all.sort_by_key(|(hypothesis, _)| *hypothesis);
        let weighted: Vec<Weighted> = all.iter().map(|(_, weighted)| *weighted).collect();
        for &(hypothesis, _) in &all {
            let evidence = self.evidence.get_mut(&hypothesis);
            let Some(of) = evidence.and_then(|of| of.rejection.as_mut()) else { continue };
            if *day > of.day && *day > of.last_day {
                of.last_day = day.clone();
                of.later_days += 1;
                self.changed.evidence.insert(hypothesis);
            }
        }
        for place in ebh::rejected(&weighted, LEVEL) {
            let Some(&(hypothesis, _)) = all.get(place) else { continue };
            let devices = self.devices(hypothesis);
            let Some(evidence) = self.evidence.get_mut(&hypothesis) else { continue };
            if evidence.rejection.is_none() {
                let (day, sum) = (day.clone(), evidence.sum);
                let squares = evidence.wealth.difference_squares;
                let rejection = Rejection { day, devices, sum, squares, ..Rejection::default() };
                evidence.rejection = Some(rejection);
                self.changed.evidence.insert(hypothesis);
            }
        }
    }
}
