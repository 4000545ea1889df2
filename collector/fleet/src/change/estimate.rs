//! The size of a change and the evidence for it.
//!
//! Values are logarithms, so that a factor of the calendar is one of the day, however slow a device is. A floor limits those of small
//! values, and large ones count little. Deaths are rare: their floor is so large that the logarithm is nearly proportional to the
//! value. The score is the weighted sum of the values' residuals, without effects of devices and days,
//! times those of the update; its variance counts each device once, however many days it has (Liang and Zeger 1986; the
//! correction for few devices on a day is that of Bell and McCaffrey 2002).

use super::constants::{GUARD_SIZES, LEAST_CHANGE, LEAST_DEVICES_WITH};
use super::control::{Days, Design, Values};
use super::{Series, Source};
use crate::significance::real;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;

/// Quantile of the normal distribution for an interval of 95 %.
pub(super) const QUANTILE: f64 = 1.96;
/// Limit of a reported change, as a logarithm: a factor of 148.
const MOST: f64 = 5.0;
/// Steps in which the chance of a false alarm is reported: one in N. The standard errors behind it are estimates, so a chance below
/// one in a million is never claimed.
const FALSE_ALARM_ONE_IN: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// Halvings of the interval in which a change is looked for.
const HALVINGS: usize = 24;

/// The size of a change, and the evidence for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Devices with time of it, updated or not.
    pub devices: u64,
    /// Mean before and after the update of devices that updated, as seen, ms per thousand frames; the largest hundredth of the values is cut.
    pub ms_in_1000: [f64; 2],
    /// Means of the other devices before and since the release.
    pub control_ms_in_1000: [f64; 2],
    /// Change beyond that of the controls, percent; limited to a factor of 148.
    pub percent: f64,
    /// Interval of the change, 95 %.
    pub percent_interval: [f64; 2],
    /// Standard score of "no change": positive if the later version has more.
    pub score: f64,
    /// Interval of the change of the sum of all devices, 95 %, percent; of all jank alone. `percent` is of a usual device: a few that
    /// change much more than the others change the sum alone.
    pub sum_percent_interval: Option<[f64; 2]>,
    /// Standard error of the logarithm of the change.
    #[serde(skip)]
    pub error: f64,
    /// Standard error of the mean change of the logarithms if nothing changed.
    #[serde(skip)]
    pub evidence_error: f64,
}

impl Estimate {
    /// Returns the change with its interval as a text. A percentage of zero does not exist.
    pub(crate) fn size(&self) -> String {
        let Self { percent, percent_interval: [low, high], ms_in_1000: [before, after], .. } = self;
        if *before == 0.0 && *after > 0.0 {
            return "new".to_owned();
        }
        // Limits are no measurements.
        let is_most = |change: &f64| *change >= self::percent(MOST);
        let high = if is_most(high) { "no limit".to_owned() } else { format!("{high:+.0}") };
        let size = if is_most(percent) {
            format!("over {:.0} times", MOST.exp().floor())
        } else {
            format!("{percent:+.0} %")
        };
        format!("{size} ({low:+.0} to {high})")
    }

    /// Returns true if the sum of all devices surely rose, and by more than a usual device's jank can have risen, though that
    /// one has no more; or fell, though that one has more.
    pub(crate) fn is_sum_apart(&self, has_more: bool) -> bool {
        let [least, most] = self.percent_interval;
        self.sum_percent_interval.is_some_and(|[low, high]| {
            if has_more { high < least.min(0.0) } else { low > most.max(0.0) }
        })
    }

    /// Returns the change of a usual device and that of the sum as a text.
    pub(crate) fn size_and_sum(&self) -> String {
        let [low, high] = self.sum_percent_interval.unwrap_or_default();
        format!(
            "{} on a usual device, that of all devices together by {low:+.0} to {high:+.0} %: a few changed far more than the others",
            self.size()
        )
    }

    /// Returns true if devices that updated were compared with others.
    pub(crate) const fn is_known(&self) -> bool {
        self.error.is_finite()
    }

    /// Returns true if enough devices have time of it. That depends on all devices together, so that it says nothing of their difference.
    /// All jank is always tested.
    pub(crate) fn is_tested(&self, source: Source, is_all: bool) -> bool {
        self.devices >= LEAST_DEVICES_WITH || (is_all && source != Source::Deaths)
    }

    /// Returns true if the change is large enough to be one.
    pub(crate) fn is_change(&self) -> bool {
        self.percent.abs() > 100.0 * LEAST_CHANGE
    }

    /// Returns the change beyond that of the days, ms per thousand frames.
    pub(crate) fn change_ms(&self) -> f64 {
        let [was, is] = self.ms_in_1000;
        // A time that has fallen to 0 has no size after the update.
        let fell = was * self.percent.min(0.0) / 100.0;
        fell + is * self.percent.max(0.0) / (100.0 + self.percent.max(0.0))
    }

    /// Returns the probability of a score as large, in either direction, if nothing changed.
    pub(crate) fn p_value(&self) -> f64 {
        (2.0 * Normal::standard().sf(self.score.abs())).min(1.0)
    }

    /// Returns the logarithm of the evidence that there is more, for one who may look at any time: of the score as it grows with the
    /// information, under a normal mixture of sizes (Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform
    /// central limit theory and asymptotic confidence sequences", 2021). The chance that it ever reaches 1/a is at most a.
    pub(crate) fn log_evidence(&self) -> f64 {
        log_mixture(self.score.max(0.0), self.evidence_error)
    }

    /// Returns N: of rollouts that change nothing, fewer than one in N ever reach this evidence.
    pub(crate) fn false_alarm_one_in(&self) -> u64 {
        let is_enough = |one_in: &u64| self.log_evidence() > real(*one_in).ln();
        FALSE_ALARM_ONE_IN.into_iter().rfind(is_enough).unwrap_or(1)
    }
}

/// Logarithm of the mean evidence of a score over the sizes of a change for which a guard looks.
fn log_mixture(score: f64, error: f64) -> f64 {
    let logs = GUARD_SIZES.map(|size| {
        let information = (size / error).powi(2);
        let share = information / (information + 1.0);
        score * score * share / 2.0 - information.ln_1p() / 2.0
    });
    let most = logs.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.map(|log| (log - most).exp()).into_iter().sum();
    most + (sum / real(logs.len() as u64)).ln()
}

/// Returns the size of a change of some series, each on a screen of its own.
/// `screens` has those whose frames count for mean times.
pub(crate) fn estimate(
    days: &Days<'_>,
    design: &Design,
    series: &[u32],
    screens: &[u32],
) -> Estimate {
    let values = days.values(design, series, screens);
    let Values { shares, floor, ms_in_1000: [was, is, control_was, control_is], devices, .. } =
        values;
    let known = Estimate {
        devices,
        ms_in_1000: [was, is],
        control_ms_in_1000: [control_was, control_is],
        percent_interval: [-100.0, percent(MOST)],
        error: f64::INFINITY,
        evidence_error: f64::INFINITY,
        ..Estimate::default()
    };
    let mut later = Vec::new();
    let (mut earlier_sum, mut information) = (0.0, 0.0);
    for (row, share) in design.rows.iter().zip(&shares) {
        let update = row.weight * row.update;
        if row.is_later {
            information += update;
            later.push((update, *share));
        } else {
            earlier_sum += update * (share + floor).ln();
        }
    }
    let sum = |change: f64| -> f64 {
        let factor = change.exp();
        earlier_sum
            + later
                .iter()
                .map(|(update, share)| update * (share / factor + floor).ln())
                .sum::<f64>()
    };
    let logs: Vec<f64> = shares.iter().map(|share| (share + floor).ln()).collect();
    let is_rare = days.fleet.source == Source::Deaths;
    let least = if is_rare { design.usual_spread(&logs) } else { 0.0 };
    let scores = design.scores(logs);
    let spread = scores.iter().map(|score| score * score).sum::<f64>().sqrt().max(least);
    if !(information > 0.0 && spread > 0.0) {
        return known;
    }
    let [mut low, mut high] = [-MOST, MOST];
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if sum(middle) > 0.0 { low = middle } else { high = middle }
    }
    let change = f64::midpoint(low, high);
    let factor = change.exp();
    let slope: f64 =
        later.iter().map(|(update, share)| update * share / (share + floor * factor)).sum();
    let error = spread / slope.max(f64::MIN_POSITIVE);
    let ends = [change - QUANTILE * error, change + QUANTILE * error];
    Estimate {
        percent: percent(change),
        percent_interval: ends.map(percent),
        score: sum(0.0) / spread,
        error,
        evidence_error: spread / information,
        ..known
    }
}

/// Returns the compared part of all jank, and its change.
pub(super) fn all_jank(days: &Days<'_>) -> (Design, Estimate) {
    let all: Vec<_> = days.series().filter(|one| one.0.cause.is_empty()).map(|one| one.1).collect();
    let screens = days.screens(&all);
    let design = days.design(&screens);
    let mut estimate = estimate(days, &design, &all, &screens);
    let uncut = days.values(&design, &all, &screens).uncut;
    estimate.sum_percent_interval = design.sum_percent_interval(&uncut);
    (design, estimate)
}

/// The changes of the series of a fleet.
pub(super) struct Changes {
    /// Numbers of the series that have a name together, and their change; all jank has no numbers.
    pub(super) by_name: BTreeMap<Series, (Vec<u32>, Estimate)>,
    /// Rows that are compared, by screens.
    designs: BTreeMap<Vec<u32>, Design>,
}

impl Changes {
    /// Estimates the changes of series, and adds the change of all jank.
    pub(super) fn new(days: &Days<'_>, all: Estimate, name_of: impl Fn(&Series) -> Series) -> Self {
        let mut by_name: BTreeMap<Series, (Vec<u32>, Estimate)> = BTreeMap::new();
        for (series, number) in days.series() {
            by_name.entry(name_of(series)).or_default().0.push(number);
        }
        by_name.insert(Series::default(), (Vec::new(), all));
        let totals = days.series().filter(|(series, _)| series.cause.is_empty());
        let of_all = days.screens(&totals.map(|(_, number)| number).collect::<Vec<_>>());
        let mut designs = BTreeMap::new();
        for (name, (series, found)) in
            by_name.iter_mut().filter(|(_, (series, _))| !series.is_empty())
        {
            let screens = days.screens(series);
            let design = designs.entry(screens.clone()).or_insert_with(|| days.design(&screens));
            // All screens together: the time is a share of the frames of all screens, as for all jank.
            let frames_of = if name.screen.is_none() { &of_all } else { &screens };
            *found = estimate(days, design, series, frames_of);
        }
        Self { by_name, designs }
    }

    /// Returns for each device what its times of a name say about the update; nothing for all jank.
    pub(super) fn scores(&self, days: &Days<'_>, name: &Series) -> Vec<f64> {
        let scores = || {
            let (series, _) = self.by_name.get(name)?;
            let screens = days.screens(series);
            let design = self.designs.get(&screens)?;
            Some(design.scores(days.values(design, series, &screens).shares))
        };
        scores().unwrap_or_else(|| vec![0.0; days.fleet.devices.len()])
    }
}

/// Returns a change in percent by its logarithm.
fn percent(change: f64) -> f64 {
    100.0 * change.clamp(-MOST, MOST).exp_m1()
}

/// Returns the error of the logarithm of a change at which a guard finds a change of this size, with a quantile of its power, if it
/// needs this logarithm of evidence. `ratio`: the evidence's error in units of this one.
pub(crate) fn error_needed(log_change: f64, log_evidence: f64, quantile: f64, ratio: f64) -> f64 {
    let [mut low, mut high] = [f64::MIN_POSITIVE, log_change];
    for _ in 0..HALVINGS {
        let error = f64::midpoint(low, high);
        let score = (log_change / error - quantile).max(0.0);
        let is_found = log_mixture(score, ratio * error) > log_evidence;
        if is_found { low = error } else { high = error }
    }
    low
}

/// Adjusts p-values by Holm's method, so that each can be compared with [`super::constants::LEVEL`].
pub(crate) fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let chance = |index: usize| p_values.get(index).copied().unwrap_or(1.0);
    order.sort_by(|&a, &b| chance(a).total_cmp(&chance(b)));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        let tests = real((p_values.len() - rank) as u64);
        least = least.max(chance(index) * tests).min(1.0);
        if let Some(adjusted) = adjusted.get_mut(index) {
            *adjusted = least;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::control::After;
    use crate::change::findings::Rise;
    use crate::change::observations::{Device, Fleet, Sums};
    use fastrand::Rng;

    const DAYS: u32 = 12;
    const FRAMES: u64 = 500;

    /// Devices, some of which update, with ns of all jank by device, day and version.
    fn fleet(
        devices: u32,
        updates: impl Fn(u32) -> u32,
        mut ns: impl FnMut(u32, u32, bool) -> Option<f64>,
    ) -> Fleet {
        let mut fleet = Fleet {
            days: (0..DAYS).map(|day| format!("2026-09-{:02}", day + 1).as_str().into()).collect(),
            screens: vec!["Feed".into()],
            series: vec![Series { screen: Some("Feed".into()), ..Series::default() }],
            screen_of: vec![0],
            ..Fleet::default()
        };
        for number in 0..devices {
            let mut device = Device::default();
            for day in 0..DAYS {
                let is_later = day >= updates(number);
                let Some(ns) = ns(number, day, is_later) else { continue };
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a test"
                )]
                let times = vec![(0, ns as u64)];
                let sums = Sums { day, frames: vec![(0, FRAMES)], times };
                device.days[usize::from(is_later)].push(sums);
            }
            fleet.devices.push(device);
        }
        fleet
    }

    fn estimated(fleet: &Fleet) -> Estimate {
        let days = Days::new(fleet, After::LaterDays);
        estimate(&days, &days.design(&[0]), &[0], &[0])
    }

    /// Two of three devices update, each on a day of its own. Levels differ by a factor of ten and have heavy tails, from a day on all times are three times as long.
    fn rollout(rng: &mut Rng, change: f64) -> Fleet {
        let updates: Vec<u32> = (0..600).map(|_| rng.u32(4..16)).collect();
        let levels: Vec<f64> = (0..600).map(|_| 1.0 + 9.0 * rng.f64()).collect();
        let nth = |device: u32| usize::try_from(device).unwrap();
        fleet(
            600,
            |device| updates[nth(device)],
            |device, day, is_later| {
                let calendar = if day < 7 { 1.0 } else { 3.0 };
                let tail = (1.0 - rng.f64()).powf(-0.5).min(500.0);
                let factor = if is_later { change } else { 1.0 };
                (rng.u8(0..3) == 0).then_some(1e6 * levels[nth(device)] * calendar * tail * factor)
            },
        )
    }

    #[test]
    fn the_chance_of_a_false_alarm_is_the_next_power_of_ten_and_no_less_than_one_in_a_million() {
        let found = (0..90_u32).map(|tenths| {
            let score = f64::from(tenths) / 10.0;
            let estimate = Estimate { score, evidence_error: 0.05, ..Estimate::default() };
            let (one_in, evidence) = (estimate.false_alarm_one_in(), estimate.log_evidence().exp());
            match one_in {
                1 => assert!(evidence <= 100.0, "{score}"),
                1_000_000 => assert!(evidence > 1e6, "{score}"),
                _ => assert!((real(one_in)..real(10 * one_in)).contains(&evidence), "{score}"),
            }
            one_in
        });
        let mut found: Vec<u64> = found.collect();
        found.dedup();
        assert_eq!(found, [1, 100, 1_000, 10_000, 100_000, 1_000_000]);
        let text = |one_in| Rise { false_alarm_one_in: one_in, ..Rise::default() }.to_text();
        assert!(text(1_000).ends_with(" devices, chance of a false alarm less than 1 in 1,000"));
        // "1 in 1" would say nothing.
        assert!(text(1).ends_with(" devices"));
    }

    #[test]
    fn a_change_is_estimated_beyond_that_of_the_days() {
        let found = estimated(&rollout(&mut Rng::with_seed(5), 1.5));
        let [low, high] = found.percent_interval;
        assert!(low < 50.0 && 50.0 < high && low > 20.0 && high < 90.0, "{found:?}");
        assert!(found.score > 3.0 && found.devices > 500, "{found:?}");
    }

    #[test]
    fn the_change_is_that_of_least_squares_by_statsmodels() {
        let updates = |device| 4 + device * 3 % 10;
        let found = estimated(&fleet(40, updates, |device, day, is_later| {
            let level = 1 + (device * 37 + day * 101 + device * day * 13) % 29;
            let factor = if is_later { 1.5 } else { 1.0 } * if day < 7 { 1.0 } else { 3.0 };
            ((device * 7 + day * 5) % 3 != 0).then_some(1e6 * f64::from(level) * factor)
        }));
        // statsmodels 0.15.0: OLS of the logarithms on the update, with a dummy for each device and each day; the error is the root of
        // the devices' squared sums of its residuals times those of the update, each divided by one minus its share in the day.
        let [change, error] = [0.324_290_713_759_281_1, 0.144_052_697_004_762_7];
        assert!((found.score * found.evidence_error - change).abs() < 1e-5, "{found:?}");
        assert!((found.evidence_error - error).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn without_a_change_few_scores_are_large_and_hardly_any_guard_is_sure() {
        let mut rng = Rng::with_seed(6);
        let all: Vec<Estimate> = (0..400).map(|_| estimated(&rollout(&mut rng, 1.0))).collect();
        let large = all.iter().filter(|estimate| estimate.score.abs() > 1.96).count();
        assert!((8..=34).contains(&large), "{large} of 400, 20 are expected");
        let sure = all.iter().filter(|estimate| estimate.log_evidence() > 100.0_f64.ln()).count();
        assert!(sure <= 4, "{sure} of 400");
    }

    #[test]
    fn a_cause_that_only_the_later_version_has_is_a_change() {
        let updates = |device| if device < 40 { 6 } else { DAYS };
        let found =
            estimated(&fleet(80, updates, |_, _, is_later| is_later.then_some(1e6).or(Some(0.0))));
        assert!(found.percent > 1000.0 && found.log_evidence() > 10.0, "{found:?}");
    }

    #[test]
    fn a_cause_of_all_screens_counts_in_the_frames_of_all_and_one_of_a_screen_in_those_of_its_own()
    {
        let updates = |device| if device < 40 { 6 } else { DAYS };
        let mut fleet = fleet(80, updates, |_, _, is_later| is_later.then_some(2e6).or(Some(1e6)));
        // Another screen with three times the frames, and a cause on the first one.
        fleet.screens.push("Detail".into());
        let on = |screen: &str, cause: &str| Series {
            screen: Some(screen.into()),
            cause: cause.into(),
            ..Series::default()
        };
        fleet.series.extend([on("Detail", ""), on("Feed", "section")]);
        fleet.screen_of.extend([1, 0]);
        for sums in fleet.devices.iter_mut().flat_map(|device| &mut device.days).flatten() {
            sums.frames.push((1, 3 * FRAMES));
            let ns = sums.times[0].1;
            sums.times.extend([(1, ns), (2, ns)]);
        }
        let days = Days::new(&fleet, After::LaterDays);
        let ms = |name_of: &dyn Fn(&Series) -> Series, name: &Series| {
            let changes = Changes::new(&days, all_jank(&days).1, name_of);
            changes.by_name[name].1.ms_in_1000[1]
        };
        let together = |series: &Series| Series { screen: None, ..series.clone() };
        let of_all = ms(&together, &together(&on("", "section")));
        assert!((of_all - 1.0).abs() < 1e-9, "2 ms in 2,000 frames: {of_all}");
        assert!((ms(&together, &Series::default()) - 2.0).abs() < 1e-9);
        assert!((ms(&Series::clone, &on("Feed", "section")) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn days_on_which_all_have_updated_and_devices_without_earlier_days_are_left_out() {
        // Ten update on the fourth day and ten on the eighth; ten more begin on the third.
        let updates = |device| [4, 8, 3][usize::try_from(device % 3).unwrap()];
        let fleet = fleet(30, updates, |device, day, is_later| {
            (is_later || device % 3 < 2).then_some(1e6 * f64::from(1 + device * day % 7))
        });
        let days = Days::new(&fleet, After::LaterDays);
        let design = days.design(&[0]);
        assert!(
            design.rows.iter().all(|row| row.device % 3 < 2 && days.rows[row.row].sums.day < 8)
        );
        assert_eq!(design.rows.iter().filter(|row| row.is_later).count(), 10 * 3);
    }

    #[test]
    fn p_values_are_those_of_scipy() {
        // 2 * scipy.stats.norm.sf(2.5)
        let found = Estimate { score: -2.5, ..Estimate::default() };
        assert!((found.p_value() - 0.012_419_330_651_552_318).abs() < 1e-9);
    }

    #[test]
    fn the_evidence_is_the_mean_of_two_normal_mixtures_of_confseq() {
        // TwoSidedNormalMixture::log_superMG of confseq 0.0.11, for the scores, at three values of information.
        let scores = [2.0, 4.0, 8.0];
        let small = [0.087_334_747_915_312_02, 0.440_275_924_385_900_24, 1.852_040_630_268_253];
        let middle = [0.653_426_409_720_027_3, 3.653_426_409_720_027, 15.653_426_409_720_026];
        let large = [0.465_746_269_148_362_26, 6.112_805_092_677_773, 28.701_040_386_795_416];
        let [first, second] = GUARD_SIZES;
        assert!((second / first - 4.0).abs() < 1e-12);
        for (error, pair) in [(second, [small, middle]), (first, [middle, large])] {
            for (index, score) in scores.into_iter().enumerate() {
                let [a, b] = pair.map(|logs: [f64; 3]| logs[index].exp());
                let expected = f64::midpoint(a, b).ln();
                let found = log_mixture(score, error);
                assert!((found - expected).abs() < 1e-9, "{score} {error}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_error_at_which_a_guard_finds_a_change_has_the_evidence() {
        for ratio in [1.0, 0.6] {
            let error = error_needed(0.1, 9.0, 0.0, ratio);
            let (score, evidence_error) = (0.1 / error, ratio * error);
            let found = Estimate { score, evidence_error, ..Estimate::default() };
            assert!((found.log_evidence() - 9.0).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn holm_multiplies_by_what_is_left_to_test() {
        let adjusted = adjust(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (found, expected) in adjusted.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(adjust(&[]).is_empty());
    }
}
