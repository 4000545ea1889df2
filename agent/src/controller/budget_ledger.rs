//! The ledger of captures: budgets and cool-downs are computed from it, across restarts of the
//! process.
//!
//! Times are kept by both clocks. Within one boot the boot clock, which cannot be set, gives the age of a capture; across
//! boots the wall clock does, and a capture from the future counts as made now. [`super::state_dir`] stores the ledger as
//! JSON.

use std::time::{SystemTime, UNIX_EPOCH};
use tracetee_protocol::SpentReport;
use tracetee_protocol::death;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;
use tracetee_protocol::remote_config::Budget;
use tracetee_recorder::clock;

/// The time, by both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the device's start, ms.
    pub(crate) boot_ms: u64,
    /// Since the epoch, ms.
    pub(crate) real_ms: u64,
}

impl Now {
    /// Reads both clocks.
    pub(crate) fn read() -> Self {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let real_ms = u64::try_from(real.as_millis()).unwrap_or(u64::MAX);
        Self { boot_ms: clock::boot_ns() / 1_000_000, real_ms }
    }
}

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Age up to which captures are remembered: the longest cool-down or period.
const KEPT_MS: u64 = 30 * DAY_MS;
/// Captures that are remembered: more than any budget allows in a day.
const MAX_ENTRIES: usize = 2048;

record! {
    /// One capture.
    #[derive(Eq)]
    pub(crate) struct Entry {
        /// The id of the window.
        pub(crate) window: String = String::new(),
        /// The number of the capture on this device, from wall-clock ms and process id.
        pub(crate) number: u64 = 0,
        /// Time at which it began.
        begun: Stamp = Stamp::default(),
        /// Time at which its file was written, and the bytes of the file.
        file: Option<(Stamp, u64)> = None,
    }

    /// A time that can be distinguished from times of another boot.
    #[derive(Eq)]
    struct Stamp {
        /// The id of the boot.
        boot: String = String::new(),
        /// Since that boot, ms.
        boot_ms: u64 = 0,
        /// Since the epoch, ms.
        real_ms: u64 = 0,
    }

    /// The file of the ledger.
    #[derive(Eq)]
    struct LedgerFile {
        /// The captures, the oldest first.
        entries: Vec<Entry> = Vec::new(),
    }
}

/// All captures of the last days.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    kept: LedgerFile,
    /// The id of the present boot of the device.
    boot: String,
    /// The id of this process.
    pid: u32,
}

/// Bits of a capture's number that are the process's id; above them is the time.
const PID_BITS: u32 = 22;

impl Ledger {
    /// The ledger that [`Ledger::to_json`] has written; an empty one for a damaged file.
    pub(crate) fn from_json(json: &[u8]) -> Self {
        let kept = record::parse(json, Limits::DEFAULT).unwrap_or_default();
        Self { kept, ..Self::default() }
    }

    /// The content of its file.
    pub(crate) fn to_json(&self) -> String {
        record::to_json(&self.kept)
    }

    /// The same captures, seen in the boot of that id by that process.
    pub(crate) fn for_boot(mut self, boot: &str, pid: u32) -> Self {
        boot.clone_into(&mut self.boot);
        self.pid = pid;
        self
    }

    fn stamp(&self, now: Now) -> Stamp {
        Stamp { boot: self.boot.clone(), boot_ms: now.boot_ms, real_ms: now.real_ms }
    }

    /// The age of `stamp`, ms.
    fn age_ms(&self, stamp: &Stamp, now: Now) -> u64 {
        if stamp.boot == self.boot {
            now.boot_ms.saturating_sub(stamp.boot_ms)
        } else {
            now.real_ms.saturating_sub(stamp.real_ms)
        }
    }

    /// Forgets captures that are too old to matter, and moves those from the future to now.
    fn tidy(&mut self, now: Now) {
        for entry in &mut self.kept.entries {
            // If the clock was set back, a capture ages from now on.
            entry.begun.real_ms = entry.begun.real_ms.min(now.real_ms);
            if let Some((written, _)) = &mut entry.file {
                written.real_ms = written.real_ms.min(now.real_ms);
            }
        }
        let mut entries = std::mem::take(&mut self.kept.entries);
        entries.retain(|entry| self.age_ms(&entry.begun, now) < KEPT_MS);
        let over = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..over);
        self.kept.entries = entries;
    }

    /// Counts captures. Captures of process ends without a recorder are counted separately.
    fn begun_within(&self, now: Now, ms: u64, of_deaths: bool) -> u64 {
        let is_in = |entry: &&Entry| {
            (entry.window == death::WINDOW) == of_deaths && self.age_ms(&entry.begun, now) < ms
        };
        self.kept.entries.iter().filter(is_in).count() as u64
    }

    /// Counts the captures begun in the last hour and day, and the bytes of the day.
    pub(crate) fn spent(&self, now: Now) -> SpentReport {
        SpentReport {
            captures_in_hour: self.begun_within(now, HOUR_MS, false),
            captures_in_day: self.begun_within(now, DAY_MS, false),
            bytes_in_day: self
                .kept
                .entries
                .iter()
                .filter_map(|entry| entry.file.as_ref())
                .filter(|(written, _)| self.age_ms(written, now) < DAY_MS)
                .map(|(_, bytes)| bytes)
                .sum(),
        }
    }

    /// The reason for which no capture of `window` may begin now; `None` when one may.
    pub(crate) fn refuses(
        &self,
        window: &str,
        cool_down_s: u64,
        budget: &Budget,
        now: Now,
    ) -> Option<String> {
        let spent = self.spent(now);
        let full = |used: u64, limit: u64, what: &str| {
            (used >= limit).then(|| format!("budget: {used} of {limit} {what} are used"))
        };
        if window == death::WINDOW {
            let deaths = self.begun_within(now, DAY_MS, true);
            return full(deaths, budget.captures_per_day.into(), "ends of processes a day")
                .or_else(|| full(spent.bytes_in_day, budget.bytes_per_day, "bytes a day"));
        }
        full(spent.captures_in_hour, budget.captures_per_hour.into(), "captures an hour")
            .or_else(|| {
                full(spent.captures_in_day, budget.captures_per_day.into(), "captures a day")
            })
            .or_else(|| full(spent.bytes_in_day, budget.bytes_per_day, "bytes a day"))
            .or_else(|| {
                let of_window = self.kept.entries.iter().filter(|entry| entry.window == window);
                let age_ms = of_window.map(|entry| self.age_ms(&entry.begun, now)).min()?;
                let left_ms = (cool_down_s.saturating_mul(1000)).checked_sub(age_ms)?;
                (left_ms > 0).then(|| format!("cool-down: {} s more", left_ms.div_ceil(1000)))
            })
    }

    /// True if `window` has had a capture in the present period.
    pub(crate) fn had_one_in_period(
        &self,
        window: &str,
        every_s: u64,
        offset_s: u64,
        now: Now,
    ) -> bool {
        let period = |real_ms: u64| (real_ms / 1000).saturating_sub(offset_s) / every_s.max(1);
        self.kept.entries.iter().any(|entry| {
            entry.window == window && period(entry.begun.real_ms) == period(now.real_ms)
        })
    }

    /// Records a capture that begins now, and returns its number.
    pub(crate) fn enter(&mut self, window: &str, now: Now) -> u64 {
        self.tidy(now);
        let mut number = now.real_ms << PID_BITS | u64::from(self.pid);
        while self.kept.entries.iter().any(|entry| entry.number == number) {
            number += 1 << PID_BITS;
        }
        self.kept.entries.push(Entry {
            window: window.to_owned(),
            number,
            begun: self.stamp(now),
            file: None,
        });
        number
    }

    /// Records the bytes of a capture's file. `false` if they exceed the day's budget: then the file must not be kept, and
    /// nothing is recorded.
    pub(crate) fn try_record_bytes(
        &mut self,
        number: u64,
        bytes: u64,
        budget: &Budget,
        now: Now,
    ) -> bool {
        if self.spent(now).bytes_in_day.saturating_add(bytes) > budget.bytes_per_day {
            return false;
        }
        let stamp = self.stamp(now);
        if let Some(entry) = self.kept.entries.iter_mut().find(|entry| entry.number == number) {
            entry.file = Some((stamp, bytes));
        }
        true
    }

    /// Returns the capture that was entered last.
    #[cfg(test)]
    pub(crate) fn newest(&self) -> Option<&Entry> {
        self.kept.entries.last()
    }

    /// Adds the captures that other processes of the app have entered since.
    pub(crate) fn merge(&mut self, other: Self) {
        for entry in other.kept.entries {
            match self.kept.entries.iter_mut().find(|known| known.number == entry.number) {
                Some(known) => known.file = known.file.take().or(entry.file),
                None => self.kept.entries.push(entry),
            }
        }
        self.kept.entries.sort_unstable_by_key(|entry| entry.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(boot_s: u64, real_s: u64) -> Now {
        Now { boot_ms: boot_s * 1000, real_ms: real_s * 1000 }
    }

    fn budget() -> Budget {
        Budget {
            captures_per_hour: 2,
            captures_per_day: 3,
            bytes_per_day: 100,
            ..Budget::default()
        }
    }

    #[test]
    fn captures_are_refused_by_hour_by_day_by_bytes_and_by_cool_down() {
        let mut ledger = Ledger::default().for_boot("a", 1);
        assert_eq!(ledger.refuses("w", 60, &budget(), at(0, 1000)), None);
        let first = ledger.enter("w", at(0, 1000));
        let said = |ledger: &Ledger, window: &str, now| {
            ledger.refuses(window, 60, &budget(), now).unwrap_or_default()
        };
        assert_eq!(said(&ledger, "w", at(1, 1001)), "cool-down: 59 s more");
        assert_eq!(said(&ledger, "other", at(1, 1001)), "");
        assert_eq!(said(&ledger, "w", at(60, 1060)), "");
        ledger.enter("w", at(60, 1060));
        assert_eq!(said(&ledger, "w", at(200, 1200)), "budget: 2 of 2 captures an hour are used");
        assert_eq!(said(&ledger, "w", at(3600, 4600)), "");
        ledger.enter("w", at(3600, 4600));
        assert_eq!(said(&ledger, "w", at(9000, 9999)), "budget: 3 of 3 captures a day are used");
        assert!(!ledger.try_record_bytes(first, 101, &budget(), at(9000, 9999)));
        assert!(ledger.try_record_bytes(first, 100, &budget(), at(9000, 9999)));
        assert!(said(&ledger, "w", at(86_400, 87_400)).starts_with("budget: 100 of 100 bytes"));
        assert_eq!(said(&ledger, "w", at(95_400, 96_400)), "");
    }

    #[test]
    fn ends_of_processes_without_a_recorder_have_captures_of_their_own() {
        let mut ledger = Ledger::default().for_boot("a", 1);
        for _ in 0..3 {
            assert_eq!(ledger.refuses(death::WINDOW, 0, &budget(), at(0, 1000)), None);
            ledger.enter(death::WINDOW, at(0, 1000));
        }
        let said = ledger.refuses(death::WINDOW, 0, &budget(), at(0, 1000)).unwrap_or_default();
        assert_eq!(said, "budget: 3 of 3 ends of processes a day are used");
        assert_eq!(ledger.refuses("w", 60, &budget(), at(0, 1000)), None);
        assert_eq!(ledger.spent(at(0, 1000)).captures_in_day, 0);
    }

    #[test]
    fn setting_the_clock_neither_frees_nor_blocks_captures_within_a_boot() {
        let mut ledger = Ledger::default().for_boot("a", 1);
        ledger.enter("w", at(100, 1_000_000));
        for real_s in [0, 1_000_000_000] {
            assert!(ledger.refuses("w", 60, &budget(), at(110, real_s)).is_some(), "{real_s}");
            assert!(ledger.refuses("w", 60, &budget(), at(160, real_s)).is_none(), "{real_s}");
        }
    }

    #[test]
    fn after_a_restart_of_the_device_the_wall_clock_counts_and_the_future_is_now() {
        let mut ledger = Ledger::default().for_boot("a", 1);
        ledger.enter("w", at(100, 1_000_000));
        let mut ledger = ledger.for_boot("b", 1);
        assert!(ledger.refuses("w", 60, &budget(), at(5, 1_000_030)).is_some());
        assert!(ledger.refuses("w", 60, &budget(), at(5, 1_000_060)).is_none());
        // Set back by days: it counts from now, not until that day comes again.
        assert!(ledger.refuses("w", 60, &budget(), at(5, 500_000)).is_some());
        ledger.enter("other", at(5, 500_000));
        let budget = Budget { captures_per_hour: 3, ..budget() };
        assert!(ledger.refuses("w", 60, &budget, at(6, 500_001)).is_some());
        assert!(ledger.refuses("w", 60, &budget, at(66, 500_061)).is_none());
    }

    #[test]
    fn a_schedule_has_one_capture_a_period() {
        let mut ledger = Ledger::default().for_boot("a", 1);
        let had = |ledger: &Ledger, real_s| ledger.had_one_in_period("w", 3600, 100, at(0, real_s));
        assert!(!had(&ledger, 3700));
        ledger.enter("w", at(0, 3700));
        assert!(had(&ledger, 7299));
        assert!(!had(&ledger, 7300));
    }

    #[test]
    fn processes_merge_each_other_s_entries() {
        let mut mine = Ledger::default().for_boot("a", 1);
        let mut theirs = Ledger::default().for_boot("a", 2);
        mine.enter("w", at(1, 1));
        theirs.enter("v", at(1, 1));
        mine.merge(theirs.clone());
        theirs.merge(mine.clone());
        assert_eq!(mine.spent(at(1, 1)).captures_in_hour, 2);
        assert_eq!(theirs.spent(at(1, 1)).captures_in_hour, 2);
        // Twice in one moment is two.
        assert_ne!(mine.enter("x", at(1, 1)), mine.enter("x", at(1, 1)));
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written_and_a_damaged_one_is_empty() {
        let mut ledger = Ledger::default().for_boot("a", 1);
        let number = ledger.enter("w\"1", at(1, 2));
        ledger.enter("v", at(2, 3));
        assert!(ledger.try_record_bytes(number, 7, &budget(), at(3, 4)));
        let json = ledger.to_json();
        assert_eq!(Ledger::from_json(json.as_bytes()).for_boot("a", 1), ledger);
        // Ledgers on devices have this form.
        let kept = r#"{"entries":[{"window":"w","number":5,"begun":{"boot":"a","boot_ms":1,"real_ms":2},"file":[{"boot":"a","boot_ms":3,"real_ms":4},7]}]}"#;
        assert_eq!(Ledger::from_json(kept.as_bytes()).to_json(), kept);
        assert_eq!(Ledger::from_json(json.get(..30).unwrap().as_bytes()), Ledger::default());
    }
}
