//! The time that a frame may take: the display's refresh period.
//!
//! The app's statement has precedence ([`BudgetSource::Said`]); a system trace shows the vsyncs; an app's own trace shows
//! the intervals between its frames. Otherwise it is 60 Hz.

use serde::Serialize;
use strum::IntoStaticStr;
use tracetee_protocol::json::Decimal;
use tracetee_trace::Trace;

/// Refresh rates of displays, Hz.
const RATES: [u64; 12] = [240, 165, 144, 120, 100, 90, 75, 72, 60, 50, 48, 30];
/// Tolerated deviation of an interval from that of a rate, percent.
const TOLERANCE_PERCENT: u64 = 4;
/// Minimum number of intervals that must agree, and their minimum share, percent.
const LEAST_INTERVALS: usize = 10;
const LEAST_PERCENT: usize = 30;

/// The time that a frame may take: one refresh period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FrameBudget {
    /// Nanoseconds.
    pub ns: u64,
    /// Origin of the period.
    pub source: BudgetSource,
}

/// Origin of a refresh period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum BudgetSource {
    /// The capture's header (`refresh_hz`).
    Said,
    /// The trace's `VSYNC-app` counter.
    Vsync,
    /// The spacing of frames.
    Spacing,
    /// None: 60 Hz is assumed.
    Assumed,
}

impl FrameBudget {
    const fn from_rate(hz: u64, source: BudgetSource) -> Self {
        Self { ns: Self::period_ns(hz), source }
    }

    /// Returns the period of a rate.
    pub(crate) const fn period_ns(hz: u64) -> u64 {
        (1_000_000_000 + hz / 2) / hz
    }

    /// Finds the budget of a trace's frames, which start at `frame_starts_ns`.
    pub(crate) fn find(trace: &Trace, frame_starts_ns: impl Iterator<Item = u64>) -> Self {
        let said = trace.about.refresh_hz.map(Decimal::to_f64);
        if let Some(hz) = said.filter(|hz| (1.0..=1000.0).contains(hz)) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between a millisecond and a second"
            )]
            let ns = (1e9 / hz).round() as u64;
            return Self { ns, source: BudgetSource::Said };
        }
        if let Some(hz) = rate(&vsyncs_of_app(trace)) {
            return Self::from_rate(hz, BudgetSource::Vsync);
        }
        match rate(&frame_starts_ns.collect::<Vec<_>>()) {
            Some(hz) => Self::from_rate(hz, BudgetSource::Spacing),
            None => Self::from_rate(60, BudgetSource::Assumed),
        }
    }
}

/// Returns the times of the app's vsyncs, in order.
pub(crate) fn vsyncs_of_app(trace: &Trace) -> Vec<u64> {
    edges(trace, "VSYNC-app")
}

/// Returns the times at which a counter of SurfaceFlinger changed, in order.
pub(crate) fn edges(trace: &Trace, name: &str) -> Vec<u64> {
    let names = trace.names.select(|one| one == name);
    let of_name = trace.counters.iter().filter(|counter| names.has(counter.name));
    let mut edges: Vec<u64> = of_name.map(|counter| counter.at_ns).collect();
    edges.sort_unstable();
    edges
}

/// True if an interval is the period of a rate.
fn fits(hz: u64, interval_ns: u64) -> bool {
    let period_ns = 1_000_000_000 / hz;
    interval_ns.abs_diff(period_ns) <= period_ns * TOLERANCE_PERCENT / 100
}

/// Returns the rate whose period is nearest to an interval, if one fits.
pub(crate) fn rate_of(interval_ns: u64) -> Option<u64> {
    let fitting = RATES.into_iter().filter(|&hz| fits(hz, interval_ns));
    fitting.min_by_key(|&hz| interval_ns.abs_diff(1_000_000_000 / hz))
}

/// Returns the rate that most intervals fit.
fn rate(times: &[u64]) -> Option<u64> {
    let intervals: Vec<u64> = times
        .windows(2)
        .filter_map(|pair| Some(pair.get(1)?.saturating_sub(*pair.first()?)))
        .collect();
    let agree = |hz: &u64| intervals.iter().filter(|&&interval| fits(*hz, interval)).count();
    let best = RATES.into_iter().max_by_key(agree)?;
    let count = agree(&best);
    let is_enough = count >= LEAST_INTERVALS && count * 100 >= intervals.len() * LEAST_PERCENT;
    is_enough.then_some(best)
}
