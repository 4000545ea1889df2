//! Comparison of two versions: what became worse or better, and what cannot be known.

use super::constants::{LEAST_DEVICES, LEVEL, SAME_BELOW};
use super::control::{After, Days};
use super::coverage::Coverage;
use super::estimate::{Changes, Estimate, adjust, all_jank};
use super::observations::Fleet;
use super::{Series, Source};
use crate::significance::real;
use serde::Serialize;
use tracetee_trace::shown;

/// Comparison of two versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Origin and unit of the values.
    pub source: Source,
    /// The earlier version.
    pub from: String,
    /// The later version.
    pub to: String,
    /// The verdict on the whole.
    pub verdict: Verdict,
    /// The verdict in words, with the part that was compared.
    pub sentence: String,
    /// The devices that are compared, and why the others are not.
    pub devices_sentence: String,
    /// Probability of a false alarm in the whole comparison.
    pub level: f64,
    /// Minimum number of devices that are compared.
    pub least_devices: u64,
    /// The part of the later version that is compared.
    pub coverage: Coverage,
    /// All jank on the first day after the update, which is not part of the rest; `None` if too few devices sent it.
    pub first_day: Option<Estimate>,
    /// Total jank first, then causes by p-value; omits causes without a compared device.
    pub rows: Vec<Difference>,
}

/// Comparison of total jank, or of one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Origin and unit of the values.
    pub source: Source,
    /// The cause; `None` for total jank.
    pub cause: Option<String>,
    /// Key of the cause.
    pub key: String,
    /// The verdict.
    pub verdict: Verdict,
    /// p-value, adjusted for the number of comparisons.
    pub p: f64,
    /// The size of the change.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The later version has more of it.
    Worse,
    /// The later version has less of it.
    Better,
    /// A rise of 10 % would have been seen; there is none.
    Same,
    /// Neither a rise nor its absence can be shown.
    #[default]
    Unknown,
}

impl Verdict {
    /// Returns the verdict in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Worse => "WORSE",
            Self::Better => "better",
            Self::Same => "same",
            Self::Unknown => "cannot know",
        }
    }
}

/// Compares two versions of an app, in one of several comparisons that share the significance level.
#[must_use]
pub fn comparison(from: &str, to: &str, fleet: &Fleet, comparisons: usize) -> Comparison {
    let days = Days::new(fleet, After::LaterDays);
    let (design, all) = all_jank(&days);
    let coverage = Coverage::count(&days, &design);
    // All screens together.
    let changes = Changes::new(&days, all, |series| Series { screen: None, ..series.clone() });
    let rows = rows(fleet.source, changes, coverage.is_enough(), 2.0 * real(comparisons as u64));
    let first_day = all_jank(&Days::new(fleet, After::FirstDay)).1;
    let is_worse = rows.iter().any(|row| row.verdict == Verdict::Worse);
    let verdict = match rows.first().map(|row| row.verdict).unwrap_or_default() {
        _ if is_worse => Verdict::Worse,
        _ if coverage.is_unknown() => Verdict::Unknown,
        verdict => verdict,
    };
    let mut comparison = Comparison {
        source: fleet.source,
        from: from.to_owned(),
        to: to.to_owned(),
        verdict,
        sentence: String::new(),
        devices_sentence: coverage.devices_text([from, to]),
        level: LEVEL,
        least_devices: LEAST_DEVICES,
        coverage,
        first_day: (first_day.devices >= LEAST_DEVICES).then_some(first_day),
        rows,
    };
    comparison.sentence = comparison.say();
    comparison.rows.retain(|row| row.estimate.is_known());
    comparison
}

fn rows(source: Source, changes: Changes, is_enough: bool, tests: f64) -> Vec<Difference> {
    let row = |(Series { cause, key, .. }, (_, estimate)): (Series, (_, Estimate))| Difference {
        source,
        cause: (!cause.is_empty()).then(|| cause.to_string()),
        key: key.to_string(),
        estimate,
        ..Difference::default()
    };
    let mut rows: Vec<Difference> = changes.by_name.into_iter().map(row).collect();
    let is_tested =
        |row: &Difference| is_enough && row.estimate.is_tested(source, row.cause.is_none());
    // All jank has half of the level, all causes together the other half.
    let tested = rows.iter().filter(|row| is_tested(row) && row.cause.is_some());
    let p_values: Vec<f64> = tested.map(|row| row.estimate.p_value()).collect();
    let mut adjusted = adjust(&p_values).into_iter();
    for row in &mut rows {
        let is_tested = is_tested(row);
        let p = match (is_tested, &row.cause) {
            (true, None) => row.estimate.p_value(),
            (true, Some(_)) => adjusted.next().unwrap_or(1.0),
            (false, _) => 1.0,
        };
        row.p = (tests * p).min(1.0);
        let Estimate { percent, percent_interval, .. } = row.estimate;
        row.verdict = match (is_tested, row.p < LEVEL && row.estimate.is_change()) {
            (true, true) if percent > 0.0 => Verdict::Worse,
            (true, true) => Verdict::Better,
            (true, false) if percent_interval[1] < 100.0 * SAME_BELOW => Verdict::Same,
            _ => Verdict::Unknown,
        };
    }
    rows.sort_by(|a, b| {
        let size = |row: &Difference| row.estimate.percent.abs();
        let order = a.cause.is_some().cmp(&b.cause.is_some()).then(a.p.total_cmp(&b.p));
        order.then(size(b).total_cmp(&size(a)))
    });
    rows
}

impl Difference {
    /// Returns the name of the cause.
    pub(crate) fn name(&self) -> String {
        self.source.name_of(self.cause.as_deref().unwrap_or_default(), &self.key)
    }

    /// Returns the name of the cause, and the size of the change.
    #[must_use]
    pub fn to_text(&self) -> String {
        let devices = self.estimate.devices;
        format!("{} {}, {devices} devices, p {:.1e}", self.name(), self.estimate.size(), self.p)
    }
}

impl Comparison {
    /// Says the verdict, the part that was compared, and the first day.
    fn say(&self) -> String {
        let (from, to) = (shown(&self.from), shown(&self.to));
        let (all, [_, noun]) = (self.rows.first(), self.source.nouns());
        let worse = self.rows.iter().find(|row| row.verdict == Verdict::Worse);
        let mut text = match (self.verdict, all, worse) {
            (Verdict::Worse, _, Some(row)) => {
                format!("{to} is worse than {from}: {} {}.", row.name(), row.estimate.size())
            }
            (Verdict::Better, Some(row), _) => {
                format!("{to} is better than {from}: {} {}.", row.name(), row.estimate.size())
            }
            (Verdict::Same, Some(row), _) => {
                format!("{to} has no more {noun} than {from}: {}.", row.estimate.size())
            }
            (_, row, _) => {
                let compared = self.coverage.compared.min(self.coverage.controls);
                let why = match row {
                    _ if compared == 0 => {
                        format!(
                            "no device that updated has one like it that kept {from} on the same days"
                        )
                    }
                    _ if compared < LEAST_DEVICES => format!(
                        "only {} devices updated and have one of {} like them that kept {from} on the same days; {LEAST_DEVICES} of each are needed",
                        self.coverage.compared, self.coverage.controls
                    ),
                    _ if self.coverage.is_unknown() => {
                        format!("{from} does not have all of its screens")
                    }
                    Some(row) => format!("{} changed by {}", row.name(), row.estimate.size()),
                    None => format!("neither has {noun}"),
                };
                format!("Cannot know whether {to} is worse than {from}: {why}.")
            }
        };
        text.push(' ');
        text += &self.coverage.to_text(self.source, [&self.from, &self.to]);
        let is_apart = |day: &&Estimate| day.percent_interval[0] > 0.0 && day.is_change();
        if let Some(first) = self.first_day.as_ref().filter(is_apart) {
            text += &format!(
                " On the first day after the update it has {:+.0} % of {noun}, which is not charged to it.",
                first.percent
            );
        }
        text
    }
}
