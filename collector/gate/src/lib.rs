//! Decides from macrobenchmarks whether a build is slower than another one, which sections of the app take the time, and
//! how many more late frames the field would see.
//!
//! [`pairs`] has the statistic, [`benchmark`] reads androidx.benchmark's results, [`field`] the translation. An answer is
//! never "same" unless the runs show it.

mod benchmark;
mod field;
mod lab;
mod pairs;
mod text;

pub use field::{Expected, Field};
pub use pairs::Change;

use benchmark::Benchmark;
use fastrand::Rng;
use lab::{Run, Total};
use pairs::{MOST_PAIRS, pairs_needed};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tracetee_fleet::capture::Capture;

/// Probability that a build without a change is called worse: one half by its metrics, the other by its sections. Its
/// metrics are called better with half of it.
pub const LEVEL: f64 = 0.01;
/// Minimum change for a verdict, percent.
const LEAST_PERCENT: f64 = 2.0;
/// Limit of the sections that explain a benchmark's change.
const MOST_SECTIONS: usize = 5;
/// Limit of the sections that can make a benchmark worse by themselves: those with the most time.
const TESTED_SECTIONS: usize = 3;
/// Minimum change of a section in a frame, ms.
const LEAST_MS: f64 = 0.02;
/// Draws of a section's factor, and their seed.
const DRAWS: usize = 200;
const SEED: u64 = 7;
/// A metric that may be below 0: frameDurationCpuMs shows the same change as a share.
const OVERRUN: &str = "frameOverrunMs";

/// Error that ends a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Io(PathBuf, std::io::Error),
    /// A file is not a result of a macrobenchmark.
    #[error("{} is no benchmarkData.json: {}", .0.display(), .1)]
    Json(PathBuf, serde_json::Error),
    /// A file exceeds a limit.
    #[error("{} has more than 64 MiB or 1,000 benchmarks", .0.display())]
    TooMuch(PathBuf),
    /// The arms have no benchmark with times in common.
    #[error("the files have no benchmark with a metric in ms in common")]
    NothingInCommon,
}

/// The answer about a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The build takes more time.
    Worse,
    /// The runs are not conclusive.
    Unknown,
    /// The change is less than a limit.
    Same,
    /// The build takes less time.
    Better,
}

impl Answer {
    const fn is_change(self) -> bool {
        matches!(self, Self::Worse | Self::Better)
    }
}

/// The change of a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the metric.
    pub metric: String,
    /// The answer.
    pub answer: Answer,
    /// Size and evidence, ms.
    #[serde(flatten)]
    pub change: Change,
    /// Minimum number of pairs for an answer with this many metrics.
    pub pairs_needed: usize,
}

/// The change of a section; it explains the change of its benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the section.
    pub section: String,
    /// Size and evidence of the change: the section's self time per frame, ms.
    #[serde(flatten)]
    pub change: Change,
    /// The change per call, at the same number of calls. It makes a benchmark worse if its metrics cannot tell.
    pub is_by_call: bool,
    /// Factor of its time; `None` for a section that only one of the builds has.
    pub factor: Option<f64>,
    /// The change that the field would see.
    pub field: Option<Expected>,
    #[serde(skip)]
    factors: Vec<f64>,
}

impl Section {
    fn of(
        benchmark: &str,
        section: &str,
        [base, head]: &[Vec<f64>; 2],
        is_by_call: bool,
    ) -> Option<Self> {
        let change = Change::of(base, head)?;
        let (factor, factors) = factors(base, head);
        let (benchmark, section) = (benchmark.to_owned(), section.to_owned());
        Some(Self { benchmark, section, change, is_by_call, factor, field: None, factors })
    }
}

/// The comparison of two builds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// The worst answer.
    pub answer: Answer,
    /// The metrics, the worst answers first.
    pub metrics: Vec<Metric>,
    /// Sections whose time changed in benchmarks that are worse or better, the largest change first; for benchmarks that
    /// cannot tell, those whose calls take longer.
    pub sections: Vec<Section>,
    /// Benchmarks that only one of the builds has: they are not compared.
    pub not_compared: Vec<String>,
    /// Benchmarks whose builds ran one after the other: a drift of the phone counts as a change.
    pub not_in_turn: Vec<String>,
    /// Traces that could not be read, with the reason.
    pub unread: Vec<String>,
}

impl Gate {
    /// Compares the results of a build with those of its base. A change within `same_percent` counts as none. `read`
    /// analyzes a trace.
    ///
    /// # Errors
    /// [`Error`].
    pub fn compare(
        head: &[PathBuf],
        base: &[PathBuf],
        same_percent: f64,
        read: impl Fn(&Path) -> Result<Capture, tracetee_fleet::Error>,
    ) -> Result<Self, Error> {
        let [base, head] = [Benchmark::read(base)?, Benchmark::read(head)?];
        let names: BTreeSet<&String> = base.keys().chain(head.keys()).collect();
        let has_both = |name: &&&String| base.contains_key(**name) && head.contains_key(**name);
        let not_compared = names.iter().filter(|name| !has_both(name));
        let mut gate = Self {
            answer: Answer::Better,
            metrics: Vec::new(),
            sections: Vec::new(),
            not_compared: not_compared.map(|name| (*name).clone()).collect(),
            not_in_turn: Vec::new(),
            unread: Vec::new(),
        };
        for (name, arms) in &base {
            let Some(head) = head.get(name) else { continue };
            gate.add_metrics(name, &times(arms), &times(head));
            if !ran_in_turn(&traces(arms), &traces(head)) {
                gate.not_in_turn.push(name.clone());
            }
        }
        let level = LEVEL / real(gate.metrics.len().max(1));
        for metric in &mut gate.metrics {
            metric.pairs_needed = pairs_needed(level);
            metric.answer = answer(&metric.change, level, same_percent);
        }
        gate.metrics.sort_by(|a, b| {
            let by = |metric: &Metric| metric.change.percent().abs();
            a.answer.cmp(&b.answer).then(by(b).total_cmp(&by(a)))
        });
        gate.answer = gate.metrics.first().ok_or(Error::NothingInCommon)?.answer;
        let is_worse = |section: &Section| section.is_by_call;
        for (name, base) in &base {
            let Some(head) = head.get(name) else { continue };
            let of_benchmark = gate.metrics.iter().filter(|metric| metric.benchmark == *name);
            let answers: Vec<Answer> = of_benchmark.map(|metric| metric.answer).collect();
            let changed = answers.iter().any(|answer| answer.is_change());
            if changed || answers.contains(&Answer::Unknown) {
                let runs = gate.runs(name, &traces(base), &traces(head), &read);
                gate.sections.extend(if changed {
                    explaining(name, &runs)
                } else {
                    slower(name, &runs, level)
                });
            }
        }
        if gate.sections.iter().any(is_worse) {
            gate.answer = Answer::Worse;
        }
        Ok(gate)
    }

    fn add_metrics(&mut self, name: &str, base: &Times<'_>, head: &Times<'_>) {
        for (metric, base) in base.iter().filter(|(metric, _)| **metric != OVERRUN) {
            let change = head.get(metric).and_then(|head| Change::of(base, head));
            self.metrics.extend(change.map(|change| Metric {
                benchmark: name.to_owned(),
                metric: (*metric).to_owned(),
                answer: Answer::Unknown,
                change,
                pairs_needed: 0,
            }));
        }
    }

    fn runs(
        &mut self,
        name: &str,
        base: &[PathBuf],
        head: &[PathBuf],
        read: impl Fn(&Path) -> Result<Capture, tracetee_fleet::Error>,
    ) -> Vec<[Run; 2]> {
        let mut runs: Vec<[Run; 2]> = Vec::new();
        for (base, head) in base.iter().zip(head).take(MOST_PAIRS) {
            let mut run = |path: &PathBuf| match read(path) {
                Ok(capture) => Some(Run::of(&capture)),
                Err(error) => {
                    self.unread.push(format!("{}: {error}", path.display()));
                    None
                }
            };
            // A pair with a missing run is not evidence.
            runs.extend(run(base).zip(run(head)).map(|(base, head)| [base, head]));
        }
        if runs.is_empty() {
            self.unread
                .push(format!("{name}: there are no traces of both builds beside the results"));
        }
        runs
    }

    /// Returns the sections that a [`Field`] must search for.
    #[must_use]
    pub fn sections_with_factor(&self) -> Vec<String> {
        let known = self.sections.iter().filter(|section| section.factor.is_some());
        let names: BTreeSet<String> = known.map(|section| section.section.clone()).collect();
        names.into_iter().collect()
    }

    /// Adds the estimated change of the sections in the field.
    pub fn translate(&mut self, field: &Field) {
        for section in &mut self.sections {
            let Some(factor) = section.factor else { continue };
            section.field = field.expected(&section.section, factor, &section.factors);
        }
    }
}

/// Times of a benchmark by metric, ms by run.
type Times<'a> = BTreeMap<&'a str, Vec<f64>>;

fn times(parts: &[Benchmark]) -> Times<'_> {
    let mut all: Times<'_> = BTreeMap::new();
    for (metric, runs) in parts.iter().flat_map(Benchmark::times) {
        all.entry(metric).or_default().extend(runs);
    }
    all
}

fn traces(parts: &[Benchmark]) -> Vec<PathBuf> {
    parts.iter().flat_map(Benchmark::traces).collect()
}

/// Returns the sections whose time in a frame changed, which explains a benchmark's change.
fn explaining(benchmark: &str, runs: &[[Run; 2]]) -> Vec<Section> {
    let names: BTreeSet<&String> =
        runs.iter().flatten().flat_map(|run| run.sections.keys()).collect();
    let sections = names.into_iter().filter_map(|section| {
        let arms = arms(runs, |run| run.in_frame(section));
        let found = Section::of(benchmark, section, &arms, false)?;
        (found.change.p_value <= LEVEL && found.change.by.abs() >= LEAST_MS).then_some(found)
    });
    let mut sections: Vec<Section> = sections.collect();
    sections.sort_by(|a, b| b.change.by.abs().total_cmp(&a.change.by.abs()));
    sections.truncate(MOST_SECTIONS);
    sections
}

/// Returns the sections with the most time whose calls take longer. The number of calls varies more between runs than their
/// duration, so durations can be conclusive when a benchmark's metrics are not.
fn slower(benchmark: &str, runs: &[[Run; 2]], level: f64) -> Vec<Section> {
    let mut totals: BTreeMap<&String, Total> = BTreeMap::new();
    for (name, section) in runs.iter().flatten().flat_map(|run| &run.sections) {
        let total = totals.entry(name).or_default();
        total.ms += section.ms;
        total.calls += section.calls;
    }
    let all_ms: f64 = totals.values().map(|total| total.ms).sum();
    let frames = real(runs.iter().flatten().map(|run| run.frames).sum::<usize>().max(1));
    let mut totals: Vec<(&String, Total)> = totals.into_iter().collect();
    totals.sort_by(|(_, a), (_, b)| b.ms.total_cmp(&a.ms));
    let tested = totals.into_iter().take(TESTED_SECTIONS).filter_map(|(section, total)| {
        let calls = real(total.calls) / frames;
        let arms = arms(runs, |run| calls * run.in_call(section));
        let found = Section::of(benchmark, section, &arms, true)?;
        let is_sure = found.change.p_value <= level / real(TESTED_SECTIONS);
        let is_large = 100.0 * found.change.by >= LEAST_PERCENT * all_ms / frames;
        (is_sure && is_large && found.factor.is_some()).then_some(found)
    });
    tested.collect()
}

/// Returns a time of each run of the base, and of the head.
fn arms(runs: &[[Run; 2]], time: impl Fn(&Run) -> f64) -> [Vec<f64>; 2] {
    [0, 1].map(|arm| runs.iter().map(|pair| time(&pair[arm])).collect())
}

fn answer(change: &Change, level: f64, same_percent: f64) -> Answer {
    // Compared with zero, any time is large.
    let is_large = change.base <= 0.0 || change.percent().abs() >= LEAST_PERCENT;
    if change.p_value <= level && is_large {
        return if change.by > 0.0 { Answer::Worse } else { Answer::Better };
    }
    let limit = change.base * same_percent / 100.0;
    match change.interval {
        Some([low, high]) if -limit < low && high < limit => Answer::Same,
        _ => Answer::Unknown,
    }
}

/// Returns the factor of a section's time, and draws of it over the pairs.
fn factors(base: &[f64], head: &[f64]) -> (Option<f64>, Vec<f64>) {
    let factor = |pairs: &mut dyn Iterator<Item = (&f64, &f64)>| {
        let (base, head) =
            pairs.fold((0.0, 0.0), |sums, (base, head)| (sums.0 + base, sums.1 + head));
        (base > 0.0).then(|| head / base)
    };
    let pairs: Vec<(&f64, &f64)> = base.iter().zip(head).collect();
    let mut rng = Rng::with_seed(SEED);
    let mut draw = |_| factor(&mut (0..pairs.len()).filter_map(|_| rng.choice(&pairs).copied()));
    let draws = (0..DRAWS).filter_map(&mut draw).collect();
    (factor(&mut pairs.iter().copied()), draws)
}

/// Returns true unless the names of the traces show that all runs of one build came before those of the other.
fn ran_in_turn(base: &[PathBuf], head: &[PathBuf]) -> bool {
    let ends = |paths: &[PathBuf]| {
        let times: Option<Vec<String>> = paths.iter().map(|path| time_of(path)).collect();
        let times = times?;
        Some((times.iter().min()?.clone(), times.iter().max()?.clone()))
    };
    let (Some(base), Some(head)) = (ends(base), ends(head)) else { return true };
    base.0 <= head.1 && head.0 <= base.1
}

/// Returns the time in the name of a trace: `Scroll_iter000_2026-11-28-13-20-05.perfetto-trace`.
fn time_of(path: &Path) -> Option<String> {
    let name = path.file_stem()?.to_str()?;
    let (_, time) = name.rsplit_once('_')?;
    let is_time = time.len() == "2026-11-28-13-20-05".len()
        && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_time.then(|| time.to_owned())
}

/// Returns a count as a real number.
#[allow(clippy::cast_precision_loss, reason = "no trace has 2^53 frames")]
const fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: f64, by: f64) -> Answer {
        let runs: Vec<f64> = (0..10_u8).map(|run| base + f64::from(run) / 100.0).collect();
        let head: Vec<f64> = runs.iter().map(|run| run + by).collect();
        answer(&Change::of(&runs, &head).unwrap(), LEVEL, 5.0)
    }

    #[test]
    fn a_time_that_was_nothing_is_worse_and_a_small_change_is_none() {
        assert_eq!(of(10.0, 1.0), Answer::Worse);
        assert_eq!(of(10.0, -1.0), Answer::Better);
        assert_eq!(of(10.0, 0.1), Answer::Same);
        let (none, some) = ([0.0; 10], [5.0; 10]);
        let change = Change::of(&none, &some).unwrap();
        assert_eq!(answer(&change, LEVEL, 5.0), Answer::Worse);
        assert_eq!(answer(&Change::of(&none, &none).unwrap(), LEVEL, 5.0), Answer::Unknown);
    }

    /// Ten pairs of runs, in which a call of a section takes this many ms. How often it is called varies.
    fn runs(call_ms: [f64; 2], ms: f64) -> Vec<[Run; 2]> {
        let run = |pair: usize, arm: usize| {
            let calls = [70, 130, 90, 120, 75, 110, 125, 80, 95, 115][(pair + 3 * arm) % 10];
            let own = Total { ms: call_ms[arm] * real(calls), calls };
            let sections = [("bind", own), ("draw", Total { ms, calls: 100 })];
            let sections = sections.map(|(name, total)| (name.to_owned(), total));
            Run { frames: 100, sections: sections.into() }
        };
        (0..10).map(|pair| [run(pair, 0), run(pair, 1)]).collect()
    }

    #[test]
    fn calls_that_take_longer_are_found_though_their_number_varies_more() {
        let found = |call_ms, ms| {
            let found = slower("feed", &runs(call_ms, ms), LEVEL);
            found.into_iter().map(|section| section.section).collect::<Vec<_>>()
        };
        assert!(explaining("feed", &runs([5.0, 5.5], 100.0)).is_empty());
        assert_eq!(found([5.0, 5.5], 100.0), ["bind"]);
        assert!(found([5.0, 5.0], 100.0).is_empty(), "nothing changed");
        assert!(found([5.5, 5.0], 100.0).is_empty(), "it takes less");
        assert!(found([5.0, 5.5], 3_000.0).is_empty(), "less than 2 % of the frame");
        let few = runs([5.0, 5.5], 100.0);
        assert!(slower("feed", &few[..9], LEVEL).is_empty(), "nine pairs are no proof");
    }

    #[test]
    fn runs_that_came_one_after_the_other_are_known_by_the_names_of_their_traces() {
        let traces = |minutes: [u8; 2]| {
            minutes.map(|minute| {
                PathBuf::from(format!("a_iter000_2026-11-28-10-{minute:02}-00.perfetto-trace"))
            })
        };
        assert!(ran_in_turn(&traces([0, 4]), &traces([2, 6])));
        assert!(!ran_in_turn(&traces([0, 4]), &traces([5, 6])));
        assert!(ran_in_turn(&traces([0, 4]), &[PathBuf::from("x.perfetto-trace")]));
    }
}
