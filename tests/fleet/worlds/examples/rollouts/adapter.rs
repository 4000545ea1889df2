//! The statistic, as the rig asks it: the one file that knows the guard and the comparison.

use std::collections::BTreeMap;
use tracetee_fleet::change::Source;
use tracetee_fleet::change::answer::{Verdict, answer};
use tracetee_fleet::change::bisect;
use tracetee_fleet::change::comparison::{self, comparison};
use tracetee_fleet::change::observations::{Builder, Fleet, Traits};
use tracetee_fleet::change::segment::Segment;
use tracetee_worlds::{DEATHS, Rollout, Row, VERSIONS};

/// Rise of all jank that a guard must be able to find before it says go, percent.
const RISE_PERCENT: f64 = 10.0;

/// An answer of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The rollout may continue.
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
    let answer = answer(&fleets(rollout, day, 0), RISE_PERCENT);
    if std::env::var_os("SAY").is_some() {
        println!("day {day}: {}", answer.to_text(VERSIONS));
    }
    match answer.verdict {
        Verdict::Go => Said::Go,
        Verdict::Stop => Said::Stop,
        Verdict::NotYet => Said::NotYet,
    }
}

/// Share of the devices that send captures: one in so many; without ledgers all do, with them one in a hundred, unless
/// `CAPTURES` says so.
fn one_in() -> usize {
    let default = if has_ledgers() { 100 } else { 1 };
    std::env::var("CAPTURES").map_or(default, |text| text.parse().unwrap())
}

/// True if all devices send ledgers, too: the variable `LEDGERS`.
fn has_ledgers() -> bool {
    std::env::var_os("LEDGERS").is_some()
}

/// The fleets of captures and of ledgers.
fn fleets(rollout: &Rollout, day: i64, from: usize) -> Vec<Fleet> {
    let mut sources = vec![Source::Captures];
    if has_ledgers() {
        sources.extend([Source::Ledgers, Source::Deaths]);
    }
    sources.into_iter().map(|source| fleet(source, rollout, day, from)).collect()
}

/// The rows of a version and the next one that a collector has at the end of a day, as its tables have them.
fn fleet(source: Source, rollout: &Rollout, day: i64, from: usize) -> Fleet {
    let mut of_devices: BTreeMap<(usize, usize), Vec<&Row>> = BTreeMap::new();
    let one_in = if source == Source::Captures { one_in() } else { 1 };
    let is_of = |row: &&Row| {
        let is_now = row.look <= day && (from..=from + 1).contains(&row.version);
        is_now && row.device.is_multiple_of(one_in)
    };
    for row in rollout.rows.iter().filter(is_of) {
        of_devices.entry((row.version, row.device)).or_default().push(row);
    }
    let mut builder = Builder::new(source, &Segment::default(), false);
    for ((version, device), rows) in of_devices {
        let device = &rollout.devices[device];
        let quick: u64 = rows.iter().map(|row| row.quick_ns).sum();
        let traits = Traits {
            model: device.model.as_str().into(),
            api: device.api,
            hz: device.hz,
            quick_ns: if source == Source::Captures { quick / rows.len() as u64 } else { 1 },
            is_test: false,
        };
        builder.device(version - from, &device.id, traits);
        for row in rows {
            let day = Rollout::date(row.day);
            if source == Source::Deaths {
                let all: u64 = row.deaths.iter().sum();
                builder.frames(&day, "", 1, all * 1_000_000);
                for ((reason, _), deaths) in DEATHS.iter().zip(row.deaths) {
                    builder.cause(&day, "", "death", reason, deaths * 1_000_000);
                }
                continue;
            }
            for visit in &row.visits {
                let screen = rollout.screens[visit.screen];
                builder.frames(&day, screen, visit.frames, visit.jank_ns);
            }
            for time in row.times.iter().filter(|_| source == Source::Captures) {
                let series = &rollout.series[time.series];
                builder.cause(&day, series.screen, series.cause, series.key, time.ns);
            }
        }
    }
    builder.finish()
}

/// Compares each of several versions with the previous one, as `bisect`. Returns the number of changes.
pub(crate) fn changes(rollout: &Rollout, releases: usize) -> usize {
    let compare = |from: usize| {
        let [name, next] = [from, from + 1].map(|version| format!("2.{version}"));
        let fleets = fleets(rollout, i64::MAX, from);
        fleets.iter().map(|fleet| comparison(&name, &next, fleet, 1)).collect::<Vec<_>>()
    };
    bisect::changes((0..releases).flat_map(compare).collect(), None).changes.len()
}

/// Compares the versions by all rows, and those of ledgers.
pub(crate) fn compared(rollout: &Rollout) -> Compared {
    let [from, to] = VERSIONS;
    let mut compared = Compared::default();
    for (number, fleet) in fleets(rollout, i64::MAX, 0).iter().enumerate() {
        let found = comparison(from, to, fleet, 1);
        if std::env::var_os("SAY").is_some() {
            println!("{}", found.sentence);
            for row in &found.rows {
                println!("   {} {}", row.verdict.text(), row.to_text());
            }
        }
        let keys = |verdict| {
            let of_verdict = found.rows.iter().filter(move |row| row.verdict == verdict);
            of_verdict.map(|row| row.key.clone())
        };
        compared.worse.extend(keys(comparison::Verdict::Worse));
        compared.better.extend(keys(comparison::Verdict::Better));
        // Ledgers decide, if there are any.
        if number < 2 {
            compared.is_unknown = found.verdict == comparison::Verdict::Unknown;
        }
    }
    compared
}
