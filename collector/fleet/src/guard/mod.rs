//! The guard of a rollout: says go, stop or not yet, however often it is asked.
//!
//! [`fleet`] has the values of devices under two versions. [`Guard::look`] takes each device once, in the order of arrival: a
//! device that sent both versions as a pair, another one beside a device of the earlier version that is like it. Each
//! difference is a bet ([`wealth`]) of the hypotheses that it belongs to: cause × screen × class of devices × pairs or strangers.
//! [`ebh`] says which hypotheses are rejected. A rejection is an alarm after later days have shown the rise, too.
//! [`findings`] makes one finding of the alarms of a root cause; [`power`] says how many devices are missing; [`verdict`] is the
//! answer. [`state`] keeps it all in the collector's store, between looks.

pub mod ebh;
pub mod examples;
pub mod findings;
pub mod fleet;
mod look;
pub mod power;
pub mod state;
pub mod verdict;
pub mod wealth;

use crate::significance::real;
use crate::table::Text;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use wealth::Wealth;

/// Probability that a rollout without a regression ever raises an alarm.
pub const LEVEL: f64 = 0.01;
/// Minimum number of frames of a device under a version.
pub const LEAST_FRAMES: u64 = 100;
/// Minimum number of frames on a screen under a version.
pub const LEAST_ON_SCREEN: u64 = 10;
/// First devices of the later version that are compared as pairs only.
pub const EARLY: u64 = 500;
/// Days after a rejection whose devices must show the rise, too.
pub const LATER_DAYS: u64 = 2;
/// Share of the rise that these must show.
pub const LEAST_LATER: f64 = 0.5;
/// Standard errors by which their rise must be above 0: that of a late rejection is small, and half of it could be noise.
pub const LATER_ERRORS: f64 = 3.0;

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

/// Kinds of comparison: a device with itself, or with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A device with itself.
    Pairs,
    /// A device of the later version with one of the earlier version that is like it.
    Strangers,
}

/// A hypothesis: "the later version has not more of this".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hypothesis {
    /// Kind of comparison.
    pub part: Part,
    /// Class of the devices; `None` for all.
    pub class: Option<i32>,
    /// Place of the series in [`Guard::series`].
    pub series: u32,
}

/// A rejection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rejection {
    /// Day of the rejection.
    pub day: Text,
    /// Devices until then.
    pub devices: u64,
    /// Sum of their differences, clipped.
    pub sum: f64,
    /// Sum of the squares of these.
    pub squares: f64,
    /// Number of later days with devices.
    pub later_days: u64,
    /// The last of them.
    pub last_day: Text,
}

/// State of a hypothesis that was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// Too few later days have had devices.
    Waiting,
    /// Later days have shown the rise, too.
    Alarm,
    /// Later days have not shown it: it went away again.
    Over,
}

/// Evidence against a hypothesis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Wealth.
    pub wealth: Wealth,
    /// Devices with a difference, also of 0: of a series of all jank, those of all causes on its screen.
    pub devices: u64,
    /// Sum of the differences, clipped.
    pub sum: f64,
    /// Sum of the values under the earlier version.
    pub earlier: f64,
    /// The rejection, if there was one.
    pub rejection: Option<Rejection>,
}

/// The digest of a device's install id.
pub type Digest = [u8; 16];

/// The use of a device that is made once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// It sent both versions.
    Pair,
    /// It sent the earlier version, and was compared with a stranger.
    Earlier,
    /// It sent the later version, and was compared with a stranger.
    Later,
    /// It is one of the [`EARLY`] devices of the later version.
    Early,
}

/// The state of a guard.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Classes of devices at the first look.
    pub(crate) classes: Vec<i32>,
    /// Series in the order of discovery; those of the first look, `first`, come before all others.
    pub(crate) series: Vec<Series>,
    pub(crate) first: u64,
    places: HashMap<Series, u32, RandomState>,
    pub(crate) evidence: HashMap<Hypothesis, Evidence, RandomState>,
    pub(crate) used: HashSet<(Use, Digest), RandomState>,
    /// Devices of the later version that were left out so far, as [`Use::Early`].
    pub(crate) early: u64,
    /// Changes that the state in the store does not have yet.
    pub(crate) changed: Changed,
}

/// Changes of a state since it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changed {
    pub(crate) evidence: HashSet<Hypothesis, RandomState>,
    pub(crate) used: Vec<(Use, Digest)>,
}

impl Guard {
    /// Returns the series, in the order of discovery.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Returns the evidence against a hypothesis.
    #[must_use]
    pub fn evidence(&self, hypothesis: Hypothesis) -> Option<&Evidence> {
        self.evidence.get(&hypothesis)
    }

    /// Returns the place of a series, a new one if it is unknown.
    pub(crate) fn place(&mut self, series: &Series) -> u32 {
        if let Some(&place) = self.places.get(series) {
            return place;
        }
        let place = u32::try_from(self.series.len()).unwrap_or(u32::MAX);
        self.series.push(series.clone());
        self.places.insert(series.clone(), place);
        place
    }

    /// Returns the series of a hypothesis.
    #[must_use]
    pub fn series_of(&self, hypothesis: Hypothesis) -> Option<&Series> {
        usize::try_from(hypothesis.series).ok().and_then(|place| self.series.get(place))
    }

    /// Returns the number of devices that a hypothesis has seen: those with its screen.
    #[must_use]
    pub fn devices(&self, hypothesis: Hypothesis) -> u64 {
        let total = self.series_of(hypothesis).map(Series::total);
        let series = total.and_then(|total| self.places.get(&total).copied());
        let of = series.and_then(|series| self.evidence.get(&Hypothesis { series, ..hypothesis }));
        of.map_or(0, |of| of.devices)
    }

    /// Returns the state of a hypothesis, if it was rejected.
    #[must_use]
    pub fn rejected(&self, hypothesis: Hypothesis) -> Option<Rejected> {
        let evidence = self.evidence.get(&hypothesis)?;
        let rejection = evidence.rejection.as_ref()?;
        if rejection.later_days < LATER_DAYS {
            return Some(Rejected::Waiting);
        }
        let later = real(self.devices(hypothesis).saturating_sub(rejection.devices).max(1));
        let rise = rejection.sum / real(rejection.devices.max(1));
        let sum = evidence.sum - rejection.sum;
        let squares = evidence.wealth.difference_squares - rejection.squares;
        let is_there = sum / later >= LEAST_LATER * rise && sum >= LATER_ERRORS * squares.sqrt();
        Some(if is_there { Rejected::Alarm } else { Rejected::Over })
    }

    /// Returns the weight of a hypothesis: half of all weight is divided among those of the first look, a quarter is that of
    /// the first series that came later, and so on, so that all weights ever add up to 1.
    #[must_use]
    pub fn weight(&self, hypothesis: Hypothesis) -> f64 {
        let of_series = 2.0 * (1.0 + real(self.classes.len() as u64));
        let place = u64::from(hypothesis.series);
        let share = if place < self.first {
            real(self.first)
        } else {
            let later = real(place - self.first + 1);
            later * (later + 1.0)
        };
        0.5 / share / of_series
    }
}
