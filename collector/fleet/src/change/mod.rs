//! Tells what a version changed, whatever else changed with the calendar.
//!
//! [`observations`] has the sums of each device by day under two versions. [`control`] takes away from them what is the device's and
//! what is the day's: a device is compared with itself before its update, and each day with the same day of devices that are like it
//! and had not updated. The first day after an update is apart ([`control::After`]). [`estimate`] makes the size of a change and
//! its evidence of what is left; [`constants`] has the numbers that decide, [`coverage`] says what is compared.
//!
//! A comparison ([`comparison`]) looks once. A guard ([`answer`]) may look at any time: [`ebh`] says which causes rose, and [`findings`] makes one
//! finding of the rises of a root cause. Both take the same estimates; a guard keeps nothing
//! between looks, and wants more evidence. [`bisect`] compares each version with the one before it.

pub mod answer;
pub mod bisect;
pub mod classes;
pub mod comparison;
pub mod constants;
pub mod control;
pub mod coverage;
pub mod ebh;
pub mod estimate;
pub mod findings;
pub mod observations;
pub mod segment;

use crate::table::Text;
use serde::Serialize;
use tracetee_trace::shown;

/// Origin and unit of the values of a fleet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Time of late frames past their deadlines, in frames of captures.
    #[default]
    Captures,
    /// The same, in frames of ledgers.
    Ledgers,
    /// Ends of processes, 1 ms each, in days of devices with ledgers.
    Deaths,
}

impl Source {
    /// Returns the unit of a rate, with its origin.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Captures => "ms in 1,000 frames",
            Self::Ledgers => "ms in 1,000 frames, from ledgers",
            Self::Deaths => "deaths in 1,000 days, from ledgers",
        }
    }

    /// Returns the name of the base of a rate, and of everything that is counted.
    const fn nouns(self) -> [&'static str; 2] {
        match self {
            Self::Captures | Self::Ledgers => ["frames", "jank"],
            Self::Deaths => ["days", "deaths"],
        }
    }

    /// Returns the name of a cause with its key. Without a cause it is the total.
    fn name_of(self, cause: &str, key: &str) -> String {
        match (self, cause) {
            (Self::Deaths, _) if key.is_empty() => "deaths".to_owned(),
            (_, "") => "all jank".to_owned(),
            _ => format!("{} {}", shown(cause), shown(key)),
        }
    }
}

/// A series of values: a cause, or all jank, on a screen, or on all screens.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// The screen; `None` for all screens.
    pub screen: Option<Text>,
    /// The cause; empty for all jank.
    pub cause: Text,
    /// Key of the cause.
    pub key: Text,
}

impl Series {
    /// Returns the series of all jank of the screens of this one.
    #[must_use]
    pub fn total(&self) -> Self {
        Self { screen: self.screen.clone(), ..Self::default() }
    }
}
