//! Limits log lines about events that strangers and peers can cause at will: one a minute, which counts the others.

use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(60);

/// Admits a log line a minute.
#[derive(Debug, Default)]
pub(crate) struct LineAMinute {
    last: Option<Instant>,
    without_line: u64,
}

impl LineAMinute {
    /// Returns the number of events without a line since the last one; `None`: this one gets no line either.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.duration_since(last) < PERIOD) {
            self.without_line += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.without_line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_one_line_and_the_next_one_counts_the_others() {
        let (mut lines, start) = (LineAMinute::default(), Instant::now());
        let admitted = (0..60_000).filter_map(|ms| lines.admit(start + Duration::from_millis(ms)));
        assert_eq!(admitted.collect::<Vec<_>>(), [0]);
        assert_eq!(lines.admit(start + Duration::from_secs(60)), Some(59_999));
        assert_eq!(lines.admit(start + Duration::from_secs(119)), None);
    }
}
