//! Observations of devices under two versions, arranged for a fair comparison. [`super::Collected::arrange`] makes them.
//!
//! The value of a device is its overrun (or the time of a cause) in ms per thousand frames. A *pair* is a device that sent both
//! versions, with a value of each over the screens that it has under both. A *stratum* is a screen on devices that are alike,
//! which sent one version each. No device is in a pair and in a stratum.

use super::collected::Side;
use crate::table::Text;

/// A cause, or all jank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CauseName {
    /// The cause; empty for all jank.
    pub cause: Text,
    /// Key of the cause.
    pub key: Text,
}

/// A screen that both versions have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Screen {
    /// Name, or empty.
    pub name: Text,
    /// Share of the screen in both versions' frames: its weight.
    pub share: f64,
    /// Share of the screen in each version's frames: the mean of the devices' shares.
    pub shares: [f64; 2],
}

/// Devices that are alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Likeness {
    /// Class of the model: by what its devices' frames take under the earlier version.
    pub model_class: i32,
    /// Class of the device: by what its own frames take.
    pub device_class: i32,
    /// Android API level; 0 if it is unknown.
    pub api: u64,
    /// Refresh rate, Hz.
    pub hz: u64,
}

/// Key of a stratum.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StratumKey {
    /// Traits that the devices share.
    pub likeness: Likeness,
    /// Place of the screen in [`Observations::screens`].
    pub screen: usize,
}

/// A stratum: places of its devices in [`Observations::devices`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stratum {
    /// Key.
    pub key: StratumKey,
    /// Weight of the stratum, the same for both versions; those of all strata add up to 1.
    pub weight: f64,
    /// Devices of the earlier and of the later version.
    pub devices: [Vec<u32>; 2],
}

/// A device's values under both versions, ms per thousand frames.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pair {
    /// Place of the device in [`Observations::devices`].
    pub device: u32,
    /// Value under the earlier version.
    pub old: f64,
    /// Value under the later version.
    pub new: f64,
}

/// Values of a stratum's devices, ms per thousand frames.
#[derive(Debug, Clone, PartialEq)]
pub struct StratumValues<'a> {
    /// The stratum; values are in the order of its devices.
    pub stratum: &'a Stratum,
    /// Values of the earlier and of the later version.
    pub values: [Vec<f64>; 2],
}

/// Values of a cause other than 0.
#[derive(Debug, Clone, Default)]
pub(super) struct Sparse {
    /// Pair, version, value: to be added up.
    pub(super) paired: Vec<(u32, Side, f64)>,
    /// Stratum, version, place of the device in the stratum, value: to be added up.
    pub(super) stratified: Vec<(u32, Side, u32, f64)>,
    /// Version, place of the device in [`Observations::unmatched`], value: to be added up.
    pub(super) unmatched: Vec<(Side, u32, f64)>,
}

/// Devices of each version that are not compared, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotCompared {
    /// The device's model is unknown.
    pub unknown_model: [u64; 2],
    /// The earlier version has no device of the model.
    pub unseen_model: [u64; 2],
    /// The other version has too few devices like it, on each of its screens.
    pub without_likeness: [u64; 2],
    /// Emulators and debuggable builds; not in [`Observations::sent`].
    pub test_devices: [u64; 2],
}

/// Devices of a kind, of each version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Portion {
    /// Traits that the devices share; `None` if the model is unknown, or the earlier version does not have it.
    pub likeness: Option<Likeness>,
    /// Devices of each version.
    pub devices: [u64; 2],
    /// True if both versions have enough of them.
    pub is_compared: bool,
}

/// Observations of all causes.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// Install ids.
    pub devices: Vec<Text>,
    /// Screens that both versions have; their shares add up to 1.
    pub screens: Vec<Screen>,
    /// Screens that only one version has, with their shares in each version's frames.
    pub screens_not_compared: Vec<Screen>,
    /// Causes; the first is all jank.
    pub causes: Vec<CauseName>,
    /// Devices with frames that rates count, of each version.
    pub sent: [u64; 2],
    /// Devices that sent both versions, as places in `devices`.
    pub paired: Vec<u32>,
    /// Strata that both versions have enough devices of.
    pub strata: Vec<Stratum>,
    /// Devices in at least one of `strata`, of each version.
    pub stratified: [u64; 2],
    /// Devices of unknown models that sent one version, as places in `devices`.
    pub unmatched: [Vec<u32>; 2],
    /// Devices that are not compared.
    pub not_compared: NotCompared,
    /// The mix of each version, the most devices first. Devices that sent both versions are in both.
    pub mix: Vec<Portion>,
    pub(super) values: Vec<Sparse>,
}

impl Observations {
    /// Returns the pairs of a cause, by its place in `causes`; a device without time of it has the value 0.
    #[must_use]
    pub fn pairs(&self, cause: usize) -> Vec<Pair> {
        let mut pairs: Vec<Pair> =
            self.paired.iter().map(|&device| Pair { device, old: 0.0, new: 0.0 }).collect();
        for &(pair, side, value) in self.values.get(cause).into_iter().flat_map(|of| &of.paired) {
            let Some(pair) = usize::try_from(pair).ok().and_then(|pair| pairs.get_mut(pair)) else {
                continue;
            };
            match side {
                Side::From => pair.old += value,
                Side::To => pair.new += value,
            }
        }
        pairs
    }

    /// Returns the values of a cause in each of `strata`, by its place in `causes`.
    #[must_use]
    pub fn stratum_values(&self, cause: usize) -> Vec<StratumValues<'_>> {
        let zeros = |stratum: &Stratum, side: usize| {
            vec![0.0; stratum.devices.get(side).map_or(0, Vec::len)]
        };
        let mut all: Vec<StratumValues<'_>> = self
            .strata
            .iter()
            .map(|stratum| StratumValues {
                stratum,
                values: [zeros(stratum, 0), zeros(stratum, 1)],
            })
            .collect();
        let values = self.values.get(cause).into_iter().flat_map(|of| &of.stratified);
        for &(stratum, side, place, value) in values {
            let stratum = usize::try_from(stratum).ok().and_then(|at| all.get_mut(at));
            let values = stratum.and_then(|stratum| stratum.values.get_mut(side.place()));
            let place = usize::try_from(place).ok();
            if let Some(sum) = values.zip(place).and_then(|(values, place)| values.get_mut(place)) {
                *sum += value;
            }
        }
        all
    }

    /// Returns the values of a cause on devices of unknown models, in the order of `unmatched`.
    #[must_use]
    pub fn unmatched_values(&self, cause: usize) -> [Vec<f64>; 2] {
        let mut all = self.unmatched.each_ref().map(|devices| vec![0.0; devices.len()]);
        for &(side, place, value) in self.values.get(cause).into_iter().flat_map(|of| &of.unmatched)
        {
            let values = all.get_mut(side.place());
            let place = usize::try_from(place).ok();
            if let Some(sum) = values.zip(place).and_then(|(values, place)| values.get_mut(place)) {
                *sum += value;
            }
        }
        all
    }

    /// True if no device has a counterpart, and devices of unknown models sent both versions: a difference between them
    /// counts as far as no shift of the mix explains it ([`super::bounds`]).
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let is_matched = !self.paired.is_empty() || !self.strata.is_empty();
        !is_matched && self.unmatched.iter().all(|devices| !devices.is_empty())
    }

    /// Returns the number of devices of each version that are compared: in pairs and strata, or by bounds.
    #[must_use]
    pub fn compared(&self) -> [u64; 2] {
        if self.is_bounded() {
            return self.unmatched.each_ref().map(|devices| devices.len() as u64);
        }
        let pairs = self.paired.len() as u64;
        self.stratified.map(|devices| devices + pairs)
    }
}
