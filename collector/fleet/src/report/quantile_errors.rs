//! Errors of a report's quantiles, which every report states.

use crate::sums::bucket::{FRAMES, TIMES};
use serde::Serialize;

/// Largest errors of a report's quantiles, percent. Counts and sums are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct QuantileErrors {
    /// Of durations of frames; those below 6.4 ms are exact to 0.1 ms.
    pub frames_percent: f64,
    /// Of times of causes and start-ups, or 0.5 us.
    pub times_percent: f64,
}

impl QuantileErrors {
    /// Returns the errors of reports that are made of rollups.
    #[must_use]
    pub fn of_rollups() -> Self {
        Self { frames_percent: FRAMES.error_percent(), times_percent: TIMES.error_percent() }
    }
}
