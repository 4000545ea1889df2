//! Ends an analysis that takes too long, or that nobody wants any longer.
//!
//! Whoever analyzes what strangers have sent gives it a limit of time, and a flag that ends it at once; all
//! that grows with a trace asks here every so often.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why an analysis did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// It was asked to stop.
    Asked,
    /// It took longer than it may.
    OutOfTime(Duration),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("the analysis was asked to stop"),
            Self::OutOfTime(limit) => {
                write!(f, "the analysis took more than {} s", limit.as_secs())
            }
        }
    }
}

/// Says whether an analysis may go on. The default never ends one.
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
    /// Ends when `stop` is set, and when `clock` (of the time that this thread has used, say) has gone on by
    /// more than `most` from now.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, clock: fn() -> Duration, most: Duration) -> Self {
        Self { stop: Some(stop), limit: Some(Limit { clock, began: clock(), most }) }
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Stopped`] says why not.
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
