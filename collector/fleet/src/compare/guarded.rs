//! Arranges devices for a guard: each with its likeness, its frames and its times, without pairing them.

use super::classes::{ModelClasses, class_of};
use super::collected::{Collected, Sent};
use crate::guard::Series;
use crate::guard::fleet::{Fleet, Seen, Segment, digest};
use crate::table::Text;
use foldhash::fast::RandomState;
use std::collections::HashMap;

impl Collected {
    /// Arranges the devices of a segment. `days` has the last day of each device under the later version. Test devices are
    /// left out.
    pub(crate) fn fleet(self, segment: &Segment, days: &HashMap<Text, Text>) -> Fleet {
        let [earlier, later] = &self.sent;
        let models = ModelClasses::of_devices(
            earlier.iter().map(|sent| (&sent.traits.model, sent.traits.quick_ns)),
        );
        let mut fleet = Fleet { screens: self.screens.all.clone(), ..Fleet::default() };
        for (place, screen) in (0_u32..).zip(&self.screens.all) {
            fleet.series.push(Series { screen: Some(screen.clone()), ..Series::default() });
            fleet.screen_of.push(place);
        }
        let mut places: HashMap<(u32, u32), u32, RandomState> = HashMap::default();
        for (_, (screen, cause, _)) in earlier
            .iter()
            .chain(later)
            .flat_map(|sent| sent.causes.iter().map(move |of| (sent, of)))
        {
            let next = u32::try_from(fleet.series.len()).unwrap_or(u32::MAX);
            if *places.entry((*screen, *cause)).or_insert(next) == next {
                let at = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
                let (cause, key) = self.cause_names.get(at(*cause)).cloned().unwrap_or_default();
                let screen_name = self.screens.all.get(at(*screen)).cloned();
                fleet.series.push(Series { screen: screen_name, cause, key });
                fleet.screen_of.push(*screen);
            }
        }
        let is_screen = |screen: u32| {
            let name = usize::try_from(screen).ok().and_then(|place| self.screens.all.get(place));
            segment.screen.is_none() || segment.screen.as_ref() == name
        };
        let seen = |sent: &Sent| {
            let traits = &sent.traits;
            let is_of = segment.model.as_ref().is_none_or(|model| *model == traits.model)
                && segment.api.is_none_or(|api| api == traits.api)
                && segment.hz.is_none_or(|hz| hz == traits.hz);
            if !is_of || traits.is_test {
                return None;
            }
            let device =
                usize::try_from(sent.device).ok().and_then(|place| self.devices.all.get(place))?;
            let class = models.class(&traits.model);
            let likeness = class.map(|model| {
                format!("{model} {} {} {}", class_of(traits.quick_ns), traits.api, traits.hz)
            });
            let visits =
                sent.visits.iter().filter(|visit| visit.frames > 0 && is_screen(visit.screen));
            let mut frames: Vec<(u32, u64)> =
                visits.clone().map(|of| (of.screen, of.frames)).collect();
            let jank = visits.map(|of| (of.screen, of.jank_ns));
            let causes = sent.causes.iter().filter(|(screen, ..)| is_screen(*screen));
            let causes = causes
                .filter_map(|(screen, cause, ns)| Some((*places.get(&(*screen, *cause))?, *ns)));
            let mut times: Vec<(u32, u64)> = jank.chain(causes).filter(|of| of.1 > 0).collect();
            frames.sort_unstable();
            times.sort_unstable();
            Some(Seen {
                device: device.clone(),
                digest: digest(device),
                day: days.get(device).cloned().unwrap_or_default(),
                class,
                likeness: likeness.unwrap_or_default().into(),
                frames,
                times,
            })
        };
        fleet.earlier = earlier.iter().filter_map(seen).collect();
        fleet.later = later.iter().filter_map(seen).collect();
        for all in [&mut fleet.earlier, &mut fleet.later] {
            all.sort_by(|a, b| a.device.cmp(&b.device));
        }
        fleet
    }
}
