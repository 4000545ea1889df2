//! Frames: what the main thread did of each, joined with what the render thread did.
//!
//! Since Android 12 both carry the vsync's id; before, a `DrawFrame` belongs to the `doFrame` in or
//! behind which it began, up to the next one.

use crate::cause::Cause;
use crate::deadline::{self, Expected, StartSource, TimelineVerdict};
use crate::frame_budget::FrameBudget;
use crate::judge::{Cadences, Judged, Verdict};
use crate::pipeline::Pipeline;
use crate::process::{DO_FRAME, Process, draw_id, frame_id};
use crate::screens::Screens;
use crate::thread_role::ThreadRole;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracetee_trace::{Seeded, Slice, Trace};

/// Assumed time of a missing render thread (Perfetto's rule).
pub(crate) const ASSUMED_RENDER_NS: u64 = 5_000_000;
/// Android vitals: frames that take longer are frozen.
const FROZEN_NS: u64 = 700_000_000;
/// JankStats: frames that take more times the time to their deadline are janky.
const JANKY_PERIODS: u64 = 2;

/// Matrix's levels, by missed vsyncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// 0 to 2 missed vsyncs.
    Best,
    /// 3 to 8 missed vsyncs.
    Normal,
    /// 9 to 23 missed vsyncs.
    Middle,
    /// 24 to 41 missed vsyncs.
    High,
    /// 42 and more missed vsyncs.
    Frozen,
}

impl Level {
    /// All levels, the best first.
    pub const ALL: [Self; 5] = [Self::Best, Self::Normal, Self::Middle, Self::High, Self::Frozen];

    const fn from_dropped(dropped: u64) -> Self {
        match dropped {
            0..3 => Self::Best,
            3..9 => Self::Normal,
            9..24 => Self::Middle,
            24..42 => Self::High,
            42.. => Self::Frozen,
        }
    }

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Normal => "normal",
            Self::Middle => "middle",
            Self::High => "high",
            Self::Frozen => "frozen",
        }
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Way in which the app made it.
    pub pipeline: Pipeline,
    /// The vsync's id, since Android 12.
    pub vsync_id: Option<i64>,
    /// The screen that was shown, if the trace names it.
    pub screen: Option<Arc<str>>,
    /// Time at which the frame was due to begin, ns of the trace's clock: its vsync, even if the main thread was busy then.
    pub start_ns: u64,
    /// Origin of `start_ns`.
    pub start_source: StartSource,
    /// Begin on the main thread (other pipelines: on the thread that begins frames).
    pub ui_start_ns: u64,
    /// Time by which the frame had to be complete: a period after `start_ns`, or as FrameTimeline says.
    pub deadline_ns: u64,
    /// FrameTimeline's verdict, if the trace has one.
    pub timeline: Option<TimelineVerdict>,
    /// Time on that thread.
    pub ui_ns: u64,
    /// Time on the thread that completes frames (render thread), if it drew.
    pub render_ns: Option<u64>,
    /// Time from `start_ns` to the end of both threads' work. If the app has no render thread, 5 ms are
    /// assumed for it.
    pub dur_ns: u64,
    /// Missed vsyncs: whole periods in `dur_ns`, less those that the deadline allows beyond one.
    pub dropped: u64,
    /// Level by missed vsyncs.
    pub level: Level,
    /// True if late: complete after its deadline.
    pub slow: bool,
    /// True if late, and longer than twice the time to the deadline.
    pub janky: bool,
    /// True if longer than 700 ms.
    pub frozen: bool,
    /// Overrun: time past the deadline.
    pub jank_ns: u64,
    /// Cause that took most of a late frame, and its key.
    pub cause: Option<(Cause, Arc<str>)>,
}

impl From<&Found> for Judged {
    fn from(found: &Found) -> Self {
        let draw_ns = found.draws.iter().map(|(_, slice)| slice.duration_ns());
        Self {
            pipeline: found.pipeline,
            tid: found.ui_tid,
            is_loop: found.is_loop,
            ui_ns: found.ui.duration_ns(),
            draw_ns: (!found.draws.is_empty()).then(|| draw_ns.sum()),
            dur_ns: found.end_ns().saturating_sub(found.start_ns()),
        }
    }
}

/// The slices that frames are made of.
#[derive(Debug, Default)]
pub(crate) struct FrameSlices {
    /// Frames by time, with their draws.
    pub(crate) found: Vec<Found>,
    pub(crate) has_render_thread: bool,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pipeline: Pipeline,
    /// The vsync's id, or the number that the pipeline gives its frames.
    pub(crate) vsync_id: Option<i64>,
    /// True for a turn of a loop that the display holds back.
    pub(crate) is_loop: bool,
    /// The thread of `ui`, and its role.
    pub(crate) ui_tid: u32,
    pub(crate) role: ThreadRole,
    /// Begin of another thread's work that led to `ui`, if it is part of the frame.
    pub(crate) called_ns: Option<u64>,
    /// First slice of the frame; of a loop, the time from the last frame's end to this one's.
    pub(crate) ui: Slice,
    pub(crate) draws: Vec<(u32, Slice)>,
}

impl Found {
    /// A frame of the thread with this id, without draws.
    pub(crate) const fn new(
        pipeline: Pipeline,
        ui_tid: u32,
        vsync_id: Option<i64>,
        ui: Slice,
    ) -> Self {
        let (role, _) = pipeline.roles();
        let (is_loop, called_ns) = (false, None);
        Self { pipeline, vsync_id, is_loop, ui_tid, role, called_ns, ui, draws: Vec::new() }
    }

    /// The time at which it began.
    pub(crate) fn start_ns(&self) -> u64 {
        self.called_ns.unwrap_or(self.ui.start_ns)
    }

    /// The threads that made it.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.ui_tid).chain(self.draws.iter().map(|&(tid, _)| tid))
    }

    /// The end of all threads' work.
    pub(crate) fn end_ns(&self) -> u64 {
        self.last_draw().map_or(0, |(_, slice)| slice.end_ns).max(self.ui.end_ns)
    }

    pub(crate) fn ui_end_ns(&self) -> u64 {
        self.ui.end_ns
    }

    /// The draw that ended last, if behind the main thread's part.
    pub(crate) fn last_draw(&self) -> Option<(u32, Slice)> {
        self.draws.iter().copied().max_by_key(|(_, slice)| slice.end_ns)
    }
}

impl FrameSlices {
    pub(crate) fn find(trace: &Trace, process: &Process) -> Self {
        let mut found: Vec<Found> = Vec::new();
        let mut by_id: HashMap<i64, usize, Seeded> = HashMap::default();
        let main = trace.threads.get(&process.pid);
        let views = trace.names.select(|name| frame_id(name, DO_FRAME).is_some());
        let draws = trace.names.select(|name| draw_id(name).is_some());
        for slice in main.iter().flat_map(|thread| thread.named(&views)) {
            let Some(vsync_id) = frame_id(trace.names.text(slice.name), DO_FRAME) else { continue };
            // One inside of another is the same frame's.
            if found.last().is_some_and(|last| slice.start_ns < last.ui.end_ns) {
                continue;
            }
            if let Some(id) = vsync_id {
                by_id.insert(id, found.len());
            }
            found.push(Found::new(Pipeline::Views, process.pid, vsync_id, *slice));
        }
        for &tid in &process.render_tids {
            let Some(thread) = trace.threads.get(&tid) else { continue };
            for slice in thread.named(&draws) {
                let Some(id) = draw_id(trace.names.text(slice.name)) else { continue };
                let place = match id {
                    Some(id) => by_id.get(&id).copied(),
                    // The last frame that began before it did.
                    None => found
                        .partition_point(|frame| frame.ui.start_ns <= slice.start_ns)
                        .checked_sub(1),
                };
                let frame = place.and_then(|place| found.get_mut(place));
                // An id of an earlier boot, a frame cut off at the beginning: not this frame's.
                if let Some(frame) = frame.filter(|frame| frame.ui.start_ns <= slice.start_ns) {
                    frame.draws.push((tid, *slice));
                }
            }
        }
        Self { found, has_render_thread: !process.render_tids.is_empty() }
    }

    /// Returns the begin of each frame of the thread that begins most of them.
    pub(crate) fn starts_ns(&self) -> impl Iterator<Item = u64> {
        let mut counts: BTreeMap<(Pipeline, u32), usize> = BTreeMap::new();
        for found in &self.found {
            *counts.entry((found.pipeline, found.ui_tid)).or_default() += 1;
        }
        let most = counts.into_iter().rev().max_by_key(|&(_, count)| count).map(|(of, _)| of);
        let of_most = move |found: &&Found| Some((found.pipeline, found.ui_tid)) == most;
        self.found.iter().filter(of_most).map(|found| found.ui.start_ns)
    }

    /// Makes the frames. Each look at the trace costs one of `looks`.
    pub(crate) fn frames(
        &self,
        trace: &Trace,
        process: &Process,
        budget: FrameBudget,
        screens: &Screens,
        looks: &mut u64,
    ) -> Vec<Frame> {
        let cadences = Cadences::find(self.found.iter().map(Judged::from), budget.ns);
        let is_view = |found: &&Found| found.pipeline == Pipeline::Views;
        let views = self.found.iter().filter(is_view).map(|found| (found.vsync_id, found.ui));
        let views: Vec<_> = views.collect();
        let mut expected =
            deadline::expected(trace, process.pid, budget, &views, looks).into_iter();
        let frames = self.found.iter().map(|found| match found.pipeline {
            Pipeline::Views => self.view(found, budget, screens, expected.next()),
            _ => other(found, budget, screens, &cadences),
        });
        frames.collect()
    }

    /// Makes a frame of Android's views.
    fn view(
        &self,
        found: &Found,
        budget: FrameBudget,
        screens: &Screens,
        expected: Option<Expected>,
    ) -> Frame {
        let ui_start_ns = found.ui.start_ns;
        let expected = expected.unwrap_or_else(|| Expected::from_begin(ui_start_ns, budget));
        let Expected { start_ns, source, deadline_ns, verdict } = expected;
        let is_assumed = found.draws.is_empty() && !self.has_render_thread;
        let own_end_ns = found.end_ns() + if is_assumed { ASSUMED_RENDER_NS } else { 0 };
        let end_ns = verdict.map_or(0, |verdict| verdict.end_ns).max(own_end_ns);
        let dur_ns = end_ns - start_ns;
        let jank_ns = verdict.map_or(end_ns, |verdict| verdict.end_ns).saturating_sub(deadline_ns);
        let (period_ns, allowed_ns) = (budget.ns.max(1), deadline_ns - start_ns);
        let dropped = (dur_ns + period_ns).saturating_sub(allowed_ns) / period_ns;
        let slow = jank_ns > 0;
        Frame {
            start_source: source,
            deadline_ns,
            timeline: verdict,
            dropped,
            level: Level::from_dropped(dropped),
            slow,
            janky: slow && dur_ns > JANKY_PERIODS.saturating_mul(allowed_ns),
            jank_ns,
            ..base(found, screens, start_ns, dur_ns)
        }
    }
}

/// Makes a frame of another pipeline.
fn other(found: &Found, budget: FrameBudget, screens: &Screens, cadences: &Cadences) -> Frame {
    let start_ns = found.start_ns();
    let dur_ns = found.end_ns().saturating_sub(start_ns);
    let base = base(found, screens, start_ns, dur_ns);
    let Verdict { dropped, slow, janky, jank_ns } =
        Verdict::of(&Judged::from(found), budget.ns, cadences);
    let end_ns = start_ns + dur_ns;
    // A frame in time has at least its period.
    let deadline_ns = if slow { end_ns - jank_ns } else { end_ns.max(start_ns + budget.ns) };
    Frame {
        deadline_ns,
        dropped,
        level: Level::from_dropped(dropped),
        slow,
        janky,
        jank_ns,
        ..base
    }
}

/// The fields of a frame that do not depend on its deadline.
fn base(found: &Found, screens: &Screens, start_ns: u64, dur_ns: u64) -> Frame {
    let draws = found.draws.iter();
    let render_ns: u64 = draws.map(|(_, slice)| slice.duration_ns()).sum();
    Frame {
        pipeline: found.pipeline,
        vsync_id: found.vsync_id,
        screen: screens.at(found.ui.start_ns),
        start_ns,
        start_source: StartSource::Begin,
        ui_start_ns: found.ui.start_ns,
        deadline_ns: start_ns,
        timeline: None,
        ui_ns: found.ui.duration_ns(),
        render_ns: (!found.draws.is_empty()).then_some(render_ns),
        dur_ns,
        dropped: 0,
        level: Level::Best,
        slow: false,
        janky: false,
        frozen: dur_ns > FROZEN_NS,
        jank_ns: 0,
        cause: None,
    }
}
