//! The compared part of a later version, and the rest.

use super::Source;
use super::constants::{LEAST_DEVICES, LEAST_UNKNOWN};
use super::control::{Days, Design};
use super::estimate::Estimate;
use super::findings::FACTOR;
use super::observations::{Fleet, Sums, get};
use crate::significance::real;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tracetee_trace::shown;

/// Limit of named screens.
const MOST_SCREENS: usize = 20;

/// A screen that only one of the versions has.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OwnScreen {
    /// Name, or empty.
    pub screen: String,
    /// Share of that version's frames.
    pub frames: f64,
    /// Share of that version's jank.
    pub jank: f64,
}

/// The part of a later version that is compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Coverage {
    /// Number of devices of which those compared are a sample; `None`: all were read.
    pub sampled_from: Option<u64>,
    /// Devices with frames that rates count, of both versions.
    pub sent: [u64; 2],
    /// Devices that updated and are compared, each with a control.
    pub compared: u64,
    /// Controls: devices that had not updated on the same days.
    pub controls: u64,
    /// Devices of the later version that sent nothing before their update: nothing says how they were.
    pub without_before: u64,
    /// Devices that updated, but sent only their first day since.
    pub first_day_only: u64,
    /// Devices that updated, and for which none that is like them kept the earlier version on the same days.
    pub without_control: u64,
    /// Emulators and debuggable builds, which are left out.
    pub test_devices: u64,
    /// Share of the later version's frames that is compared.
    pub frames: f64,
    /// Share of the later version's jank that is compared.
    pub jank: f64,
    /// Screens that only the later version has, most jank first.
    pub later_screens: Vec<OwnScreen>,
    /// Screens that only the earlier version has, most jank first.
    pub earlier_screens: Vec<OwnScreen>,
    /// Their jank, ms per thousand frames of the earlier version.
    #[serde(skip)]
    earlier_ms: f64,
}

impl Coverage {
    /// Counts the compared data of a design.
    pub(crate) fn count(days: &Days<'_>, design: &Design) -> Self {
        let fleet = days.fleet;
        let Fleet { sampled_from, test_devices, .. } = *fleet;
        let mut found = Self { sampled_from, test_devices, ..Self::default() };
        let later = || design.rows.iter().filter(|row| row.is_later);
        let updated: BTreeSet<usize> = later().map(|row| row.device).collect();
        let cells: BTreeSet<usize> = later().map(|row| row.cell).collect();
        let controls = design.rows.iter().filter(|row| !row.is_later && cells.contains(&row.cell));
        let controls: BTreeSet<usize> = controls.map(|row| row.device).collect();
        (found.compared, found.controls) = (updated.len() as u64, controls.len() as u64);
        let mut of_screens = vec![[0_u64; 2]; fleet.screens.len()];
        for (number, device) in fleet.devices.iter().enumerate() {
            let [days_before, after] = &device.days;
            found.sent[0] += u64::from(!days_before.is_empty());
            found.sent[1] += u64::from(!after.is_empty());
            for (screen, sums) in
                after.iter().flat_map(|sums| sums.frames.iter().map(move |on| (on.0, sums)))
            {
                let of_screen = of_screens.get_mut(screen as usize);
                add(of_screen, totals(fleet, sums, &|other| other == screen));
            }
            if after.is_empty() || updated.contains(&number) {
                continue;
            }
            let has_before = days_before.iter().any(|sums| Some(sums.day) < device.update());
            found.without_before += u64::from(!has_before);
            found.first_day_only += u64::from(has_before && after.len() == 1);
            found.without_control += u64::from(has_before && after.len() > 1);
        }
        let (mut all, mut compared) = ([0; 2], [0; 2]);
        of_screens.iter().for_each(|counts| add(Some(&mut all), *counts));
        let is_shared: Vec<bool> =
            (0_u32..).zip(&fleet.screens).map(|(screen, _)| days.is_shared(screen)).collect();
        let is_shared = |screen: u32| get(&is_shared, screen) == Some(&true);
        let days = later().filter_map(|row| days.rows.get(row.row));
        days.for_each(|row| add(Some(&mut compared), totals(fleet, row.sums, &is_shared)));
        let share =
            |part: [u64; 2]| [0, 1].map(|index| real(part[index]) / real(all[index].max(1)));
        [found.frames, found.jank] = share(compared);
        for (number, counts) in (0_u32..).zip(&of_screens) {
            if counts[0] > 0 && !is_shared(number) {
                let screen = get(&fleet.screens, number).cloned().unwrap_or_default().to_string();
                let [frames, jank] = share(*counts);
                found.later_screens.push(OwnScreen { screen, frames, jank });
            }
        }
        found.later_screens = most(found.later_screens);
        let gone = (0..).zip(&of_screens).filter(|(_, [frames, _])| *frames == 0);
        found.add_earlier(fleet, &gone.map(|(screen, _)| screen).collect());
        found
    }

    /// Adds the screens that only the earlier version has; the later one has no frames of these.
    fn add_earlier(&mut self, fleet: &Fleet, screens: &BTreeSet<u32>) {
        if screens.is_empty() {
            return;
        }
        let (mut all, mut of_screens) = ([0; 2], BTreeMap::new());
        for sums in fleet.devices.iter().flat_map(|device| &device.days[0]) {
            add(Some(&mut all), totals(fleet, sums, &|_| true));
            for &(screen, _) in sums.frames.iter().filter(|on| screens.contains(&on.0)) {
                let counts = totals(fleet, sums, &|other| other == screen);
                add(Some(of_screens.entry(screen).or_insert([0; 2])), counts);
            }
        }
        let [frames, ns] = all.map(|all| real(all.max(1)));
        for (number, [own_frames, own_ns]) in of_screens {
            let screen = get(&fleet.screens, number).cloned().unwrap_or_default().to_string();
            let (own_frames, own_ns) = (real(own_frames), real(own_ns));
            self.earlier_ms += own_ns / frames / 1e3;
            let own = OwnScreen { screen, frames: own_frames / frames, jank: own_ns / ns };
            self.earlier_screens.push(own);
        }
        self.earlier_screens = most(std::mem::take(&mut self.earlier_screens));
    }

    /// Returns true if a rise may be the content of screens that are gone, which is on others now.
    pub(crate) fn may_have_moved(&self, all: &Estimate) -> bool {
        let jank: f64 = self.earlier_screens.iter().map(|screen| screen.jank).sum();
        jank >= LEAST_UNKNOWN && self.earlier_ms * FACTOR >= all.change_ms()
    }

    /// Returns true if enough devices are compared for a verdict.
    pub(crate) fn is_enough(&self) -> bool {
        self.compared.min(self.controls) >= LEAST_DEVICES
    }

    /// Returns true if nothing is known about the whole: too few devices are compared, or much of a version is on screens that
    /// only it has.
    pub(crate) fn is_unknown(&self) -> bool {
        let is_much = |screens: &[OwnScreen]| {
            let sum = |part: fn(&OwnScreen) -> f64| screens.iter().map(part).sum::<f64>();
            sum(|screen| screen.frames).max(sum(|screen| screen.jank)) >= LEAST_UNKNOWN
        };
        !self.is_enough() || is_much(&self.later_screens) || is_much(&self.earlier_screens)
    }

    /// Returns sentences that say which part is compared.
    pub(crate) fn to_text(&self, source: Source, [from, to]: [&str; 2]) -> String {
        let ([base, all], from, to) = (source.nouns(), shown(from), shown(to));
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let mut text = format!(
            "Compared: {} of the {base} and {} of the {all} of {to}.",
            percent(self.frames),
            percent(self.jank)
        );
        for (screens, other, own) in
            [(&self.later_screens, &from, &to), (&self.earlier_screens, &to, &from)]
        {
            for OwnScreen { screen, frames, jank } in screens.iter().take(3) {
                let screen = if screen.is_empty() { "no name" } else { screen };
                let _ = write!(
                    text,
                    " Not compared: the screen {}, which {other} does not have, with {} of the {base} and {} of the {all} of {own}.",
                    shown(screen),
                    percent(*frames),
                    percent(*jank)
                );
            }
        }
        text
    }

    /// Returns which devices are compared, and why the others are not.
    pub(crate) fn devices_text(&self, [from, to]: [&str; 2]) -> String {
        let (from, to) = (shown(from), shown(to));
        let [before, after] = self.sent;
        let mut text = format!(
            "Devices: {before} sent {from}, {after} sent {to}. {} updated and are compared on the same days with {} like them that had kept {from}.",
            self.compared, self.controls
        );
        for (count, why) in [
            (self.without_before, "sent nothing before the update"),
            (self.first_day_only, "sent only the first day after the update, which is no measure"),
            (self.without_control, "have none like them that kept it on the same days"),
            (self.test_devices, "are emulators or debuggable (--test-devices compares them)"),
        ] {
            if count > 0 {
                let _ = write!(text, " Not compared: {count} that {why}.");
            }
        }
        if let Some(all) = self.sampled_from {
            let _ = write!(text, " They were sampled from {all} devices.");
        }
        text
    }
}

fn add(to: Option<&mut [u64; 2]>, counts: [u64; 2]) {
    to.into_iter().flatten().zip(counts).for_each(|(sum, one)| *sum = sum.saturating_add(one));
}

/// Returns the screens with the most jank.
fn most(mut screens: Vec<OwnScreen>) -> Vec<OwnScreen> {
    screens.sort_by(|a, b| b.jank.total_cmp(&a.jank));
    screens.truncate(MOST_SCREENS);
    screens
}

/// Returns frames and time past the deadlines on some screens.
fn totals(fleet: &Fleet, sums: &Sums, is_of: &dyn Fn(u32) -> bool) -> [u64; 2] {
    let frames = sums.frames.iter().filter(|frames| is_of(frames.0)).map(|frames| frames.1).sum();
    let is_total = |series: u32| {
        let is_jank = get(&fleet.series, series).is_some_and(|series| series.cause.is_empty());
        is_jank && get(&fleet.screen_of, series).is_some_and(|screen| is_of(*screen))
    };
    [frames, sums.times.iter().filter(|time| is_total(time.0)).map(|time| time.1).sum()]
}
