//! The guard's answer: go, stop, or not yet.
//!
//! Stop: there is a finding. Go: there is none, the later version has hardly anything on screens of its own, and so many devices were
//! compared that a rise of all jank by the stated share would have been found with the stated power. Otherwise not yet.

use super::Source;
use super::constants::{LEVEL, POWER};
use super::coverage::Coverage;
use super::estimate::{Estimate, error_needed};
use super::findings::{Example, Finding, Findings, Look, Rise, findings};
use super::observations::Fleet;
use crate::significance::{grouped, real};
use serde::Serialize;
use std::fmt::Write;
use tracetee_trace::shown;

/// The verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No regression, and one would have been found.
    Go,
    /// A regression.
    Stop,
    /// Too little was compared.
    #[default]
    NotYet,
}

/// The power of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Power {
    /// Rise of all jank that would be found, percent.
    pub rise_percent: f64,
    /// Devices compared.
    pub devices: u64,
    /// Devices after which it would be found; `None` if too few were compared to know.
    pub needed: Option<u64>,
}

impl Power {
    /// Returns the number of devices that are missing.
    #[must_use]
    pub fn missing(&self) -> Option<u64> {
        self.needed.map(|needed| needed.saturating_sub(self.devices))
    }
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Probability that a rollout without a regression ever raises an alarm.
    pub level: f64,
    /// Origin of the coverage and of the power: ledgers, if enough devices have some.
    pub source: Source,
    /// The change of the total.
    #[serde(skip)]
    pub all: Estimate,
    /// The part of the later version that is compared.
    pub coverage: Coverage,
    /// Findings, the strongest first.
    pub findings: Vec<Finding>,
    /// Cost that moved from a sibling.
    pub moved: Vec<Rise>,
    /// The power.
    pub power: Power,
}

/// Quantile of the normal distribution for [`POWER`].
const QUANTILE: f64 = 1.2816;

/// Returns the answer for a rise of all jank by so many percent. `fleets`: of captures first, then of ledgers.
#[must_use]
pub fn answer(fleets: &[Fleet], rise_percent: f64) -> Answer {
    let looks: Vec<Look<'_>> = fleets.iter().map(Look::new).collect();
    let found = findings(&looks);
    let is_of = |(fleet, look): &(&Fleet, &Look<'_>)| {
        fleet.source == Source::Ledgers && look.coverage.is_enough()
    };
    let mut all = fleets.iter().zip(&looks);
    let best = all.clone().find(is_of).or_else(|| all.next());
    let (source, all, coverage) = best
        .map(|(fleet, look)| (fleet.source, look.all, look.coverage.clone()))
        .unwrap_or_default();
    let power = power(&all, coverage.compared, rise_percent, looks.len());
    let verdict = match (found.findings.is_empty(), power.missing()) {
        (false, _) => Verdict::Stop,
        (true, Some(0)) if !coverage.is_unknown() && !all.is_sum_apart(false) => Verdict::Go,
        _ => Verdict::NotYet,
    };
    let Findings { findings, moved } = found;
    Answer { verdict, level: LEVEL, source, all, coverage, findings, moved, power }
}

fn power(all: &Estimate, devices: u64, rise_percent: f64, fleets: usize) -> Power {
    // All jank has half of the level of its fleet.
    let weight = 0.5 / real(fleets.max(1) as u64);
    let (rise, least) = ((rise_percent / 100.0).ln_1p(), -(LEVEL * weight).ln());
    let error = error_needed(rise, least, QUANTILE, all.evidence_error / all.error);
    // The square of the error decreases as devices are added.
    let ratio = (all.error / error).powi(2);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of devices, limited"
    )]
    let needed = ratio.is_finite().then(|| (real(devices) * ratio).ceil().min(1e15) as u64);
    Power { rise_percent, devices, needed }
}

impl Rise {
    /// Returns the rise as a text: name, size, chance of a false alarm.
    #[must_use]
    pub fn to_text(&self) -> String {
        let screen = match self.screen.as_deref() {
            None if self.source == Source::Deaths => "ends of processes",
            None => "all screens",
            Some("") => "no screen",
            Some(screen) => screen,
        };
        let (screen, unit) = (shown(screen), self.source.unit());
        let Estimate { devices, ms_in_1000: [was, is], .. } = self.estimate;
        let (cause, size) = (self.source.name_of(&self.cause, &self.key), self.estimate.size());
        let chance = match self.false_alarm_one_in {
            // The finding is sure only together with the others.
            1 => String::new(),
            one_in => format!(", chance of a false alarm less than 1 in {}", grouped(one_in)),
        };
        format!("{screen}: {cause} {size}, {was:.1} to {is:.1} {unit}, {devices} devices{chance}")
    }
}

impl Answer {
    /// Returns the answer as a text for a terminal; its first word is the verdict.
    #[must_use]
    pub fn to_text(&self, [from, to]: [&str; 2]) -> String {
        let verdict = match self.verdict {
            Verdict::Go => "go: no regression was found",
            Verdict::Stop => "stop: the later version is worse",
            Verdict::NotYet => "not yet",
        };
        let mut text = format!("{verdict}\n");
        let versions = [from, to];
        let Self { coverage, .. } = self;
        if self.source == Source::Ledgers {
            text.push_str("By ledgers; causes are those of captures.\n");
        }
        let _ = writeln!(text, "{}", coverage.to_text(self.source, versions));
        let _ = writeln!(text, "{}", coverage.devices_text(versions));
        if self.all.percent <= 0.0 && self.all.is_sum_apart(false) {
            let _ = writeln!(text, "all jank changed by {}", self.all.size_and_sum());
        }
        let Power { rise_percent, devices, needed } = self.power;
        let rise =
            format!("all jank by {rise_percent:.0} % with a power of {:.0} %", 100.0 * POWER);
        let _ = match (needed, self.power.missing()) {
            (Some(_), Some(0)) => writeln!(text, "power: {devices} devices find a rise of {rise}"),
            (Some(needed), Some(missing)) => {
                writeln!(text, "power: {needed} devices find a rise of {rise}: {missing} more")
            }
            _ => writeln!(
                text,
                "power: unknown for a rise of {rise}, before any device has been compared"
            ),
        };
        for (number, finding) in self.findings.iter().enumerate() {
            let _ = writeln!(text, "finding {}: {}", number + 1, finding.root.to_text());
            for other in &finding.others {
                let _ = writeln!(text, "  with {}", other.to_text());
            }
            for Example { raw_key, link } in &finding.examples {
                let _ = writeln!(text, "  example: {}, /{}", shown(raw_key), shown(link));
            }
        }
        for rise in &self.moved {
            let _ = writeln!(text, "moved from a sibling: {}", rise.to_text());
        }
        text
    }
}
