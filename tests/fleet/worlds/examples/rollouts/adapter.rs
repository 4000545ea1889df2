//! The statistic, as the rig asks it: the one file that knows the guard and the comparison.

use std::collections::BTreeMap;
use tracetee_fleet::compare::classes::{ModelClasses, class_of};
use tracetee_fleet::compare::{Collected, Rules, Side, Traits};
use tracetee_fleet::guard::fleet::{Fleet, Seen, digest};
use tracetee_fleet::guard::verdict::{Verdict, answer};
use tracetee_fleet::guard::{Guard, Series};
use tracetee_fleet::report::comparison::{self, comparison};
use tracetee_worlds::{Rollout, Row, VERSIONS};

/// Rise of all jank that a guard must be able to find before it says go, percent.
const RISE_PERCENT: f64 = 10.0;

/// An answer of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The rollout may go on.
    Go,
    /// The later version is worse.
    Stop,
    /// Too few devices so far.
    NotYet,
}

/// Verdicts of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Compared {
    /// Keys of the causes that became worse; the key of all jank is empty.
    pub(crate) worse: Vec<String>,
    /// Keys of the causes that became better.
    pub(crate) better: Vec<String>,
    /// True if something could not be compared.
    pub(crate) is_unknown: bool,
}

/// The sums of a device under a version.
#[derive(Debug, Clone, Default)]
struct Sums {
    day: i64,
    frames: BTreeMap<u32, u64>,
    /// By place in the guard's series: screens, then causes.
    times: BTreeMap<u32, u64>,
    quick_ns: u64,
    rows: u64,
}

impl Sums {
    fn add(&mut self, row: &Row, screens: usize) {
        self.day = if self.rows == 0 { row.day } else { self.day.max(row.day) };
        for visit in &row.visits {
            *self.frames.entry(visit.screen as u32).or_default() += visit.frames;
            *self.times.entry(visit.screen as u32).or_default() += visit.jank_ns;
        }
        for time in &row.times {
            *self.times.entry((screens + time.series) as u32).or_default() += time.ns;
        }
        self.quick_ns += row.quick_ns;
        self.rows += 1;
    }

    fn quick_ns(&self) -> u64 {
        self.quick_ns / self.rows.max(1)
    }
}

/// A guard of a rollout.
pub(crate) struct Watch {
    guard: Guard,
    /// Sums by device, of each version.
    sums: [BTreeMap<usize, Sums>; 2],
    taken: usize,
}

impl Watch {
    /// Begins to guard.
    pub(crate) fn new() -> Self {
        Self { guard: Guard::default(), sums: [BTreeMap::new(), BTreeMap::new()], taken: 0 }
    }

    /// Looks at the end of a day.
    pub(crate) fn look(&mut self, rollout: &Rollout, day: i64) -> Said {
        while let Some(row) = rollout.rows.get(self.taken).filter(|row| row.look <= day) {
            let sums = self.sums[row.version].entry(row.device).or_default();
            sums.add(row, rollout.screens.len());
            self.taken += 1;
        }
        let fleet = fleet(rollout, &self.sums);
        self.guard.look(&fleet);
        match answer(&self.guard, &fleet, RISE_PERCENT).verdict {
            Verdict::Go => Said::Go,
            Verdict::Stop => Said::Stop,
            Verdict::NotYet => Said::NotYet,
        }
    }
}

fn fleet(rollout: &Rollout, sums: &[BTreeMap<usize, Sums>; 2]) -> Fleet {
    let mut fleet = Fleet::default();
    for (number, &screen) in rollout.screens.iter().enumerate() {
        fleet.screens.push(screen.into());
        fleet.series.push(Series { screen: Some(screen.into()), ..Series::default() });
        fleet.screen_of.push(number as u32);
    }
    for series in &rollout.series {
        let screen = rollout.screens.iter().position(|screen| *screen == series.screen);
        fleet.series.push(Series {
            screen: Some(series.screen.into()),
            cause: series.cause.into(),
            key: series.key.into(),
        });
        fleet.screen_of.push(screen.unwrap() as u32);
    }
    let models: Vec<_> =
        rollout.devices.iter().map(|device| device.model.as_str().into()).collect();
    let models = ModelClasses::of_devices(
        sums[0].iter().map(|(device, sums)| (&models[*device], sums.quick_ns())),
    );
    let seen = |(number, sums): (&usize, &Sums)| {
        let device = &rollout.devices[*number];
        let class = models.class(&device.model);
        let likeness = class.map(|model| {
            format!("{model} {} {} {}", class_of(sums.quick_ns()), device.api, device.hz)
        });
        Seen {
            device: device.id.as_str().into(),
            digest: digest(&device.id),
            day: Rollout::date(sums.day).into(),
            class,
            likeness: likeness.unwrap_or_default().into(),
            frames: sums.frames.iter().map(|(screen, count)| (*screen, *count)).collect(),
            times: sums.times.iter().map(|(of, ns)| (*of, *ns)).filter(|of| of.1 > 0).collect(),
        }
    };
    fleet.earlier = sums[0].iter().map(seen).collect();
    fleet.later = sums[1].iter().map(seen).collect();
    for all in [&mut fleet.earlier, &mut fleet.later] {
        all.sort_by(|a, b| a.device.cmp(&b.device));
    }
    fleet
}

/// Compares the versions by all rows.
pub(crate) fn compared(rollout: &Rollout) -> Compared {
    let mut sums = [BTreeMap::<usize, Sums>::new(), BTreeMap::new()];
    for row in &rollout.rows {
        sums[row.version].entry(row.device).or_default().add(row, rollout.screens.len());
    }
    let mut collected = Collected::default();
    for (side, sums) in [Side::From, Side::To].into_iter().zip(&sums) {
        for (number, of) in sums {
            let device = &rollout.devices[*number];
            let traits = Traits {
                model: device.model.as_str().into(),
                api: device.api,
                hz: device.hz,
                quick_ns: of.quick_ns(),
                is_test: false,
            };
            collected.device(side, &device.id, traits);
            for (screen, frames) in &of.frames {
                let jank_ns = of.times.get(screen).copied().unwrap_or_default();
                collected.frames(rollout.screens[*screen as usize], *frames, jank_ns);
            }
            for (of, ns) in &of.times {
                if let Some(series) = (*of as usize).checked_sub(rollout.screens.len()) {
                    let series = rollout.series[series];
                    collected.cause(series.screen, series.cause, series.key, *ns);
                }
            }
        }
    }
    let [from, to] = VERSIONS;
    let found = comparison(from, to, &collected.arrange(&Rules::default()));
    let keys = |verdict| {
        found.rows.iter().filter(|row| row.verdict == verdict).map(|row| row.key.clone()).collect()
    };
    Compared {
        worse: keys(comparison::Verdict::Worse),
        better: keys(comparison::Verdict::Better),
        is_unknown: found.rows.iter().any(|row| row.verdict == comparison::Verdict::NotCompared),
    }
}
