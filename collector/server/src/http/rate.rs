//! Limits rates by a credit that grows with time and is spent.

use crate::budget::Budget;
use std::time::{Duration, Instant};

/// Loss reports of an app: maximum at once, and then per second. One device sends one for some
/// hours of losses.
const REPORTS_AT_ONCE: f64 = 2_000.0;
const REPORTS_PER_S: f64 = 50.0;
/// Parts of ledgers of an app: a million devices send 12 a second, most of them soon after midnight.
const LEDGERS_AT_ONCE: f64 = 20_000.0;
const LEDGERS_PER_S: f64 = 500.0;
/// Bytes of a report that cost as much as another report.
const BYTES_OF_A_REPORT: f64 = 4_096.0;
/// Number of distinguished apps: without tokens one, with tokens as many as the file has.
const MAX_APPS: u64 = 10_000;

/// Bytes of a capture that cost as much as another capture: somewhat more than one of 10 s has.
const BYTES_OF_A_CAPTURE: u64 = 64 * 1024;
/// Number of seconds of its rate that an app may send at once after an idle time.
const SECONDS_AT_ONCE: f64 = 20.0;
/// Maximum wait of a capture for its credit. If all early ones were refused instead, they would be retried together.
const MOST_WAIT: Duration = Duration::from_secs(2);

/// A credit of each app.
#[derive(Debug)]
pub(super) struct Credits {
    at_once: f64,
    per_s: f64,
    by_app: Budget<String, (), (f64, Instant)>,
}

impl Credits {
    /// For loss reports.
    pub(super) fn of_reports() -> Self {
        Self::new(REPORTS_AT_ONCE, REPORTS_PER_S)
    }

    /// For parts of ledgers.
    pub(super) fn of_ledgers() -> Self {
        Self::new(LEDGERS_AT_ONCE, LEDGERS_PER_S)
    }

    /// For captures, at a given number a second.
    pub(super) fn of_captures(per_s: u32) -> Self {
        let per_s = f64::from(per_s);
        Self::new(per_s * SECONDS_AT_ONCE, per_s)
    }

    fn new(at_once: f64, per_s: f64) -> Self {
        Self { at_once, per_s, by_app: Budget::new(MAX_APPS, MAX_APPS) }
    }

    /// True if a report of this size is admitted now; spends its credit.
    #[allow(clippy::cast_precision_loss, reason = "a megabyte at most")]
    pub(super) fn admits_report(&mut self, app: &str, bytes: usize, now: Instant) -> bool {
        self.admits(app, 1.0 + bytes as f64 / BYTES_OF_A_REPORT, now)
    }

    /// Spends the credit of a capture of this size, and returns the wait until the app has earned it; `None` if that is too long.
    /// A capture of unknown size counts as a small one.
    #[allow(clippy::cast_precision_loss, reason = "thousands at most")]
    pub(super) fn wait_of_capture(
        &mut self,
        app: &str,
        bytes: u64,
        now: Instant,
    ) -> Option<Duration> {
        let cost = bytes.div_ceil(BYTES_OF_A_CAPTURE).max(1) as f64;
        self.wait(app, cost, MOST_WAIT, now)
    }

    fn admits(&mut self, app: &str, cost: f64, now: Instant) -> bool {
        self.wait(app, cost, Duration::ZERO, now).is_some()
    }

    fn wait(&mut self, app: &str, cost: f64, most: Duration, now: Instant) -> Option<Duration> {
        let app = app.to_owned();
        let known = self.by_app.get(&app, &()).copied().unwrap_or((self.at_once, now));
        let credit = credit(known, self.at_once, self.per_s, now);
        // A cost beyond the maximum credit waits until the credit is full.
        let missing = (cost.min(self.at_once) - credit).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.per_s).ok();
        let wait = wait.filter(|wait| *wait <= most);
        let left = if wait.is_some() { credit - cost } else { credit };
        // If there are too many apps, the one that was silent for longest is forgotten; its credit is full by then.
        self.by_app.put(app, (), 1, (left, now));
        wait
    }
}

/// Returns an app's credit at a time, including the credit earned since.
fn credit((credit, at): (f64, Instant), at_once: f64, per_s: f64, now: Instant) -> f64 {
    (credit + now.saturating_duration_since(at).as_secs_f64() * per_s).min(at_once)
}

/// Time limit of a body, which arriving bytes extend.
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

    /// Registers arrived bytes. `false`: on the whole they arrive too slowly.
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
        let (mut reports, begin) = (Credits::of_reports(), Instant::now());
        let count = |reports: &mut Credits, app, bytes, s| {
            let now = begin + Duration::from_secs(s);
            (0..70_000).filter(|_| reports.admits_report(app, bytes, now)).count()
        };
        assert!((1_900..=2_000).contains(&count(&mut reports, "a", 100, 0)));
        assert!((1_900..=2_000).contains(&count(&mut reports, "b", 100, 0)), "another app");
        assert!((1_400..=1_500).contains(&count(&mut reports, "a", 100, 30)));
        assert_eq!(count(&mut reports, "c", 1 << 20, 0), 7);
    }

    #[test]
    fn an_app_sends_captures_at_its_rate_and_leaves_that_of_others() {
        let (mut captures, begin) = (Credits::of_captures(250), Instant::now());
        let mut waits = |app: &str, bytes, s| {
            let now = begin + Duration::from_secs(s);
            let waits = (0..20_000).filter_map(|_| captures.wait_of_capture(app, bytes, now));
            waits.map(|wait| wait.as_millis()).collect::<Vec<_>>()
        };
        let at_once = waits("hostile", 100, 0);
        assert!(at_once[..5_000].iter().all(|&ms| ms == 0), "saved up");
        let late: Vec<u128> = (1..=500).map(|number| 4 * number).collect();
        assert_eq!(at_once[5_000..], late, "one each 4 ms, for 2 s");
        assert_eq!(waits("hostile", 100, 1), late[250..]);
        assert_eq!(waits("honest", 100, 1)[..5_000], [0; 5_000]);
        assert_eq!(waits("large", 256 << 20, 1), [0]);
        // The largest costs 4,096 captures.
        assert_eq!(waits("large", 256 << 20, 10), []);
        assert_eq!(waits("large", 256 << 20, 14), [0]);
        let mut names = 0..2 * MAX_APPS;
        assert!(names.all(|name| captures.wait_of_capture(&name.to_string(), 1, begin).is_some()));
        assert!(
            captures.wait_of_capture("another", 1, begin).is_some(),
            "no number of apps keeps one out"
        );
        // But nine thousand others do not give it a new credit.
        let is_known_after = |others: u32| {
            let mut captures = Credits::of_captures(250);
            captures.wait_of_capture("first", 1 << 40, begin);
            (0..others).for_each(|name| {
                captures.wait_of_capture(&name.to_string(), 1, begin);
            });
            captures.wait_of_capture("first", 1, begin).is_none()
        };
        assert_eq!([9_000, 11_000].map(is_known_after), [true, false]);
    }

    #[test]
    fn a_sender_that_was_quick_may_not_be_slow_for_hours() {
        let begin = Instant::now();
        let at = |s| begin + Duration::from_secs(s);
        let mut pace = Pace::new(begin);
        assert!(pace.takes(200 << 20, at(1)));
        assert!(pace.takes(1, at(20)) && pace.takes(1, at(40)) && pace.takes(1, at(60)));
        assert!(!pace.takes(1, at(80)));
        // A phone on a slow network comes through.
        let mut pace = Pace::new(begin);
        assert!((1..10_000).all(|s| pace.takes(300, at(s))));
        let mut pace = Pace::new(begin);
        assert!(!(1..10_000).all(|s| pace.takes(200, at(s))));
    }
}
