//! The values of devices under two versions, as a guard takes them.

use super::{Digest, Series};
use crate::significance::real;
use crate::table::Text;
use hmac_sha256::Hash;
use tracetee_trace::quoted;

/// A device under a version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Install id.
    pub device: Text,
    /// The digest by which the state knows the device: [`digest`].
    pub digest: Digest,
    /// Last day with frames that rates count.
    pub day: Text,
    /// Class of the device's model; `None` if it is unknown.
    pub class: Option<i32>,
    /// Traits that the device shares with those it is compared with, as a text; empty if that is unknown.
    pub likeness: Text,
    /// Screens, as places in [`Fleet::screens`], sorted; their frames.
    pub frames: Vec<(u32, u64)>,
    /// Times of series, as places in [`Fleet::series`], sorted, ns; without those of 0.
    pub times: Vec<(u32, u64)>,
}

impl Seen {
    /// Returns the number of frames.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.frames.iter().map(|of| of.1).sum()
    }
}

/// Returns the digest of an install id.
#[must_use]
pub fn digest(device: &str) -> Digest {
    let mut digest = Digest::default();
    for (byte, of) in digest.iter_mut().zip(Hash::hash(device.as_bytes())) {
        *byte = of;
    }
    digest
}

/// The devices and the screen that a guard looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// The screen; all of them if there is none.
    pub screen: Option<Text>,
    /// The model.
    pub model: Option<Text>,
    /// The Android API level.
    pub api: Option<u64>,
    /// The refresh rate, Hz.
    pub hz: Option<u64>,
}

impl Segment {
    /// Reads `screen=SCREEN`, `model=MODEL`, `api=LEVEL` and `hz=HZ`, separated by commas.
    ///
    /// # Errors
    /// A text that says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut segment = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || {
                format!("{} is not screen=SCREEN, model=MODEL, api=LEVEL or hz=HZ", quoted(part))
            };
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse().map_err(|_| wrong());
            match name {
                "screen" => segment.screen = Some(value.into()),
                "model" => segment.model = Some(value.into()),
                "api" => segment.api = Some(number()?),
                "hz" => segment.hz = Some(number()?),
                _ => return Err(wrong()),
            }
        }
        Ok(segment)
    }

    /// Returns the segment as [`Segment::parse`] reads it, the same for the same devices.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { screen, model, api, hz } = self;
        let texts = [("screen", screen), ("model", model)];
        let texts = texts.map(|(name, of)| of.as_ref().map(|of| format!("{name}={of}")));
        let numbers =
            [("api", api), ("hz", hz)].map(|(name, of)| of.map(|of| format!("{name}={of}")));
        texts.into_iter().chain(numbers).flatten().collect::<Vec<_>>().join(",")
    }
}

/// The devices of a rollout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    /// Screens.
    pub screens: Vec<Text>,
    /// Series, each on one screen: first all jank of each of `screens`, then causes.
    pub series: Vec<Series>,
    /// Place in `screens` of each series.
    pub screen_of: Vec<u32>,
    /// Devices under the earlier version, sorted by device.
    pub earlier: Vec<Seen>,
    /// Devices under the later version, sorted by device.
    pub later: Vec<Seen>,
}

/// The difference of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Place of the series in [`Fleet::series`]; `None` for all jank of all screens.
    pub series: Option<u32>,
    /// Value under the later version less that under the earlier one, ms per thousand frames.
    pub value: f64,
    /// Value under the earlier version.
    pub earlier: f64,
}

impl Fleet {
    /// Returns a device of the later version under the earlier one.
    #[must_use]
    pub fn under_earlier(&self, later: &Seen) -> Option<&Seen> {
        let place = self.earlier.binary_search_by(|seen| seen.device.cmp(&later.device)).ok()?;
        self.earlier.get(place)
    }

    /// Returns the differences of all series that one of the two has on a shared screen, and of all jank of each shared screen
    /// and of all of them; none if the two share no screen.
    #[must_use]
    pub fn differences(&self, earlier: &Seen, later: &Seen) -> Vec<Difference> {
        let shared: Vec<(u32, [u64; 2])> = earlier
            .frames
            .iter()
            .filter_map(|&(screen, before)| {
                let place = later.frames.binary_search_by_key(&screen, |of| of.0).ok()?;
                let after = later.frames.get(place)?.1;
                (before.min(after) >= super::LEAST_ON_SCREEN).then_some((screen, [before, after]))
            })
            .collect();
        let frames = |series: u32| {
            let screen = *self.screen_of.get(usize::try_from(series).ok()?)?;
            let place = shared.binary_search_by_key(&screen, |of| of.0).ok()?;
            shared.get(place).map(|of| of.1)
        };
        let weight: u64 = shared.iter().map(|(_, frames)| frames.iter().sum::<u64>()).sum();
        let mut all = Difference { series: None, value: 0.0, earlier: 0.0 };
        // All jank of a screen comes also without any: it counts the devices.
        let none = |&(screen, _): &(u32, [u64; 2])| Difference {
            series: Some(screen),
            value: 0.0,
            earlier: 0.0,
        };
        let mut differences: Vec<Difference> = shared.iter().map(none).collect();
        let totals = differences.len();
        for (series, times) in (Merged { earlier: &earlier.times, later: &later.times }) {
            let Some(frames) = frames(series) else { continue };
            // ms in a thousand frames.
            let rate = |side: usize| {
                let [time, count] = [times, frames].map(|of| of.get(side).copied().unwrap_or(0));
                real(time) / real(count.max(1)) / 1e3
            };
            let (before, after) = (rate(0), rate(1));
            let of = Difference { series: Some(series), value: after - before, earlier: before };
            let is_this = |of: &&mut Difference| of.series == Some(series);
            if let Some(total) = differences.iter_mut().take(totals).find(is_this) {
                let share = real(frames.iter().sum()) / real(weight.max(1));
                all.value += share * of.value;
                all.earlier += share * of.earlier;
                *total = of;
            } else {
                differences.push(of);
            }
        }
        if totals > 0 {
            differences.push(all);
        }
        differences
    }
}

/// The times of two devices by series.
struct Merged<'a> {
    earlier: &'a [(u32, u64)],
    later: &'a [(u32, u64)],
}

impl Iterator for Merged<'_> {
    type Item = (u32, [u64; 2]);

    fn next(&mut self) -> Option<Self::Item> {
        let [before, after] = [self.earlier.first(), self.later.first()];
        let series = before.into_iter().chain(after).map(|of| of.0).min()?;
        let take = |times: &mut &[(u32, u64)]| match times.split_first() {
            Some((&(of, time), rest)) if of == series => {
                *times = rest;
                time
            }
            _ => 0,
        };
        Some((series, [take(&mut self.earlier), take(&mut self.later)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_read_as_it_is_written() {
        for text in ["", "screen=Feed", "model=Pixel 7,api=34", "screen=,hz=120", "api=29,screen=A"]
        {
            let segment = Segment::parse(text).unwrap();
            assert_eq!(Segment::parse(&segment.to_text()).unwrap(), segment, "{text}");
        }
        for text in ["Feed", "api=new", "colour=red", "screen=A,=,"] {
            assert!(Segment::parse(text).unwrap_err().contains("is not screen=SCREEN"), "{text}");
        }
    }

    #[test]
    fn all_screens_together_weigh_by_the_frames_of_both_versions() {
        let total = |screen: &str| Series { screen: Some(screen.into()), ..Series::default() };
        let cause = Series { cause: "io".into(), key: "read".into(), ..total("A") };
        let fleet = Fleet {
            screens: ["A", "B", "C"].map(Text::from).into(),
            series: vec![total("A"), total("B"), total("C"), cause],
            screen_of: vec![0, 1, 2, 0],
            ..Fleet::default()
        };
        let earlier = Seen {
            frames: vec![(0, 100), (1, 300), (2, 9)],
            times: vec![(0, 1_000_000), (2, 5_000_000), (3, 500_000)],
            ..Seen::default()
        };
        let later = Seen {
            frames: vec![(0, 100), (1, 100), (2, 500)],
            times: vec![(0, 3_000_000), (1, 2_000_000)],
            ..Seen::default()
        };
        let of = |series, value, earlier| Difference { series, value, earlier };
        // The screen C has too few frames.
        let expected = [
            of(Some(0), 20.0, 10.0),
            of(Some(1), 20.0, 0.0),
            of(Some(3), -5.0, 5.0),
            of(None, 20.0, 10.0 / 3.0),
        ];
        let found = fleet.differences(&earlier, &later);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.series, expected.series);
            let error =
                (found.value - expected.value).abs() + (found.earlier - expected.earlier).abs();
            assert!(error < 1e-9, "{found:?} is not {expected:?}");
        }
        let nowhere = Seen { frames: vec![(2, 500)], ..Seen::default() };
        assert_eq!(fleet.differences(&earlier, &nowhere), []);
    }
}
