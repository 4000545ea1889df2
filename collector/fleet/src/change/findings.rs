//! Makes one finding of the alarms of a root cause, and leaves out cost that only moved to a sibling.
//!
//! Causes that rise on the same devices belong together: their differences, device by device, are correlated. All jank of a screen, and of all screens, follows from the
//! causes. A cause has only moved if another one of its screen fell by about as
//! much, and all jank of the screen raised no alarm.

use super::Series;
use super::constants::{LEAST_DEVICES, LEAST_DEVICES_WITH, LEVEL};
use super::control::Pair;
use super::ebh;
use super::estimate::{Estimate, Observation, Values, estimate};
use super::observations::{Fleet, at};
use crate::significance::real;
use crate::table::Text;
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Correlation with a group from which on a cause belongs to it.
const LEAST_CORRELATION: f64 = 0.3;
/// The fall of a sibling counts from so many standard errors on.
const LEAST_ERRORS: f64 = 4.0;
/// A fall may explain a rise between its half and its double.
const FACTOR: f64 = 2.0;

/// A cause that rose, or all jank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rise {
    /// The screen; `None` for all screens.
    pub screen: Option<Text>,
    /// The cause; empty for all jank.
    pub cause: Text,
    /// Key of the cause.
    pub key: Text,
    /// The size of the rise.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Logarithm, to base 10, of the evidence.
    pub log10_evidence: f64,
}

/// A root cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Finding {
    /// The strongest rise.
    pub root: Rise,
    /// Other rises on the same devices, the strongest first.
    pub others: Vec<Rise>,
    /// Captures of the later version that show it best.
    pub examples: Vec<Example>,
}

/// A capture that shows a finding.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Example {
    /// Key of the capture in the store.
    pub raw_key: String,
    /// Path below the report page's address: the capture's timeline, opened at the frame.
    pub link: String,
    /// Number of the frame that lost most.
    pub frame: usize,
    /// Time of the cause in this frame, ms.
    pub ms: f64,
}

/// Findings, and what is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Findings, the strongest first.
    pub findings: Vec<Finding>,
    /// Cost that moved from a sibling.
    pub moved: Vec<Rise>,
    /// All jank of all screens.
    pub all: Estimate,
}

/// Makes findings of what rose.
pub(crate) fn findings(fleet: &Fleet, pairs: &[Pair<'_>]) -> Findings {
    let differences = Differences::new(fleet, pairs);
    let (alarms, all) = alarms(&differences);
    let is_moved = moved(&alarms, &differences);
    let mut found = Findings { all, ..Findings::default() };
    let mut groups: Vec<Group> = Vec::new();
    // The strongest first, causes before all jank, one screen before all screens.
    let mut order: Vec<(&Series, &Rise)> = alarms.iter().collect();
    order.sort_by(|(a_series, a), (b_series, b)| {
        let kind = |series: &Series| (series.cause.is_empty(), series.screen.is_none());
        kind(a_series)
            .cmp(&kind(b_series))
            .then(b.log10_evidence.total_cmp(&a.log10_evidence))
            .then(a_series.cmp(b_series))
    });
    for (series, rise) in order {
        if is_moved.contains(&series) {
            found.moved.push(rise.clone());
            continue;
        }
        let of = differences.of(series);
        let of = of.as_ref();
        let likeness = |group: &Group| of.map_or(0.0, |of| group.likeness(of));
        let best = groups
            .iter_mut()
            .map(|group| (likeness(group), group))
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            // All jank follows from the causes.
            .filter(|(likeness, _)| *likeness >= 1.0 || series.cause.is_empty());
        match best {
            Some((_, group)) => group.add(rise, of),
            None => groups.push(Group::new(rise, of)),
        }
    }
    found.findings = groups
        .into_iter()
        .filter_map(|group| {
            let mut rises = group.rises.into_iter();
            Some(Finding { root: rises.next()?, others: rises.collect(), ..Finding::default() })
        })
        .collect();
    found
}

/// Causes that rise on the same devices.
struct Group {
    rises: Vec<Rise>,
    /// Sum of their differences, each in units of its spread, by device.
    sum: ByDevice,
}

impl Group {
    fn new(rise: &Rise, of: Option<&ByDevice>) -> Self {
        let mut group = Self { rises: Vec::new(), sum: ByDevice::default() };
        group.add(rise, of);
        group
    }

    fn add(&mut self, rise: &Rise, of: Option<&ByDevice>) {
        self.rises.push(rise.clone());
        let Some(of) = of else { return };
        let squares: f64 = of.values().map(|of| of * of).sum();
        for (&place, difference) in of {
            *self.sum.entry(place).or_default() +=
                difference / squares.sqrt().max(f64::MIN_POSITIVE);
        }
    }

    /// Returns a number that is at least 1 if a cause belongs to the group.
    fn likeness(&self, of: &ByDevice) -> f64 {
        let places: BTreeSet<u32> = self.sum.keys().chain(of.keys()).copied().collect();
        let at = |of: &ByDevice, place: u32| of.get(&place).copied().unwrap_or(0.0);
        let both: Vec<[f64; 2]> =
            places.into_iter().map(|place| [at(&self.sum, place), at(of, place)]).collect();
        let count = real(both.len().max(1) as u64);
        let mean = |term: fn(&[f64; 2]) -> f64| both.iter().map(term).sum::<f64>() / count;
        let [group, other] = [mean(|of| of[0]), mean(|of| of[1])];
        let covariance = mean(|of| of[0] * of[1]) - group * other;
        let variances =
            (mean(|of| of[0] * of[0]) - group * group) * (mean(|of| of[1] * of[1]) - other * other);
        let correlation = if variances > 0.0 { covariance / variances.sqrt() } else { 0.0 };
        correlation / LEAST_CORRELATION
    }
}

/// Returns the alarms, and the size of all jank.
fn alarms(differences: &Differences) -> (BTreeMap<Series, Rise>, Estimate) {
    let is_tested = |(series, all): &(&Series, &Vec<Observation>)| {
        let devices: BTreeSet<u32> = all.iter().map(|of| of.updated).collect();
        let is_all = **series == Series::default();
        is_all || differences.is_enough && devices.len() as u64 >= LEAST_DEVICES_WITH
    };
    let tested = differences.by_series.iter().filter(is_tested);
    let rises: Vec<(&Series, Estimate)> =
        tested.map(|(series, all)| (series, estimate(all, differences.pairs))).collect();
    // All jank of all screens has half of the weight.
    let is_all = |(series, _): &&(&Series, Estimate)| **series == Series::default();
    let others = 0.5 / real(rises.len().saturating_sub(1).max(1) as u64);
    let weighted = rises.iter().map(|of| ebh::Weighted {
        log: of.1.log_evidence(),
        weight: if is_all(&of) { 0.5 } else { others },
    });
    let weighted: Vec<ebh::Weighted> = weighted.collect();
    let all = rises.iter().find(is_all).map(|of| of.1).unwrap_or_default();
    let mut alarms = BTreeMap::new();
    for index in ebh::rejected(&weighted, LEVEL).into_iter().filter(|_| differences.is_enough) {
        let Some(&(series, estimate)) = rises.get(index) else { continue };
        let Series { screen, cause, key } = series.clone();
        let log10_evidence = estimate.log_evidence() / std::f64::consts::LN_10;
        if estimate.is_change() {
            let rise = Rise { screen, cause, key, estimate, log10_evidence };
            alarms.insert(series.clone(), rise);
        }
    }
    (alarms, all)
}

/// The causes whose rise is the fall of a sibling.
fn moved<'a>(alarms: &'a BTreeMap<Series, Rise>, differences: &'a Differences) -> Vec<&'a Series> {
    let mut taken: Vec<&Series> = Vec::new();
    let mut moved = Vec::new();
    for series in alarms.keys().filter(|series| !series.cause.is_empty()) {
        if alarms.contains_key(&series.total()) {
            continue;
        }
        // Over the same devices as the fall, whichever of them raised the alarm.
        let [rise, _] = differences.mean_and_error(series);
        let siblings = differences.by_series.keys().filter(|other| {
            other.screen == series.screen && !other.cause.is_empty() && *other != series
        });
        let fall = siblings
            .filter(|sibling| !alarms.contains_key(sibling) && !taken.contains(sibling))
            .filter_map(|sibling| {
                let [mean, error] = differences.mean_and_error(sibling);
                let is_fall = mean < -LEAST_ERRORS * error;
                let ratio = -mean / rise;
                let is_as_much = (1.0 / FACTOR..=FACTOR).contains(&ratio);
                (is_fall && is_as_much).then_some((sibling, ratio.ln().abs()))
            })
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        if let Some((sibling, _)) = fall {
            taken.push(sibling);
            moved.push(series);
        }
    }
    moved
}

/// The observations of all series.
struct Differences {
    by_series: BTreeMap<Series, Vec<Observation>>,
    pairs: u64,
    /// True if enough devices are compared with enough others.
    is_enough: bool,
}

/// Differences by device that updated, ms per thousand frames.
type ByDevice = HashMap<u32, f64, RandomState>;

/// Returns the change beyond that of the control.
fn difference([before, after, control_before, control_after]: Values) -> f64 {
    (after - before) - (control_after - control_before)
}

impl Differences {
    fn new(fleet: &Fleet, pairs: &[Pair<'_>]) -> Self {
        let devices =
            |of: fn(&Pair<'_>) -> u32| pairs.iter().map(of).collect::<BTreeSet<u32>>().len() as u64;
        let is_enough = devices(|of| of.updated).min(devices(|of| of.control)) >= LEAST_DEVICES;
        let mut by_number: HashMap<u32, Vec<Observation>, RandomState> = HashMap::default();
        let mut everything = Vec::new();
        for pair in pairs {
            let Pair { updated, control, weight, .. } = *pair;
            let mut all = Values::default();
            for of in pair.observed(fleet) {
                let is_total =
                    at(&fleet.series, of.series).is_some_and(|series| series.cause.is_empty());
                for (sum, value) in all.iter_mut().zip(of.values).filter(|_| is_total) {
                    *sum += of.weight * value;
                }
                let observation = Observation { updated, control, weight, values: of.values };
                by_number.entry(of.series).or_default().push(observation);
            }
            everything.push(Observation { updated, control, weight, values: all });
        }
        let named = |(number, all)| Some((at(&fleet.series, number)?.clone(), all));
        let mut by_series: BTreeMap<_, _> = by_number.into_iter().filter_map(named).collect();
        by_series.insert(Series::default(), everything);
        Self { by_series, pairs: pairs.len() as u64, is_enough }
    }

    /// Returns the sum of a series' differences by device.
    fn of(&self, series: &Series) -> Option<ByDevice> {
        let mut found = ByDevice::default();
        for of in self.by_series.get(series)? {
            *found.entry(of.updated).or_default() += difference(of.values);
        }
        Some(found)
    }

    /// Returns the mean difference of a series and its standard error.
    fn mean_and_error(&self, series: &Series) -> [f64; 2] {
        let of = self.of(series).unwrap_or_default();
        let count = real(self.pairs.max(1));
        let squares: f64 = of.values().map(|of| of * of).sum();
        [of.values().sum::<f64>() / count, squares.sqrt() / count]
    }
}
