//! Records that are in two traces of one device: teed by the agent, and written by the kernel. They are microseconds
//! apart.

use crate::model::{LooseEnd, Slice, Thread, Trace, UNFINISHED};
use crate::names::NameId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Maximum distance of twins, ns: the agent reads the clock before the kernel does, and the thread may be preempted.
const SAME_CLOCK_NS: u64 = 100_000;
/// The same, if the clocks were aligned by the time of day, to the millisecond.
const MOVED_NS: u64 = 2_000_000;

/// Number of rows at about the same time that are compared.
pub(crate) const MAX_TRIED: usize = 16;

/// Number of common switches from which two recordings count as the same.
const MIN_SAME: u64 = 10;

/// Counts the scheduler's switches that are in both traces, if these recorded the same ones (most of one trace's, or many).
/// The second value of each pair is added to the trace's times.
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
pub(crate) type SliceOf = (usize, u32, usize);

/// Records that several traces contain, and ends for which some traces were too short.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// Slices of later traces, with the one that an earlier trace has.
    pub(crate) slices: HashMap<SliceOf, SliceOf>,
    /// Slices without an end whose twin in a later trace has one.
    pub(crate) continued: HashSet<SliceOf>,
    /// Async slices, instants and counter values: part, index.
    pub(crate) asyncs: HashSet<(usize, usize)>,
    pub(crate) instants: HashSet<(usize, usize)>,
    pub(crate) counters: HashSet<(usize, usize)>,
    /// Ends without a begin that only one part has.
    pub(crate) ends: Vec<(usize, LooseEnd)>,
    /// Ends without a begin that another part has too, by their indices in [`Trace::ends`].
    same_ends: HashSet<(usize, usize)>,
    /// Ends of a later part that slices of an earlier one lack.
    missing: Vec<LooseEnd>,
}

impl Twins {
    /// Finds them. The second value of each pair is added to the trace's times.
    pub(crate) fn of(parts: &[(&Trace, i64)]) -> Self {
        let mut twins = Self::default();
        for (later, &part) in parts.iter().enumerate().skip(1) {
            for (index, &earlier) in parts.iter().take(later).enumerate() {
                twins.between((index, earlier), (later, part));
            }
        }
        for (part, (trace, _)) in parts.iter().enumerate() {
            let ends = trace.ends.iter().enumerate();
            let alone = ends.filter(|&(index, _)| !twins.same_ends.contains(&(part, index)));
            twins.ends.extend(alone.map(|(_, &end)| (part, end)));
        }
        twins
    }

    /// Flags of the second of two parts, which becomes the only one: the first is copied unchanged, and lacks some ends.
    pub(crate) fn of_second(self) -> Self {
        let own = |all: HashSet<(usize, usize)>| {
            all.into_iter().filter(|&(part, _)| part == 1).map(|(_, index)| (0, index)).collect()
        };
        let slices = self.slices.into_iter();
        Self {
            slices: slices.map(|((_, key, index), known)| ((0, key, index), known)).collect(),
            asyncs: own(self.asyncs),
            instants: own(self.instants),
            counters: own(self.counters),
            ends: self.missing.into_iter().map(|end| (0, end)).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn count(&self) -> u64 {
        let lists = self.asyncs.len() + self.instants.len() + self.counters.len();
        (self.slices.len() + lists) as u64
    }

    fn between(&mut self, known: Part<'_>, own: Part<'_>) {
        let ((earlier, (first, first_shift)), (part, (second, shift))) = (known, own);
        let threads: Vec<_> = same_threads(first, second).collect();
        let slices = |both: &Both| {
            let pairs = threads.iter().flat_map(|&((known_key, known), (key, own))| {
                let known_rows = known.slices.iter().map(|slice| row(first, slice, first_shift));
                let own_rows = own.slices.iter().map(|slice| row(second, slice, shift));
                let pairs = matches(known_rows, own_rows, both).into_iter();
                pairs.filter_map(move |(index, twin)| {
                    let own = ((part, key, index), own.slices.get(index)?);
                    Some((own, ((earlier, known_key, twin), known.slices.get(twin)?)))
                })
            });
            pairs.collect::<Vec<_>>()
        };
        let both = Both::of((first, first_shift), (second, shift), &mut []);
        let mut ahead: Vec<i128> = slices(&both)
            .iter()
            .map(|((_, own), (_, known))| {
                moved(own.start_ns, shift) - moved(known.start_ns, first_shift)
            })
            .collect();
        let both = Both::of((first, first_shift), (second, shift), &mut ahead);
        for ((own_of, own), (known_of, known)) in slices(&both) {
            self.slices.entry(own_of).or_insert(known_of);
            if own.ended && !known.ended && self.continued.insert(known_of) {
                self.missing.push(LooseEnd { thread: own_of.1, at_ns: own.end_ns, key: None });
            }
        }
        let is_whole = |trace: &Trace, index: usize| {
            trace.asyncs.get(index).is_some_and(|one| one.end_ns != UNFINISHED)
        };
        for (index, twin) in matches(asyncs(first, first_shift), asyncs(second, shift), &both) {
            let is_cut = !is_whole(first, twin) && is_whole(second, index);
            self.asyncs.insert(if is_cut { (earlier, twin) } else { (part, index) });
        }
        let found = matches(instants(first, first_shift), instants(second, shift), &both);
        self.instants.extend(found.into_iter().map(|(index, _)| (part, index)));
        let found = matches(counters(first, first_shift), counters(second, shift), &both);
        self.counters.extend(found.into_iter().map(|(index, _)| (part, index)));
        let (known_ends, own_ends) = (ends_by_thread(first), ends_by_thread(second));
        // Ends have no names, so the ends of two slices at the border of two recordings look alike.
        let both = Both { slack_ns: 0, ..both };
        let ends_of =
            |ends: &HashMap<u32, Vec<_>>, key| ends.get(&key).cloned().unwrap_or_default();
        for ((known_key, known), (key, own)) in threads {
            let (known_ends, own_ends) = (ends_of(&known_ends, known_key), ends_of(&own_ends, key));
            let found = match (&*known_ends, &*own_ends) {
                ([], []) => continue,
                _ => matches(
                    ends(&known_ends, known, first_shift),
                    ends(&own_ends, own, shift),
                    &both,
                ),
            };
            for (index, twin) in found {
                let same = own_ends.get(index).map(|&(end, _)| (part, end));
                let same = same.or_else(|| Some((earlier, known_ends.get(twin)?.0)));
                self.same_ends.extend(same);
            }
            // Ends of slices that are open when the earlier part ends.
            let last_ns = known.slices.iter().map(|slice| slice.end_ns).max().unwrap_or_default();
            let last_ns = moved(last_ns, first_shift) - both.within_ns;
            let later = own_ends.iter().filter(|&&(end, at_ns)| {
                moved(at_ns, shift) >= last_ns && !self.same_ends.contains(&(part, end))
            });
            let later = later.map(|&(_, at_ns)| LooseEnd { thread: key, at_ns, key: None });
            self.missing.extend(later);
        }
    }
}

/// Returns the ends of threads' slices that have no begin, by thread, with their indices in [`Trace::ends`].
fn ends_by_thread(trace: &Trace) -> HashMap<u32, Vec<(usize, u64)>> {
    let mut ends: HashMap<u32, Vec<_>> = HashMap::new();
    for (index, end) in trace.ends.iter().enumerate().filter(|(_, end)| end.key.is_none()) {
        ends.entry(end.thread).or_default().push((index, end.at_ns));
    }
    ends
}

/// Rows of a thread's ends: those without a begin, then those of its slices.
fn ends<'a>(
    loose: &'a [(usize, u64)],
    thread: &'a Thread,
    shift: i64,
) -> impl Iterator<Item = Row<'a>> {
    let slices = thread.slices.iter().filter(|slice| slice.ended).map(|slice| slice.end_ns);
    loose.iter().map(|&(_, at_ns)| at_ns).chain(slices).map(move |at_ns| Row {
        at_ns: moved(at_ns, shift),
        dur_ns: None,
        label: Cow::Borrowed(""),
    })
}

/// A part by its index: its trace, and the shift of its times.
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

/// Returns the maximum distance of twins in two parts, given the shifts of their times.
pub(crate) fn within_ns(first_shift: i64, shift: i64) -> u64 {
    if first_shift == shift { SAME_CLOCK_NS } else { MOVED_NS }
}

/// The time in which both recordings were running, on the clock of the second one.
struct Both {
    from_ns: i128,
    to_ns: i128,
    /// Tolerance for records of both before and after that time.
    slack_ns: i128,
    /// Offset of the second one's clock.
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
        let from_ns = first_at(first_from).max(moved(from, shift));
        let to_ns = first_at(first_to).min(moved(to, shift));
        Self { from_ns, to_ns, slack_ns, ahead_ns, within_ns }
    }

    fn has(&self, at_ns: i128) -> bool {
        (self.from_ns - self.slack_ns..=self.to_ns + self.slack_ns).contains(&at_ns)
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
    for (index, mut row) in known.enumerate() {
        row.at_ns += both.ahead_ns;
        if !both.has(row.at_ns) {
            continue;
        }
        by_label.entry(row.label).or_default().push((row.at_ns, row.dur_ns, index));
    }
    by_label.values_mut().for_each(|rows| rows.sort_by_key(|&(at_ns, ..)| at_ns));
    let mut own: Vec<(usize, Row<'a>)> =
        own.enumerate().filter(|(_, row)| both.has(row.at_ns)).collect();
    own.sort_by_key(|(_, row)| row.at_ns);
    // For each label, the first row that may still be a twin.
    let mut next: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, row) in own {
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
            found.push((index, twin));
            *next = at + 1;
        }
    }
    found
}
