//! A rollout: the rows of its devices, and the truth about the later version.

use crate::device::{Device, exponential};
use crate::{DAY_MS, FIRST_DAY, RELEASE_DAYS, RELEASE_MS, Scenario};
use fastrand::Rng;
use tracetee_simulate::Moment;

/// Deadline of a frame, ns, and the time of a quick frame on a usual device.
const PERIOD_NS: f64 = 1e9 / 60.0;
const QUICK_NS: f64 = 3e6;

/// A cause: name, key, late frames in a thousand, mean time in ms.
type Cause = (&'static str, &'static str, f64, f64);

/// Screens: name, mean number of frames in a capture, causes.
const SCREENS: [(&str, f64, &[Cause]); 4] = [
    (
        "Feed",
        300.0,
        &[
            ("inflate", "inflate", 30.0, 30.0),
            ("section", "Feed.bind", 15.0, 25.0),
            ("gc", "GC: Wait For Completion Alloc", 4.0, 30.0),
        ],
    ),
    ("Detail", 150.0, &[("io", "Icons.read", 10.0, 25.0), ("section", "Db.query", 20.0, 22.0)]),
    ("Settings", 100.0, &[("sleep", "Prices.load", 12.0, 25.0)]),
    ("Reels", 200.0, &[("section", "Reels.decode", 120.0, 40.0)]),
];

/// Reasons of ends of processes, and their number in a thousand sessions.
pub const DEATHS: [(&str, f64); 3] = [("anr", 2.0), ("crash", 3.0), ("memory_limiter", 1.0)];

/// A cause on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// The screen.
    pub screen: &'static str,
    /// The cause.
    pub cause: &'static str,
    /// Key of the cause.
    pub key: &'static str,
}

/// A device's frames on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Index of the screen in [`Rollout::screens`].
    pub screen: usize,
    /// Frames.
    pub frames: u64,
    /// Time past the deadlines.
    pub jank_ns: u64,
}

/// A device's time of a cause, in late frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// Index of the cause in [`Rollout::series`].
    pub series: usize,
    /// Time; above 0.
    pub ns: u64,
}

/// A device's sums of a day under a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Index of the device in [`Rollout::devices`].
    pub device: usize,
    /// Version: 0 the earlier one, 1 the later one, and more if there are more releases.
    pub version: usize,
    /// Day on which the collector gets it, counted from the release.
    pub look: i64,
    /// Day by the device's clock, if the collector believes it (30 days late, one early), as the tables have it.
    pub day: i64,
    /// Unix time of the first capture by the device's clock, ms.
    pub made_ms: i64,
    /// True if the device updated to the version on this day, or installed it.
    pub is_first_day: bool,
    /// Captures.
    pub captures: u64,
    /// Times of being visible.
    pub sessions: u64,
    /// Ends of processes that a user saw: [`DEATHS`].
    pub deaths: [u64; DEATHS.len()],
    /// Time within which a tenth of the frames are done.
    pub quick_ns: u64,
    /// Screens, in the order of their indices.
    pub visits: Vec<Visit>,
    /// Causes, in the order of their indices.
    pub times: Vec<Time>,
}

/// The truth about the later version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Truth {
    /// Factor of each of [`Rollout::series`]; 1: the version did not change it.
    pub factors: Vec<f64>,
    /// Indices of the screens that only the later version has.
    pub later_screens: Vec<usize>,
    /// Reason of ends of processes that the later version has more of, or empty.
    pub more_deaths: &'static str,
}

/// A rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// Days after the release.
    pub days: i64,
    /// Devices.
    pub devices: Vec<Device>,
    /// Screens.
    pub screens: Vec<&'static str>,
    /// Causes by screen.
    pub series: Vec<Series>,
    /// Rows by the day on which the collector gets them, then by device.
    pub rows: Vec<Row>,
    /// The truth.
    pub truth: Truth,
}

impl Rollout {
    /// Returns the name of a day, as the tables have it.
    #[must_use]
    pub fn date(day: i64) -> String {
        // Days of the era from the first of March of the year 0 (Hinnant, "chrono-compatible low-level date algorithms").
        let days = RELEASE_MS / DAY_MS + day + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

impl Scenario {
    /// Returns the version that is released at a time.
    pub(crate) fn released_at(&self, ms: i64) -> usize {
        let days = (ms - RELEASE_MS).div_euclid(DAY_MS);
        (days / RELEASE_DAYS + 1).clamp(1, self.releases as i64) as usize
    }

    /// Makes a rollout of this many devices and days after the release.
    #[must_use]
    pub fn rollout(&self, seed: u64, devices: usize, days: i64) -> Rollout {
        let all = SCREENS.iter().flat_map(|(screen, _, causes)| {
            causes.iter().map(|&(cause, key, ..)| Series { screen, cause, key })
        });
        let series: Vec<Series> = all.collect();
        let is_changed = |series: &Series| self.changed.is_empty() || self.changed == series.key;
        let factor = |series: &Series| if is_changed(series) { self.change } else { 1.0 };
        let factors: Vec<f64> = series.iter().map(factor).collect();
        let is_later = |screen: &&str| self.world.later_screens.iter().any(|later| later == screen);
        let screens = SCREENS.map(|(screen, ..)| screen);
        let later_screens = (0..screens.len()).filter(|&index| is_later(&screens[index])).collect();
        let mut rollout = Rollout {
            days,
            devices: Vec::with_capacity(devices),
            screens: screens.to_vec(),
            series,
            rows: Vec::new(),
            truth: Truth { factors, later_screens, more_deaths: self.more_deaths.0 },
        };
        for number in 0..devices {
            // Neighbours' generators must not be alike.
            let mut rng =
                Rng::with_seed(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            rng.u64(..);
            let device = Device::draw(&mut rng, self, days);
            self.send(&mut rng, number, &device, &mut rollout);
            rollout.devices.push(device);
        }
        rollout.rows.sort_by_key(|row| row.look);
        rollout
    }

    /// Adds the rows of a device.
    fn send(&self, rng: &mut Rng, number: usize, device: &Device, to: &mut Rollout) {
        let factors = self.world.days(rng, (to.days - FIRST_DAY) as usize);
        for (day, of_day) in (FIRST_DAY..to.days).zip(factors) {
            let from_ms = RELEASE_MS + day * DAY_MS;
            let is_today = |update: &&(i64, usize)| (from_ms..from_ms + DAY_MS).contains(&update.0);
            let update = device.updates.iter().rfind(is_today).copied();
            let before = device.version_at(from_ms);
            if before.is_none() && update.is_none() {
                continue;
            }
            let activity = if device.is_bot { 1.0 } else { device.activity };
            let share = activity * self.world.sending(of_day);
            // A day of an update has two parts. The first session after an update is always sent.
            let parts: &[bool] = match (update, before) {
                (None, _) => &[false],
                (Some(_), Some(_)) => &[false, true],
                (Some(_), None) => &[true],
            };
            for &is_first_day in parts {
                let share = if update.is_some() { share / 2.0 } else { share };
                if !is_first_day && rng.f64() >= share {
                    continue;
                }
                let end_ms = from_ms + DAY_MS;
                let (begin, end, version) = match update {
                    Some((update_ms, version)) if is_first_day => {
                        (update_ms, end_ms, Some(version))
                    }
                    Some((update_ms, _)) => (from_ms, update_ms, before),
                    None => (from_ms, end_ms, before),
                };
                let ms = begin + (rng.f64() * (end - begin) as f64) as i64;
                let made_ms = ms + device.wrong_days * DAY_MS;
                let mut row = Row {
                    device: number,
                    version: version.unwrap_or_default(),
                    look: day,
                    day: if (-1..=30).contains(&-device.wrong_days) {
                        day + device.wrong_days
                    } else {
                        day
                    },
                    made_ms,
                    is_first_day,
                    captures: 1 + u64::from(rng.u8(0..10) < 3),
                    quick_ns: (QUICK_NS * device.factor.sqrt() * (0.95 + 0.1 * rng.f64())) as u64,
                    sessions: 0,
                    deaths: [0; DEATHS.len()],
                    visits: Vec::with_capacity(SCREENS.len()),
                    times: Vec::new(),
                };
                let moment = Moment {
                    ms,
                    release_ms: RELEASE_MS,
                    model: &device.model,
                    is_first_day,
                    is_newcomer: device.is_newcomer && !device.is_bot,
                    is_bot: device.is_bot,
                };
                let factor = of_day * self.world.factor(&moment) * self.world.tail(rng);
                self.observe(rng, device, factor, &to.truth, &mut row);
                // Of another generator, so that frames do not depend on deaths.
                self.end(&mut Rng::with_seed(rng.clone().u64(..)), device, factor, &mut row);
                if self.world.is_garbage(rng) {
                    spoil(rng, &mut row);
                }
                to.rows.push(row);
            }
        }
    }

    /// Draws the sessions and the ends of processes of a row. Devices differ by much: some hardly run the app.
    fn end(&self, rng: &mut Rng, device: &Device, factor: f64, row: &mut Row) {
        row.sessions = 1 + (4.0 * exponential(rng)) as u64;
        for ((reason, in_1000), deaths) in DEATHS.into_iter().zip(&mut row.deaths) {
            let is_changed = row.version >= self.changed_in && self.more_deaths.0 == reason;
            let change = if is_changed { self.more_deaths.1 } else { 1.0 };
            let rate = in_1000 / 1000.0 * device.rate.powi(3) * factor * change;
            let mut at = exponential(rng);
            while at < row.sessions as f64 * rate {
                // Some ends follow each other at once.
                *deaths += if rng.u8(0..10) == 0 { 1 + rng.u64(0..10) } else { 1 };
                at += exponential(rng);
            }
        }
    }

    /// Draws the frames and times of a row.
    fn observe(&self, rng: &mut Rng, device: &Device, factor: f64, truth: &Truth, row: &mut Row) {
        let base_ns = QUICK_NS * device.factor.sqrt();
        let mut series = 0;
        for (screen, (_, mean_frames, causes)) in SCREENS.iter().enumerate() {
            let is_new = screen + 1 == SCREENS.len();
            let is_there =
                if truth.later_screens.contains(&screen) { row.version >= 1 } else { !is_new };
            let is_visited = is_there && rng.u8(0..10) < 8;
            let frames = (mean_frames * row.captures as f64 * (0.5 + rng.f64())) as u64;
            let mut jank_ns = 0.0;
            for &(_, _, in_1000, mean_ms) in *causes {
                let change =
                    if row.version >= self.changed_in { truth.factors[series] } else { 1.0 };
                let mean_ns = mean_ms * 1e6 * device.factor * factor * change;
                let expected =
                    if is_visited { frames as f64 * in_1000 / 1000.0 * device.rate } else { 0.0 };
                let mut ns = 0.0;
                let mut at = exponential(rng);
                while at < expected {
                    let time_ns = mean_ns * exponential(rng);
                    let late_ns = base_ns + time_ns - PERIOD_NS;
                    if late_ns > 0.0 {
                        ns += time_ns;
                        jank_ns += late_ns;
                    }
                    at += exponential(rng);
                }
                if ns >= 1.0 {
                    row.times.push(Time { series, ns: ns as u64 });
                }
                series += 1;
            }
            if is_visited && frames > 0 {
                row.visits.push(Visit { screen, frames, jank_ns: jank_ns as u64 });
            }
        }
    }
}

/// Makes a row's times impossible: longer than the capture, by an hour to a year.
fn spoil(rng: &mut Rng, row: &mut Row) {
    let hours = 10_f64.powf(rng.f64() * 4.0);
    if let Some(visit) = row.visits.first_mut() {
        visit.jank_ns += (hours * 3.6e12) as u64;
    }
    if let Some(time) = row.times.first_mut() {
        time.ns += (hours * 3.6e12) as u64;
    }
}
