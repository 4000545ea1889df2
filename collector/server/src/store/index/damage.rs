//! Looks for damage of the tables, when a collector starts and once a day.
//!
//! On a thread of the indexer's. A report checks what it reads; this checks all, also what only the analysis reads: sums of
//! devices, rows that a deletion subtracts. Captures that come are stored and analyzed all the same, because `tracetee
//! store rebuild` makes the tables from the captures. Until then `/healthz` fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;

/// Time between two checks: each reads the whole file.
const PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Result of the checks, and a way to end them.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    is_found: AtomicBool,
    ended: Arc<AtomicBool>,
}

impl Damage {
    /// True if the tables are damaged.
    pub(crate) fn is_found(&self) -> bool {
        // ORDERING: Relaxed, here and below; flags that publish nothing.
        self.is_found.load(Ordering::Relaxed)
    }

    /// Takes an error of the tables.
    pub(crate) fn note(&self, error: &Error) {
        self.is_found.fetch_or(error.is_damage(), Ordering::Relaxed);
    }

    /// Looks for damage until [`Damage::end`]; woken by `unpark`.
    pub(crate) fn watch(&self, tables: &Path) {
        while !self.is_over() {
            if let Err(error) = self.look(tables)
                && !self.is_over()
            {
                self.note(&error);
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
        database.within(None, Some(&self.ended), || database.check_all())
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Ends the thread, which is unparked afterwards.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
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
        let position = bytes.windows(8).position(|text| text == b"NOT NULL").unwrap();
        bytes[position..position + 8].copy_from_slice(b"        ");
        std::fs::write(&tables, bytes).unwrap();
        let error = damage.look(&tables).unwrap_err();
        assert!(!damage.is_found());
        damage.note(&error);
        assert!(damage.is_found(), "{error}");
    }
}
