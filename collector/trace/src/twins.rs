//! Records that two traces of one device have both: teed by the agent, and written by the kernel. They are microseconds
//! apart.

use crate::model::{LooseEnd, Slice, Thread, Trace, UNFINISHED};
use crate::names::NameId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::iter::Peekable;

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

/// A slice of a part: the part, the thread's key, the slice's index.
pub(crate) type SliceOf = (usize, u32, u32);

/// An end that a part has, and another part lacks: the time of both, the part that has it, and what it is there.
#[derive(Debug, Clone, Copy)]
struct Given {
    at_ns: i128,
    part: usize,
    end: LooseEnd,
    /// The slice that ends, if the part has it whole.
    whole: Option<u32>,
}

/// Records of later traces that an earlier one has too, and ends that one of two traces was too short for.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// Slices: part, thread's key, place.
    pub(crate) slices: HashSet<SliceOf>,
    /// Async slices, instants and counter values: part, place.
    pub(crate) asyncs: HashSet<(usize, usize)>,
    pub(crate) instants: HashSet<(usize, usize)>,
    pub(crate) counters: HashSet<(usize, usize)>,
    /// Slices of earlier traces that have a twin.
    known: HashSet<SliceOf>,
    /// By how much a later part's clock is ahead of an earlier one's, ns.
    ahead: HashMap<(usize, usize), i128>,
    /// Ends of slices that their parts have without an end.
    given: HashMap<SliceOf, Given>,
    /// The same of async slices, by part and place; the second value is the place of the whole one.
    given_asyncs: HashMap<(usize, usize), (Given, Option<usize>)>,
    /// Ends of parts, by their indices in [`Trace::ends`], that have found their begin.
    used: HashSet<(usize, usize)>,
    /// Ends that the result has, with their part.
    pub(crate) loose: Vec<(usize, LooseEnd)>,
}

impl Twins {
    /// Finds them. The second value of each pair is added to the trace's times.
    pub(crate) fn of(parts: &[(&Trace, i64)]) -> Self {
        let mut twins = Self::default();
        for (later, part) in parts.iter().enumerate().skip(1) {
            for (place, earlier) in parts.iter().take(later).enumerate() {
                twins.between((place, earlier), (later, part));
            }
        }
        for (later, &part) in parts.iter().enumerate() {
            for (earlier, &other) in parts.iter().enumerate().filter(|&(other, _)| other != later) {
                twins.give((earlier, other), (later, part));
            }
        }
        for (part, (trace, _)) in parts.iter().enumerate() {
            let ends = trace.ends.iter().enumerate();
            let unused = ends.filter(|&(place, _)| !twins.used.contains(&(part, place)));
            twins.loose.extend(unused.map(|(_, &end)| (part, end)));
        }
        twins
    }

    /// Returns the number of ends that have found their begin, of threads and of async slices.
    pub(crate) fn used(&self, parts: &[(&Trace, i64)]) -> [u64; 2] {
        let ends = self.used.iter().filter_map(|&(part, place)| parts.get(part)?.0.ends.get(place));
        let asyncs = ends.filter(|end| end.key.is_some()).count() as u64;
        [self.used.len() as u64 - asyncs, asyncs]
    }

    /// Returns the parts, with the ends that they lack.
    pub(crate) fn mended<'a>(&self, parts: &[(&'a Trace, i64)]) -> Vec<(Cow<'a, Trace>, i64)> {
        let mut mended: Vec<_> =
            parts.iter().map(|&(trace, shift)| (Cow::Borrowed(trace), shift)).collect();
        let own = |at_ns: i128, shift: i64| u64::try_from(at_ns - i128::from(shift)).unwrap_or(0);
        let mut threads = HashSet::new();
        for (&(part, key, place), given) in &self.given {
            let (Some((trace, shift)), Some((from, _))) =
                (mended.get_mut(part), parts.get(given.part))
            else {
                continue;
            };
            let end_ns = own(given.at_ns, *shift);
            let trace = trace.to_mut();
            let Some(thread) = trace.threads.get_mut(&key) else { continue };
            let whole = given.whole.zip(from.threads.get(&given.end.thread));
            if let Some(cpu) = thread.cpu_ns.get_mut(place as usize) {
                cpu.1 = whole.and_then(|(place, thread)| thread.cpu_of(place).1).unwrap_or(0);
            }
            if let Some(args) = whole.and_then(|(place, thread)| thread.args.get(&place)) {
                let args = trace.names.id(from.names.text(*args).as_bytes());
                thread.args.insert(place, args);
            }
            if let Some(slice) = thread.slices.get_mut(place as usize) {
                (slice.end_ns, slice.ended) = (end_ns.max(slice.start_ns), true);
            }
            threads.insert((part, key));
        }
        for (part, key) in threads {
            let Some((trace, _)) = mended.get_mut(part) else { continue };
            let Some(thread) = trace.to_mut().threads.get_mut(&key) else { continue };
            // A slice without an end is open while those in it are: they stand after it.
            for place in (0..thread.slices.len()).rev() {
                let Some(&Slice { parent, end_ns, .. }) = thread.slices.get(place) else {
                    continue;
                };
                let around = thread.slices.get_mut(parent as usize);
                if let Some(around) = around.filter(|around| !around.ended) {
                    around.end_ns = around.end_ns.max(end_ns);
                }
            }
        }
        for (&(part, place), (given, _)) in &self.given_asyncs {
            let Some((trace, shift)) = mended.get_mut(part) else { continue };
            if let Some(one) = trace.to_mut().asyncs.get_mut(place) {
                one.end_ns = own(given.at_ns, *shift).max(one.start_ns);
            }
        }
        mended
    }

    /// Those of one part, which becomes the first. The others stay as they are; ends that they lack become its loose ends. An async
    /// slice that one of them lacks the end of is no twin.
    pub(crate) fn of_part(self, part: usize) -> Self {
        let given = self.given.iter().filter(|((target, ..), _)| *target != part);
        let loose = given.map(|(_, given)| (0, given.end)).collect();
        let whole: HashSet<_> =
            self.given_asyncs.values().filter_map(|(_, whole)| Some((part, (*whole)?))).collect();
        let places = |all: HashSet<(usize, usize)>| {
            all.into_iter().filter(|&(of, _)| of == part).map(|(_, place)| (0, place)).collect()
        };
        let slices = self.slices.into_iter().filter(|&(of, ..)| of == part);
        Self {
            slices: slices.map(|(_, key, place)| (0, key, place)).collect(),
            asyncs: places(self.asyncs.difference(&whole).copied().collect()),
            instants: places(self.instants),
            counters: places(self.counters),
            loose,
            ..Self::default()
        }
    }

    pub(crate) fn count(&self) -> u64 {
        let lists = self.asyncs.len() + self.instants.len() + self.counters.len();
        (self.slices.len() + lists) as u64
    }

    fn between(
        &mut self,
        (earlier, &(first, first_shift)): (usize, &(&Trace, i64)),
        (part, &(second, shift)): (usize, &(&Trace, i64)),
    ) {
        let of_thread = |other: &Thread, thread: &Thread, both: &Both| {
            let known = other.slices.iter().map(|slice| row(first, slice, first_shift));
            let own = thread.slices.iter().map(|slice| row(second, slice, shift));
            matches(known, own, both)
        };
        let mut ahead = Vec::new();
        let both = Both::of((first, first_shift), (second, shift), &mut ahead);
        for ((_, other), (_, thread)) in same_threads(first, second) {
            for (place, twin) in of_thread(other, thread, &both) {
                if let (Some(own), Some(known)) = (thread.slices.get(place), other.slices.get(twin))
                {
                    ahead.push(moved(own.start_ns, shift) - moved(known.start_ns, first_shift));
                }
            }
        }
        let both = Both::of((first, first_shift), (second, shift), &mut ahead);
        self.ahead.insert((earlier, part), both.ahead_ns);
        for ((other_key, other), (key, thread)) in same_threads(first, second) {
            for (place, twin) in of_thread(other, thread, &both) {
                let (Ok(own), Ok(known)) = (u32::try_from(place), u32::try_from(twin)) else {
                    continue;
                };
                self.slices.insert((part, key, own));
                self.known.insert((earlier, other_key, known));
                let (Some(slice), Some(cut)) = (thread.slices.get(place), other.slices.get(twin))
                else {
                    continue;
                };
                if slice.ended && !cut.ended {
                    let (at_ns, thread, key) = (slice.end_ns, key, None);
                    let end = LooseEnd { thread, at_ns, key };
                    let at_ns = moved(at_ns, shift);
                    let given = Given { at_ns, part, end, whole: Some(own) };
                    self.given.entry((earlier, other_key, known)).or_insert(given);
                }
            }
        }
        let found = matches(asyncs(first, first_shift), asyncs(second, shift), &both);
        for (place, twin) in found {
            self.asyncs.insert((part, place));
            let (Some(one), Some(cut)) = (second.asyncs.get(place), first.asyncs.get(twin)) else {
                continue;
            };
            if one.end_ns != UNFINISHED && cut.end_ns == UNFINISHED {
                let end = LooseEnd { thread: one.threads[1], at_ns: one.end_ns, key: None };
                let given = Given { at_ns: moved(one.end_ns, shift), part, end, whole: None };
                self.given_asyncs.entry((earlier, twin)).or_insert((given, Some(place)));
            }
        }
        let found = matches(instants(first, first_shift), instants(second, shift), &both);
        self.instants.extend(found.into_iter().map(|(place, _)| (part, place)));
        let found = matches(counters(first, first_shift), counters(second, shift), &both);
        self.counters.extend(found.into_iter().map(|(place, _)| (part, place)));
    }

    /// Gives the ends of the second part that have no begin to slices of the first one that have no end, the innermost first. An
    /// end that the first part has, too, is a twin.
    fn give(
        &mut self,
        (target, (first, first_shift)): Part<'_>,
        (part, (second, shift)): Part<'_>,
    ) {
        let within_ns = i128::from(within_ns(first_shift, shift));
        let mut by_thread: HashMap<u32, Vec<(usize, &LooseEnd)>> = HashMap::new();
        for (place, end) in second.ends.iter().enumerate() {
            if end.key.is_none() && !self.used.contains(&(part, place)) {
                by_thread.entry(end.thread).or_default().push((place, end));
            }
        }
        let first_ns = second.span_ns.map_or(0, |(first_ns, _)| moved(first_ns, shift));
        let ahead_ns = match self.ahead.get(&(target, part)) {
            Some(&ahead_ns) => ahead_ns,
            None => self.ahead.get(&(part, target)).map_or(0, |ahead_ns| -ahead_ns),
        };
        for ((target_key, other), (key, _)) in same_threads(first, second) {
            let Some(ends) = by_thread.get_mut(&key) else { continue };
            ends.sort_by_key(|(_, end)| end.at_ns);
            let slices = (0..).zip(&other.slices);
            let (whole, cut): (Vec<_>, Vec<_>) = slices.partition(|(_, slice)| slice.ended);
            let is_alone = |place: u32| {
                let slice = (target, target_key, place);
                !self.known.contains(&slice) && !self.slices.contains(&slice)
            };
            let alone = whole.iter().filter(|&&(place, _)| is_alone(place));
            let mut known: Vec<i128> =
                alone.map(|(_, slice)| moved(slice.end_ns, first_shift) + ahead_ns).collect();
            known.retain(|&end_ns| end_ns >= first_ns);
            known.sort_unstable();
            let mut known = known.into_iter().peekable();
            // Those that are open at the thread's last event.
            let last_ns = other.slices.iter().map(|slice| slice.end_ns).max().unwrap_or_default();
            let mut open: Vec<u32> = cut
                .iter()
                .filter(|(place, slice)| slice.end_ns == last_ns && is_alone(*place))
                .map(|&(place, _)| place)
                .filter(|&place| !self.given.contains_key(&(target, target_key, place)))
                .collect();
            let last_ns = moved(last_ns, first_shift);
            for &(place, &end) in &*ends {
                let at_ns = moved(end.at_ns, shift);
                if !takes(&mut known, at_ns, within_ns) {
                    let Some(slice) = (at_ns + within_ns >= last_ns).then(|| open.pop()).flatten()
                    else {
                        continue;
                    };
                    let given = Given { at_ns, part, end, whole: None };
                    self.given.insert((target, target_key, slice), given);
                }
                self.used.insert((part, place));
            }
        }
        self.give_asyncs((target, (first, first_shift)), (part, (second, shift)));
    }

    /// Does the same for async slices, by their keys.
    fn give_asyncs(
        &mut self,
        (target, (first, first_shift)): Part<'_>,
        (part, (second, shift)): Part<'_>,
    ) {
        let within_ns = i128::from(within_ns(first_shift, shift));
        let mut by_label: HashMap<Cow<'_, str>, OfLabel<'_>> = HashMap::new();
        for (place, end) in second.ends.iter().enumerate() {
            if let Some(key) = end.key.filter(|_| !self.used.contains(&(part, place))) {
                let label = label(second, key.pid, key.track, key.of, key.cookie);
                by_label.entry(label).or_default().ends.push((place, end));
            }
        }
        if by_label.is_empty() {
            return;
        }
        for (place, one) in first.asyncs.iter().enumerate() {
            for of in HashSet::from([one.name, one.category, NameId::NONE]) {
                let label = label(first, one.pid, one.track, of, one.cookie);
                match by_label.get_mut(&label) {
                    Some(all) if one.end_ns == UNFINISHED => {
                        all.open.push((moved(one.start_ns, first_shift), place));
                    }
                    Some(all) => all.known.push(moved(one.end_ns, first_shift)),
                    None => {}
                }
            }
        }
        for OfLabel { mut ends, mut known, mut open } in by_label.into_values() {
            ends.sort_by_key(|(_, end)| end.at_ns);
            known.sort_unstable();
            open.sort_unstable();
            let (mut known, mut open) = (known.into_iter().peekable(), open.into_iter().peekable());
            let mut begun = Vec::new();
            for (place, &end) in ends {
                let at_ns = moved(end.at_ns, shift);
                if !takes(&mut known, at_ns, within_ns) {
                    begun.extend(std::iter::from_fn(|| {
                        open.next_if(|&(from_ns, _)| from_ns <= at_ns)
                    }));
                    let is_free = |&(_, slice): &(i128, usize)| {
                        !self.given_asyncs.contains_key(&(target, slice))
                    };
                    let free = std::iter::from_fn(|| begun.pop()).find(is_free);
                    let Some((_, slice)) = free else { continue };
                    let given = Given { at_ns, part, end, whole: None };
                    self.given_asyncs.insert((target, slice), (given, None));
                }
                self.used.insert((part, place));
            }
        }
    }
}

/// What one key has: ends without a begin, by their places; ends of the other part, and places of what is open there.
#[derive(Default)]
struct OfLabel<'a> {
    ends: Vec<(usize, &'a LooseEnd)>,
    known: Vec<i128>,
    open: Vec<(i128, usize)>,
}

/// True if the next of the known times is that of an end, which then takes it. Ends come in the order of their times.
fn takes(known: &mut Peekable<impl Iterator<Item = i128>>, at_ns: i128, within_ns: i128) -> bool {
    while known.next_if(|&known_ns| known_ns < at_ns - within_ns).is_some() {}
    known.next_if(|&known_ns| known_ns <= at_ns + within_ns).is_some()
}

/// A part by its index: its trace, and what is added to its times.
type Part<'a> = (usize, (&'a Trace, i64));

/// Pairs threads that two traces have, with their keys.
fn same_threads<'a>(
    first: &'a Trace,
    second: &'a Trace,
) -> impl Iterator<Item = ((u32, &'a Thread), (u32, &'a Thread))> {
    let (mut by_ids, mut by_tid) = (HashMap::new(), HashMap::new());
    for (&key, thread) in &first.threads {
        by_ids.entry((thread.tid, thread.pid)).or_insert((key, thread));
        by_tid.entry(thread.tid).or_insert((key, thread));
    }
    second.threads.iter().filter_map(move |(&key, thread)| {
        let near = || match thread.pid {
            Some(_) => by_ids.get(&(thread.tid, None)),
            None => by_tid.get(&thread.tid),
        };
        let same = by_ids.get(&(thread.tid, thread.pid)).or_else(near);
        Some((*same?, (key, thread)))
    })
}

fn within_ns(first_shift: i64, shift: i64) -> u64 {
    if first_shift == shift { SAME_CLOCK_NS } else { MOVED_NS }
}

/// The time in which both of two recordings were on, by the clock of the second one.
struct Both {
    from_ns: i128,
    to_ns: i128,
    /// By how much the second one's clock is ahead.
    ahead_ns: i128,
    within_ns: i128,
}

impl Both {
    /// Finds it. `ahead`: distances of twins; none if they are not known yet.
    fn of(
        (first, first_shift): (&Trace, i64),
        (second, shift): (&Trace, i64),
        ahead: &mut [i128],
    ) -> Self {
        let within_ns = within_ns(first_shift, shift).into();
        ahead.sort_unstable();
        let ahead_ns = ahead.get(ahead.len() / 2).copied().unwrap_or(0);
        let mut others: Vec<u128> = ahead.iter().map(|ns| ns.abs_diff(ahead_ns)).collect();
        others.sort_unstable();
        // Most twins are so close to the median.
        let most_ns = others.get(others.len() * 9 / 10).and_then(|&ns| i128::try_from(ns).ok());
        let slack_ns = most_ns.unwrap_or(within_ns);
        let (first_from, first_to) = first.span_ns.unwrap_or_default();
        let (from, to) = second.span_ns.unwrap_or_default();
        let first_at = |ns: u64| moved(ns, first_shift) + ahead_ns;
        let from_ns = first_at(first_from).max(moved(from, shift)) - slack_ns;
        let to_ns = first_at(first_to).min(moved(to, shift)) + slack_ns;
        Self { from_ns, to_ns, ahead_ns, within_ns }
    }

    fn has(&self, at_ns: i128) -> bool {
        (self.from_ns..=self.to_ns).contains(&at_ns)
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

/// Places of the rows of `own` that are in `known` too, with their places there: each row of `known` is the twin of one at most,
/// the nearest that fits.
fn matches<'a>(
    known: impl Iterator<Item = Row<'a>>,
    own: impl Iterator<Item = Row<'a>>,
    both: &Both,
) -> Vec<(usize, usize)> {
    type Known = (i128, Option<u64>, usize);
    let mut by_label: HashMap<Cow<'a, str>, Vec<Known>> = HashMap::new();
    for (place, mut row) in known.enumerate() {
        row.at_ns += both.ahead_ns;
        if !both.has(row.at_ns) {
            continue;
        }
        by_label.entry(row.label).or_default().push((row.at_ns, row.dur_ns, place));
    }
    by_label.values_mut().for_each(|rows| rows.sort_by_key(|&(at_ns, ..)| at_ns));
    let mut own: Vec<(usize, Row<'a>)> =
        own.enumerate().filter(|(_, row)| both.has(row.at_ns)).collect();
    own.sort_by_key(|(_, row)| row.at_ns);
    // By label: the first row that may still be a twin.
    let mut next: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut found = Vec::new();
    for (place, row) in own {
        let Some(rows) = by_label.get(&row.label) else { continue };
        let next = next.entry(row.label).or_default();
        let is_over = |&(at_ns, ..): &Known| at_ns + both.within_ns < row.at_ns;
        while rows.get(*next).is_some_and(is_over) {
            *next += 1;
        }
        let is_near = |&(at_ns, ..): &Known| at_ns <= row.at_ns + both.within_ns;
        let is_alike = |&(_, dur_ns, _): &Known| match (dur_ns, row.dur_ns) {
            (Some(a), Some(b)) => a.abs_diff(b) <= SAME_CLOCK_NS,
            // One of the recordings ended earlier.
            _ => true,
        };
        let near = rows.iter().enumerate().skip(*next).take(MAX_TRIED);
        let near =
            near.take_while(|(_, known)| is_near(known)).filter(|(_, known)| is_alike(known));
        let nearest = near.min_by_key(|(_, known)| known.0.abs_diff(row.at_ns));
        if let Some((at, &(.., twin))) = nearest {
            found.push((place, twin));
            *next = at + 1;
        }
    }
    found
}
