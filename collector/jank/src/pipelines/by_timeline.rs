//! Frames that FrameTimeline alone shows, in a system trace without the atrace categories `gfx` and `view`. The scheduler says
//! what their threads did: the main thread works on a frame until it wakes the render thread for the last time, which draws it.
//! A render thread that is still busy with the frame before is not woken: it wakes the main thread, which waits for it, once it
//! begins with this one, or is awake in all of it; one that animates alone gets the vsync itself. Where none is known, the main
//! thread worked on the frame in the sections that it began in it. A process that gets no vsyncs draws none: another one, whose
//! vsync the frame has, moves its layer.

use super::wakes::{is_ready, wakes};
use crate::cause::is_prefetch;
use crate::deadline::gives_vsyncs;
use crate::found::Found;
use crate::pipeline::Pipeline;
use crate::process::Process;
use std::collections::{BTreeMap, BTreeSet};
use tracetee_trace::{NO_PARENT, NameId, Slice, Thread, Trace, UNFINISHED, last_before};

/// Frames that are looked at which begin during another one.
const MOST_BEGUN: usize = 64;
/// The main thread runs less in a takeover, in which the render thread may wake it several times: a condition, then a lock. In
/// public traces up to 0.17 ms, and at least 0.32 ms between takeovers of two frames.
const TAKEOVER_NS: u64 = 200_000;
/// It runs less from a wake of the render thread until it waits for the takeover: 0.23 ms and less.
const HANDOVER_NS: u64 = 2 * TAKEOVER_NS;

/// Finds the frames of the process, by vsync id.
pub(super) fn find(trace: &Trace, process: &Process) -> Vec<Found> {
    let mut all: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    for frame in trace.frames.iter().filter(|frame| !frame.is_display && frame.pid == process.pid) {
        if frame.actual.is_some() && frame.end_ns != UNFINISHED {
            let (start_ns, end_ns) = all.entry(frame.token).or_insert((u64::MAX, 0));
            *start_ns = frame.start_ns.min(*start_ns);
            *end_ns = frame.end_ns.max(*end_ns);
        }
    }
    let of_render = process.render_tids.iter();
    let renders: Vec<(u32, &Thread)> =
        of_render.filter_map(|tid| Some((*tid, trace.threads.get(tid)?))).collect();
    let main = trace.threads.get(&process.pid);
    let sections = main.map_or(&[][..], |main| &main.slices).iter();
    let sections: Vec<&Slice> = sections.filter(|slice| slice.parent == NO_PARENT).collect();
    let prefetches = trace.names.select(is_prefetch);
    let of_frames = sections.iter().copied().filter(|slice| !prefetches.has(slice.name));
    let of_frames: Vec<&Slice> = of_frames.collect();
    // While the main thread is in a section, it begins no frame: the render thread does.
    let is_free = |at_ns: u64| {
        let section = last_before(&sections, |slice| slice.start_ns < at_ns);
        section.is_none_or(|section| section.end_ns <= at_ns)
    };
    let starts: BTreeSet<u64> = all.values().map(|&(start_ns, _)| start_ns).collect();
    let gets_vsyncs = |main: &Thread| {
        let wakers = main.states.iter().filter_map(|state| trace.threads.get(&state.waker));
        let mut names = wakers.map(|waker| waker.name(&trace.names));
        main.states.is_empty() || names.any(gives_vsyncs)
    };
    let others = trace.frames.iter().filter(|frame| !frame.is_display && frame.pid != process.pid);
    let is_moved = main.is_some_and(|main| !gets_vsyncs(main));
    let moved: BTreeSet<i64> = others.filter(|_| is_moved).map(|frame| frame.token).collect();
    let mut before = vec![Before::default(); renders.len()];
    let frame = |(token, (start_ns, end_ns)): (i64, (u64, u64))| {
        let mut is_behind = false;
        let draws = renders.iter().zip(&mut before).filter_map(|(&(tid, render), before)| {
            let wakes_of = |thread, from_ns: u64, waker| {
                let wakes = wakes(thread, from_ns, end_ns);
                let wakes = wakes.filter(move |wake| wake.at_ns >= from_ns);
                wakes.filter(move |wake| wake.waker == waker).map(|wake| wake.at_ns)
            };
            let handed_ns = wakes_of(render, start_ns, process.pid).last();
            let synced_ns = || {
                let worked_ns = ran_until_ns(main?, (before.taken_ns, end_ns), TAKEOVER_NS)?;
                wakes_of(main?, start_ns.max(worked_ns), tid).next()
            };
            let begun_ns = handed_ns.or_else(synced_ns);
            // The main thread, which has woken the render thread, waits until that has what it needs.
            let waited_ns = handed_ns.and_then(|at_ns| {
                let worked_ns = ran_until_ns(main?, (at_ns, end_ns), HANDOVER_NS);
                let mut wakes = wakes_of(main?, at_ns, tid);
                wakes.next().filter(|&at_ns| worked_ns.is_none_or(|worked_ns| at_ns < worked_ns))
            });
            before.taken_ns = waited_ns.or(begun_ns).unwrap_or(before.taken_ns);
            let begun_ns = begun_ns.or_else(|| awake_ns(render, start_ns, end_ns));
            let is_vsync = |waker: u32| {
                let waker = trace.threads.get(&waker);
                waker.is_some_and(|waker| gives_vsyncs(waker.name(&trace.names)))
            };
            let given_ns = || {
                let mut wakes = wakes(render, start_ns, end_ns);
                wakes.find(|wake| wake.at_ns >= start_ns && is_vsync(wake.waker))
            };
            let begun_ns = begun_ns.or_else(|| given_ns().map(|wake| wake.at_ns))?;
            let draw = slice(begun_ns, drawn_ns(render, begun_ns, end_ns));
            is_behind |= before.is_busy(render, start_ns, handed_ns, draw);
            Some((tid, draw))
        });
        let draws: Vec<(u32, Slice)> = draws.collect();
        let handed_ns = draws.iter().map(|(_, draw)| draw.start_ns).max();
        let handed_ns = handed_ns.unwrap_or_else(|| match is_free(start_ns) {
            true => worked_ns(&of_frames, &starts, start_ns, end_ns),
            false => start_ns,
        });
        let is_behind = is_behind && draws.len() == 1;
        let is_moved = draws.is_empty() && handed_ns == start_ns && moved.contains(&token);
        let ui = slice(start_ns, handed_ns);
        Found {
            draws,
            is_behind,
            is_moved,
            ..Found::new(Pipeline::Views, process.pid, Some(token), ui)
        }
    };
    // A render thread may animate a frame before it takes over one whose vsync was earlier.
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|&(_, (_, end_ns))| end_ns);
    all.into_iter().map(frame).collect()
}

/// A render thread's work on the frames before one.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    /// Begin of the last takeover of a frame from the main thread.
    taken_ns: u64,
    /// Begin of the draws without a pause, and their end.
    busy_ns: u64,
    drawn_ns: u64,
}

impl Before {
    /// Adds a draw. Returns true if the thread had others from the begin of its frame on, so that the frame waited for them.
    fn is_busy(
        &mut self,
        render: &Thread,
        start_ns: u64,
        handed: Option<u64>,
        draw: Slice,
    ) -> bool {
        let is_next = || awake_ns(render, self.drawn_ns, draw.start_ns) == Some(self.drawn_ns);
        let is_busy = handed.is_none() && (self.drawn_ns >= draw.start_ns || is_next());
        if !is_busy {
            self.busy_ns = draw.start_ns;
        }
        self.drawn_ns = draw.end_ns.max(self.drawn_ns);
        is_busy && self.busy_ns <= start_ns
    }
}

/// A part of a frame, which no section shows.
pub(super) const fn slice(start_ns: u64, end_ns: u64) -> Slice {
    let (name, category, parent) = (NameId::NONE, NameId::NONE, NO_PARENT);
    Slice { name, category, start_ns, end_ns, parent, ended: true, is_complete: false }
}

/// Returns the end of the last section that the main thread began in a frame, before the next one. Frames that begin inside
/// of a section are not its own: the render thread animates, too.
fn worked_ns(sections: &[&Slice], starts: &BTreeSet<u64>, start_ns: u64, end_ns: u64) -> u64 {
    let worked_ns = |at_ns: u64| {
        last_before(sections, |slice| slice.start_ns < at_ns).map_or(0, |slice| slice.end_ns)
    };
    let mut later = starts.range(start_ns + 1..).take(MOST_BEGUN).copied();
    let next_ns = later.find(|&at_ns| worked_ns(at_ns) <= at_ns).unwrap_or(end_ns).min(end_ns);
    worked_ns(next_ns).min(end_ns).max(start_ns)
}

/// Returns when a thread had drawn a frame that was complete at `end_ns`: at the begin of the sleep in which it was then.
fn drawn_ns(render: &Thread, begun_ns: u64, end_ns: u64) -> u64 {
    match last_before(&render.states, |state| state.at_ns <= end_ns) {
        Some(state) if !is_ready(state) => state.at_ns.max(begun_ns),
        _ => end_ns,
    }
}

/// Returns when a thread had run for this long since a time, if it had before another one.
fn ran_until_ns(thread: &Thread, (from_ns, to_ns): (u64, u64), mut left_ns: u64) -> Option<u64> {
    let first = thread.states.partition_point(|state| state.at_ns <= from_ns).saturating_sub(1);
    let runs = thread.states.get(first..)?.windows(2).map_while(|pair| match pair {
        [state, next] if state.at_ns < to_ns => Some((state, next.at_ns)),
        _ => None,
    });
    let mut runs = runs.filter(|(state, _)| state.kind == b'r');
    runs.find_map(|(state, until_ns)| {
        let begun_ns = state.at_ns.max(from_ns);
        let worked_ns = begun_ns.saturating_add(left_ns);
        left_ns = left_ns.saturating_sub(until_ns.saturating_sub(begun_ns));
        (left_ns == 0).then_some(worked_ns)
    })
}

/// Returns since when a thread was awake, if it did not fall asleep between two times.
fn awake_ns(thread: &Thread, from_ns: u64, to_ns: u64) -> Option<u64> {
    let [from, to] =
        [from_ns, to_ns].map(|at_ns| thread.states.partition_point(|state| state.at_ns <= at_ns));
    let mut states = thread.states.get(from.checked_sub(1)?..to)?.iter();
    let first = states.find(|state| is_ready(state))?;
    states.all(is_ready).then_some(first.at_ns.max(from_ns))
}
