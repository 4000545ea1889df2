//! Makes one finding of the alarms of a root cause, and leaves out cost that only moved to a sibling.
//!
//! Causes that rise on the same devices belong together: their differences, device by device, are correlated, or most of the
//! rise of one is on the few devices on which the others rise most. All jank of a screen, and of all screens, follows from the
//! causes. A cause has only moved if another one of its screen fell by about as
//! much, and all jank of the screen raised no alarm. What went away again is no alarm ([`super::Rejected::Over`]).

use super::fleet::{Fleet, Seen};
use super::{Guard, Hypothesis, LEAST_FRAMES, Part, Rejected, Series};
use crate::significance::real;
use crate::table::Text;
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Correlation with a group from which on a cause belongs to it.
const LEAST_CORRELATION: f64 = 0.3;
/// The devices on which a group rises most, one in so many; and the share of its rise that a cause of the group has there.
const TOP: usize = 5;
const LEAST_ON_TOP: f64 = 0.5;
/// Rise that is a finding, as a share of the earlier value.
const LEAST_RISE: f64 = 0.02;
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
    /// Class of the devices, if it was found on these only.
    pub class: Option<i32>,
    /// True if devices that sent both versions show it; otherwise devices that are alike.
    pub is_paired: bool,
    /// Devices.
    pub devices: u64,
    /// Mean rise, ms per thousand frames.
    pub rise: f64,
    /// Mean under the earlier version, ms per thousand frames.
    pub earlier: f64,
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
    /// Slices or methods inside the cause that grew, the most first.
    pub grown: Vec<Grown>,
    /// Captures of the later version that show it best.
    pub examples: Vec<Example>,
}

/// A slice or method inside a cause, by the example captures of both versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Grown {
    /// Name.
    pub name: Text,
    /// Time as the innermost one in a late frame with the cause, under each version, ms.
    pub ms: [f64; 2],
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
}

/// Makes findings of the alarms.
#[must_use]
pub fn findings(guard: &Guard, fleet: &Fleet) -> Findings {
    let alarms = alarms(guard);
    let differences = Differences::new(fleet, &alarms);
    let is_moved = moved(&alarms, &differences);
    let mut found = Findings::default();
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
        let of = differences.by_series.get(series);
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
    /// Sum of their differences, each in units of its spread, by place of the device.
    sum: BySeen,
}

impl Group {
    fn new(rise: &Rise, of: Option<&BySeen>) -> Self {
        let mut group = Self { rises: Vec::new(), sum: BySeen::default() };
        group.add(rise, of);
        group
    }

    fn add(&mut self, rise: &Rise, of: Option<&BySeen>) {
        self.rises.push(rise.clone());
        let Some(of) = of else { return };
        let squares: f64 = of.values().map(|of| of * of).sum();
        for (&place, difference) in of {
            *self.sum.entry(place).or_default() +=
                difference / squares.sqrt().max(f64::MIN_POSITIVE);
        }
    }

    /// Returns a number that is at least 1 if a cause belongs to the group.
    fn likeness(&self, of: &BySeen) -> f64 {
        let places: BTreeSet<usize> = self.sum.keys().chain(of.keys()).copied().collect();
        let at = |of: &BySeen, place: usize| of.get(&place).copied().unwrap_or(0.0);
        let mut both: Vec<[f64; 2]> =
            places.into_iter().map(|place| [at(&self.sum, place), at(of, place)]).collect();
        let count = real(both.len().max(1) as u64);
        let mean = |term: fn(&[f64; 2]) -> f64| both.iter().map(term).sum::<f64>() / count;
        let [group, other] = [mean(|of| of[0]), mean(|of| of[1])];
        let covariance = mean(|of| of[0] * of[1]) - group * other;
        let variances =
            (mean(|of| of[0] * of[0]) - group * group) * (mean(|of| of[1] * of[1]) - other * other);
        let correlation = if variances > 0.0 { covariance / variances.sqrt() } else { 0.0 };
        both.sort_by(|a, b| b[0].total_cmp(&a[0]));
        let on_top: f64 = both.iter().take(both.len() / TOP).map(|of| of[1]).sum();
        let share = if other > 0.0 { on_top / (other * count) } else { 0.0 };
        (correlation / LEAST_CORRELATION).max(share / LEAST_ON_TOP)
    }
}

/// Returns the rise of a hypothesis.
#[must_use]
pub fn rise(guard: &Guard, hypothesis: Hypothesis) -> Option<Rise> {
    let evidence = guard.evidence(hypothesis)?;
    let Series { screen, cause, key } = guard.series_of(hypothesis)?.clone();
    let devices = guard.devices(hypothesis);
    Some(Rise {
        screen,
        cause,
        key,
        class: hypothesis.class,
        is_paired: hypothesis.part == Part::Pairs,
        devices,
        rise: evidence.sum / real(devices.max(1)),
        earlier: evidence.earlier / real(devices.max(1)),
        log10_evidence: evidence.wealth.log / std::f64::consts::LN_10,
    })
}

/// The strongest alarm of each series, of all devices if there is one.
fn alarms(guard: &Guard) -> BTreeMap<Series, Rise> {
    let mut alarms: BTreeMap<Series, Rise> = BTreeMap::new();
    for &hypothesis in guard.evidence.keys() {
        if guard.rejected(hypothesis) != Some(Rejected::Alarm) {
            continue;
        }
        let Some((series, rise)) = guard.series_of(hypothesis).zip(rise(guard, hypothesis)) else {
            continue;
        };
        if rise.rise < LEAST_RISE * rise.earlier {
            continue;
        }
        let strength = |rise: &Rise| (rise.class.is_none(), rise.log10_evidence);
        match alarms.get_mut(series) {
            Some(other) if strength(other) >= strength(&rise) => {}
            Some(other) => *other = rise,
            None => drop(alarms.insert(series.clone(), rise)),
        }
    }
    alarms
}

/// The causes whose rise is the fall of a sibling.
fn moved<'a>(alarms: &'a BTreeMap<Series, Rise>, differences: &'a Differences) -> Vec<&'a Series> {
    let mut taken: Vec<&Series> = Vec::new();
    let mut moved = Vec::new();
    for series in alarms.keys() {
        let of = differences.by_series.get(series);
        let Some(of) = of.filter(|_| !series.cause.is_empty()) else { continue };
        if alarms.contains_key(&series.total()) {
            continue;
        }
        // Over the same devices as the fall, whichever of them raised the alarm.
        let [rise, _] = differences.mean_and_error(series, of);
        let fall = differences
            .siblings(series)
            .filter(|(sibling, _)| !alarms.contains_key(sibling) && !taken.contains(sibling))
            .filter_map(|(sibling, of)| {
                let [mean, error] = differences.mean_and_error(sibling, of);
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

/// The differences of all series of some screens, by device.
struct Differences {
    by_series: BTreeMap<Series, BySeen>,
    /// Devices by screen.
    devices: BTreeMap<Option<Text>, u64>,
}

/// Differences other than 0, by place of the device.
type BySeen = HashMap<usize, f64, RandomState>;

impl Differences {
    /// Takes the differences of the screens that some series are of.
    fn new(fleet: &Fleet, alarms: &BTreeMap<Series, Rise>) -> Self {
        let mut found = Self { by_series: BTreeMap::new(), devices: BTreeMap::new() };
        if alarms.is_empty() {
            return found;
        }
        let screens: BTreeSet<&Option<Text>> = alarms.keys().map(|series| &series.screen).collect();
        let everything = Series::default();
        let mut alike: HashMap<&Text, Vec<&Seen>, RandomState> = HashMap::default();
        for earlier in fleet.earlier.iter().filter(|seen| seen.frame_count() >= LEAST_FRAMES) {
            alike.entry(&earlier.likeness).or_default().push(earlier);
        }
        let later = fleet.later.iter().filter(|seen| seen.frame_count() >= LEAST_FRAMES);
        for (place, later) in later.enumerate() {
            let stranger = || {
                let alike = alike.get(&later.likeness)?;
                alike.get(place % alike.len()).copied()
            };
            let Some(earlier) = fleet.under_earlier(later).or_else(stranger) else { continue };
            for of in fleet.differences(earlier, later) {
                let series = of.series.and_then(|series| usize::try_from(series).ok());
                let series = series.map_or(Some(&everything), |place| fleet.series.get(place));
                let Some(series) = series.filter(|of| screens.contains(&of.screen)) else {
                    continue;
                };
                if series.cause.is_empty() {
                    *found.devices.entry(series.screen.clone()).or_default() += 1;
                }
                if let Some(all) = found.by_series.get_mut(series) {
                    all.insert(place, of.value);
                } else {
                    found.by_series.insert(series.clone(), BySeen::from_iter([(place, of.value)]));
                }
            }
        }
        found
    }

    /// Returns the mean of a series and its standard error.
    fn mean_and_error(&self, series: &Series, of: &BySeen) -> [f64; 2] {
        let count = real(self.devices.get(&series.screen).copied().unwrap_or(0).max(1));
        let mean = of.values().sum::<f64>() / count;
        let squares: f64 = of.values().map(|of| of * of).sum();
        [mean, ((squares / count - mean * mean).max(0.0) / count).sqrt()]
    }

    /// Returns the other causes of the series' screen.
    fn siblings<'a>(
        &'a self,
        series: &'a Series,
    ) -> impl Iterator<Item = (&'a Series, &'a BySeen)> {
        self.by_series.iter().filter(move |(other, _)| {
            other.screen == series.screen && !other.cause.is_empty() && *other != series
        })
    }
}
