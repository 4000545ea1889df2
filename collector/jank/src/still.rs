//! Time in which no thread of the process could run, and frames whose records are incomplete: both are no work of the app.
//!
//! A suspend stops all processes (`suspend_resume`), a signal or the cached-app freezer stops one (the states of its threads, or
//! the note of the agent's thread, which stood still too). Where the scheduler is recorded, nothing shows what
//! any thread did in a long time without its events. [`Still::cut`] leaves out the frames that such a time touches; long dispatches and
//! unanswered input lose it.

use crate::found::Found;
use crate::frame::Frame;
use crate::process::Process;
use serde::Serialize;
use tracetee_protocol::notes::{self, STOOD_STILL};
use tracetee_trace::{INTERRUPT, NO_WAKER, Slice, Thread, Trace};

/// A sleep of the main thread that the freezer may have made is at least this long.
const LEAST_FROZEN_NS: u64 = 100_000_000;
/// The freezer wakes all threads of a process within this time; a process has at least this many besides the main thread.
const THAWED_NS: u64 = 5_000_000;
const LEAST_THREADS: usize = 2;
/// The scheduler is silent if this many of its events were expected and none came, for at least this time.
const MISSED_EVENTS: u64 = 1_000;
const LEAST_SILENCE_NS: u64 = 100_000_000;
/// Without the scheduler, a silence of all threads of the process for this time may be a stop: Android ends a hang of 5 s.
const LEAST_DOUBT_NS: u64 = 5_000_000_000;
/// No frame lasts an hour: one of its times is damaged, or of another clock.
const MOST_NS: u64 = 3_600_000_000_000;

/// Sums of the times in which the process stood still, and of the frames that are not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StoodStill {
    /// Number of times.
    pub times: u64,
    /// Their duration.
    pub ns: u64,
    /// Frames that are left out because the process stood still in them.
    pub frames: u64,
    /// Frames that are left out because records of theirs are missing: the next frame begins inside of them, the states of
    /// their threads contradict each other, or the scheduler is silent; or because they last over an hour.
    pub torn_frames: u64,
    /// Frames that are left out because no thread of the process recorded anything in them for 5 s and more: it hung, or
    /// stood still.
    pub doubtful_frames: u64,
    /// The longest such time of a frame.
    pub doubtful_ns: u64,
}

/// Spans of time, in order; those of one list do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Still {
    /// Those in which the process stood still.
    stood: Vec<(u64, u64)>,
    /// Others in which nothing shows what any thread did.
    silent: Vec<(u64, u64)>,
    /// Others in which the process recorded nothing.
    doubtful: Vec<(u64, u64)>,
}

impl Still {
    pub(crate) fn find(trace: &Trace, process: &Process) -> Self {
        let mut spans = Vec::new();
        let mut since_ns = None;
        for &(at_ns, begins) in &trace.scheduling.suspends {
            if begins {
                since_ns.get_or_insert(at_ns);
            } else if let Some(since_ns) = since_ns.take() {
                spans.push((since_ns, at_ns));
            }
        }
        if let Some(main) = trace.threads.get(&process.pid) {
            let is_own = |thread: &&Thread| thread.pid == main.pid && thread.tid != main.tid;
            let others: Vec<&Thread> = trace.threads.values().filter(is_own).collect();
            for pair in main.states.windows(2) {
                let [state, next] = pair else { continue };
                let is_long = next.at_ns - state.at_ns >= LEAST_FROZEN_NS;
                let is_still = match state.kind {
                    b'T' | b't' => true,
                    b'r' | b'R' => false,
                    _ => is_long && are_thawed(&others, next.at_ns, next.waker),
                };
                if is_still {
                    spans.push((state.at_ns, next.at_ns));
                }
            }
        }
        for instant in trace.instants.iter().filter(|instant| instant.pid == process.pid) {
            let note = notes::of_instant(trace.names.text(instant.name));
            let ms = note.and_then(|note| note.strip_prefix(STOOD_STILL)?.strip_suffix(" ms"));
            if let Some(ms) = ms.and_then(|ms| ms.parse::<u64>().ok()) {
                let ns = ms.saturating_mul(1_000_000);
                spans.push((instant.at_ns.saturating_sub(ns), instant.at_ns));
            }
        }
        spans.retain(|(from_ns, to_ns)| from_ns < to_ns);
        spans.sort_unstable();
        spans.dedup_by(|next, kept| {
            let overlap = next.0 <= kept.1;
            if overlap {
                kept.1 = kept.1.max(next.1);
            }
            overlap
        });
        let states = || trace.threads.values().flat_map(|thread| &thread.states);
        let mut silent =
            silences(|| states().map(|state| state.at_ns), MISSED_EVENTS, LEAST_SILENCE_NS);
        silent.retain(|&(from_ns, to_ns)| within(&spans, from_ns, to_ns) == 0);
        // An agent that notes one stop notes them all.
        let notes_stops = trace.about.notes_stops == Some(true) || !spans.is_empty();
        let is_known = notes_stops || states().next().is_some();
        let doubtful = if is_known { Vec::new() } else { doubtful(trace, process) };
        Self { stood: spans, silent, doubtful }
    }

    /// Returns how long the process stood still between two times, or nothing shows what it did.
    pub(crate) fn within_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let unseen = [&self.silent, &self.doubtful].map(|spans| within(spans, from_ns, to_ns));
        self.stood_within_ns(from_ns, to_ns) + unseen.iter().sum::<u64>()
    }

    /// Returns how long the process stood still between two times.
    pub(crate) fn stood_within_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        within(&self.stood, from_ns, to_ns)
    }

    /// Returns the spans that began at a time or later: an earlier one ends because the app is needed again.
    pub(crate) fn begun_since(&self, from_ns: u64) -> Vec<(u64, u64)> {
        let all = self.stood.iter().chain(&self.silent).copied();
        let mut spans: Vec<(u64, u64)> = all.filter(|&(begin_ns, _)| begin_ns >= from_ns).collect();
        spans.sort_unstable();
        spans
    }

    /// Leaves out the frames in which the process stood still, and those that lack records; counts them.
    /// Each look at a state costs one of `looks`.
    pub(crate) fn cut(
        &self,
        trace: &Trace,
        frames: &mut Vec<Frame>,
        found: &mut Vec<Found>,
        looks: &mut u64,
    ) -> StoodStill {
        let ns = self.stood.iter().map(|&(from_ns, to_ns)| to_ns - from_ns).sum();
        let mut still = StoodStill { times: self.stood.len() as u64, ns, ..StoodStill::default() };
        let of_frames = frames.iter().zip(found.iter());
        let kept: Vec<bool> = of_frames
            .map(|(frame, found)| {
                let from_ns = frame.start_ns.min(found.start_ns());
                let to_ns = frame.start_ns.saturating_add(frame.dur_ns).max(found.end_ns());
                let stood = within(&self.stood, from_ns, to_ns) > 0;
                // A slice that the reader has cut where records are lost is not longer for it.
                let mut lacks = |(tid, slice): (u32, Slice)| {
                    let thread = trace.threads.get(&tid).filter(|_| slice.ended);
                    thread
                        .is_some_and(|thread| has_lost(thread, slice.start_ns, slice.end_ns, looks))
                };
                let is_torn = found.is_torn
                    || to_ns - from_ns > MOST_NS
                    || within(&self.silent, from_ns, to_ns) > 0
                    || lacks((found.ui_tid, found.ui))
                    || found.last_draw().is_some_and(lacks);
                // The frame after a silence may have been due at its end.
                let doubtful_ns = within(&self.doubtful, from_ns, to_ns);
                let is_doubtful = doubtful_ns >= LEAST_DOUBT_NS / 2;
                if is_doubtful {
                    still.doubtful_frames += 1;
                    still.doubtful_ns = still.doubtful_ns.max(doubtful_ns);
                }
                still.frames += u64::from(stood);
                still.torn_frames += u64::from(is_torn && !stood && !is_doubtful);
                !stood && !is_torn && !is_doubtful
            })
            .collect();
        let (mut of_frames, mut of_found) = (kept.iter(), kept.iter());
        frames.retain(|_| of_frames.next() == Some(&true));
        found.retain(|_| of_found.next() == Some(&true));
        still
    }
}

/// Returns how much of some spans is between two times.
pub(crate) fn within(spans: &[(u64, u64)], from_ns: u64, to_ns: u64) -> u64 {
    let first = spans.partition_point(|&(_, end_ns)| end_ns <= from_ns);
    let spans = spans.iter().skip(first).take_while(|&&(begin_ns, _)| begin_ns < to_ns);
    spans.map(|&(begin_ns, end_ns)| end_ns.min(to_ns) - begin_ns.max(from_ns)).sum()
}

/// True if a thread of another process woke all of several threads, but those that have ended, at about the same time.
fn are_thawed(threads: &[&Thread], at_ns: u64, waker: u32) -> bool {
    let mut thawed = 0;
    let all = threads.iter().all(|thread| {
        let next = thread.states.partition_point(|one| one.at_ns.saturating_add(THAWED_NS) < at_ns);
        let before = next.checked_sub(1).and_then(|last| thread.states.get(last));
        if before.is_none_or(|last| matches!(last.kind, b'X' | b'Z')) {
            return true;
        }
        thawed += 1;
        let woken = thread.states.get(next);
        woken.is_some_and(|one| one.waker == waker && one.at_ns.abs_diff(at_ns) <= THAWED_NS)
    });
    let is_foreign = waker != INTERRUPT && waker != NO_WAKER;
    all && is_foreign && thawed >= LEAST_THREADS && threads.iter().all(|own| own.tid != waker)
}

/// True if two states of a thread in such a time cannot follow each other: it begins to run, and stops, in turn.
pub(crate) fn has_lost(thread: &Thread, from_ns: u64, to_ns: u64, looks: &mut u64) -> bool {
    let first = thread.states.partition_point(|state| state.at_ns <= from_ns).saturating_sub(1);
    let pairs = thread.states.get(first..).unwrap_or_default().windows(2);
    let mut pairs = pairs.take_while(|pair| pair.first().is_some_and(|state| state.at_ns < to_ns));
    pairs.any(|pair| {
        let [state, next] = pair else { return false };
        *looks = looks.saturating_sub(1);
        let follows = match next.kind {
            b'r' | b'R' => state.kind != next.kind,
            _ => state.kind == b'r',
        };
        !follows && *looks > 0
    })
}

/// Returns the times in which no thread of the process recorded anything.
fn doubtful(trace: &Trace, process: &Process) -> Vec<(u64, u64)> {
    let own = || trace.threads.values().filter(|thread| thread.pid == Some(process.pid));
    let slices = || own().flat_map(|thread| &thread.slices);
    let instants = || trace.instants.iter().filter(|one| one.pid == process.pid);
    let counters = || trace.counters.iter().filter(|one| one.pid == process.pid);
    let times = || {
        let edges = slices().flat_map(|slice| [slice.start_ns, slice.end_ns]);
        edges.chain(instants().map(|one| one.at_ns)).chain(counters().map(|one| one.at_ns))
    };
    silences(times, 2, LEAST_DOUBT_NS)
}

/// Returns the times without events in which this many were expected, of at least some length: of the scheduler, the
/// device was suspended, or the records are lost.
fn silences<I: Iterator<Item = u64>>(
    times: impl Fn() -> I,
    missed: u64,
    least_ns: u64,
) -> Vec<(u64, u64)> {
    let Some((first_ns, last_ns)) = times().min().zip(times().max()) else { return Vec::new() };
    let mean_ns = (last_ns - first_ns) / times().count() as u64;
    let least_ns = mean_ns.saturating_mul(missed).max(least_ns);
    // The first and the last event of each bucket, none of which is as long as a silence.
    let number = |at_ns: u64| usize::try_from((at_ns - first_ns) / (least_ns / 2)).unwrap_or(0);
    let mut buckets = vec![(u64::MAX, 0); number(last_ns) + 1];
    for at_ns in times() {
        if let Some((from_ns, to_ns)) = buckets.get_mut(number(at_ns)) {
            (*from_ns, *to_ns) = ((*from_ns).min(at_ns), (*to_ns).max(at_ns));
        }
    }
    buckets.retain(|&(from_ns, to_ns)| from_ns <= to_ns);
    let gaps = buckets.iter().zip(buckets.iter().skip(1)).map(|(one, next)| (one.1, next.0));
    gaps.filter(|(from_ns, to_ns)| to_ns - from_ns >= least_ns).collect()
}
