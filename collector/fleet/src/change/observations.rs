//! The sums of devices under two versions, by day: the input of all that says something about a change.
//!
//! A reader of them (the tables, a simulation) calls [`Builder::device`] for each device under each version, then
//! [`Builder::frames`] and [`Builder::cause`] for its days.

use super::classes::class_of;
use super::segment::Segment;
use super::{Series, Source};
use crate::table::Text;
use foldhash::fast::RandomState;
use indexmap::{Equivalent, IndexSet};
use std::hash::Hash;

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

/// Sums of a device under a version: of a day, or of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// The day, by its number in [`Fleet::days`].
    pub day: u32,
    /// Frames by screen (its number in [`Fleet::screens`]).
    pub frames: Vec<(u32, u64)>,
    /// Times by series (its number in [`Fleet::series`]), ns.
    pub times: Vec<(u32, u64)>,
}

impl Sums {
    /// Returns the number of frames.
    pub(crate) fn frame_count(&self) -> u64 {
        self.frames.iter().map(|(_, frames)| frames).sum()
    }
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Device {
    /// Traits that the device has in common with those that it is compared with; the next text has traits like these.
    pub alike: Text,
    /// Days under each version, sorted.
    pub days: [Vec<Sums>; 2],
}

impl Device {
    /// Returns its first day under the later version.
    pub(crate) fn update(&self) -> Option<u32> {
        self.days[1].first().map(|sums| sums.day)
    }
}

/// The devices of two versions.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// Origin and unit of the values.
    pub source: Source,
    /// Days, YYYY-MM-DD, sorted.
    pub days: Vec<Text>,
    /// Screens.
    pub screens: Vec<Text>,
    /// Series, each on one screen.
    pub series: Vec<Series>,
    /// Screen of each series.
    pub screen_of: Vec<u32>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Number of devices of which these are a sample; `None`: these are all.
    pub sampled_from: Option<u64>,
    /// Emulators and debuggable builds that were left out.
    pub test_devices: u64,
}

pub(super) fn get<T>(all: &[T], number: u32) -> Option<&T> {
    usize::try_from(number).ok().and_then(|index| all.get(index))
}

/// Screen, cause and key of a series in a reader's form; their hash is that of [`Series`].
type Name<'a> = (Option<&'a str>, &'a str, &'a str);

impl Equivalent<Series> for Name<'_> {
    fn equivalent(&self, Series { screen, cause, key }: &Series) -> bool {
        *self == (screen.as_deref(), cause, key)
    }
}

impl From<&Name<'_>> for Series {
    fn from((screen, cause, key): &Name<'_>) -> Self {
        Self { screen: screen.map(Text::from), cause: (*cause).into(), key: (*key).into() }
    }
}

/// Returns the number of a value, in the order of arrival.
fn number<'a, T, Q>(all: &mut IndexSet<T, RandomState>, value: &'a Q) -> u32
where
    T: Eq + Hash + From<&'a Q>,
    Q: Equivalent<T> + Hash + ?Sized,
{
    let index = all.get_index_of(value).unwrap_or_else(|| all.insert_full(value.into()).0);
    // A fleet has far fewer; more would share the last number.
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// A device's traits and days by version.
#[derive(Debug, Default)]
struct Found {
    traits: [Option<Traits>; 2],
    days: [Vec<Sums>; 2],
}

/// Collects the sums of devices as they arrive.
#[derive(Debug, Default)]
pub struct Builder {
    source: Source,
    segment: Segment,
    has_test_devices: bool,
    days: IndexSet<Text, RandomState>,
    screens: IndexSet<Text, RandomState>,
    series: IndexSet<Series, RandomState>,
    devices: IndexSet<Text, RandomState>,
    found: Vec<Found>,
    /// Device and version of the following sums.
    current: Option<(usize, usize)>,
}

impl Builder {
    /// Begins to collect the devices of a segment.
    #[must_use]
    pub fn new(source: Source, segment: &Segment, has_test_devices: bool) -> Self {
        Self { source, segment: segment.clone(), has_test_devices, ..Self::default() }
    }

    /// Begins a device under a version: 0 for the earlier one, 1 for the later one.
    pub fn device(&mut self, version: usize, device: &str, traits: Traits) {
        let number = number(&mut self.devices, device);
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        self.found.resize_with(self.devices.len(), Default::default);
        self.current = Some((index, version));
        if let Some(known) = self.found.get_mut(index).and_then(|own| own.traits.get_mut(version)) {
            *known = Some(traits);
        }
    }

    fn sums(&mut self, day: &str) -> Option<&mut Sums> {
        let day = number(&mut self.days, day);
        let (index, version) = self.current?;
        let days = self.found.get_mut(index)?.days.get_mut(version)?;
        let known = days.iter().position(|sums| sums.day == day);
        let index = known.unwrap_or_else(|| {
            days.push(Sums { day, ..Sums::default() });
            days.len() - 1
        });
        days.get_mut(index)
    }

    fn is_out(&self, screen: &str) -> bool {
        self.segment.screen.as_deref().is_some_and(|only| only != screen)
    }

    /// Adds the device's frames of a day on a screen, and their time past the deadlines.
    pub fn frames(&mut self, day: &str, screen: &str, frames: u64, jank_ns: u64) {
        if frames == 0 || self.is_out(screen) {
            return;
        }
        let on = number(&mut self.screens, screen);
        let series = number(&mut self.series, &(Some(screen), "", ""));
        if let Some(sums) = self.sums(day) {
            sums.frames.push((on, frames));
            sums.times.extend((jank_ns > 0).then_some((series, jank_ns)));
        }
    }

    /// Adds the device's time of a cause of a day on a screen.
    pub fn cause(&mut self, day: &str, screen: &str, cause: &str, key: &str, ns: u64) {
        if ns == 0 || self.is_out(screen) {
            return;
        }
        number(&mut self.screens, screen);
        let series = number(&mut self.series, &(Some(screen), cause, key));
        if let Some(sums) = self.sums(day) {
            sums.times.push((series, ns));
        }
    }

    /// Returns the devices.
    #[must_use]
    pub fn finish(self) -> Fleet {
        let Self { source, segment, has_test_devices, days, mut screens, series, found, .. } = self;
        let screen = |one: &Series| number(&mut screens, one.screen.as_deref().unwrap_or_default());
        let screen_of = series.iter().map(screen).collect();
        let series = series.into_iter().collect();
        let mut fleet = Fleet { source, screen_of, series, ..Fleet::default() };
        fleet.screens = screens.into_iter().collect();
        let mut order: Vec<usize> = (0..days.len()).collect();
        order.sort_by_key(|index| days.get_index(*index));
        let mut day_numbers = vec![0; order.len()];
        for (number, index) in (0_u32..).zip(&order) {
            day_numbers.get_mut(*index).into_iter().for_each(|day| *day = number);
        }
        fleet.days = order.iter().filter_map(|index| days.get_index(*index).cloned()).collect();
        for Found { traits, mut days } in found {
            // Those before the update: the later version cannot move them.
            let [before, after] = traits;
            let is_test = [&before, &after].into_iter().flatten().any(|traits| traits.is_test);
            let Some(traits) = before.or(after) else { continue };
            if !segment.has(&traits) {
                continue;
            }
            if is_test && !has_test_devices {
                fleet.test_devices += 1;
                continue;
            }
            for of_version in &mut days {
                of_version.retain(|sums| sums.frame_count() > 0);
                for sums in &mut *of_version {
                    sums.day = get(&day_numbers, sums.day).copied().unwrap_or_default();
                }
                of_version.sort_by_key(|sums| sums.day);
            }
            let Traits { api, hz, quick_ns, .. } = traits;
            // The text of the next class comes next.
            let alike = format!("{:03} {api} {hz}", class_of(quick_ns) + 100);
            fleet.devices.push(Device { alike: alike.into(), days });
        }
        fleet
    }
}
