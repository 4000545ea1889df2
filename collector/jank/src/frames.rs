//! Frames: what the main thread did of each, joined with what the render thread did.
//!
//! Since Android 12 both carry the vsync's id; before, a `DrawFrame` belongs to the `doFrame` in or
//! behind which it began, up to the next one.

use crate::deadline::{self, Expected};
use crate::fences;
use crate::found::Found;
use crate::frame::{Evidence, Frame, Level, Outcome, StartSource};
use crate::judge::{Cadences, Judged, Judgement, Verdict};
use crate::latches::Latches;
use crate::periods::Periods;
use crate::pipeline::Pipeline;
use crate::pipelines;
use crate::process::{
    ANIMATION, DO_FRAME, FRAME, Process, RENDER_THREAD, TRAVERSALS, draw_id, frame_id,
};
use crate::screens::Screens;
use crate::thread_role::ThreadRole;
use crate::timeline::Timeline;
use crate::verdicts::Verdicts;
use std::collections::{BTreeMap, HashMap, HashSet};
use tracetee_trace::{NameSet, Seeded, Slice, Thread, Trace, from_place, last_before};

/// Assumed time of a missing render thread (Perfetto's rule).
const ASSUMED_RENDER_NS: u64 = 5_000_000;
/// Android vitals: frames that take longer are frozen.
const FROZEN_NS: u64 = 700_000_000;
/// JankStats: frames that take more times the time to their deadline are janky.
const JANKY_PERIODS: u64 = 2;

/// The slices that frames are made of.
#[derive(Debug, Default)]
pub(crate) struct FrameSlices {
    /// Frames by time, with their draws.
    pub(crate) found: Vec<Found>,
    timeline: Timeline,
    pub(crate) verdicts: Verdicts,
    pub(crate) has_render_thread: bool,
    /// Time that is assumed for the render thread of frames without it.
    pub(crate) assumed_ns: u64,
}

impl FrameSlices {
    pub(crate) fn find(trace: &Trace, process: &Process) -> Self {
        let mut found: Vec<Found> = Vec::new();
        let views = trace.names.select(|name| frame_id(name, FRAME).is_some());
        let draws = trace.names.select(|name| draw_id(name).is_some());
        for (tid, thread) in process.threads(trace) {
            let mut until_ns = 0;
            for slice in thread.named(&views) {
                let name = trace.names.text(slice.name);
                let Some(vsync_id) = frame_id(name, FRAME) else { continue };
                // One inside of another is the same frame's, or the other's end is lost.
                if slice.start_ns < until_ns {
                    let Some(outer) = found.last_mut() else { continue };
                    let of_outer = (outer.vsync_id, outer.ui.start_ns);
                    if outer.ui.ended || !is_next(of_outer, (vsync_id, slice.start_ns)) {
                        continue;
                    }
                    (outer.ui.end_ns, outer.is_torn) = (slice.start_ns, true);
                }
                until_ns = slice.end_ns;
                let mut frame = Found::new(Pipeline::Views, tid, vsync_id, *slice);
                if process.render_tids.contains(&tid) {
                    frame.role = ThreadRole::Render;
                }
                found.push(frame);
            }
        }
        found.sort_by_key(|frame| (frame.ui.start_ns, frame.ui_tid != process.pid));
        join_draws(trace, process, &draws, &mut found);
        fences::join(trace, process, &mut found);
        // Other threads have the callbacks of a vsync too; a frame of theirs is one that is shown.
        let timeline = Timeline::find(trace, process.pid);
        let of_main = found.iter().filter(|frame| frame.ui_tid == process.pid);
        let of_main: HashSet<i64, Seeded> = of_main.filter_map(|frame| frame.vsync_id).collect();
        found.retain(|frame| {
            let is_shown = |id| timeline.verdict(id).is_some() && !of_main.contains(&id);
            frame.ui_tid == process.pid
                || !frame.draws.is_empty()
                || frame.vsync_id.is_some_and(is_shown)
        });
        let verdicts = Verdicts::find(trace, process, &found);
        let traversals = trace.names.select(|name| TRAVERSALS.contains(&name));
        let animations = trace.names.select(|name| name == ANIMATION);
        let main = trace.threads.get(&process.pid);
        // Choreographer's sections are in the trace, so that a frame without a traversal had none.
        let has_steps = main.is_some_and(|main| {
            let around = |slice: &Slice| main.slices.get(slice.parent as usize);
            let is_frame =
                |slice: &Slice| frame_id(trace.names.text(slice.name), DO_FRAME).is_some();
            main.named(&traversals).next().is_some()
                || main.named(&animations).any(|slice| around(slice).is_some_and(is_frame))
        });
        let has_ids = found.iter().any(|frame| frame.vsync_id.is_some() && !frame.draws.is_empty());
        let is_later = |(id, (_, last))| id > last;
        for (index, frame) in found.iter_mut().enumerate() {
            // A callback alone: a library's that measures frames, say. A dialog's window, which the library does not watch,
            // may have drawn.
            let is_shown = frame.vsync_id.is_some_and(|id| timeline.verdict(id).is_some());
            let is_callback = verdicts.is_undrawn(index) || has_steps && !is_shown;
            // After the last frame of the timeline, one without a draw of its id drew nothing, where draws have ids.
            let is_empty = has_ids
                && frame.draws.is_empty()
                && frame.vsync_id.zip(timeline.ids).is_some_and(is_later);
            if is_empty || is_callback && !pipelines::draws(trace, frame) {
                frame.pipeline = Pipeline::VsyncCallback;
            }
        }
        let has_render_thread = !process.render_tids.is_empty();
        // The scheduler shows a render thread that draws nothing: its sections have the tag of doFrame.
        let is_idle = |thread: &Thread| {
            !thread.states.is_empty() && thread.name(&trace.names) == RENDER_THREAD
        };
        let is_known = has_render_thread
            || trace.threads.values().any(|one| one.pid == Some(process.pid) && is_idle(one));
        let assumed_ns = if is_known { 0 } else { ASSUMED_RENDER_NS };
        Self { found, timeline, verdicts, has_render_thread, assumed_ns }
    }

    /// Returns the begin of each frame of the thread that begins most of them.
    pub(crate) fn starts_ns(&self) -> impl Iterator<Item = u64> {
        let mut counts: BTreeMap<(Pipeline, u32), usize> = BTreeMap::new();
        for found in self.found.iter().filter(|found| !found.pipeline.is_layer()) {
            *counts.entry((found.pipeline, found.ui_tid)).or_default() += 1;
        }
        let most =
            counts.into_iter().rev().max_by_key(|&(_, count)| count).map(|(thread, _)| thread);
        let of_most = move |found: &&Found| Some((found.pipeline, found.ui_tid)) == most;
        self.found.iter().filter(of_most).map(|found| found.ui.start_ns)
    }

    /// Makes the frames. Each look at the trace costs one of `looks`.
    pub(crate) fn frames(
        &mut self,
        trace: &Trace,
        process: &Process,
        periods: &Periods,
        screens: &Screens,
        looks: &mut u64,
    ) -> Vec<Frame> {
        let expected = self.expected(trace, periods, looks);
        let starts_ns: Vec<u64> = expected.iter().map(|expected| expected.start_ns).collect();
        let latches = Latches::find(trace, process, periods, (&self.found, &starts_ns), looks);
        for (index, found) in self.found.iter_mut().enumerate() {
            found.waited = latches.judgement(index).and_then(|judgement| judgement.waited);
        }
        let judged = |found: &Found| Judged::new(found, periods.at(found.ui.start_ns));
        let cadences = Cadences::find(self.found.iter().map(judged));
        let of_ids = self.of_ids();
        let dequeues = trace.names.select(is_dequeue);
        let all = self.found.iter().zip(expected).enumerate();
        let frames = all.map(|(index, (found, expected))| {
            let period_ns = periods.at(expected.start_ns);
            let id = found.vsync_id.filter(|id| of_ids.get(id) == Some(&index));
            let own_end_ns = self.own_end_ns(found);
            let by_timeline = id.and_then(|id| {
                self.timeline.judge(id, own_end_ns, expected.deadline_ns, period_ns)
            });
            let verdict = self.verdicts.verdict(index);
            let judged_by = by_timeline
                .or_else(|| verdict?.by_compositor(expected.start_ns, own_end_ns, period_ns))
                .or_else(|| latches.judgement(index))
                .or_else(|| verdict?.by_metrics(expected.start_ns, own_end_ns, period_ns));
            if let Some(judgement) = judged_by {
                return Frame {
                    timeline: id.and_then(|id| self.timeline.verdict(id)),
                    ..self.judged(found, expected, judgement, screens)
                };
            }
            if found.pipeline == Pipeline::Views {
                let waited_ns = waited_ns(trace, &dequeues, found, looks);
                let judgement = self.by_markers(found, expected, period_ns, waited_ns);
                return self.judged(found, expected, judgement, screens);
            }
            other(found, screens, &judged(found), &cadences)
        });
        frames.collect()
    }

    /// Finds what was expected of each frame.
    fn expected(&self, trace: &Trace, periods: &Periods, looks: &mut u64) -> Vec<Expected> {
        let begin = |found: &Found| {
            let start_ns = found.start_ns();
            let deadline_ns = start_ns.saturating_add(periods.at(start_ns));
            Expected { start_ns, source: StartSource::Begin, deadline_ns }
        };
        let mut all: Vec<Expected> = self.found.iter().map(begin).collect();
        let mut by_thread: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, found) in self.found.iter().enumerate() {
            if found.pipeline == Pipeline::Views {
                by_thread.entry(found.ui_tid).or_default().push(index);
            }
        }
        for (tid, indices) in by_thread {
            let of_thread = indices.iter().filter_map(|&index| self.found.get(index));
            let views: Vec<_> = of_thread.map(|found| (found.vsync_id, found.ui)).collect();
            let expected = deadline::expected(trace, tid, (&self.timeline, periods), &views, looks);
            for (index, expected) in indices.into_iter().zip(expected) {
                if let Some(one) = all.get_mut(index) {
                    *one = self
                        .verdicts
                        .verdict(index)
                        .map_or(expected, |verdict| verdict.expected(expected));
                }
            }
        }
        all
    }

    /// Returns the frame of each vsync id: of several threads' that which was drawn.
    fn of_ids(&self) -> HashMap<i64, usize, Seeded> {
        let mut all: HashMap<i64, usize, Seeded> =
            HashMap::with_capacity_and_hasher(self.found.len(), Seeded::default());
        for (index, found) in self.found.iter().enumerate() {
            let Some(id) = found.vsync_id.filter(|_| found.pipeline == Pipeline::Views) else {
                continue;
            };
            let kept = all.entry(id).or_insert(index);
            let is_drawn =
                |index: usize| self.found.get(index).is_some_and(|frame| !frame.draws.is_empty());
            if is_drawn(index) && !is_drawn(*kept) {
                *kept = index;
            }
        }
        all
    }

    /// Returns the end of the threads' work.
    fn own_end_ns(&self, found: &Found) -> u64 {
        let is_assumed = found.pipeline == Pipeline::Views && found.draws.is_empty();
        found.end_ns() + if is_assumed { self.assumed_ns } else { 0 }
    }

    /// Judges a frame of Android's views by its own sections.
    fn by_markers(
        &self,
        found: &Found,
        expected: Expected,
        period_ns: u64,
        waited_ns: u64,
    ) -> Judgement {
        let Expected { start_ns, deadline_ns, .. } = expected;
        // The graphics processor's work counts if it alone makes the frame late.
        let gpu_ns = found.gpu_ns.filter(|&gpu_ns| gpu_ns > deadline_ns);
        let end_ns = self.own_end_ns(found).max(gpu_ns.unwrap_or(0));
        let in_time = Judgement::in_time(Evidence::Markers, end_ns, deadline_ns);
        let overrun_ns = end_ns.saturating_sub(deadline_ns);
        let late = overrun_ns > 0;
        // Its buffers wait for those of earlier frames, which the display shows in the meantime.
        if late && overrun_ns <= waited_ns.min(period_ns) {
            return Judgement { outcome: Outcome::Stuffing, ..in_time };
        }
        let (dur_ns, allowed_ns) = (end_ns - start_ns, deadline_ns - start_ns);
        let missed = (dur_ns + period_ns).saturating_sub(allowed_ns) / period_ns;
        let outcome = if late { Outcome::App } else { Outcome::InTime };
        Judgement { outcome, late, missed, ..in_time }
    }

    fn judged(
        &self,
        found: &Found,
        expected: Expected,
        judgement: Judgement,
        screens: &Screens,
    ) -> Frame {
        let Expected { start_ns, source, deadline_ns: allowed_until_ns } = expected;
        let Judgement { evidence, outcome, late, missed, deadline_ns, end_ns, .. } = judgement;
        // A buffer in time waits for the display; that is no time of the frame.
        let is_part = late || evidence != Evidence::Buffers;
        // FrameTimeline shows the end of the app's part; its threads may go on with other work.
        let is_shown = late && (evidence, outcome) == (Evidence::Timeline, Outcome::App);
        let own_end_ns = if is_shown { 0 } else { self.own_end_ns(found) };
        let frame_end_ns = own_end_ns.max(if is_part { end_ns } else { 0 });
        let dur_ns = frame_end_ns - start_ns;
        let most_ns = JANKY_PERIODS.saturating_mul(allowed_until_ns - start_ns);
        Frame {
            start_source: source,
            deadline_ns,
            evidence,
            outcome,
            dropped: missed,
            level: Level::from_dropped(missed),
            slow: late,
            janky: late && (evidence.shows_display() || dur_ns > most_ns),
            jank_ns: if late { end_ns.saturating_sub(deadline_ns) } else { 0 },
            ..base(found, screens, start_ns, dur_ns)
        }
    }
}

/// A section of a frame that begins this long after the one around it belongs to the next frame.
const NEXT_NS: u64 = 3_000_000;

/// True if a section of a frame inside of another one without an end, each with its vsync's id and begin, belongs to the next frame.
fn is_next(outer: (Option<i64>, u64), inner: (Option<i64>, u64)) -> bool {
    match (outer.0, inner.0) {
        (Some(outer), Some(inner)) => outer != inner,
        (None, None) => inner.1.saturating_sub(outer.1) >= NEXT_NS,
        _ => false,
    }
}

/// Joins the draws of the render threads with their frames.
fn join_draws(trace: &Trace, process: &Process, draws: &NameSet, found: &mut [Found]) {
    let mut by_id: HashMap<i64, Vec<usize>, Seeded> = HashMap::default();
    // Those that a render thread animates alone, by thread.
    let mut own: HashMap<u32, Vec<usize>, Seeded> = HashMap::default();
    for (index, frame) in found.iter().enumerate() {
        if let Some(id) = frame.vsync_id {
            by_id.entry(id).or_default().push(index);
        }
        if frame.role == ThreadRole::Render {
            own.entry(frame.ui_tid).or_default().push(index);
        }
    }
    // Without ids only time tells, and the main thread draws.
    let has_main = found.iter().any(|frame| frame.ui_tid == process.pid);
    let by_time: Vec<(u64, usize)> = (0..)
        .zip(found.iter())
        .filter(|(_, frame)| !has_main || frame.ui_tid == process.pid)
        .map(|(index, frame)| (frame.ui.start_ns, index))
        .collect();
    let queues = trace.names.select(|name| name.starts_with("queueBuffer"));
    let dequeues = trace.names.select(is_dequeue);
    for &tid in &process.render_tids {
        let Some(thread) = trace.threads.get(&tid) else { continue };
        let buffers = Buffers {
            queues: thread.named(&queues).collect(),
            dequeues: thread.named(&dequeues).collect(),
        };
        for &index in own.get(&tid).into_iter().flatten() {
            if let Some(frame) = found.get_mut(index) {
                frame.ui = buffers.complete(&frame.ui);
            }
        }
        // The last draw, its id and its frame.
        let mut last: Option<(Slice, Option<i64>, Option<usize>)> = None;
        for slice in thread.named(draws) {
            let Some(id) = draw_id(trace.names.text(slice.name)) else { continue };
            let outer = last.filter(|(outer, ..)| slice.start_ns < outer.end_ns);
            let lost = outer.filter(|(outer, of_outer, _)| {
                !outer.ended && is_next((*of_outer, outer.start_ns), (id, slice.start_ns))
            });
            if let Some(frame) = lost.and_then(|(.., index)| found.get_mut(index?)) {
                frame.is_torn = true;
            }
            let has_begun = |index: &&usize| {
                found.get(**index).is_some_and(|frame| frame.ui.start_ns <= slice.start_ns)
            };
            let index = match id {
                // An id of an earlier boot, a frame cut off at the beginning: not this frame's.
                Some(id) => {
                    by_id.get(&id).and_then(|same| same.iter().rev().find(has_begun)).copied()
                }
                // The last frame that began before it did.
                None => last_before(&by_time, |&(start_ns, _)| start_ns <= slice.start_ns)
                    .map(|&(_, index)| index),
            };
            if outer.is_none() || lost.is_some() {
                last = Some((*slice, id, index));
            }
            if let Some(frame) = index.and_then(|index| found.get_mut(index)) {
                frame.draws.push((tid, buffers.complete(slice)));
            }
        }
    }
}

/// The sections of a render thread in which it queues and takes buffers.
struct Buffers<'a> {
    queues: Vec<&'a Slice>,
    dequeues: Vec<&'a Slice>,
}

impl Buffers<'_> {
    /// Returns a section of a frame without the time after its last buffer was queued, in which some drivers already take
    /// the next frame's.
    fn complete(&self, slice: &Slice) -> Slice {
        let queue = last_before(&self.queues, |queue| queue.start_ns < slice.end_ns);
        let queue = queue.filter(|queue| queue.start_ns >= slice.start_ns);
        let next = queue.and_then(|queue| {
            from_place(&self.dequeues, |dequeue| dequeue.start_ns < queue.end_ns).first()
        });
        let end_ns = next.map_or(u64::MAX, |next| next.start_ns).min(slice.end_ns);
        Slice { end_ns, ..*slice }
    }
}

/// True for the name of a section that takes a free buffer.
fn is_dequeue(name: &str) -> bool {
    name.starts_with("dequeueBuffer")
}

/// Returns the time that a frame's draws waited for a free buffer.
fn waited_ns(trace: &Trace, dequeues: &NameSet, found: &Found, looks: &mut u64) -> u64 {
    let mut waited_ns = 0;
    for (tid, draw) in &found.draws {
        let Some(thread) = trace.threads.get(tid).filter(|_| !dequeues.is_empty()) else {
            continue;
        };
        for slice in from_place(&thread.slices, |slice| slice.start_ns < draw.start_ns) {
            if slice.start_ns >= draw.end_ns || *looks == 0 {
                break;
            }
            *looks -= 1;
            if dequeues.has(slice.name) {
                waited_ns += slice.duration_ns();
            }
        }
    }
    waited_ns
}

/// Makes a frame of another pipeline by its own sections.
fn other(found: &Found, screens: &Screens, judged: &Judged, cadences: &Cadences) -> Frame {
    let start_ns = found.start_ns();
    let dur_ns = found.end_ns().saturating_sub(start_ns);
    let Verdict { dropped, slow, janky, jank_ns } = Verdict::new(judged, cadences);
    let end_ns = start_ns + dur_ns;
    // A frame in time has at least its period.
    let deadline_ns = if slow { end_ns - jank_ns } else { end_ns.max(start_ns + judged.period_ns) };
    Frame {
        deadline_ns,
        cadence: if judged.is_loop { cadences.periods(judged) } else { 0 },
        outcome: if slow { Outcome::App } else { Outcome::InTime },
        dropped,
        level: Level::from_dropped(dropped),
        slow,
        janky,
        jank_ns,
        ..base(found, screens, start_ns, dur_ns)
    }
}

/// The fields of a frame that do not depend on its deadline.
fn base(found: &Found, screens: &Screens, start_ns: u64, dur_ns: u64) -> Frame {
    Frame {
        pipeline: found.pipeline,
        vsync_id: found.vsync_id,
        screen: screens.at(found.ui.start_ns),
        start_ns,
        ui_tid: found.ui_tid,
        ui_start_ns: found.ui.start_ns,
        ui_ns: found.ui.duration_ns(),
        render_ns: found.draw_ns(),
        dur_ns,
        frozen: dur_ns > FROZEN_NS,
        ..Frame::default()
    }
}
