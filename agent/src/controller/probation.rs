//! The time after hooks go in, in which the process has to prove that it survives them.
//!
//! Holds the crash-loop guard from before the hooks go in until the process has lived long enough, or
//! ends in order.

use super::budget_ledger::Now;
use super::crash_guard::CrashGuard;
use crate::error::Error;
use std::path::Path;

/// The hooks' probation.
#[derive(Debug)]
pub(crate) struct Probation {
    pub(crate) guard: CrashGuard,
    /// Boot time at which the hooks went in, ms; `None` while there are none.
    hooked_ms: Option<u64>,
}

impl Probation {
    /// The probation of a process whose agent has the directory `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { guard: CrashGuard::new(root), hooked_ms: None }
    }

    /// Notes that hooks are about to go in. `within_s` of 0 switches the guard off.
    pub(crate) fn begin(&mut self, within_s: u64) -> Result<(), Error> {
        if within_s > 0 && self.hooked_ms.is_none() {
            self.guard.begin()?;
        }
        Ok(())
    }

    /// Notes that hooks are in place.
    pub(crate) fn note_hooked(&mut self, now: Now) {
        self.hooked_ms.get_or_insert(now.boot_ms);
    }

    /// Ends the probation once the process has lived with the hooks for `within_s`.
    pub(crate) fn look(&mut self, within_s: u64, now: Now) {
        let lives_ms = now.boot_ms.saturating_sub(self.hooked_ms.unwrap_or(0));
        if self.guard.is_on_probation() && lives_ms >= within_s * 1000 {
            self.guard.survived();
        }
    }

    /// Notes that the hooks were taken out.
    pub(crate) fn note_unhooked(&mut self) {
        if self.hooked_ms.take().is_some() {
            self.guard.survived();
        }
    }
}
