//! The sums of devices that are compared, as they come: device by device, each under one version.
//!
//! A reader of them (the tables, a simulation) calls [`Collected::device`], then [`Collected::frames`] and
//! [`Collected::cause`] for that device; [`Collected::arrange`] makes [`super::Observations`] of them.

use crate::table::Text;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// One of the two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The earlier version.
    From,
    /// The later version.
    To,
}

impl Side {
    /// Returns the place of the version in a pair: 0 or 1.
    #[must_use]
    pub const fn place(self) -> usize {
        match self {
            Self::From => 0,
            Self::To => 1,
        }
    }
}

/// Traits of a device that decide with which others it is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traits {
    /// Model of the device; empty if it is unknown.
    pub model: Text,
    /// Android API level; 0 if it is unknown.
    pub api: u64,
    /// Refresh rate of the display, rounded, Hz.
    pub hz: u64,
    /// Time within which the device completes a tenth of its frames, ns: its speed, which late frames hardly move.
    pub quick_ns: u64,
    /// True for an emulator, and for a debuggable build.
    pub is_test: bool,
}

/// Rules of the arrangement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Minimum number of pairs; with fewer, devices that sent both versions count for the later one.
    pub least_pairs: usize,
    /// Minimum number of devices of each version in a stratum.
    pub least_in_stratum: usize,
    /// Includes emulators and debuggable builds.
    pub has_test_devices: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { least_pairs: 20, least_in_stratum: 3, has_test_devices: false }
    }
}

/// Texts, each once, by number.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    numbers: HashMap<T, u32, RandomState>,
    pub(super) all: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number<Q>(&mut self, key: &Q, owned: impl FnOnce() -> T) -> u32
    where
        T: std::borrow::Borrow<Q>,
        Q: Eq + std::hash::Hash + ?Sized,
    {
        if let Some(&number) = self.numbers.get(key) {
            return number;
        }
        // A fleet has far fewer devices; more would share the last number.
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let owned = owned();
        self.all.push(owned.clone());
        self.numbers.insert(owned, number);
        number
    }
}

/// A device's frames on a screen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) screen: u32,
    pub(super) frames: u64,
    pub(super) jank_ns: u64,
}

/// A device under one version.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) device: u32,
    pub(super) traits: Traits,
    pub(super) visits: Vec<Visit>,
    /// Screen, cause, ns.
    pub(super) causes: Vec<(u32, u32, u64)>,
}

/// The sums of devices under two versions.
#[derive(Debug)]
pub struct Collected {
    pub(super) devices: Numbered<Text>,
    pub(super) screens: Numbered<Text>,
    /// Numbers of causes, by name; each with its keys. All jank is cause 0.
    causes: HashMap<Text, HashMap<Text, u32, RandomState>, RandomState>,
    pub(super) cause_names: Vec<(Text, Text)>,
    pub(super) sent: [Vec<Sent>; 2],
    side: Side,
}

impl Default for Collected {
    fn default() -> Self {
        Self {
            devices: Numbered::default(),
            screens: Numbered::default(),
            causes: HashMap::default(),
            cause_names: vec![(Text::default(), Text::default())],
            sent: [Vec::new(), Vec::new()],
            side: Side::From,
        }
    }
}

impl Collected {
    /// Begins a device under a version; each device comes once under each version.
    pub fn device(&mut self, side: Side, device: &str, traits: Traits) {
        let device = self.devices.number(device, || Text::from(device));
        self.side = side;
        if let Some(sent) = self.sent.get_mut(side.place()) {
            sent.push(Sent { device, traits, visits: Vec::new(), causes: Vec::new() });
        }
    }

    fn last(&mut self) -> Option<&mut Sent> {
        self.sent.get_mut(self.side.place()).and_then(|sent| sent.last_mut())
    }

    /// Adds the device's frames on a screen, and their time past the deadlines.
    pub fn frames(&mut self, screen: &str, frames: u64, jank_ns: u64) {
        let screen = self.screens.number(screen, || Text::from(screen));
        if let Some(sent) = self.last() {
            sent.visits.push(Visit { screen, frames, jank_ns });
        }
    }

    /// Adds the device's time of a cause on a screen.
    pub fn cause(&mut self, screen: &str, cause: &str, key: &str, ns: u64) {
        let screen = self.screens.number(screen, || Text::from(screen));
        let cause = self.cause_number(cause, key);
        if let Some(sent) = self.last() {
            sent.causes.push((screen, cause, ns));
        }
    }

    fn cause_number(&mut self, cause: &str, key: &str) -> u32 {
        if let Some(&number) = self.causes.get(cause).and_then(|keys| keys.get(key)) {
            return number;
        }
        let number = u32::try_from(self.cause_names.len()).unwrap_or(u32::MAX);
        self.cause_names.push((cause.into(), key.into()));
        self.causes.entry(cause.into()).or_default().insert(key.into(), number);
        number
    }
}
