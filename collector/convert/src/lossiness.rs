//! What of a trace a format cannot hold, counted by what it is.

use std::collections::BTreeMap;
use std::fmt;

/// What was left out, or changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Dropped {
    counts: BTreeMap<&'static str, u64>,
}

impl Dropped {
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// How many of a kind, as it is said.
    #[must_use]
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Each kind with how many.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(&what, &count)| (what, count))
    }

    /// Whether everything is there as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (what, count)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}
