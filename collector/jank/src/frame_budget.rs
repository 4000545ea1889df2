//! How long a frame may take: the display's refresh period.
//!
//! Best said by the app ([`BudgetSource::Said`]); a system trace shows the vsyncs; an app's own trace
//! shows how far apart its frames begin. Otherwise it is 60 Hz.

use serde::Serialize;
use tracetee_trace::Trace;

/// Displays' rates, Hz.
const RATES: [u64; 12] = [240, 165, 144, 120, 100, 90, 75, 72, 60, 50, 48, 30];
/// How far an interval may be from a rate's, percent.
const TOLERANCE_PERCENT: u64 = 4;
/// Intervals that must agree, and their share of all, percent.
const LEAST_INTERVALS: usize = 10;
const LEAST_PERCENT: usize = 30;

/// A refresh period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FrameBudget {
    /// Nanoseconds.
    pub ns: u64,
    /// Where it is from.
    pub source: BudgetSource,
}

/// Where a refresh period is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetSource {
    /// The capture says it (`refresh_hz`).
    Said,
    /// From the trace's `VSYNC-app` counter.
    Vsync,
    /// From how far apart frames begin.
    Spacing,
    /// 60 Hz: nothing told.
    Assumed,
}

impl BudgetSource {
    /// As it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Vsync => "vsync",
            Self::Spacing => "spacing",
            Self::Assumed => "assumed",
        }
    }
}

impl FrameBudget {
    const fn from_rate(hz: u64, source: BudgetSource) -> Self {
        Self { ns: (1_000_000_000 + hz / 2) / hz, source }
    }

    /// Finds the budget of a trace's frames, which start at `frame_starts_ns`.
    pub(crate) fn find(trace: &Trace, frame_starts_ns: impl Iterator<Item = u64>) -> Self {
        let said = trace.about.get("refresh_hz").and_then(serde_json::Value::as_f64);
        if let Some(hz) = said.filter(|hz| (1.0..=1000.0).contains(hz)) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between a millisecond and a second"
            )]
            let ns = (1e9 / hz).round() as u64;
            return Self { ns, source: BudgetSource::Said };
        }
        let vsyncs = trace
            .counters
            .iter()
            .filter(|counter| trace.names.text(counter.name) == "VSYNC-app")
            .map(|counter| counter.at_ns);
        if let Some(hz) = rate(vsyncs) {
            return Self::from_rate(hz, BudgetSource::Vsync);
        }
        match rate(frame_starts_ns) {
            Some(hz) => Self::from_rate(hz, BudgetSource::Spacing),
            None => Self::from_rate(60, BudgetSource::Assumed),
        }
    }
}

/// The rate that most of the intervals have.
fn rate(times: impl Iterator<Item = u64>) -> Option<u64> {
    let times: Vec<u64> = times.collect();
    let intervals: Vec<u64> = times
        .windows(2)
        .filter_map(|pair| Some(pair.get(1)?.saturating_sub(*pair.first()?)))
        .collect();
    let agree = |hz: &u64| {
        let period = 1_000_000_000 / hz;
        let near =
            |&&interval: &&u64| interval.abs_diff(period) * 100 <= period * TOLERANCE_PERCENT;
        intervals.iter().filter(near).count()
    };
    let best = RATES.into_iter().max_by_key(agree)?;
    let count = agree(&best);
    let is_enough = count >= LEAST_INTERVALS && count * 100 >= intervals.len() * LEAST_PERCENT;
    is_enough.then_some(best)
}
