//! Which devices have a cause, or the jank of a screen: by model, API level, class, refresh rate, version and hour, each group of captures
//! against the fleet. One pass over a sample of the captures that rates count finds all of them; each device counts once.

use super::fleet::AppReport;
use super::fleet_text::push_title;
use super::{comparison_text::named, grouped};
use crate::change::classes::{class_of, range_ms};
use crate::database::Database;
use crate::error::Error;
use crate::schema::{CAPTURES, CaptureRow};
use crate::significance::{Clusters, real};
use crate::sums::Sums;
use crate::sums::schema::{DeviceTraits, DeviceValues};
use crate::table::Text;
use crate::table::symbols::Symbol;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tracetee_trace::shown;

/// Captures that are read: some 80 us of a processor each.
pub(super) const MOST_CAPTURES: usize = 1_000;
/// Causes and screens that are broken down, and the groups of each dimension that are reported.
const MOST: usize = 10;
const MOST_GROUPS: usize = 5;
/// Fewer devices say nothing about others.
const LEAST_DEVICES: u64 = 5;

/// Properties that captures are grouped by. The first has all of them.
const DIMENSIONS: [&str; 7] =
    ["", "model", "API level", "class", "refresh rate", "version", "hour (UTC)"];

/// Breakdowns of an app's jank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Breakdowns {
    /// Captures that were read.
    pub captures: usize,
    /// Captures from which these were chosen at random.
    pub all_captures: u64,
    /// All jank, then the first causes, then the screens.
    pub rows: Vec<Breakdown>,
}

/// All jank, a cause, or a screen's jank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Breakdown {
    /// Only this screen.
    pub screen: Option<String>,
    /// Only this cause.
    pub cause: Option<String>,
    /// Key of the cause: the slice, lock or method.
    pub key: String,
    /// Time in a thousand frames of the fleet, ms. Frames of which it took less than a tenth do not count.
    pub ms_in_1000: f64,
    /// The group that surely has most of it, in words.
    pub sentence: String,
    /// Groups with the largest lifts, five of each dimension.
    pub groups: Vec<Group>,
}

/// A group of captures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Group {
    /// Property that the captures are grouped by.
    pub dimension: &'static str,
    /// Value of the property.
    pub value: String,
    /// Devices, at least five.
    pub devices: u64,
    /// Time in a thousand frames, ms.
    pub ms_in_1000: f64,
    /// `ms_in_1000` as a multiple of the fleet's.
    pub lift: f64,
    /// Interval of `lift` over devices; all of the report's hold at once in 95 of 100 reports.
    pub lift_from_to: [f64; 2],
}

/// Time and frames of each breakdown.
type Counts = Vec<[u64; 2]>;

/// Counts by dimension, value and device, in an order that is the same in each report: sums of floats depend on it.
#[derive(Default)]
struct Counted(BTreeMap<(usize, Text), BTreeMap<Text, Counts>>);

impl Breakdowns {
    /// Reads a sample of captures for the causes and screens of a report.
    pub(super) fn read(
        database: &Database,
        mut numbers: Vec<i64>,
        report: &AppReport,
        screen: &str,
    ) -> Result<Self, Error> {
        let all_captures = report.versions.iter().map(|version| version.captures).sum();
        let is_all = numbers.len() < MOST_CAPTURES;
        if is_all && numbers.len() as u64 != all_captures {
            return Err(Error::Damaged(CAPTURES.name));
        }
        numbers.sort_unstable();
        let chosen = Some(screen).filter(|screen| !screen.is_empty()).map(str::to_owned);
        let all = Breakdown { screen: chosen, ..Breakdown::default() };
        let mut rows = vec![all.clone()];
        rows.extend(report.causes.iter().take(MOST).map(|cause| Breakdown {
            cause: Some(cause.cause.clone()),
            key: cause.key.clone(),
            ..all.clone()
        }));
        let screens: BTreeSet<_> = report.screens.iter().map(|row| row.screen.clone()).collect();
        // The only one has all jank.
        if screens.len() > 1 {
            let of_screen = |screen| Breakdown { screen, ..all.clone() };
            rows.extend(screens.into_iter().take(MOST).map(of_screen));
        }
        let mut counted = Counted::default();
        database.read_captures(numbers.iter().copied(), |capture, sums| {
            counted.add(&rows, capture, sums)
        })?;
        let tail = counted.tail(rows.len());
        for (index, row) in rows.iter_mut().enumerate() {
            (row.ms_in_1000, row.groups) = counted.groups(index, tail);
            row.sentence = row.say();
        }
        rows.retain(|row| !row.groups.is_empty());
        Ok(Self { captures: numbers.len(), all_captures, rows })
    }
}

impl Counted {
    fn add(&mut self, rows: &[Breakdown], capture: &CaptureRow, sums: &Sums) {
        // Only captures that rates count have traits.
        let Some(traits) = sums.rows::<DeviceTraits<Symbol>>().next() else { return };
        let text = |symbol| sums.symbols.text_ref(symbol);
        let mut counts: Counts = vec![[0; 2]; rows.len()];
        for value in sums.rows::<DeviceValues<Symbol>>() {
            let [screen, cause, key] = [value.screen, value.cause, value.cause_key].map(text);
            for (count, row) in counts.iter_mut().zip(rows) {
                if row.screen.as_ref().is_some_and(|own| own != screen.as_str()) {
                    continue;
                }
                let is_it = row.cause.as_deref().unwrap_or_default() == cause.as_str()
                    && row.key == key.as_str();
                count[0] += if is_it { value.ns.cast_unsigned() } else { 0 };
                count[1] += value.frames.cast_unsigned();
            }
        }
        let quick_ns = traits.quick_ns.cast_unsigned() / traits.frames.cast_unsigned().max(1);
        let [from, to] = range_ms(class_of(quick_ns));
        let values = [
            Text::default(),
            text(traits.model).clone(),
            if traits.api == 0 { Text::default() } else { traits.api.to_string().into() },
            format!("{from:.1} to {to:.1} ms").into(),
            format!("{} Hz", traits.hz).into(),
            text(traits.ver).clone(),
            format!("{:02}", capture.made_ms / 3_600_000 % 24).into(),
        ];
        for group in values.into_iter().enumerate() {
            let devices = self.0.entry(group).or_default();
            let of_device = devices.entry(text(traits.device).clone()).or_default();
            of_device.resize(rows.len(), [0; 2]);
            for (sum, count) in of_device.iter_mut().zip(&counts) {
                *sum = [sum[0] + count[0], sum[1] + count[1]];
            }
        }
    }

    /// Returns the probability that one end of an interval is wrong. The largest of hundreds of groups is far from the fleet by
    /// chance, so they share the 5 % (Bonferroni).
    fn tail(&self, rows: usize) -> f64 {
        let groups = self.0.values().filter(|devices| devices.len() as u64 >= LEAST_DEVICES);
        0.025 / real((groups.count() * rows).max(1) as u64)
    }

    /// Returns the fleet's time of a breakdown in a thousand frames, and its groups.
    fn groups(&self, index: usize, tail: f64) -> (f64, Vec<Group>) {
        let all = self.0.get(&(0, Text::default()));
        let fleet = all.map(|devices| clusters(devices, index)).unwrap_or_default().share();
        let mut groups: Vec<Group> = Vec::new();
        if fleet <= 0.0 {
            return (fleet, groups);
        }
        for (number, dimension) in DIMENSIONS.into_iter().enumerate().skip(1) {
            let of_dimension = self.0.iter().filter(|((kind, _), _)| *kind == number);
            let counted =
                of_dimension.map(|((_, value), devices)| (value, clusters(devices, index)));
            let known = counted.filter(|(_, sums)| sums.clusters >= LEAST_DEVICES);
            let mut of_dimension: Vec<Group> = known
                .map(|(value, sums)| Group {
                    dimension,
                    value: named(dimension, value),
                    devices: sums.clusters,
                    ms_in_1000: sums.share(),
                    lift: sums.share() / fleet,
                    lift_from_to: sums.ratio_interval(tail).map(|end| end / fleet),
                })
                .collect();
            // One group is no breakdown.
            if of_dimension.len() > 1 {
                sort(&mut of_dimension);
                groups.extend(of_dimension.into_iter().take(MOST_GROUPS));
            }
        }
        sort(&mut groups);
        (fleet, groups)
    }
}

/// Adds up the devices that have frames: time as ms in a thousand frames.
fn clusters(devices: &BTreeMap<Text, Counts>, index: usize) -> Clusters {
    let mut all = Clusters::default();
    let counts = devices.values().filter_map(|counts| counts.get(index).copied());
    for [ns, frames] in counts.filter(|&[_, frames]| frames > 0) {
        all.add(real(ns) / 1e3, real(frames));
    }
    all
}

/// Sorts by lift, the largest first.
fn sort(groups: &mut [Group]) {
    groups.sort_by(|a, b| {
        let names = (a.dimension, &a.value).cmp(&(b.dimension, &b.value));
        b.lift.total_cmp(&a.lift).then(names)
    });
}

impl Breakdown {
    /// Says which group surely has most of it.
    fn say(&self) -> String {
        let screen = self.screen.as_ref();
        let screen = screen.map_or(String::new(), |screen| named("screen", screen) + ": ");
        let cause = self.cause.as_ref().map(|cause| format!("{cause}: {}", self.key));
        let cause = cause.unwrap_or("all jank".to_owned());
        let most = self.groups.iter().find(|group| group.lift_from_to[0] > 1.0);
        let most = most.map_or("no group surely has more than the fleet".to_owned(), |group| {
            let Group { dimension, value, lift, lift_from_to: [from, to], .. } = group;
            format!(
                "most by {dimension} {value}, {lift:.1} times the fleet's ({from:.1} to {to:.1})"
            )
        });
        format!("{screen}{cause}, {:.1} ms in a thousand frames: {most}", self.ms_in_1000)
    }
}

impl Breakdowns {
    /// Writes the sentences.
    pub(super) fn push(&self, text: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        push_title(text, "Which devices");
        for row in &self.rows {
            let _ = writeln!(text, "  {}", shown(&row.sentence));
        }
        let _ = writeln!(
            text,
            "  Intervals over devices; all of them hold at once in 95 of 100 reports. From {} of {} captures.",
            grouped(self.captures as u64),
            grouped(self.all_captures)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts devices whose jank has nothing to do with hour and model, but for model 0. `tail`: exponent that makes it heavy.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and far below 2^64"
    )]
    fn fleet(seed: u64, model_0: f64, tail: f64) -> Counted {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut counted = Counted::default();
        for device in 0..300 {
            let groups = [(0, 1), (1, 12), (6, 24)]
                .map(|(dimension, values)| (dimension, random.u64(0..values)));
            let factor = if groups[1].1 == 0 { model_0 } else { 1.0 };
            let jank: Counts = (0..20)
                .map(|_| {
                    [
                        (factor * 1e6 * (-random.f64().max(1e-9).ln()).powf(tail)) as u64,
                        random.u64(50..150),
                    ]
                })
                .collect();
            for (dimension, value) in groups {
                let value = if dimension == 0 { Text::default() } else { value.to_string().into() };
                let devices = counted.0.entry((dimension, value)).or_default();
                devices.insert(device.to_string().into(), jank.clone());
            }
        }
        counted
    }

    fn names_a_group(counted: &Counted) -> bool {
        (0..20).any(|row| {
            let (_, groups) = counted.groups(row, counted.tail(20));
            groups.iter().any(|group| group.lift_from_to[0] > 1.0)
        })
    }

    #[test]
    fn groups_that_differ_by_chance_are_named_in_five_of_a_hundred_reports_at_most() {
        let named = |model_0, tail| {
            (0..100).filter(|&seed| names_a_group(&fleet(seed, model_0, tail))).count()
        };
        for tail in [0.5, 1.0, 2.0, 3.0] {
            let count = named(1.0, tail);
            assert!(count <= 5, "{count} of 100");
        }
        let count = named(4.0, 1.0);
        assert!(count >= 95, "{count} of 100");
    }
}
