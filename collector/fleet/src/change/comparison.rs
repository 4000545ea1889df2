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
    let rows = rows(&days, &changes, &coverage, 2.0 * real(comparisons as u64));
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

fn rows(days: &Days<'_>, changes: &Changes, coverage: &Coverage, tests: f64) -> Vec<Difference> {
    let source = days.fleet.source;
    let row = |(Series { cause, key, .. }, (_, estimate)): (&Series, &(_, Estimate))| Difference {
        source,
        cause: (!cause.is_empty()).then(|| cause.to_string()),
        key: key.to_string(),
        estimate: *estimate,
        ..Difference::default()
    };
    let mut rows: Vec<Difference> = changes.by_name.iter().map(row).collect();
    let is_tested = |row: &Difference| {
        coverage.is_enough() && row.estimate.is_tested(source, row.cause.is_none())
    };
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
    let worse = changes.by_name.iter().zip(&rows).filter(|(_, row)| row.verdict == Verdict::Worse);
    let worse = worse.map(|((series, (_, estimate)), _)| (series, estimate)).collect();
    let moved = changes.moved(days, &worse);
    for (series, row) in changes.by_name.keys().zip(&mut rows) {
        let is_apart = match row.verdict {
            Verdict::Worse => {
                moved.contains(series)
                    || coverage.may_have_moved(&row.estimate)
                    || row.estimate.is_sum_apart(true)
            }
            Verdict::Better => coverage.is_unknown() || row.estimate.is_sum_apart(false),
            Verdict::Same => row.estimate.is_sum_apart(false),
            Verdict::Unknown => false,
        };
        if is_apart {
            row.verdict = Verdict::Unknown;
        }
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

    /// Returns true if a cause has this name or key.
    #[must_use]
    pub fn is_of(&self, cause: &str) -> bool {
        self.key == cause || self.cause.as_deref().unwrap_or_default() == cause
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
            (Verdict::Worse, Some(all), Some(row)) if row.cause.is_some() => format!(
                "{to} is worse than {from} in one cause: {} {}, with {:.1} {}; {} {}.",
                row.name(),
                row.estimate.size(),
                row.estimate.ms_in_1000[1],
                self.source.unit(),
                all.name(),
                all.estimate.size()
            ),
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
                    _ if self.coverage.is_unknown() => "they have different screens".to_owned(),
                    Some(row) if row.estimate.is_sum_apart(row.estimate.percent > 0.0) => {
                        format!("{} changed by {}", row.name(), row.estimate.size_and_sum())
                    }
                    Some(row) => format!("{} changed by {}", row.name(), row.estimate.size()),
                    None => format!("neither has {noun}"),
                };
                format!("Cannot know whether {to} is worse than {from}: {why}.")
            }
        };
        text.push(' ');
        text += &self.coverage.to_text(self.source, [&self.from, &self.to]);
        // A rise that later days have, too, is no matter of the first.
        let later = all.map_or(0.0, |all| all.estimate.percent).max(0.0);
        let is_apart = |day: &&Estimate| day.percent_interval[0] > later && day.is_change();
        if let Some(first) = self.first_day.as_ref().filter(is_apart) {
            text += &format!(
                " On the first day after the update it has {:+.0} % of {noun}, which is not charged to it.",
                first.percent
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::answer::{self, answer};
    use crate::change::bisect;
    use crate::change::observations::{Device, Sums};

    const NAMES: [(&str, &str); 6] = [
        ("Feed", ""),
        ("Feed", "bind"),
        ("Feed", "a.b"),
        ("List", ""),
        ("List", "bind"),
        ("List", "load"),
    ];

    /// Devices, of which two of three update on a day of their own. `ms`: the frames and the times of the names of a screen in a
    /// day of a device, by its number and whether it has updated.
    fn fleet(ms: impl Fn(u32, bool) -> [(u64, [f64; 3]); 2]) -> Fleet {
        let screen = |name: &str| u32::from(name == "List");
        let mut fleet = Fleet {
            days: (0..12).map(|day| format!("2026-09-{:02}", day + 1).as_str().into()).collect(),
            screens: vec!["Feed".into(), "List".into()],
            screen_of: NAMES.iter().map(|(name, _)| screen(name)).collect(),
            ..Fleet::default()
        };
        for (screen, key) in NAMES {
            let cause = if key.is_empty() { "" } else { "section" };
            let [cause, key] = [cause, key].map(Into::into);
            fleet.series.push(Series { screen: Some(screen.into()), cause, key });
        }
        for number in 0..600 {
            let mut device = Device::default();
            for day in 0..12 {
                let is_later = day >= 4 + number % 12;
                let noise = 1.0 + 0.1 * f64::from((number * 31 + day * 17) % 7);
                let mut sums = Sums { day, frames: Vec::new(), times: Vec::new() };
                for ((screen, first), (frames, times)) in
                    [(0, 0), (1, 3)].into_iter().zip(ms(number, is_later))
                {
                    if frames > 0 {
                        sums.frames.push((screen, frames));
                    }
                    for (series, ms) in (first..).zip(times) {
                        #[allow(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "a test"
                        )]
                        let ns = (1e6 * ms * noise) as u64;
                        if ns > 0 {
                            sums.times.push((series, ns));
                        }
                    }
                }
                device.days[usize::from(is_later)].push(sums);
            }
            fleet.devices.push(device);
        }
        fleet
    }

    fn verdicts(fleet: Fleet) -> (Comparison, answer::Verdict) {
        let compared = comparison("1", "2", &fleet, 1);
        (compared, answer(&[fleet], 20.0).verdict)
    }

    #[test]
    fn a_sum_that_rises_while_a_usual_device_improves_is_neither_better_nor_a_go() {
        let few = |factor: f64| {
            move |number: u32, is_later: bool| {
                let change = if number.is_multiple_of(11) { factor } else { 0.5 };
                let ms = if is_later { 100.0 * change } else { 100.0 };
                [(500, [ms, ms, 0.0]), (0, [0.0; 3])]
            }
        };
        let (compared, look) = verdicts(fleet(few(12.0)));
        assert!(compared.rows[0].estimate.percent < -20.0, "{compared:?}");
        assert_eq!((compared.verdict, look), (Verdict::Unknown, answer::Verdict::NotYet));
        assert!(compared.sentence.contains("a few changed far more"), "{}", compared.sentence);
        let (compared, look) = verdicts(fleet(few(0.5)));
        assert_eq!((compared.verdict, look), (Verdict::Better, answer::Verdict::Go));
    }

    #[test]
    fn content_that_moves_to_another_screen_is_no_rise() {
        // The list has become a part of the feed; or it has gone, and the feed has become worse.
        let list = |feed: [f64; 2], ms: f64| {
            fleet(move |_, is_later| {
                let [before, after] = feed;
                let own = if is_later { after } else { before };
                let (frames, on_list) = if is_later { (0, 0.0) } else { (250, ms) };
                [(500 - frames, [own, own, 0.0]), (frames, [on_list, on_list, 0.0])]
            })
        };
        let (compared, look) = verdicts(list([10.0, 110.0], 100.0));
        assert_eq!((compared.verdict, look), (Verdict::Unknown, answer::Verdict::NotYet));
        assert!(
            compared.sentence.contains("the screen List, which 2 does not have"),
            "{}",
            compared.sentence
        );
        let (compared, look) = verdicts(list([100.0, 400.0], 1.0));
        assert_eq!((compared.verdict, look), (Verdict::Worse, answer::Verdict::Stop));
    }

    #[test]
    fn a_cause_that_takes_the_name_of_another_is_not_worse_unless_it_is_on_another_screen() {
        let (compared, look) = verdicts(fleet(|_, is_later| {
            let (old, new) = if is_later { (0.0, 100.0) } else { (100.0, 0.0) };
            [(500, [100.0, old, new]), (0, [0.0; 3])]
        }));
        let name = compared.rows.iter().find(|row| row.key == "a.b").map(|row| row.verdict);
        assert_eq!(name, Some(Verdict::Unknown));
        assert_eq!((compared.verdict, look), (Verdict::Same, answer::Verdict::Go));
        let said = |cause| bisect::changes(vec![compared.clone()], Some(cause));
        assert!(
            said("a.b").unknown[0]
                .starts_with("Cannot know whether 2 is worse than 1 in section a.b new")
        );
        assert!(said("a.b").changes.is_empty());
        let (compared, look) = verdicts(fleet(|_, is_later| {
            let (on_feed, on_list) = if is_later { (50.0, 150.0) } else { (100.0, 100.0) };
            [(500, [on_feed, on_feed, 0.0]), (500, [on_list, 0.0, on_list])]
        }));
        assert_eq!((compared.verdict, look), (Verdict::Worse, answer::Verdict::Stop));
        assert!(
            compared.sentence.contains("worse than 1 in one cause: section load"),
            "{}",
            compared.sentence
        );
    }
}
