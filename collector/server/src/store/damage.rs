//! Looks for damage of the tables, when a collector starts and once a day.
//!
//! On a thread of the indexer's. A report checks what it reads; this checks all, also what only the analysis reads: sums of
//! devices, rows that a deletion subtracts. Captures that come are stored and analyzed all the same, because `tracetee
//! rebuild` makes the tables from the captures. Until then `/healthz` fails.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use tracetee_fleet::Error;
use tracetee_fleet::database::{Database, Interrupter};

/// Time between two looks: each reads the whole file.
const PAUSE: Duration = Duration::from_secs(24 * 3600);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Damage {
    is_found: AtomicBool,
    ended: AtomicBool,
    query: Mutex<Option<Interrupter>>,
}

impl Damage {
    /// True if the tables are damaged.
    pub(super) fn is_found(&self) -> bool {
        // ORDERING: Relaxed, here and below; flags that publish nothing.
        self.is_found.load(Ordering::Relaxed)
    }

    /// Takes an error of the tables.
    pub(super) fn take(&self, error: &Error) {
        self.is_found.fetch_or(error.is_damage(), Ordering::Relaxed);
    }

    /// Looks for damage until [`Damage::end`]; woken by `unpark`.
    pub(super) fn watch(&self, tables: &Path) {
        while !self.is_over() {
            if let Err(error) = self.look(tables)
                && !self.is_over()
            {
                self.take(&error);
                tracing::error!("{}: {error}", tables.display());
            }
            let until = Instant::now() + PAUSE;
            while !self.is_over() && Instant::now() < until {
                park_timeout(until.saturating_duration_since(Instant::now()));
            }
        }
    }

    fn look(&self, tables: &Path) -> Result<(), Error> {
        let database = Database::read(tables)?;
        let query = || self.query.lock().unwrap_or_else(PoisonError::into_inner);
        *query() = Some(database.interrupter());
        let found = database.check_all(|| self.is_over());
        *query() = None;
        found
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Ends the thread, which is unparked afterwards.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(query) = &*self.query.lock().unwrap_or_else(PoisonError::into_inner) {
            query.interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_of_the_tables_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let tables = directory.path().join("tables.sqlite");
        drop(Database::open(&tables).unwrap());
        let damage = Damage::default();
        damage.look(&tables).unwrap();
        let mut bytes = std::fs::read(&tables).unwrap();
        let place = bytes.windows(9).position(|text| text == b"DEFAULT 0").unwrap() + 8;
        bytes[place] = b'1';
        std::fs::write(&tables, bytes).unwrap();
        let error = damage.look(&tables).unwrap_err();
        assert!(!damage.is_found());
        damage.take(&error);
        assert!(damage.is_found(), "{error}");
    }
}
