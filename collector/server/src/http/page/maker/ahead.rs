//! Renews the report of a page without a query before anybody asks for it: when rows have changed and a moment is quiet.
//! It takes a fiftieth of a processor at most, on the thread that renews reports.

use super::remembered::{Changes, Remembered, What};
use std::time::{Duration, Instant};
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;

/// Interval of looks at the tables. The moment between two of them is quiet if they show the same changes.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Time after which the report is made in a moment that is not quiet, too.
const AT_LEAST_EVERY: Duration = Duration::from_secs(10);
/// Pause after a report, in durations of the report.
const PAUSE_TIMES: u32 = 50;
/// Pause after an error.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(60);

/// The looks at the tables.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The changes at the last look.
    seen: Option<Changes>,
    /// The end of the last report.
    made: Option<Instant>,
    /// The last error.
    failed: Option<Instant>,
}

impl Ahead {
    /// Renews the report if it is due.
    ///
    /// # Errors
    /// When the tables cannot be read; the next looks do nothing for a while then.
    pub(super) fn look(
        &mut self,
        database: &Database,
        remembered: &Remembered,
    ) -> Result<(), Error> {
        let result = self.renew_if_due(database, remembered);
        if result.is_err() {
            self.failed = Some(Instant::now());
        }
        result
    }

    fn renew_if_due(&mut self, database: &Database, remembered: &Remembered) -> Result<(), Error> {
        let now = Instant::now();
        if self.failed.is_some_and(|at| now < at + PAUSE_AFTER_ERROR) {
            return Ok(());
        }
        let (first, changes) = (What::default(), database.changes()?);
        let old = remembered.get(&first).map(|old| (old.changes, old.took));
        if self.is_due(now, &changes, old.as_ref()) {
            remembered.renew(database, &first)?;
            self.made = Some(Instant::now());
        } else {
            remembered.note_complete(&first, &changes, now);
        }
        Ok(())
    }

    /// True if the report is to be renewed. `old`: the changes and the duration of the remembered one.
    fn is_due(
        &mut self,
        now: Instant,
        changes: &Changes,
        old: Option<&(Changes, Duration)>,
    ) -> bool {
        let is_quiet = self.seen.as_ref() == Some(changes);
        self.seen = Some(changes.clone());
        let Some((of_old, took)) = old else { return false };
        let pause = self.made.map_or(Duration::MAX, |made| now.saturating_duration_since(made));
        of_old != changes && pause >= *took * PAUSE_TIMES && (is_quiet || pause >= AT_LEAST_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_when_rows_have_changed_and_a_moment_is_quiet() {
        let changes = |number| Changes::from([("a".to_owned(), number)]);
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let took = Duration::from_millis(40);
        let mut ahead = Ahead::default();
        assert!(!ahead.is_due(at(0), &changes(1), None), "the first is not this one's");
        let old = (changes(1), took);
        assert!(!ahead.is_due(at(60_000), &changes(1), Some(&old)), "nothing has changed");
        ahead.made = Some(at(60_000));
        assert!(!ahead.is_due(at(63_000), &changes(2), Some(&old)), "it changes now");
        assert!(!ahead.is_due(at(64_000), &changes(3), Some(&old)), "it changes still");
        assert!(ahead.is_due(at(65_000), &changes(3), Some(&old)), "quiet");
        assert!(ahead.is_due(at(70_000), &changes(4), Some(&old)), "never quiet");
        ahead.made = Some(at(70_000));
        let old = (changes(4), took);
        assert!(!ahead.is_due(at(71_000), &changes(5), Some(&old)));
        assert!(!ahead.is_due(at(71_999), &changes(5), Some(&old)), "a pause of fifty times");
        assert!(ahead.is_due(at(72_000), &changes(5), Some(&old)));
    }
}
