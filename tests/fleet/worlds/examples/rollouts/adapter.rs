//! The statistic, as the rig asks it: the one file that knows the guard and the comparison.

use std::collections::BTreeMap;
use tracetee_fleet::change::answer::{Verdict, answer};
use tracetee_fleet::change::bisect;
use tracetee_fleet::change::comparison::{self, comparison};
use tracetee_fleet::change::observations::{Builder, Fleet, Traits};
use tracetee_fleet::change::segment::Segment;
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
    /// Keys of the causes that became worse; empty for all jank.
    pub(crate) worse: Vec<String>,
    /// Keys of those that became better.
    pub(crate) better: Vec<String>,
    /// True if something could not be compared.
    pub(crate) is_unknown: bool,
}

/// Looks at the end of a day, as a guard.
pub(crate) fn look(rollout: &Rollout, day: i64) -> Said {
    match answer(&fleet(rollout, day, 0), RISE_PERCENT).verdict {
        Verdict::Go => Said::Go,
        Verdict::Stop => Said::Stop,
        Verdict::NotYet => Said::NotYet,
    }
}

/// The rows of a version and the next one that a collector has at the end of a day, as its tables have them.
fn fleet(rollout: &Rollout, day: i64, from: usize) -> Fleet {
    let mut of_devices: BTreeMap<(usize, usize), Vec<&Row>> = BTreeMap::new();
    let is_of = |row: &&Row| row.look <= day && (from..=from + 1).contains(&row.version);
    for row in rollout.rows.iter().filter(is_of) {
        of_devices.entry((row.version, row.device)).or_default().push(row);
    }
    let mut builder = Builder::new(&Segment::default(), false);
    for ((version, device), rows) in of_devices {
        let device = &rollout.devices[device];
        let quick: u64 = rows.iter().map(|row| row.quick_ns).sum();
        let traits = Traits {
            model: device.model.as_str().into(),
            api: device.api,
            hz: device.hz,
            quick_ns: quick / rows.len() as u64,
            is_test: false,
        };
        builder.device(version - from, &device.id, traits);
        for row in rows {
            let day = Rollout::date(row.day);
            for visit in &row.visits {
                let screen = rollout.screens[visit.screen];
                builder.frames(&day, screen, visit.frames, visit.jank_ns);
            }
            for time in &row.times {
                let series = &rollout.series[time.series];
                builder.cause(&day, series.screen, series.cause, series.key, time.ns);
            }
        }
    }
    builder.finish()
}

/// Compares each of several versions with the one before it, as `bisect`. Returns the number of changes.
pub(crate) fn changes(rollout: &Rollout, releases: usize) -> usize {
    let compare = |from: usize| {
        let [name, next] = [from, from + 1].map(|version| format!("2.{version}"));
        comparison(&name, &next, &fleet(rollout, i64::MAX, from))
    };
    bisect::changes((0..releases).map(compare).collect(), None).changes.len()
}

/// Compares the versions by all rows.
pub(crate) fn compared(rollout: &Rollout) -> Compared {
    let [from, to] = VERSIONS;
    let found = comparison(from, to, &fleet(rollout, i64::MAX, 0));
    if std::env::var_os("SAY").is_some() {
        println!("{}", found.sentence);
        for row in &found.rows {
            println!("   {} {}", row.verdict.text(), row.to_text());
        }
    }
    let keys = |verdict| {
        found.rows.iter().filter(|row| row.verdict == verdict).map(|row| row.key.clone()).collect()
    };
    Compared {
        worse: keys(comparison::Verdict::Worse),
        better: keys(comparison::Verdict::Better),
        is_unknown: found.verdict == comparison::Verdict::Unknown,
    }
}
