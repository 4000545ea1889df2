//! Queues between the threads of the indexer: work that waits, and rows that are to be written, each with a limit.

use crate::budget::Budget;
use crate::store::captures::arrived::{Arrived, Room};
use crate::store::index::damage::Damage;
use crate::store::index::observed::Observed;
use crate::store::index::supervised::Panics;
use crate::store::mappings::Token;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tracetee_fleet::object_keys::{RawKey, ReportKey};
use tracetee_fleet::rows::Rows;
use tracetee_fleet::sums::Contribution;

/// Captures that may wait to be analyzed: a name each.
pub(crate) const MAX_WAITING: usize = 20_000;
/// Captures in the queue beyond those, which threads that look through the directory wait to announce.
const MORE: usize = 64;
/// Rows that may wait to be written, of all captures: some 100 MB.
pub(crate) const MAX_ROWS: usize = 400_000;

/// Work item of the indexer.
#[derive(Debug)]
pub(crate) enum Work {
    /// A capture; with its content if it has just arrived, and there was room.
    Capture(RawKey, Option<Box<Arrived>>),
    /// A report, and the file of it.
    Report(ReportKey, PathBuf),
}

/// Held by each capture of a chunk that is analyzed again until its rows are written; true if they could not be.
pub(crate) type Chunk = Arc<AtomicBool>;

/// A capture that is to be analyzed again.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) key: RawKey,
    pub(crate) chunk: Chunk,
}

/// Result of an analysis, for the tables.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) content: Content,
    /// Token of the applied mapping; a report has none.
    pub(crate) token: Option<Token>,
    /// True for a reanalyzed capture, whose rows replace the earlier ones.
    pub(crate) chunk: Option<Chunk>,
}

impl Made {
    /// The rows that are to be written.
    pub(crate) fn row_count(&self) -> usize {
        match &self.content {
            Content::Rows(analyzed) | Content::Explained(analyzed) => {
                analyzed.0.count().max(analyzed.1.count())
            }
            Content::Gone(_) => 0,
        }
    }
}

/// The contribution of a capture or a report to the tables, and its rows, which metrics count.
pub(crate) type Analyzed = (Contribution, Rows);

/// Changes in the tables.
#[derive(Debug)]
pub(crate) enum Content {
    /// The rows of a capture or a report.
    Rows(Box<Analyzed>),
    /// The rows of a capture whose dump has arrived. The capture may be in the tables without the dump, now or later: these
    /// rows are inserted, or replace the others, which are then no longer inserted.
    Explained(Box<Analyzed>),
    /// The raw key of a capture that is in quarantine now: rows that an older analysis made go.
    Gone(String),
}

/// State that the threads share.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) waiting: AtomicU64,
    pub(crate) analysed: AtomicU64,
    pub(crate) analysed_again: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Something was not accepted: the directory must be searched again.
    pub(crate) missed: AtomicBool,
    pub(crate) panics: Arc<Panics>,
    pub(crate) damage: Damage,
    /// Set to leave waiting captures, and those in progress, for the next start.
    pub(crate) ended: Arc<AtomicBool>,
    pub(crate) queue: Queue,
    rows: Mutex<usize>,
    written: Condvar,
    pub(crate) room: Room,
    pub(crate) observed: Arc<Observed>,
}

/// The captures that wait to be analyzed, by app: the apps take turns, so that none waits for all of another's.
#[derive(Debug)]
pub(crate) struct Queue(Mutex<Budget<String, u64, Work>>);

impl Default for Queue {
    fn default() -> Self {
        Self(Mutex::new(Budget::new((MAX_WAITING + MORE) as u64, u64::MAX)))
    }
}

impl Queue {
    pub(crate) fn locked(&self) -> MutexGuard<'_, Budget<String, u64, Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work of an app. Returns the amount of evicted work.
    fn push(&self, app: &str, work: Work) -> usize {
        let mut queue = self.locked();
        let number = queue.next();
        queue.put(app.to_owned(), number, 1, work).len()
    }
}

impl State {
    /// Takes the oldest work of the app whose turn it is.
    pub(crate) fn pop(&self) -> Option<Work> {
        self.queue.locked().pop(|_| true).map(|(_, work)| work)
    }

    /// Adds work. Returns true if it must be announced; otherwise it replaced announced work.
    pub(crate) fn push(&self, app: &str, work: Work) -> bool {
        // ORDERING: Relaxed, here and below: counts, and a wish.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let gone = self.queue.push(app, work) as u64;
        self.waiting.fetch_sub(gone, Ordering::Relaxed);
        self.missed.fetch_or(gone > 0, Ordering::Relaxed);
        gone == 0
    }

    /// A capture that waited has been dealt with, or was lost by a panic: then the directory is searched again.
    pub(crate) fn count_done(&self, count: u64) {
        self.missed.fetch_or(std::thread::panicking(), Ordering::Relaxed);
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// Waits until there is space for this many rows; a single capture is always admitted.
    pub(crate) fn make_room(&self, count: usize) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        while *rows > 0 && *rows + count > MAX_ROWS {
            rows = self.written.wait(rows).unwrap_or_else(PoisonError::into_inner);
        }
        *rows += count;
    }

    pub(crate) fn give_room(&self, count: usize) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        *rows = rows.saturating_sub(count);
        self.written.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_fleet::object_keys::ReportKind;

    #[test]
    fn as_many_captures_wait_as_are_admitted_and_64_that_were_on_their_way() {
        let state = State::default();
        let key = ReportKey::new(ReportKind::Losses, String::new(), "", None);
        let push = |_: &u32| state.push("a", Work::Report(key.clone(), PathBuf::new()));
        assert_eq!((0..30_000).take_while(push).count(), 20_064);
        assert_eq!(state.waiting.load(Ordering::Relaxed), 20_064, "the oldest one has gone");
        assert!(state.missed.load(Ordering::Relaxed));
    }
}
