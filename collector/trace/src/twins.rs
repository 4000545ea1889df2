//! Records that two traces of one device have both: teed by the agent, and written by the kernel. They are microseconds
//! apart.

use crate::model::{Slice, Thread, Trace, UNFINISHED};
use crate::names::NameId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Twins are at most so far apart, ns: the agent reads the clock before the kernel does, and the thread may be preempted.
const SAME_CLOCK_NS: u64 = 100_000;
/// The same, where the clocks were brought together by the time of day, to the millisecond.
const MOVED_NS: u64 = 2_000_000;

/// Rows at about the same time that are tried.
const MAX_TRIED: usize = 16;

/// Switches that two recordings have both are no accident from so many on.
const MIN_SAME: u64 = 10;

/// Counts the scheduler's switches that both traces have, if they are recordings of the same ones: most of one's, or many. The
/// second value of each pair is added to the trace's times.
#[must_use]
pub fn same_switches(first: (&Trace, i64), second: (&Trace, i64)) -> u64 {
    // The kernel's text has microseconds.
    let switches = |(trace, shift): (&'_ Trace, i64)| {
        let all = trace.threads.values().flat_map(move |thread| {
            let running = thread.states.iter().filter(|state| state.kind == b'r');
            running.map(move |state| (thread.tid, moved(state.at_ns, shift) / 1000))
        });
        all.collect::<HashSet<_>>()
    };
    let (first, second) = (switches(first), switches(second));
    let both = first.intersection(&second).count() as u64;
    let least = first.len().min(second.len()) as u64;
    if both >= MIN_SAME || 2 * both > least { both } else { 0 }
}

/// Records of later traces that an earlier one has too.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// Slices: part, thread's key, place.
    pub(crate) slices: HashSet<(usize, u32, u32)>,
    /// Async slices, instants and counter values: part, place.
    pub(crate) asyncs: HashSet<(usize, usize)>,
    pub(crate) instants: HashSet<(usize, usize)>,
    pub(crate) counters: HashSet<(usize, usize)>,
}

impl Twins {
    /// Finds them. The second value of each pair is added to the trace's times.
    pub(crate) fn of(parts: &[(&Trace, i64)]) -> Self {
        let mut twins = Self::default();
        for (later, part) in parts.iter().enumerate().skip(1) {
            for earlier in parts.iter().take(later) {
                twins.between(earlier, (later, part));
            }
        }
        twins
    }

    /// Those of one part, which becomes the first.
    pub(crate) fn of_part(self, part: usize) -> Self {
        let places = |all: HashSet<(usize, usize)>| {
            all.into_iter().filter(|&(of, _)| of == part).map(|(_, place)| (0, place)).collect()
        };
        let slices = self.slices.into_iter().filter(|&(of, ..)| of == part);
        Self {
            slices: slices.map(|(_, key, place)| (0, key, place)).collect(),
            asyncs: places(self.asyncs),
            instants: places(self.instants),
            counters: places(self.counters),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        let lists = self.asyncs.len() + self.instants.len() + self.counters.len();
        (self.slices.len() + lists) as u64
    }

    fn between(
        &mut self,
        &(first, first_shift): &(&Trace, i64),
        (part, &(second, shift)): (usize, &(&Trace, i64)),
    ) {
        let within_ns = if first_shift == shift { SAME_CLOCK_NS } else { MOVED_NS };
        let mut by_tid: HashMap<u32, Vec<&Thread>> = HashMap::new();
        for thread in first.threads.values() {
            by_tid.entry(thread.tid).or_default().push(thread);
        }
        for (&key, thread) in &second.threads {
            let same = |other: &&&Thread| {
                other.pid == thread.pid || other.pid.is_none() || thread.pid.is_none()
            };
            let Some(other) = by_tid.get(&thread.tid).and_then(|all| all.iter().find(same)) else {
                continue;
            };
            let known = other.slices.iter().map(|slice| row(first, slice, first_shift));
            let own = thread.slices.iter().map(|slice| row(second, slice, shift));
            for place in matches(known, own, within_ns) {
                if let Ok(place) = u32::try_from(place) {
                    self.slices.insert((part, key, place));
                }
            }
        }
        let found = matches(asyncs(first, first_shift), asyncs(second, shift), within_ns);
        self.asyncs.extend(found.into_iter().map(|place| (part, place)));
        let found = matches(instants(first, first_shift), instants(second, shift), within_ns);
        self.instants.extend(found.into_iter().map(|place| (part, place)));
        let found = matches(counters(first, first_shift), counters(second, shift), within_ns);
        self.counters.extend(found.into_iter().map(|place| (part, place)));
    }
}

fn row<'a>(trace: &'a Trace, slice: &Slice, shift: i64) -> Row<'a> {
    Row {
        at_ns: moved(slice.start_ns, shift),
        dur_ns: slice.ended.then(|| slice.duration_ns()),
        label: Cow::Borrowed(trace.names.text(slice.name)),
    }
}

fn asyncs(trace: &Trace, shift: i64) -> impl Iterator<Item = Row<'_>> {
    trace.asyncs.iter().map(move |one| Row {
        at_ns: moved(one.start_ns, shift),
        dur_ns: (one.end_ns != UNFINISHED).then(|| one.end_ns.saturating_sub(one.start_ns)),
        label: label(trace, one.pid, one.track, one.name, one.cookie),
    })
}

fn instants(trace: &Trace, shift: i64) -> impl Iterator<Item = Row<'_>> {
    trace.instants.iter().map(move |one| Row {
        at_ns: moved(one.at_ns, shift),
        dur_ns: None,
        label: label(trace, one.pid, one.track, one.name, 0),
    })
}

fn counters(trace: &Trace, shift: i64) -> impl Iterator<Item = Row<'_>> {
    trace.counters.iter().map(move |one| Row {
        at_ns: moved(one.at_ns, shift),
        dur_ns: None,
        label: label(trace, one.pid, None, one.name, one.value),
    })
}

fn moved(ns: u64, shift: i64) -> i128 {
    i128::from(ns) + i128::from(shift)
}

fn label(
    trace: &Trace,
    pid: u32,
    track: Option<NameId>,
    name: NameId,
    number: impl std::fmt::Display,
) -> Cow<'static, str> {
    let track = track.map_or("", |track| trace.names.text(track));
    Cow::Owned(format!("{pid}|{track}|{}|{number}", trace.names.text(name)))
}

/// A record to compare.
struct Row<'a> {
    at_ns: i128,
    dur_ns: Option<u64>,
    label: Cow<'a, str>,
}

/// Places of the rows of `own` that are in `known` too: each row of `known` is the twin of one at most, the first that
/// fits.
fn matches<'a>(
    known: impl Iterator<Item = Row<'a>>,
    own: impl Iterator<Item = Row<'a>>,
    within_ns: u64,
) -> Vec<usize> {
    let mut by_label: HashMap<Cow<'a, str>, Vec<(i128, Option<u64>)>> = HashMap::new();
    for row in known {
        by_label.entry(row.label).or_default().push((row.at_ns, row.dur_ns));
    }
    by_label.values_mut().for_each(|rows| rows.sort_by_key(|&(at_ns, _)| at_ns));
    let mut own: Vec<(usize, Row<'a>)> = own.enumerate().collect();
    own.sort_by_key(|(_, row)| row.at_ns);
    // By label: the first row that may still be a twin.
    let mut next: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut found = Vec::new();
    for (place, row) in own {
        let Some(rows) = by_label.get(&row.label) else { continue };
        let next = next.entry(row.label).or_default();
        let is_over = |&(at_ns, _): &(i128, Option<u64>)| at_ns + i128::from(within_ns) < row.at_ns;
        while rows.get(*next).is_some_and(is_over) {
            *next += 1;
        }
        let is_near =
            |&&(at_ns, _): &&(i128, Option<u64>)| at_ns <= row.at_ns + i128::from(within_ns);
        let is_alike = |&(_, dur_ns): &(i128, Option<u64>)| match (dur_ns, row.dur_ns) {
            (Some(a), Some(b)) => a.abs_diff(b) <= SAME_CLOCK_NS,
            // One of the recordings ended earlier.
            _ => true,
        };
        let mut near = rows.iter().skip(*next).take(MAX_TRIED).take_while(is_near);
        if let Some(after) = near.position(is_alike) {
            found.push(place);
            *next += after + 1;
        }
    }
    found
}
