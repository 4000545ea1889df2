//! State that outlives a pass. Each value is the name of an empty file: `WHAT~VALUE`.
//!
//! A rename is atomic, so no value can be half written. If the disk refuses a change, the value holds
//! until the process ends.

use crate::error::Error;
use crate::policy::{MAX_RETRY_AFTER, Spent};
use crate::timestamp::{Now, Timestamp};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// The stored values.
#[derive(Debug)]
pub(crate) struct State {
    directory: PathBuf,
    /// Values that the disk refused.
    kept: Vec<(&'static str, String)>,
}

/// Failures in a row, and the delay after the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) failures: u32,
    pub(crate) wait_ms: u64,
    /// True if the server asked for the delay.
    pub(crate) demanded: bool,
    pub(crate) since: Timestamp,
}

impl Wait {
    /// Returns the remaining delay in ms.
    pub(crate) fn left_ms(&self, now: Now) -> u64 {
        self.wait_ms.min(millis(MAX_RETRY_AFTER)).saturating_sub(self.since.age_ms(now))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl State {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, kept: Vec::new() }
    }

    /// Returns the current delay; none after a success.
    pub(crate) fn wait(&self) -> Wait {
        let parse = |text: &str| {
            let mut fields = text.split('~');
            let failures = fields.next()?.parse().ok()?;
            let wait_ms = fields.next()?.parse().ok()?;
            let demanded = fields.next()? == "server";
            Some(Wait { failures, wait_ms, demanded, since: Timestamp::parse(fields.next()?)? })
        };
        self.get("wait").and_then(|text| parse(&text)).unwrap_or_default()
    }

    pub(crate) fn set_wait(&mut self, failures: u32, wait: Duration, demanded: bool, now: Now) {
        let ms = millis(wait);
        let by = if demanded { "server" } else { "us" };
        self.hold("wait", format!("{failures}~{ms}~{by}~{}", Timestamp(now).to_text()));
    }

    pub(crate) fn clear_wait(&mut self) {
        self.forget("wait");
        for (path, _) in self.files("wait") {
            let _ = fs::remove_file(path);
        }
    }

    /// Returns the bytes sent in the current 24 hours.
    pub(crate) fn spent(&self, now: Now) -> Spent {
        self.day(now).map(|(spent, _)| spent).unwrap_or_default()
    }

    /// Enters bytes before they are sent, so that a killed process has spent them. After an error they must
    /// not be sent.
    pub(crate) fn spend(&mut self, more: Spent, now: Now) -> Result<(), Error> {
        let (spent, since) = self.day(now).unwrap_or((Spent::default(), Timestamp(now)));
        let unmetered = spent.unmetered.saturating_add(more.unmetered);
        let metered = spent.metered.saturating_add(more.metered);
        self.set("day", format!("{unmetered}~{metered}~{}", since.to_text()))
    }

    fn day(&self, now: Now) -> Option<(Spent, Timestamp)> {
        let text = self.get("day")?;
        let mut fields = text.split('~');
        let unmetered = fields.next()?.parse().ok()?;
        let metered = fields.next()?.parse().ok()?;
        let since = Timestamp::parse(fields.next()?)?;
        (since.age_ms(now) < DAY_MS).then_some((Spent { unmetered, metered }, since))
    }

    /// Returns true if the configuration was not requested within its interval, or within the shorter one set by
    /// [`State::set_asked`].
    pub(crate) fn is_config_due(&self, poll: Duration, now: Now) -> bool {
        self.is_due("asked", poll, now)
    }

    /// Records a request for the configuration, and the maximum time until the next one.
    pub(crate) fn set_asked(&mut self, wait: Duration, now: Now) {
        self.set_due("asked", wait, now);
    }

    /// Returns true if the time of the last [`State::set_due`], at most `most`, is over.
    pub(crate) fn is_due(&self, what: &'static str, most: Duration, now: Now) -> bool {
        let parse = |text: &str| {
            let (wait_ms, since) = text.split_once('~')?;
            Some((wait_ms.parse::<u64>().ok()?, Timestamp::parse(since)?))
        };
        let set = self.get(what).and_then(|text| parse(&text));
        set.is_none_or(|(wait_ms, since)| since.age_ms(now) >= wait_ms.min(millis(most)))
    }

    /// Sets the time until something is due again.
    pub(crate) fn set_due(&mut self, what: &'static str, wait: Duration, now: Now) {
        self.hold(what, format!("{}~{}", millis(wait), Timestamp(now).to_text()));
    }

    fn get(&self, what: &'static str) -> Option<String> {
        let kept = self.kept.iter().find(|(kept, _)| *kept == what).map(|(_, value)| value.clone());
        kept.or_else(|| self.files(what).pop().map(|(_, value)| value))
    }

    /// Lists the files of a value: one, unless something else left more.
    fn files(&self, what: &str) -> Vec<(PathBuf, String)> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let value = name.strip_prefix(what)?.strip_prefix('~')?.to_owned();
                Some((entry.path(), value))
            })
            .collect();
        found.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
        found
    }

    /// Sets a value like [`State::set`]; if the disk refuses, the value is valid only for this process.
    fn hold(&mut self, what: &'static str, value: String) {
        let is_set = self.set(what, value.clone()).is_ok();
        self.forget(what);
        if !is_set {
            self.kept.push((what, value));
        }
    }

    fn forget(&mut self, what: &str) {
        self.kept.retain(|(kept, _)| *kept != what);
    }

    fn set(&self, what: &'static str, value: String) -> Result<(), Error> {
        let path = self.directory.join(format!("{what}~{value}"));
        let mut old = self.files(what).into_iter().map(|(path, _)| path).filter(|old| *old != path);
        match old.next() {
            Some(first) => fs::rename(first, &path),
            None => tracetee_os::create(&path).map(drop),
        }
        .map_err(Error::io("create", &path))?;
        for surplus in old {
            let _ = fs::remove_file(surplus);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    const fn at(hours: u64) -> Now {
        Now { boot: 1, boot_ms: hours * HOUR_MS, real_ms: 1_700_000_000_000 + hours * HOUR_MS }
    }

    #[test]
    fn facts_outlive_the_process_as_one_file_each() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = State::new(directory.path().to_owned());
        let hours = |hours| Duration::from_millis(hours * HOUR_MS);
        assert_eq!(state.wait(), Wait::default());
        assert!(state.is_config_due(hours(9), at(1)));
        for failures in 1..5 {
            state.set_wait(failures, Duration::from_secs(7200), false, at(1));
            state.set_asked(hours(2), at(2));
            state.spend(Spent { unmetered: 10, metered: 3 }, at(1)).unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        let mut next = State::new(directory.path().to_owned());
        assert_eq!(next.wait().failures, 4);
        assert_eq!(next.wait().left_ms(at(2)), HOUR_MS);
        assert_eq!(next.wait().left_ms(at(3)), 0);
        assert!(next.is_config_due(hours(1), at(3)) && !next.is_config_due(hours(9), at(3)));
        assert!(next.is_config_due(hours(9), at(4)));
        assert_eq!(next.spent(at(2)), Spent { unmetered: 40, metered: 12 });
        next.clear_wait();
        assert_eq!(state.wait(), Wait::default());
    }

    #[test]
    fn a_days_bytes_are_back_after_24_hours_and_not_when_the_clock_is_set() {
        let directory = tempfile::tempdir().unwrap();
        let mut state = State::new(directory.path().to_owned());
        state.spend(Spent { unmetered: 10, metered: 0 }, at(0)).unwrap();
        let set = |hours: u64, real_ms: u64| Now { real_ms, ..at(hours) };
        for real_ms in [0, 4_000_000_000_000] {
            assert_eq!(state.spent(set(23, real_ms)).unmetered, 10);
            assert_eq!(state.spent(set(24, real_ms)).unmetered, 0);
        }
        // After a reboot with the clock at 1970 the day lasts until the boot does.
        let boot = |hours: u64| Now { boot: 2, boot_ms: hours * HOUR_MS, real_ms: 0 };
        assert_eq!(state.spent(boot(1)).unmetered, 10);
        assert_eq!(state.spent(boot(25)).unmetered, 0);
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        let wait =
            Wait { failures: 1, wait_ms: u64::MAX, demanded: false, since: Timestamp(at(0)) };
        assert_eq!(wait.left_ms(at(0)), DAY_MS);
    }

    #[test]
    fn without_a_writable_directory_a_wait_holds_and_nothing_is_spent() {
        let mut state = State::new(PathBuf::from("/nonexistent/tracetee"));
        state.set_wait(3, Duration::from_secs(60), true, at(1));
        assert_eq!(state.wait().failures, 3);
        let error = state.spend(Spent { unmetered: 1, metered: 0 }, at(1)).unwrap_err();
        assert!(error.to_string().starts_with("cannot create /nonexistent/"), "{error}");
        state.clear_wait();
        assert_eq!(state.wait(), Wait::default());
    }
}
