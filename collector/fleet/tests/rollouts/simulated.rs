//! A simulated rollout, as the sums that a collector has of it: a fleet of fast and slow models, whose devices differ among
//! themselves and from capture to capture.

use fastrand::Rng;
use std::collections::BTreeMap;
use tracetee_fleet::guard::Series;
use tracetee_fleet::guard::fleet::{Fleet, Seen, digest};

pub(crate) const DAYS: usize = 14;
pub(crate) const SCREENS: usize = 3;
/// Causes of each screen.
pub(crate) const CAUSES: usize = 8;

/// A simulated rollout.
#[derive(Clone)]
pub(crate) struct Rolled {
    pub(crate) devices: usize,
    /// Share of slow devices among those that sent the earlier version, and among those that send the later one.
    pub(crate) slow: [f64; 2],
    /// Factor by which the fastest devices update earlier than the slowest.
    pub(crate) eager: f64,
    /// Frames of a device's first capture of the later version.
    pub(crate) frames: u64,
    /// Share of devices with captures of the earlier version.
    pub(crate) has_earlier: f64,
    /// Factor of a cause's time on a screen by day, under the later version.
    pub(crate) change: fn(day: usize, screen: usize, cause: usize, device: f64) -> f64,
}

impl Default for Rolled {
    fn default() -> Self {
        Self {
            devices: 2500,
            slow: [0.5, 0.5],
            eager: 1.0,
            frames: 120,
            has_earlier: 0.6,
            change: |_, _, _, _| 1.0,
        }
    }
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

fn whole(value: f64) -> u64 {
    value as u64
}

/// A device of the rollout.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) is_slow: bool,
    /// Factor of all its times.
    pub(crate) factor: f64,
    /// Day on which it sends the later version.
    pub(crate) day: usize,
}

/// Adds captures to a device: late frames come at random, and take times of very different lengths.
fn capture(rng: &mut Rng, seen: &mut Seen, frames: u64, factor: impl Fn(usize, usize) -> f64) {
    let mut times: BTreeMap<u32, u64> = seen.times.iter().copied().collect();
    let mut counts: BTreeMap<u32, u64> = seen.frames.iter().copied().collect();
    for screen in 0..SCREENS {
        let frames = frames / (1 + screen as u64);
        *counts.entry(screen as u32).or_default() += frames;
        for cause in 0..CAUSES {
            // Expected number of late frames with the cause.
            let expected = frames as f64 * 0.02 / (1 + cause) as f64;
            let mut ns = 0.0;
            let mut at = exponential(rng);
            while at < expected {
                ns += 8e6 * exponential(rng);
                at += exponential(rng);
            }
            let ns = whole(ns * factor(screen, cause));
            if ns > 0 {
                *times.entry(screen as u32).or_default() += ns;
                *times.entry((SCREENS + screen * CAUSES + cause) as u32).or_default() += ns;
            }
        }
    }
    (seen.times, seen.frames) = (times.into_iter().collect(), counts.into_iter().collect());
}

pub(crate) fn empty() -> Fleet {
    let mut fleet = Fleet::default();
    for screen in 0..SCREENS {
        let name = format!("Screen{screen}");
        fleet.screens.push(name.as_str().into());
        fleet.series.push(Series { screen: Some(name.into()), ..Series::default() });
        fleet.screen_of.push(screen as u32);
    }
    for screen in 0..SCREENS {
        for cause in 0..CAUSES {
            let screen_name = Some(fleet.screens[screen].clone());
            let key = format!("cause {cause}").into();
            fleet.series.push(Series { screen: screen_name, cause: "section".into(), key });
            fleet.screen_of.push(screen as u32);
        }
    }
    fleet
}

/// The fleet at the end of each day.
pub(crate) fn rollout(plan: &Rolled, seed: u64, mut each_day: impl FnMut(usize, &Fleet)) {
    let mut rng = Rng::with_seed(seed);
    let mut fleet = empty();
    let mut devices = Vec::new();
    for number in 0..plan.devices {
        let has_earlier = rng.f64() < plan.has_earlier;
        let is_slow = rng.f64() < plan.slow[usize::from(!has_earlier)];
        let individual = (0.4 * normal(&mut rng)).exp();
        let factor = individual * if is_slow { 2.0 } else { 1.0 };
        let eager = if factor < 1.4 { plan.eager } else { 1.0 };
        let day = whole(8.0 * exponential(&mut rng) / eager) as usize;
        let device = Device { name: format!("device {number:05}"), is_slow, factor, day };
        if has_earlier {
            let mut seen = seen(&device, 0);
            let frames = 200 + rng.u64(0..800);
            capture(&mut rng, &mut seen, frames, |_, _| device.factor);
            fleet.earlier.push(seen);
        }
        devices.push(device);
    }
    let mut later: Vec<(usize, Seen)> = Vec::new();
    for day in 0..DAYS {
        for (number, device) in devices.iter().enumerate() {
            let factor =
                |screen, cause| device.factor * (plan.change)(day, screen, cause, device.factor);
            if device.day == day {
                let mut seen = seen(device, day);
                capture(&mut rng, &mut seen, plan.frames, factor);
                later.push((number, seen));
            } else if device.day + 1 == day && rng.bool() {
                // A late capture.
                let found = later.iter_mut().find(|of| of.0 == number);
                let seen = &mut found.expect("it came yesterday").1;
                capture(&mut rng, seen, 200, factor);
                seen.day = day_name(day);
            }
        }
        later.sort_by_key(|of| of.0);
        fleet.later = later.iter().map(|of| of.1.clone()).collect();
        each_day(day, &fleet);
    }
}

fn day_name(day: usize) -> tracetee_fleet::schema::Text {
    format!("2026-09-{:02}", day + 1).into()
}

pub(crate) fn seen(device: &Device, day: usize) -> Seen {
    // As the comparison has it: by what a device's frames take, in classes of half an octave.
    let class = (device.factor.log2() * 2.0).round() as i32;
    Seen {
        device: device.name.as_str().into(),
        digest: digest(&device.name),
        day: day_name(day),
        class: Some(i32::from(device.is_slow)),
        likeness: format!("{} {class}", device.is_slow).into(),
        ..Seen::default()
    }
}
