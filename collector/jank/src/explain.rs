//! The explanation of a late frame: its due time, its waits, and the threads on which its time was spent.

use crate::cause::Cause;
use crate::counted::Counted;
use crate::critical_path::{Paths, Step};
use crate::frame::{Evidence, Frame, Outcome, StartSource, TimelineVerdict};
use crate::parts::Part;
use crate::pieces::pieces;
use crate::process::Error;
use crate::processors::{ProcessorUse, Processors};
use crate::states::{StateTimes, ThreadState};
use crate::thread_role::ThreadRole;
use crate::watch::Watch;
use crate::window::Window;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracetee_trace::Trace;

/// Limit of explained frames of a trace: those with the largest overrun.
const MAX_EXPLAINED: usize = 300;
/// Limit of the causes of an explanation.
const MAX_CAUSES: usize = 12;

/// Explains why a frame is late. Times are ns of the trace's clock, durations ns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameExplanation {
    /// Index of the frame in [`crate::Analysis::frames`].
    pub frame: usize,
    /// Time at which the frame was due to begin: its vsync.
    pub start_ns: u64,
    /// Origin of `start_ns`.
    pub start_source: StartSource,
    /// Time at which the frame's first section began: `doFrame`.
    pub ui_start_ns: u64,
    /// Time by which the frame had to be complete.
    pub deadline_ns: u64,
    /// Time at which the frame was complete.
    pub end_ns: u64,
    /// Time past the deadline.
    pub overrun_ns: u64,
    /// Events that show that the frame was late.
    pub evidence: Evidence,
    /// The frame's way to the display.
    pub outcome: Outcome,
    /// FrameTimeline's verdict, if the trace has one.
    pub timeline: Option<TimelineVerdict>,
    /// Scheduler states of the frame's threads. They add up to the time from `start_ns` to `end_ns`.
    pub states: Vec<ThreadTimes>,
    /// Causes by weight, the first the heaviest; with the `(other causes)`, and with what is carried, they add up to
    /// `end_ns - start_ns` and to `overrun_ns`.
    pub causes: Vec<WeightedCause>,
    /// Critical path from `start_ns` to `end_ns`, without gaps or overlaps.
    pub path: Vec<Step>,
    /// Processors on which the frame's threads ran, by thread, the longest first.
    pub processors: Vec<ProcessorUse>,
}

impl FrameExplanation {
    /// Returns the explanation with all times since the frame's `start_ns`, which is 0 then.
    #[must_use]
    pub fn since_start(&self) -> Self {
        let mut explanation = self.clone();
        let since = |at_ns: &mut u64| *at_ns = at_ns.saturating_sub(self.start_ns);
        for at_ns in [
            &mut explanation.start_ns,
            &mut explanation.ui_start_ns,
            &mut explanation.deadline_ns,
            &mut explanation.end_ns,
        ] {
            since(at_ns);
        }
        for step in &mut explanation.path {
            since(&mut step.from_ns);
            since(&mut step.to_ns);
        }
        if let Some(timeline) = &mut explanation.timeline {
            since(&mut timeline.end_ns);
        }
        explanation
    }
}

/// Scheduler states of one of a frame's threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadTimes {
    /// Role of the thread.
    pub thread: ThreadRole,
    /// Times by state, while the frame waited for the thread.
    #[serde(flatten)]
    pub times: StateTimes,
}

/// A cause of a frame's lateness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WeightedCause {
    /// The cause.
    pub cause: Cause,
    /// Key of the cause: the slice, lock, method or thread.
    pub key: String,
    /// Time of the frame with that cause, without `carried_ns`.
    pub self_ns: u64,
    /// Time of the frame with that cause that an earlier late frame has: this frame was due while a thread was busy with
    /// that one.
    pub carried_ns: u64,
    /// Share of the frame's overrun, in proportion to the time, carried or not.
    pub overrun_ns: u64,
    /// Scheduler states during `self_ns`.
    pub states: StateTimes,
}

impl WeightedCause {
    fn none(cause: Cause, key: &str) -> Self {
        let (key, states) = (key.to_owned(), StateTimes::default());
        Self { cause, key, self_ns: 0, carried_ns: 0, overrun_ns: 0, states }
    }

    fn add(&mut self, [self_ns, carried_ns, overrun_ns]: [u64; 3], states: &StateTimes) {
        self.self_ns += self_ns;
        self.carried_ns += carried_ns;
        self.overrun_ns += overrun_ns;
        self.states.add_all(states);
    }
}

/// Key of causes that are not listed.
const OTHER_CAUSES: &str = "(other causes)";

/// Explains the frames with the largest overruns, in the order of time.
///
/// # Errors
/// [`Error::Stopped`] if `watch` ends the analysis.
pub(crate) fn explain(
    trace: &Trace,
    frames: &[Frame],
    windows: &[Vec<Window>],
    parts: &[Part],
    (paths, processors, counted): (&Paths<'_>, &Processors, &Counted),
    looks: &mut u64,
    watch: &Watch,
) -> Result<Vec<FrameExplanation>, Error> {
    let mut late: Vec<usize> = (0..frames.len()).collect();
    late.retain(|&index| frames.get(index).is_some_and(|frame| frame.jank_ns > 0));
    let overrun = |index: &usize| frames.get(*index).map_or(0, |frame| frame.jank_ns);
    late.sort_by_key(|index| (Reverse(overrun(index)), *index));
    late.truncate(MAX_EXPLAINED);
    late.sort_unstable();
    let mut explained = Vec::with_capacity(late.len());
    for index in late {
        watch.check()?;
        let (Some(frame), Some(windows)) = (frames.get(index), windows.get(index)) else {
            continue;
        };
        let first = parts.partition_point(|part| part.frame < index);
        let of_frame = parts.iter().skip(first).take_while(|part| part.frame == index);
        let (states, runs) = states(trace, windows, counted, looks);
        explained.push(FrameExplanation {
            frame: index,
            start_ns: frame.start_ns,
            start_source: frame.start_source,
            ui_start_ns: frame.ui_start_ns,
            deadline_ns: frame.deadline_ns,
            end_ns: frame.start_ns + frame.dur_ns,
            overrun_ns: frame.jank_ns,
            evidence: frame.evidence,
            outcome: frame.outcome,
            timeline: frame.timeline,
            states,
            causes: causes(of_frame),
            path: paths.steps(windows, looks),
            processors: processors.uses(&runs, looks),
        });
    }
    Ok(explained)
}

/// Role of a thread, processor, begin and end of its run.
type Run = (ThreadRole, u16, u64, u64);

fn states(
    trace: &Trace,
    windows: &[Window],
    counted: &Counted,
    looks: &mut u64,
) -> (Vec<ThreadTimes>, Vec<Run>) {
    let mut times: BTreeMap<ThreadRole, StateTimes> = BTreeMap::new();
    let mut runs = Vec::new();
    for window in windows {
        let sum = times.entry(window.role).or_default();
        let counts = |tid| counted.states(tid, window.from_ns, window.to_ns);
        if let Some(counts) = window.thread.ok().and_then(counts) {
            sum.add_all(&counts);
            continue;
        }
        let thread = window.thread.ok().and_then(|tid| trace.threads.get(&tid));
        let found = thread
            .and_then(|thread| pieces(thread, &trace.names, window.from_ns, window.to_ns, looks));
        let Some(found) = found else {
            sum.add(ThreadState::Unknown, window.to_ns - window.from_ns);
            continue;
        };
        for piece in found {
            sum.add(piece.span.state, piece.ns());
            if piece.span.state == ThreadState::Running {
                runs.push((window.role, piece.span.cpu, piece.span.from_ns, piece.span.to_ns));
            }
        }
    }
    let times = times.into_iter().map(|(thread, times)| ThreadTimes { thread, times });
    (times.collect(), runs)
}

fn causes<'p>(parts: impl Iterator<Item = &'p Part>) -> Vec<WeightedCause> {
    let mut sums: BTreeMap<(Cause, &Arc<str>), WeightedCause> = BTreeMap::new();
    for part in parts.filter(|part| part.self_ns + part.carried_ns > 0) {
        let sum = sums
            .entry((part.cause, &part.key))
            .or_insert_with(|| WeightedCause::none(part.cause, &part.key));
        sum.add([part.self_ns, part.carried_ns, part.overrun_ns], &part.states);
    }
    let mut causes: Vec<WeightedCause> = sums.into_values().collect();
    causes.sort_by_key(|cause| Reverse(cause.self_ns + cause.carried_ns));
    if causes.len() > MAX_CAUSES {
        let others = causes.split_off(MAX_CAUSES - 1);
        let mut sum = WeightedCause::none(Cause::Unexplained, OTHER_CAUSES);
        for other in others {
            sum.add([other.self_ns, other.carried_ns, other.overrun_ns], &other.states);
        }
        causes.push(sum);
    }
    causes
}
