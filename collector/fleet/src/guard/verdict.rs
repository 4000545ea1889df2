//! The guard's answer: go, stop, or not yet.
//!
//! Stop: there is a finding. Go: there is none, nothing is rejected that later days must still show, and so many devices were
//! compared that a rise of all jank by the stated share would have been found with the stated power. Otherwise not yet.

use super::findings::{Example, Finding, Grown, Rise, findings, rise};
use super::fleet::Fleet;
use super::power::{POWER, devices_needed};
use super::{EARLY, Guard, Hypothesis, LATER_DAYS, LEVEL, Part, Rejected, Use};
use crate::significance::real;
use serde::Serialize;
use std::fmt::Write;
use tracetee_trace::shown;

/// Devices from which on the spread of differences is known.
const LEAST_DEVICES: u64 = 30;

/// The verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No regression, and one would have been found.
    Go,
    /// A regression.
    Stop,
    /// Too few devices.
    #[default]
    NotYet,
}

/// The power of what was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Power {
    /// Rise of all jank that would be found, percent.
    pub rise_percent: f64,
    /// Probability of finding it.
    pub power: f64,
    /// True if the devices are those that sent both versions.
    pub is_paired: bool,
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
    /// Devices that sent both versions.
    pub pairs: u64,
    /// Devices of the later version that were compared with one of the earlier version.
    pub strangers: u64,
    /// First devices of the later version, which are compared as pairs only.
    pub early: u64,
    /// Findings, the strongest first.
    pub findings: Vec<Finding>,
    /// Rises that later days must still show.
    pub waiting: Vec<Rise>,
    /// Rises that went away again.
    pub over: Vec<Rise>,
    /// Cost that moved from a sibling.
    pub moved: Vec<Rise>,
    /// The power.
    pub power: Power,
}

/// Returns the answer for a rise of all jank by so many percent.
#[must_use]
pub fn answer(guard: &Guard, fleet: &Fleet, rise_percent: f64) -> Answer {
    let found = findings(guard, fleet);
    let rejected = |state: Rejected| {
        let mut all: Vec<Hypothesis> = guard.evidence.keys().copied().collect();
        all.retain(|&hypothesis| guard.rejected(hypothesis) == Some(state));
        all.sort_unstable();
        all.into_iter().filter_map(|hypothesis| rise(guard, hypothesis)).collect::<Vec<_>>()
    };
    let (waiting, over) = (rejected(Rejected::Waiting), rejected(Rejected::Over));
    let used = |of: Use| guard.used.iter().filter(|(used, _)| *used == of).count() as u64;
    let power = [Part::Pairs, Part::Strangers]
        .map(|part| power(guard, part, rise_percent))
        .into_iter()
        .min_by_key(|power| power.missing().unwrap_or(u64::MAX))
        .unwrap_or_default();
    let verdict = match (found.findings.is_empty(), waiting.is_empty(), power.missing()) {
        (false, ..) => Verdict::Stop,
        (true, true, Some(0)) => Verdict::Go,
        _ => Verdict::NotYet,
    };
    Answer {
        verdict,
        level: LEVEL,
        pairs: used(Use::Pair),
        strangers: used(Use::Later),
        early: guard.early,
        findings: found.findings,
        waiting,
        over,
        moved: found.moved,
        power,
    }
}

fn power(guard: &Guard, part: Part, rise_percent: f64) -> Power {
    let hypothesis = Hypothesis { part, class: None, series: 0 };
    let devices = guard.devices(hypothesis);
    let mut power =
        Power { rise_percent, power: POWER, is_paired: part == Part::Pairs, devices, needed: None };
    if let Some(evidence) = guard.evidence(hypothesis).filter(|_| devices >= LEAST_DEVICES) {
        let rise = evidence.earlier / real(devices) * rise_percent / 100.0;
        let square = evidence.wealth.difference_squares / real(devices);
        let needed = -(LEVEL * guard.weight(hypothesis)).ln();
        power.needed = devices_needed(rise, square, needed);
    }
    power
}

impl Rise {
    /// Returns the rise as a text: name, size, evidence.
    #[must_use]
    pub fn to_text(&self) -> String {
        let screen = match self.screen.as_deref() {
            None => "all screens",
            Some("") => "no screen",
            Some(screen) => screen,
        };
        let screen = shown(screen);
        let cause = if self.cause.is_empty() {
            "all jank".to_owned()
        } else {
            format!("{} {}", shown(&self.cause), shown(&self.key))
        };
        let mut text = format!("{screen}: {cause} {:+.1} ms in 1,000 frames", self.rise);
        if self.earlier > 0.0 {
            let _ = write!(text, " ({:+.0} %)", 100.0 * self.rise / self.earlier);
        }
        let kind = if self.is_paired { "that sent both versions" } else { "with one like each" };
        let _ = write!(text, ", {} devices {kind}", self.devices);
        if let Some(class) = self.class {
            let _ = write!(text, ", on models of class {class}");
        }
        let _ = write!(text, ", evidence 10^{:.1}", self.log10_evidence);
        text
    }
}

impl Answer {
    /// Returns the answer as a text for a terminal; its first word is the verdict.
    #[must_use]
    pub fn to_text(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Go => "go: no regression was found",
            Verdict::Stop => "stop: the later version is worse",
            Verdict::NotYet => "not yet",
        };
        let mut text = format!("{verdict}\n");
        let Self { pairs, strangers, early, .. } = self;
        let _ = writeln!(
            text,
            "compared: {pairs} devices that sent both versions, {strangers} with one that is like each; \
             {early} of the first {EARLY} are left out of the latter"
        );
        let Power { rise_percent, power, is_paired, devices, needed } = self.power;
        let kind = if is_paired {
            "devices that sent both versions"
        } else {
            "devices with one like each"
        };
        let of = format!("all jank by {rise_percent:.0} % with a power of {:.0} %", 100.0 * power);
        let _ = match (needed, self.power.missing()) {
            (Some(_), Some(0)) => writeln!(text, "power: {devices} {kind} find a rise of {of}"),
            (Some(needed), Some(missing)) => {
                writeln!(text, "power: {needed} {kind} find a rise of {of}: {missing} devices more")
            }
            _ => writeln!(
                text,
                "power: unknown for a rise of {of}, before {LEAST_DEVICES} devices with jank have been compared"
            ),
        };
        for (number, finding) in self.findings.iter().enumerate() {
            let _ = writeln!(text, "finding {}: {}", number + 1, finding.root.to_text());
            for other in &finding.others {
                let _ = writeln!(text, "  with {}", other.to_text());
            }
            for Grown { name, ms: [before, after] } in &finding.grown {
                let _ = writeln!(
                    text,
                    "  {}: {before:.1} -> {after:.1} ms in a late frame",
                    shown(name)
                );
            }
            for Example { raw_key, link, frame, ms } in &finding.examples {
                let _ = writeln!(
                    text,
                    "  frame {frame} ({ms:.1} ms) of {}, /{}",
                    shown(raw_key),
                    shown(link)
                );
            }
        }
        for rise in &self.waiting {
            let _ = writeln!(text, "to be shown by {LATER_DAYS} later days: {}", rise.to_text());
        }
        for rise in &self.over {
            let _ = writeln!(text, "went away again: {}", rise.to_text());
        }
        for rise in &self.moved {
            let _ = writeln!(text, "moved from a sibling: {}", rise.to_text());
        }
        text
    }
}
