//! Limits rates by a credit that grows with time and is spent.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Loss reports of an app: as many at once, and then so many a second. One device sends one for some
/// hours of losses.
const REPORTS_AT_ONCE: f64 = 2_000.0;
const REPORTS_PER_S: f64 = 50.0;
/// Bytes of a report that cost as much as another report.
const BYTES_OF_A_REPORT: f64 = 4_096.0;
/// Apps that are told apart: without tokens there is one, with tokens as many as the file has.
const MAX_APPS: usize = 10_000;

/// The credit that each app has for loss reports.
#[derive(Debug, Default)]
pub(super) struct Reports {
    by_app: HashMap<String, (f64, Instant)>,
}

impl Reports {
    /// True if a report of this size may come in now; spends its credit.
    #[allow(clippy::cast_precision_loss, reason = "a megabyte at most")]
    pub(super) fn admit(&mut self, app: &str, bytes: usize, now: Instant) -> bool {
        if self.by_app.len() >= MAX_APPS && !self.by_app.contains_key(app) {
            return false;
        }
        let known = self.by_app.entry(app.to_owned()).or_insert((REPORTS_AT_ONCE, now));
        let earned = now.saturating_duration_since(known.1).as_secs_f64() * REPORTS_PER_S;
        let credit = (known.0 + earned).min(REPORTS_AT_ONCE);
        let cost = 1.0 + bytes as f64 / BYTES_OF_A_REPORT;
        let is_admitted = credit >= cost;
        *known = (if is_admitted { credit - cost } else { credit }, now);
        is_admitted
    }
}

/// Time that a body has, which what comes of it makes longer.
#[derive(Debug)]
pub(super) struct Pace {
    left: Duration,
    looked: Instant,
}

/// Maximum pause, which is also the maximum credit: a client that has sent much at once must not then be
/// silent for hours.
const FREE_TIME: Duration = Duration::from_secs(60);
/// Minimum rate beyond that: a tenth of the slowest mobile networks.
const LEAST_BYTES_PER_S: u64 = 256;

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: FREE_TIME, looked: now }
    }

    /// Some more has come. `false`: all in all it comes too slowly.
    pub(super) fn takes(&mut self, bytes: usize, now: Instant) -> bool {
        let gone = now.saturating_duration_since(self.looked);
        self.looked = now;
        let Some(left) = self.left.checked_sub(gone) else { return false };
        let earned = Duration::from_millis(bytes as u64 * 1000 / LEAST_BYTES_PER_S);
        self.left = (left + earned).min(FREE_TIME);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_capped_by_app_and_by_bytes() {
        let (mut reports, begin) = (Reports::default(), Instant::now());
        let count = |reports: &mut Reports, app, bytes, s| {
            let now = begin + Duration::from_secs(s);
            (0..70_000).filter(|_| reports.admit(app, bytes, now)).count()
        };
        assert!((1_900..=2_000).contains(&count(&mut reports, "a", 100, 0)));
        assert!((1_900..=2_000).contains(&count(&mut reports, "b", 100, 0)), "another app");
        assert!((1_900..=2_000).contains(&count(&mut reports, "a", 100, 40)));
        assert_eq!(count(&mut reports, "c", 1 << 20, 0), 7);
    }

    #[test]
    fn who_was_quick_may_not_be_slow_for_hours() {
        let begin = Instant::now();
        let at = |s| begin + Duration::from_secs(s);
        let mut pace = Pace::new(begin);
        assert!(pace.takes(200 << 20, at(1)));
        assert!(pace.takes(1, at(20)) && pace.takes(1, at(40)) && pace.takes(1, at(60)));
        assert!(!pace.takes(1, at(80)));
        // A phone on a slow network comes through.
        let mut pace = Pace::new(begin);
        assert!((1..10_000).all(|s| pace.takes(300, at(s))));
    }
}
