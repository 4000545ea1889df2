//! Makes one finding of the alarms of a root cause, and leaves out cost that only moved to a sibling.
//!
//! Causes that rise on the same devices belong together: their differences, device by device, are correlated. All jank of a screen, and of all screens, follows from the
//! causes; those of ledgers, which know no causes, follow from those of captures. A cause has only moved if another one of its screen fell by about as
//! much, and all jank of the screen raised no alarm.

use super::constants::LEVEL;
use super::control::{After, Days};
use super::coverage::Coverage;
use super::ebh;
use super::estimate::{Changes, Estimate, all_jank};
use super::observations::Fleet;
use super::{Series, Source};
use crate::significance::real;
use crate::table::Text;
use serde::Serialize;
use std::collections::BTreeMap;

/// Correlation with a group from which on a cause belongs to it.
const LEAST_CORRELATION: f64 = 0.3;
/// The fall of a sibling counts from this many standard errors on.
const LEAST_ERRORS: f64 = 4.0;
/// Cause of ends of processes.
pub(crate) const DEATH: Text = Text::new_static("death");
/// A fall may explain a rise between its half and its double.
pub(crate) const FACTOR: f64 = 2.0;

/// A cause that rose, or all jank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Rise {
    /// Origin and unit of the values.
    pub source: Source,
    /// The screen; `None` for all screens.
    pub screen: Option<Text>,
    /// The cause; empty for all jank, `death` for ends of processes.
    pub cause: Text,
    /// Key of the cause; the reason of deaths, or empty for all.
    pub key: Text,
    /// The size of the rise.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// N: of rollouts that change nothing, fewer than one in N ever show this rise with such evidence, over all looks. 1: the rise
    /// is sure only together with the other findings, of which at most 1 % are false.
    pub false_alarm_one_in: u64,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Key of the capture in the store.
    pub raw_key: String,
    /// Path below the report page's address: the capture's timeline, opened at the frame that lost most, or the page of the death.
    pub link: String,
}

/// Findings, and alarms that are not findings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Findings, the strongest first.
    pub findings: Vec<Finding>,
    /// Cost that moved from a sibling.
    pub moved: Vec<Rise>,
}

/// A fleet, and the part that is compared.
pub(crate) struct Look<'a> {
    days: Days<'a>,
    /// The change of the total.
    pub(crate) all: Estimate,
    pub(crate) coverage: Coverage,
}

impl<'a> Look<'a> {
    /// Compares the versions of a fleet.
    pub(crate) fn new(fleet: &'a Fleet) -> Self {
        let days = Days::new(fleet, After::LaterDays);
        let (design, all) = all_jank(&days);
        let coverage = Coverage::count(&days, &design);
        Self { days, all, coverage }
    }
}

/// Turns rises into findings. The significance level covers all fleets together.
pub(crate) fn findings(looks: &[Look<'_>]) -> Findings {
    let mut found = Findings::default();
    let share = 1.0 / real(looks.len().max(1) as u64);
    let looks = || looks.iter().filter(|look| look.coverage.is_enough());
    let all: Vec<(&Days<'_>, Changes)> = looks()
        .map(|look| {
            let is_on_screens = look.days.fleet.source != Source::Deaths;
            let name_of = |series: &Series| {
                let screen = series.screen.clone().filter(|_| is_on_screens);
                Series { screen, ..series.clone() }
            };
            (&look.days, Changes::new(&look.days, look.all, name_of))
        })
        .collect();
    for (((days, changes), alarms), look) in all.iter().zip(&alarms(&all, share)).zip(looks()) {
        if look.coverage.may_have_moved(&look.all) {
            found.moved.extend(alarms.values().cloned());
            continue;
        }
        let (groups, moved) = groups(days, changes, alarms);
        found.moved.extend(moved);
        for Group { mut rises, .. } in groups {
            let is_same = |other: &&mut Finding| {
                let [one, other] = [&rises[0], &other.root];
                let is_on = one.screen.is_none() || other.screen.is_none();
                one.source == Source::Ledgers
                    && other.source == Source::Captures
                    && (is_on || one.screen == other.screen)
            };
            if let Some(other) = found.findings.iter_mut().find(is_same) {
                other.others.append(&mut rises);
            } else {
                let root = rises.remove(0);
                found.findings.push(Finding { root, others: rises, ..Finding::default() });
            }
        }
    }
    found
}

/// Groups the alarms of a fleet that rise together, and returns those that only moved.
fn groups(
    days: &Days<'_>,
    changes: &Changes,
    alarms: &BTreeMap<Series, Rise>,
) -> (Vec<Group>, Vec<Rise>) {
    let rises = alarms.iter().map(|(series, rise)| (series, &rise.estimate)).collect();
    let is_moved = changes.moved(days, &rises);
    let mut moved = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    // The strongest first, causes before all jank, one screen before all screens.
    let mut order: Vec<(&Series, &Rise)> = alarms.iter().collect();
    order.sort_by(|(a_series, a), (b_series, b)| {
        let kind = |series: &Series| (series.cause.is_empty(), series.screen.is_none());
        kind(a_series)
            .cmp(&kind(b_series))
            .then(b.estimate.log_evidence().total_cmp(&a.estimate.log_evidence()))
            .then(a_series.cmp(b_series))
    });
    for (series, rise) in order {
        if is_moved.contains(series) {
            moved.push(rise.clone());
            continue;
        }
        let scores = changes.scores(days, series);
        let likeness = |group: &Group| group.likeness(&scores);
        let best = groups
            .iter_mut()
            .map(|group| (likeness(group), group))
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            // All jank follows from the causes.
            .filter(|(likeness, _)| *likeness >= 1.0 || series.cause.is_empty());
        match best {
            Some((_, group)) => group.add(rise, &scores),
            None => groups.push(Group::new(rise, &scores)),
        }
    }
    (groups, moved)
}

/// Causes that rise on the same devices.
struct Group {
    rises: Vec<Rise>,
    /// Sum of their scores, each in units of its spread, by device.
    sum: Vec<f64>,
}

impl Group {
    fn new(rise: &Rise, scores: &[f64]) -> Self {
        let mut group = Self { rises: Vec::new(), sum: vec![0.0; scores.len()] };
        group.add(rise, scores);
        group
    }

    fn add(&mut self, rise: &Rise, scores: &[f64]) {
        self.rises.push(rise.clone());
        let squares: f64 = scores.iter().map(|score| score * score).sum();
        for (sum, score) in self.sum.iter_mut().zip(scores) {
            *sum += score / squares.sqrt().max(f64::MIN_POSITIVE);
        }
    }

    /// Returns a number that is at least 1 if a cause belongs to the group.
    fn likeness(&self, scores: &[f64]) -> f64 {
        let both: Vec<[f64; 2]> = self.sum.iter().zip(scores).map(|(a, b)| [*a, *b]).collect();
        let both: Vec<[f64; 2]> = both.into_iter().filter(|pair| *pair != [0.0; 2]).collect();
        let count = real(both.len().max(1) as u64);
        let mean = |term: fn(&[f64; 2]) -> f64| both.iter().map(term).sum::<f64>() / count;
        let [group, other] = [mean(|pair| pair[0]), mean(|pair| pair[1])];
        let covariance = mean(|pair| pair[0] * pair[1]) - group * other;
        let variances = (mean(|pair| pair[0] * pair[0]) - group * group)
            * (mean(|pair| pair[1] * pair[1]) - other * other);
        let correlation = if variances > 0.0 { covariance / variances.sqrt() } else { 0.0 };
        correlation / LEAST_CORRELATION
    }
}

/// Returns the alarms of fleets, each of which has this share of the level.
fn alarms(all: &[(&Days<'_>, Changes)], share: f64) -> Vec<BTreeMap<Series, Rise>> {
    let is_all = |series: &Series| *series == Series::default();
    let mut rises = Vec::new();
    for (fleet, (days, changes)) in all.iter().enumerate() {
        let source = days.fleet.source;
        let by_name = changes.by_name.iter().map(|(series, (_, estimate))| (series, estimate));
        let tested: Vec<_> = by_name
            .filter(|(series, estimate)| estimate.is_tested(source, is_all(series)))
            .collect();
        // The total has half of the weight.
        let others = 0.5 / real(tested.len().saturating_sub(1).max(1) as u64);
        rises.extend(tested.into_iter().map(|(series, estimate)| {
            let weight = share * if is_all(series) { 0.5 } else { others };
            (fleet, source, series, *estimate, estimate.log_evidence() + weight.ln())
        }));
    }
    let weighted: Vec<f64> = rises.iter().map(|rise| rise.4).collect();
    let mut alarms = vec![BTreeMap::new(); all.len()];
    for index in ebh::rejected(&weighted, LEVEL) {
        let Some(&(fleet, source, series, estimate, _)) = rises.get(index) else { continue };
        let Series { screen, mut cause, key } = series.clone();
        let false_alarm_one_in = estimate.false_alarm_one_in();
        if estimate.is_change()
            && let Some(of_fleet) = alarms.get_mut(fleet)
        {
            if source == Source::Deaths {
                cause = DEATH;
            }
            let rise = Rise { source, screen, cause, key, estimate, false_alarm_one_in };
            of_fleet.insert(series.clone(), rise);
        }
    }
    alarms
}

impl Changes {
    /// Returns the causes whose rise is the fall of a sibling.
    pub(super) fn moved(
        &self,
        days: &Days<'_>,
        alarms: &BTreeMap<&Series, &Estimate>,
    ) -> Vec<Series> {
        let screens = |series: &Series| self.by_name.get(series).map(|(own, _)| days.screens(own));
        let has_all = |sibling: &Series, series: &Series| match (screens(sibling), screens(series))
        {
            (Some(known), Some(own)) => own.iter().all(|screen| known.contains(screen)),
            _ => false,
        };
        let mut taken: Vec<&Series> = Vec::new();
        let mut moved = Vec::new();
        for (&series, rise) in alarms.iter().filter(|(series, _)| !series.cause.is_empty()) {
            if alarms.contains_key(&&series.total()) {
                continue;
            }
            let siblings = self.by_name.iter().filter(|(other, _)| {
                let is_other = !other.cause.is_empty() && *other != series;
                is_other && other.screen == series.screen && has_all(other, series)
            });
            let fall = siblings
                .filter(|(sibling, _)| !alarms.contains_key(sibling) && !taken.contains(sibling))
                .filter_map(|(sibling, (_, own))| {
                    let ratio = -own.change_ms() / rise.change_ms();
                    let is_as_much = (1.0 / FACTOR..=FACTOR).contains(&ratio);
                    (own.score < -LEAST_ERRORS && is_as_much).then_some((sibling, ratio.ln().abs()))
                })
                .min_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((sibling, _)) = fall {
                taken.push(sibling);
                moved.push(series.clone());
            }
        }
        moved
    }
}
