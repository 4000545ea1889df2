//! Comparison of two versions: what became worse or better, with its significance; and which devices say so.

use crate::compare::bounds::FACTOR;
use crate::compare::classes::range_ms;
use crate::compare::estimate::{QUANTILE, Shown, estimates};
use crate::compare::observations::{NotCompared, Portion};
use crate::compare::{Observations, Screen};
use crate::significance::{LEAST_CHANGE, LEAST_DEVICES, LEAST_DEVICES_WITH, LEVEL, adjust, real};
use serde::Serialize;

/// Limit of reported kinds of devices.
const MAX_KINDS: usize = 50;
/// Difference of a share, in both versions, from which the mix counts as different.
const MIX_DIFFERS: f64 = 0.05;

/// Comparison of two versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The earlier version.
    pub from: String,
    /// The later version.
    pub to: String,
    /// Probability of a false alarm in the whole comparison.
    pub level: f64,
    /// Minimum number of devices of each version.
    pub least_devices: u64,
    /// Minimum difference for a verdict, as a share of the earlier version's value.
    pub least_change: f64,
    /// Quantile at which larger values are cut.
    pub quantile: f64,
    /// Devices that the comparison is made of.
    pub devices: Compared,
    /// Only if no device has a counterpart: a difference counts as far as no shift of the mix up to this factor explains it.
    pub bound_factor: Option<f64>,
    /// Screens that one version alone has.
    pub screens_not_compared: Vec<String>,
    /// True if the versions have another mix of devices or screens.
    pub is_mix_different: bool,
    /// The mix of devices, the most first.
    pub mix: Vec<KindOfDevice>,
    /// The mix of screens.
    pub screens: Vec<ShareOfScreen>,
    /// Total jank first, then causes by p-value.
    pub rows: Vec<Difference>,
}

/// Devices of a comparison; pairs of numbers are those of both versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Devices with frames that rates count.
    pub sent: [u64; 2],
    /// Devices that sent both versions, each compared with itself.
    pub paired: u64,
    /// Devices that are compared with devices that are like them.
    pub stratified: [u64; 2],
    /// Devices that are not compared: their model is unknown.
    pub unknown_model: [u64; 2],
    /// Devices that are not compared: the earlier version has none of their model.
    pub unseen_model: [u64; 2],
    /// Devices that are not compared: the other version has too few that are like them.
    pub without_likeness: [u64; 2],
    /// Emulators and debuggable builds, which are left out.
    pub test_devices: [u64; 2],
}

/// Devices of a kind, in both versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct KindOfDevice {
    /// Time of a quick frame on devices of these models, from and to, ms; `None` if the models are not known.
    pub model_ms: Option<[f64; 2]>,
    /// Time of a quick frame on these devices, from and to, ms.
    pub device_ms: Option<[f64; 2]>,
    /// Android API level; 0 if it is unknown.
    pub api: u64,
    /// Refresh rate, Hz.
    pub hz: u64,
    /// Devices of both versions.
    pub devices: [u64; 2],
    /// True if both versions have enough of them.
    pub is_compared: bool,
}

/// Share of a screen in both versions' frames.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ShareOfScreen {
    /// Name, or empty.
    pub screen: String,
    /// Shares of both versions, as a mean over devices.
    pub shares: [f64; 2],
}

/// Comparison of total jank, or of one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Difference {
    /// The cause; `None` for total jank.
    pub cause: Option<String>,
    /// Key of the cause.
    pub key: String,
    /// Devices of both versions.
    pub devices: [u64; 2],
    /// Devices with time of it.
    pub devices_with: u64,
    /// Milliseconds per thousand frames, mean over devices of the same mix, of both versions.
    pub ms_in_1000: [f64; 2],
    /// Standard error of the difference.
    pub error: f64,
    /// What devices show that sent both versions.
    pub paired_ms: Option<[f64; 2]>,
    /// What the others show.
    pub stratified_ms: Option<[f64; 2]>,
    /// p-value, adjusted for the number of comparisons.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The later version has more of it.
    Worse,
    /// The later version has less of it.
    Better,
    /// No significant difference.
    #[default]
    Same,
    /// Too few devices for a verdict.
    TooFew,
    /// No device has a counterpart under the other version.
    NotCompared,
}

/// Compares two versions of an app.
#[must_use]
pub fn comparison(from: &str, to: &str, observations: &Observations) -> Comparison {
    let (mix, screens) = (kinds(&observations.mix), shares(&observations.screens));
    let is_mix_different = is_different(observations);
    let NotCompared { unknown_model, unseen_model, without_likeness, test_devices } =
        observations.not_compared;
    let names = observations.screens_not_compared.iter().map(|screen| screen.name.to_string());
    Comparison {
        from: from.to_owned(),
        to: to.to_owned(),
        level: LEVEL,
        least_devices: LEAST_DEVICES,
        least_change: LEAST_CHANGE,
        quantile: QUANTILE,
        devices: Compared {
            sent: observations.sent,
            paired: observations.paired.len() as u64,
            stratified: observations.stratified,
            unknown_model,
            unseen_model,
            without_likeness,
            test_devices,
        },
        bound_factor: observations.is_bounded().then_some(FACTOR),
        screens_not_compared: names.collect(),
        is_mix_different,
        mix,
        screens,
        rows: rows(observations),
    }
}

fn rows(observations: &Observations) -> Vec<Difference> {
    let compared = observations.compared();
    let unsure = if compared.contains(&0) {
        Some(Verdict::NotCompared)
    } else {
        compared.iter().any(|&count| count < LEAST_DEVICES).then_some(Verdict::TooFew)
    };
    let estimates = estimates(observations);
    let mut rows: Vec<Difference> = Vec::new();
    for (name, estimate) in observations.causes.iter().zip(&estimates) {
        let Shown { devices, devices_with, means, variance, .. } = estimate.both;
        let is_all = name.cause.is_empty();
        if !is_all && devices_with == 0 {
            continue;
        }
        rows.push(Difference {
            cause: (!is_all).then(|| name.cause.to_string()),
            key: name.key.to_string(),
            devices,
            devices_with,
            ms_in_1000: means,
            error: variance.sqrt(),
            paired_ms: estimate.paired.map(|paired| paired.means),
            stratified_ms: estimate.stratified.map(|stratified| stratified.means),
            p: estimate.p,
            verdict: Verdict::TooFew,
        });
    }
    // Whether a cause is tested depends on both versions together, so that it says nothing of their difference.
    let is_tested =
        |row: &Difference| row.cause.is_none() || row.devices_with >= LEAST_DEVICES_WITH;
    let p_values: Vec<f64> = rows.iter().filter(|row| is_tested(row)).map(|row| row.p).collect();
    let mut adjusted = adjust(&p_values).into_iter();
    for row in &mut rows {
        let is_tested = is_tested(row);
        row.p = if is_tested { adjusted.next().unwrap_or(1.0) } else { 1.0 };
        let [was, is] = row.ms_in_1000;
        let is_sure = row.p < LEVEL && (is - was).abs() > LEAST_CHANGE * was;
        row.verdict = match (unsure, is_tested, is_sure) {
            (Some(verdict), ..) => verdict,
            (None, false, _) => Verdict::TooFew,
            (None, true, false) => Verdict::Same,
            (None, true, true) if is > was => Verdict::Worse,
            (None, true, true) => Verdict::Better,
        };
    }
    rows.sort_by(|a, b| {
        let difference = |row: &Difference| (row.ms_in_1000[1] - row.ms_in_1000[0]).abs();
        a.cause
            .is_some()
            .cmp(&b.cause.is_some())
            .then(a.p.total_cmp(&b.p))
            .then(difference(b).total_cmp(&difference(a)))
    });
    rows
}

fn kinds(mix: &[Portion]) -> Vec<KindOfDevice> {
    mix.iter()
        .take(MAX_KINDS)
        .map(|Portion { likeness, devices, is_compared }| KindOfDevice {
            model_ms: likeness.as_ref().map(|of| range_ms(of.model_class)),
            device_ms: likeness.as_ref().map(|of| range_ms(of.device_class)),
            api: likeness.as_ref().map_or(0, |of| of.api),
            hz: likeness.as_ref().map_or(0, |of| of.hz),
            devices: *devices,
            is_compared: *is_compared,
        })
        .collect()
}

fn shares(screens: &[Screen]) -> Vec<ShareOfScreen> {
    let share =
        |screen: &Screen| ShareOfScreen { screen: screen.name.to_string(), shares: screen.shares };
    screens.iter().map(share).collect()
}

fn is_different(observations: &Observations) -> bool {
    let sent = observations.sent.map(|count| real(count.max(1)));
    let is_apart = |[a, b]: [f64; 2]| (a - b).abs() >= MIX_DIFFERS;
    let share = |portion: &Portion| [0, 1].map(|side| real(portion.devices[side]) / sent[side]);
    observations.mix.iter().map(share).any(is_apart)
        || observations.screens.iter().map(|screen| screen.shares).any(is_apart)
}
