//! Ends an analysis that takes too long, or that is no longer wanted.
//!
//! A caller that analyzes untrusted traces sets a time limit, and a flag that ends the analysis at once;
//! every loop that grows with the trace checks both regularly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reason why an analysis was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The caller asked it to stop.
    #[error("the analysis was asked to stop")]
    Asked,
    /// The analysis exceeded its time limit.
    #[error("the analysis took more than {} s", .0.as_secs())]
    OutOfTime(Duration),
}

/// Limit of an analysis. The default is no limit.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    stop: Option<Arc<AtomicBool>>,
    limit: Option<Limit>,
}

#[derive(Debug, Clone, Copy)]
struct Limit {
    clock: fn() -> Duration,
    began: Duration,
    most: Duration,
}

impl Watch {
    /// Makes a limit that ends the analysis when `stop` is set, or when `clock` (for example, this thread's CPU time)
    /// has advanced by more than `most`.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, clock: fn() -> Duration, most: Duration) -> Self {
        Self { stop: Some(stop), limit: Some(Limit { clock, began: clock(), most }) }
    }

    /// Checks the limit.
    ///
    /// # Errors
    /// [`Stopped`] if the analysis must end.
    pub fn check(&self) -> Result<(), Stopped> {
        // ORDERING: Relaxed; a wish, nothing is published with it.
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Stopped::Asked);
        }
        match self.limit {
            Some(Limit { clock, began, most }) if clock().saturating_sub(began) > most => {
                Err(Stopped::OutOfTime(most))
            }
            _ => Ok(()),
        }
    }
}
