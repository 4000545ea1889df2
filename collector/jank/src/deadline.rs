//! Times at which a frame was expected to begin, and had to be complete.
//!
//! A frame begins at its vsync, even if the main thread was busy then and ran `doFrame` later. The vsync is, in this order:
//! what FrameTimeline expects for the frame's vsync id (Perfetto's traces, Android 12 and later); the edge of the
//! counter `VSYNC-app` that the app waited for; the period after earlier frames. The last two move a frame's begin
//! before its `doFrame` only if the vsync was pending: the app had asked for it, and the main thread was busy from then
//! until `doFrame`. Otherwise the vsync would have run `doFrame` at once. Frames are visited once, by time.

use crate::frame::StartSource;
use crate::frame_budget::vsyncs_of_app;
use crate::idle::{is_idle, is_loop};
use crate::periods::Periods;
use crate::states::{ThreadState, latest, spans};
use crate::timeline::Timeline;
use tracetee_trace::{NO_PARENT, Slice, Thread, Trace, from_place, last_before};

/// A main thread without a section for longer is idle, if its scheduler states are not known: handling a message without
/// a section takes less.
const BUSY_GAP_NS: u64 = 500_000;
/// Periods for which the phase of a frame that began on time is used.
const MAX_PERIODS: u64 = 60;
/// SurfaceFlinger's thread is starved if it waits for a processor for this part of a period; otherwise it takes some 0.1 ms.
const STARVED_SHARE: u64 = 4;
/// Limit of the states of one vsync that are looked at.
const MAX_STARVED_STATES: usize = 64;
/// Section in which the app asks for a vsync (Android 12 and later).
const REQUEST: &str = "Choreographer#scheduleVsyncLocked";

/// Expectations of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Expected start.
    pub(crate) start_ns: u64,
    /// Origin of the start.
    pub(crate) source: StartSource,
    /// Time by which the frame had to be complete.
    pub(crate) deadline_ns: u64,
}

/// Finds what was expected of the frames of a thread: their first slices and vsync ids, by time.
pub(crate) fn expected(
    trace: &Trace,
    tid: u32,
    (timeline, periods): (&Timeline, &Periods),
    frames: &[(Option<i64>, Slice)],
    looks: &mut u64,
) -> Vec<Expected> {
    let empty = Thread::default();
    let thread = trace.threads.get(&tid).unwrap_or(&empty);
    let mut vsyncs = Vsyncs { edges: vsyncs_of_app(trace), periods, phase_ns: None };
    let requests = requests(trace, thread);
    let main = MainThread { trace, thread, outermost: outermost(trace, thread) };
    let mut before: Option<(u64, u64)> = None;
    // Begin and length of the last frame that FrameTimeline expected: a device may allow more than a period.
    let mut allowed: Option<(u64, u64)> = None;
    let mut all = Vec::with_capacity(frames.len());
    for &(vsync_id, ui) in frames {
        let found = match vsync_id.and_then(|id| timeline.expected(id)) {
            Some((start_ns, end_ns)) => {
                let start_ns = start_ns.min(ui.start_ns);
                let source = StartSource::Timeline;
                allowed = Some((start_ns, end_ns.saturating_sub(start_ns)));
                Expected { start_ns, source, deadline_ns: end_ns.max(start_ns) }
            }
            None => {
                let (start_ns, source) = start(&mut vsyncs, &requests, &main, before, ui, looks);
                let period_ns = periods.at(start_ns);
                let is_near = |&(at_ns, _): &(u64, u64)| {
                    start_ns.saturating_sub(at_ns) < MAX_PERIODS * period_ns
                };
                let allowed_ns = allowed.filter(is_near).map_or(0, |(_, ns)| ns);
                let deadline_ns = start_ns.saturating_add(period_ns.max(allowed_ns));
                Expected { start_ns, source, deadline_ns }
            }
        };
        before = Some((found.start_ns, ui.start_ns));
        all.push(found);
    }
    all
}

/// Finds the start of a frame by vsyncs; `before` has the frame before: its expected start, and when it ran.
fn start(
    vsyncs: &mut Vsyncs<'_>,
    requests: &[u64],
    main: &MainThread<'_>,
    before: Option<(u64, u64)>,
    ui: Slice,
    looks: &mut u64,
) -> (u64, StartSource) {
    if let Some((due_ns, ran_ns)) = before {
        // The app asks for the next vsync while it makes a frame, unless its requests are in the trace.
        let asked_ns = if requests.is_empty() {
            Some(ran_ns.max(due_ns + vsyncs.periods.at(due_ns) / 2))
        } else {
            let next = from_place(requests, |&at_ns| at_ns < ran_ns).first();
            next.copied().filter(|&at_ns| at_ns < ui.start_ns)
        };
        let vsync = asked_ns.and_then(|asked_ns| vsyncs.after(asked_ns));
        let is_late =
            |&(vsync_ns, _): &(u64, _)| vsync_ns.saturating_add(BUSY_GAP_NS) < ui.start_ns;
        if let Some((vsync_ns, source)) = vsync.filter(is_late)
            && main.was_busy(vsync_ns, ui.start_ns, looks)
        {
            return (vsync_ns, source);
        }
    }
    let due_ns = before.map_or(0, |(due_ns, _)| due_ns);
    let least_ns = vsyncs.periods.at(ui.start_ns) / STARVED_SHARE;
    if let Some(at_ns) = main.starved_ns(ui.start_ns, least_ns).filter(|&at_ns| at_ns > due_ns) {
        vsyncs.phase_ns = Some(at_ns);
        return (at_ns, StartSource::Vsync);
    }
    // It ran as soon as its vsync came.
    vsyncs.phase_ns = Some(ui.start_ns);
    match vsyncs.edge_before(ui.start_ns) {
        Some(edge_ns) if edge_ns > due_ns => (edge_ns, StartSource::Vsync),
        _ => (ui.start_ns, StartSource::Begin),
    }
}

/// Vsyncs of the app.
struct Vsyncs<'a> {
    /// Edges of `VSYNC-app`, by time.
    edges: Vec<u64>,
    periods: &'a Periods,
    /// Begin of the last frame that began when its vsync came.
    phase_ns: Option<u64>,
}

impl Vsyncs<'_> {
    /// Returns the first vsync after a time.
    fn after(&self, at_ns: u64) -> Option<(u64, StartSource)> {
        if let Some(&edge_ns) = from_place(&self.edges, |&edge_ns| edge_ns <= at_ns).first() {
            return Some((edge_ns, StartSource::Vsync));
        }
        if !self.edges.is_empty() {
            return None;
        }
        let phase_ns = self.phase_ns?;
        let period_ns = self.periods.at(at_ns);
        let periods = at_ns.saturating_sub(phase_ns) / period_ns + 1;
        let vsync_ns = phase_ns + periods * period_ns;
        (periods <= MAX_PERIODS).then_some((vsync_ns, StartSource::Cadence))
    }

    /// Returns the last edge before a time, if it is not older than a period.
    fn edge_before(&self, at_ns: u64) -> Option<u64> {
        let edge_ns = *last_before(&self.edges, |&edge_ns| edge_ns <= at_ns)?;
        (at_ns - edge_ns < self.periods.at(at_ns)).then_some(edge_ns)
    }
}

/// The main thread, and its outermost slices that are not idle.
struct MainThread<'a> {
    trace: &'a Trace,
    thread: &'a Thread,
    outermost: Vec<(u64, u64)>,
}

impl MainThread<'_> {
    /// Returns when SurfaceFlinger's thread that woke this one for the frame at `ui_ns` was woken for the vsync itself, if it then took
    /// so long, for want of a processor: the vsync came in time, and was handed on late.
    fn starved_ns(&self, ui_ns: u64, least_ns: u64) -> Option<u64> {
        let woken = latest(self.thread, ui_ns).take(2).find(|state| state.kind == b'R')?;
        let giver = self.trace.threads.get(&woken.waker)?;
        if giver.pid == self.thread.pid || !gives_vsyncs(giver.name(&self.trace.names)) {
            return None;
        }
        let ran = latest(giver, woken.at_ns).take(MAX_STARVED_STATES);
        let first = ran.take_while(|state| matches!(state.kind, b'r' | b'R')).last()?;
        (woken.at_ns - first.at_ns >= least_ns).then_some(first.at_ns)
    }

    /// True if the thread did not wait for messages between two times.
    fn was_busy(&self, from_ns: u64, to_ns: u64, looks: &mut u64) -> bool {
        let mut at_ns = to_ns;
        let before = self.outermost.partition_point(|&(start_ns, _)| start_ns < to_ns);
        let around = self.outermost.get(..before).unwrap_or_default().iter().rev();
        for &(start_ns, end_ns) in around {
            if at_ns <= from_ns || end_ns <= from_ns {
                break;
            }
            if !self.is_busy_gap(end_ns, at_ns, looks) {
                return false;
            }
            at_ns = at_ns.min(start_ns);
        }
        self.is_busy_gap(from_ns, at_ns, looks)
    }

    /// True if the thread was not idle between two slices.
    fn is_busy_gap(&self, from_ns: u64, to_ns: u64, looks: &mut u64) -> bool {
        if to_ns.saturating_sub(from_ns) <= BUSY_GAP_NS {
            return true;
        }
        let Some(spans) = spans(self.thread, from_ns, to_ns, looks) else { return false };
        let idle = spans
            .iter()
            .filter(|span| matches!(span.state, ThreadState::Asleep | ThreadState::Unknown));
        idle.map(|span| span.to_ns - span.from_ns).sum::<u64>() <= BUSY_GAP_NS
    }
}

/// Returns begin and end of the slices that handle something; loops around them and waits for messages do not count.
fn outermost(trace: &Trace, thread: &Thread) -> Vec<(u64, u64)> {
    let loops = trace.names.select(is_loop);
    let waits = trace.names.select(is_idle);
    let mut is_around: Vec<bool> = Vec::with_capacity(thread.slices.len());
    let mut outermost = Vec::new();
    for slice in &thread.slices {
        let is_inner = slice.parent != NO_PARENT
            && !is_around.get(slice.parent as usize).is_some_and(|&is_around| is_around);
        let is_loop = !is_inner && loops.has(slice.name);
        is_around.push(is_loop);
        if !is_inner && !is_loop && !waits.has(slice.name) {
            outermost.push((slice.start_ns, slice.end_ns));
        }
    }
    outermost
}

/// True for the name of SurfaceFlinger's thread that hands vsyncs on to apps; before Android 9 it was another one.
pub(crate) fn gives_vsyncs(name: &str) -> bool {
    matches!(name, "app" | "appEventThread" | "EventThread")
}

/// Returns the times at which the app asked for a vsync.
fn requests(trace: &Trace, thread: &Thread) -> Vec<u64> {
    let requests = trace.names.select(|name| name == REQUEST);
    thread.named(&requests).map(|slice| slice.start_ns).collect()
}
