//! The counters that the agent reads at frames, for threads whose scheduler states a trace lacks: how long each thread ran
//! and was ready to run between two readings, not when.
//!
//! Within a frame, the wait for a processor is taken from time that no section explains, as far as there is such
//! time: the framework's own steps are short. A section of the app keeps its waits, because nothing shows in which section
//! they were. Blocked time is a wait only as far as the frame's sections cannot hold it; after major page faults it is
//! [`Wait::Swap`], in sections that name no wait too.

use crate::cause::Cause;
use crate::pieces::Piece;
use crate::process::Process;
use crate::states::{Span, StateTimes, ThreadState};
use crate::waits::Wait;
use std::collections::HashMap;
use tracetee_protocol::notes::{FRAME_COUNTERS, FRAME_MAIN, FRAME_RENDER};
use tracetee_trace::{NameId, Seeded, Trace};

/// A thread's time between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Between {
    from_ns: u64,
    to_ns: u64,
    running_ns: u64,
    runnable_ns: u64,
    major_faults: u64,
}

/// Blocked time for which one major fault can account, ns. A fault that a disk or compressed memory serves takes less.
const FAULT_NS: u64 = 5_000_000;

/// The readings of a trace.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// By thread, in order.
    threads: HashMap<u32, Vec<Between>, Seeded>,
}

impl Counted {
    pub(crate) fn find(trace: &Trace, process: &Process) -> Self {
        let mut kinds: HashMap<NameId, Option<(bool, usize)>, Seeded> = HashMap::default();
        let kind = |name| {
            let text = trace.names.text(name);
            let main = text.strip_prefix(FRAME_MAIN);
            let what = main.or_else(|| text.strip_prefix(FRAME_RENDER))?;
            let kind = FRAME_COUNTERS.iter().position(|&one| one == what)?;
            Some((main.is_some(), kind))
        };
        let mut readings: Vec<(u32, u64, usize, u64)> = Vec::new();
        for counter in trace.counters.iter().filter(|counter| counter.pid == process.pid) {
            let Some((is_main, kind)) =
                *kinds.entry(counter.name).or_insert_with(|| kind(counter.name))
            else {
                continue;
            };
            // In Perfetto's protobuf a counter is the process's.
            let tid = match (is_main, process.only_render()) {
                (true, _) => process.pid,
                (false, _) if counter.thread != process.pid => counter.thread,
                (false, Some(only)) => only,
                (false, None) => continue,
            };
            // Values outside the range come from text that the agent has not written.
            let value =
                if counter.value.is_finite() { counter.value.clamp(0.0, MAX_VALUE) } else { 0.0 };
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in the range just clamped to"
            )]
            readings.push((tid, counter.at_ns, kind, value as u64));
        }
        readings.sort_by_key(|&(thread, at_ns, ..)| (thread, at_ns));
        let mut threads: HashMap<u32, Vec<Between>, Seeded> = HashMap::default();
        for of_thread in readings.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(tid, ..)) = of_thread.first() else { continue };
            // The scheduler's own events say more.
            if trace.threads.get(&tid).is_none_or(|thread| !thread.states.is_empty()) {
                continue;
            }
            threads.insert(tid, between(trace, tid, of_thread));
        }
        Self { threads }
    }

    /// True if the trace has no reading.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.values().all(Vec::is_empty)
    }

    fn readings(&self, tid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Between> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|between| between.to_ns <= from_ns);
        all.iter().skip(first).take_while(move |between| between.from_ns < to_ns)
    }

    /// Returns the time by state of a thread between two times, which is unknown where there is no complete reading.
    pub(crate) fn states(&self, tid: u32, from_ns: u64, to_ns: u64) -> Option<StateTimes> {
        let mut times = StateTimes::default();
        let mut known_ns = 0;
        for reading in self.readings(tid, from_ns, to_ns) {
            if reading.from_ns < from_ns || reading.to_ns > to_ns {
                continue;
            }
            known_ns += reading.to_ns - reading.from_ns;
            times.add(ThreadState::Running, reading.running_ns);
            times.add(ThreadState::Runnable, reading.runnable_ns);
            times.add(
                if reading.major_faults > 0 { ThreadState::Io } else { ThreadState::Asleep },
                reading.blocked_ns(),
            );
        }
        times.add(ThreadState::Unknown, (to_ns - from_ns).saturating_sub(known_ns));
        (known_ns > 0).then_some(times)
    }

    /// Returns the major page faults of a thread between two times, and for how long it was blocked in readings with them.
    pub(crate) fn faults(&self, tid: u32, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let faulted = self.readings(tid, from_ns, to_ns).filter(|reading| reading.major_faults > 0);
        faulted.fold((0, 0), |(faults, ns), reading| {
            let within_ns = reading.to_ns.min(to_ns).saturating_sub(reading.from_ns.max(from_ns));
            (
                reading.major_faults.saturating_add(faults),
                reading.blocked_ns().min(within_ns).saturating_add(ns),
            )
        })
    }

    /// Divides pieces of a thread's time by its readings; `cause` is that of a piece's slice. Returns each piece with the wait
    /// that it is, if a reading shows one.
    pub(crate) fn divide(
        &self,
        tid: u32,
        found: Vec<Piece>,
        mut cause: impl FnMut(&Piece) -> Option<Cause>,
    ) -> Vec<(Piece, Option<Wait>)> {
        let edges = found.first().zip(found.last());
        let Some((from_ns, to_ns)) =
            edges.map(|(first, last)| (first.span.from_ns, last.span.to_ns))
        else {
            return Vec::new();
        };
        let mut rest: Vec<(Piece, Option<Wait>)> = Vec::with_capacity(found.len());
        let mut found = found.into_iter().peekable();
        for reading in self.readings(tid, from_ns, to_ns) {
            // First the time before the reading, then the time in it: pieces are cut at the readings.
            cut(&mut found, reading.from_ns, &mut rest);
            let mut inside = Vec::new();
            cut(&mut found, reading.to_ns, &mut inside);
            let is_whole = reading.from_ns >= from_ns && reading.to_ns <= to_ns;
            reading.divide(inside, is_whole, &mut cause, &mut rest);
        }
        rest.extend(found.map(|piece| (piece, None)));
        rest
    }
}

/// The largest value of a counter that an f64 holds exactly.
const MAX_VALUE: f64 = 9_007_199_254_740_992.0;

/// Makes the times between readings of the readings of one thread.
fn between(trace: &Trace, tid: u32, readings: &[(u32, u64, usize, u64)]) -> Vec<Between> {
    let mut last = [None; FRAME_COUNTERS.len()];
    let mut before_ns = None;
    let mut all = Vec::new();
    for of_time in readings.chunk_by(|one, other| one.1 == other.1) {
        let Some(&(_, to_ns, ..)) = of_time.first() else { continue };
        for &(_, _, kind, value) in of_time {
            if let Some(of_kind) = last.get_mut(kind) {
                *of_kind = Some(value);
            }
        }
        // The first counter is there at each reading.
        if !of_time.iter().any(|&(_, _, kind, _)| kind == 0) {
            continue;
        }
        let from_ns = before_ns.replace(to_ns).or_else(|| begin_of(trace, tid, to_ns));
        let [Some(running_ns), Some(runnable_ns), _, major_faults, ..] = last else { continue };
        if let Some(from_ns) = from_ns {
            let wall_ns = to_ns - from_ns;
            // A frame whose begin was cut off has more than its time.
            if running_ns.saturating_add(runnable_ns)
                <= wall_ns.saturating_add(wall_ns / 8 + 20_000)
            {
                let running_ns = running_ns.min(wall_ns);
                let runnable_ns = runnable_ns.min(wall_ns - running_ns);
                let major_faults = major_faults.unwrap_or(0);
                all.push(Between { from_ns, to_ns, running_ns, runnable_ns, major_faults });
            }
        }
    }
    all
}

/// Returns the begin of the section of a thread that ends at a time, the longest of several.
fn begin_of(trace: &Trace, tid: u32, end_ns: u64) -> Option<u64> {
    let slices = &trace.threads.get(&tid)?.slices;
    let before = slices.partition_point(|slice| slice.start_ns < end_ns);
    // Its children follow the section, and end with it or before.
    let ending = slices.iter().take(before).rev().take(MAX_CHILDREN);
    ending.filter(|slice| slice.end_ns == end_ns).map(|slice| slice.start_ns).min()
}

/// Sections of a frame among which its own is looked for.
const MAX_CHILDREN: usize = 4_096;

/// Moves the pieces before a time from `found` to `to`.
fn cut(
    found: &mut std::iter::Peekable<std::vec::IntoIter<Piece>>,
    until_ns: u64,
    to: &mut Vec<(Piece, Option<Wait>)>,
) {
    while let Some(piece) = found.next_if(|piece| piece.span.to_ns <= until_ns) {
        to.push((piece, None));
    }
    if let Some(piece) = found.peek_mut().filter(|piece| piece.span.from_ns < until_ns) {
        to.push((Piece { span: Span { to_ns: until_ns, ..piece.span }, ..*piece }, None));
        piece.span.from_ns = until_ns;
    }
}

impl Between {
    const fn blocked_ns(&self) -> u64 {
        (self.to_ns - self.from_ns).saturating_sub(self.running_ns + self.runnable_ns)
    }

    /// Divides the pieces between the readings. `is_whole`: they are all of this time.
    fn divide(
        &self,
        inside: Vec<(Piece, Option<Wait>)>,
        is_whole: bool,
        cause: &mut impl FnMut(&Piece) -> Option<Cause>,
        to: &mut Vec<(Piece, Option<Wait>)>,
    ) {
        let inside: Vec<_> = inside.into_iter().map(|(piece, _)| (cause(&piece), piece)).collect();
        let sum = |is: fn(Option<Cause>) -> bool| -> u64 {
            inside.iter().filter(|(cause, _)| is(*cause)).map(|(_, piece)| piece.ns()).sum()
        };
        let unexplained_ns = sum(|cause| cause.is_none());
        let mut runnable_ns = self.runnable_ns.min(unexplained_ns);
        let named_ns = sum(|cause| cause.is_some_and(Cause::names_wait));
        let blocked_ns = self.blocked_ns().saturating_sub(named_ns);
        let by_faults_ns = self.major_faults.saturating_mul(FAULT_NS).min(blocked_ns);
        let sections_ns = sum(|cause| cause.is_some_and(|cause| !cause.names_wait()));
        let mut swap_ns = if is_whole { by_faults_ns.min(unexplained_ns - runnable_ns) } else { 0 };
        let mut swap_in_sections_ns = if is_whole { by_faults_ns - swap_ns } else { 0 };
        let mut blocked_ns =
            if is_whole { (blocked_ns - by_faults_ns).saturating_sub(sections_ns) } else { 0 };
        for (cause, piece) in inside {
            let mut rest = piece;
            let mut take = |left_ns: &mut u64, state, wait| {
                let ns = rest.ns().min(*left_ns);
                if ns > 0 {
                    *left_ns -= ns;
                    let span = Span { to_ns: rest.span.from_ns + ns, state, ..rest.span };
                    to.push((Piece { span, ..rest }, Some(wait)));
                    rest.span.from_ns += ns;
                }
            };
            match cause {
                None => {
                    take(&mut runnable_ns, ThreadState::Runnable, Wait::Processor);
                    take(&mut swap_ns, ThreadState::Io, Wait::Swap);
                    take(&mut blocked_ns, ThreadState::Asleep, Wait::Unknown);
                }
                Some(cause) if !cause.names_wait() => {
                    take(&mut swap_in_sections_ns, ThreadState::Io, Wait::Swap);
                }
                Some(_) => {}
            }
            if rest.ns() > 0 {
                to.push((rest, None));
            }
        }
    }
}

#[cfg(test)]
#[path = "counted_tests.rs"]
mod tests;
