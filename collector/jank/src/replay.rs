//! Replays late frames with a cause removed, halved, or moved off the frame's first thread: would the frame be in time?
//!
//! A replay follows the frame's path step by step. A step without the cause takes as long as it took, but begins earlier.
//! Two kinds of waits end at a given time instead: those for a thread that was busy before and does not depend on the
//! frame, as the scheduler shows, and those for the drawing of the late frame before. A frame begins at its vsync at
//! the earliest; the delay that it takes from the late frame before is that of the same replay. Causes and steps of a frame are
//! bounded. `attribute` calls this for late frames in the order of time.

use crate::cause::Cause;
use crate::found::Found;
use crate::frame::{Evidence, Frame, Outcome};
use crate::judge::{Cadences, Judged, Verdict};
use crate::periods::Periods;
use crate::pipeline::{Pipeline, of_swap};
use crate::window::Window;
use indexmap::IndexSet;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracetee_trace::Seeded;

/// Changes of a cause after which a late frame would be in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gain {
    /// The cause is removed.
    pub removed: bool,
    /// The cause takes half the time.
    pub halved: bool,
    /// The cause is moved off the frame's first thread, and nothing waits for it.
    pub moved: bool,
    /// This cause has the largest gain of those whose removal alone is enough: each frame counts for one cause.
    pub most: bool,
}

impl Gain {
    /// True if any change is enough.
    pub(crate) const fn is_any(self) -> bool {
        self.removed || self.halved || self.moved
    }
}

/// Gains of a frame by cause and key.
pub(crate) type Gains = BTreeMap<(Cause, Arc<str>), Gain>;

/// Limit of the causes of a frame that are replayed: those with most time.
const MAX_CAUSES: usize = 16;

/// A step of a frame's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Begin.
    pub(crate) from_ns: u64,
    /// End.
    pub(crate) to_ns: u64,
    /// Number of the cause.
    pub(crate) cause: u32,
    /// True on the frame's first thread.
    pub(crate) is_first: bool,
    /// True for a wait whose end does not depend on the frame.
    pub(crate) is_given: bool,
    /// True for the first thread's wait for a drawing.
    pub(crate) is_for_draw: bool,
}

impl Step {
    /// A window of whose time nothing more is known.
    pub(crate) const fn of_window(window: &Window, cause: u32) -> Self {
        let Window { from_ns, to_ns, .. } = *window;
        Self { from_ns, to_ns, cause, is_first: false, is_given: false, is_for_draw: false }
    }
}

/// A late frame to replay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late<'a> {
    /// Index of the frame.
    pub(crate) index: usize,
    pub(crate) frame: &'a Frame,
    /// The thread that begins the frame, if it is known.
    pub(crate) tid: Option<u32>,
    /// End of the frame's part on that thread.
    pub(crate) ui_end_ns: u64,
    /// End of the drawing.
    pub(crate) drawn_ns: u64,
    /// The path, in order.
    pub(crate) steps: &'a [Step],
}

/// A change of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Removed,
    Halved,
    Moved,
}

const CHANGES: [Change; 3] = [Change::Removed, Change::Halved, Change::Moved];

impl Change {
    /// Returns the time that a step of the cause loses.
    const fn cut_ns(self, step: &Step) -> u64 {
        let ns = step.to_ns - step.from_ns;
        match self {
            Self::Removed => ns,
            Self::Halved => ns / 2,
            Self::Moved if step.is_first => ns,
            Self::Moved => 0,
        }
    }
}

/// Time by which a frame is earlier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Earlier {
    /// Vsync at which the frame is due: whole periods.
    due_ns: u64,
    /// Begin of the frame's own work.
    begin_ns: u64,
    /// End on the first thread.
    ui_ns: u64,
    /// End of the frame.
    end_ns: u64,
    /// Less time on the first thread.
    ui_cut_ns: u64,
    /// Less time on other threads.
    draw_cut_ns: u64,
}

/// The delay caused by the previous late frame on a thread.
#[derive(Debug, Default)]
struct Before {
    due_ns: u64,
    begin_ns: u64,
    ui_end_ns: u64,
    drawn_ns: u64,
    earlier: BTreeMap<(u32, Change), Earlier>,
}

/// Replays the late frames of a trace.
pub(crate) struct Replay<'a> {
    found: &'a [Found],
    periods: &'a Periods,
    cadences: Cadences,
    causes: IndexSet<(Cause, Arc<str>), Seeded>,
    before: HashMap<u32, Before, Seeded>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(found: &'a [Found], periods: &'a Periods) -> Self {
        let judged = |found: &Found| Judged::new(found, periods.at(found.ui.start_ns));
        Self {
            found,
            periods,
            cadences: Cadences::find(found.iter().map(judged)),
            causes: IndexSet::default(),
            before: HashMap::default(),
        }
    }

    /// Returns the number of a cause.
    pub(crate) fn number(&mut self, cause: (Cause, Arc<str>)) -> u32 {
        u32::try_from(self.causes.insert_full(cause).0).unwrap_or(u32::MAX)
    }

    fn cause(&self, number: u32) -> Option<&(Cause, Arc<str>)> {
        self.causes.get_index(number as usize)
    }

    /// Replays a frame without each of its causes. Time that nothing explains is none that a fix could name.
    pub(crate) fn frame(&mut self, late: Late<'_>) -> Gains {
        let before = late.tid.and_then(|tid| self.before.remove(&tid)).unwrap_or_default();
        let period_ns = self.periods.at(late.frame.start_ns);
        let is_delayed = before.ui_end_ns.max(before.drawn_ns) > late.frame.start_ns;
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        for step in late.steps {
            *times.entry(step.cause).or_default() += step.to_ns - step.from_ns;
        }
        if is_delayed {
            before.earlier.keys().for_each(|&(cause, _)| _ = times.entry(cause).or_default());
        }
        let is_named = |number: u32| {
            let cause = self.cause(number).map(|&(cause, _)| cause);
            !matches!(cause, None | Some(Cause::Unexplained | Cause::Idle))
        };
        let mut candidates: Vec<(u32, u64)> = times.into_iter().collect();
        candidates.retain(|&(cause, _)| is_named(cause));
        candidates.sort_by_key(|&(cause, ns)| (Reverse(ns), cause));
        candidates.truncate(MAX_CAUSES);

        let mut earlier = BTreeMap::new();
        let mut gains = Gains::new();
        let mut most: Option<(u64, (Cause, Arc<str>))> = None;
        for (number, _) in candidates {
            let Some(cause) = self.cause(number) else { continue };
            let mut gain = Gain::default();
            for change in CHANGES {
                let found = late.walk(&before, (number, change), period_ns);
                let is_in_time = self.is_in_time(&late, &found, (number, change));
                match change {
                    Change::Removed => gain.removed = is_in_time,
                    Change::Halved => gain.halved = is_in_time,
                    Change::Moved => gain.moved = is_in_time,
                }
                if change == Change::Removed
                    && is_in_time
                    && most.as_ref().is_none_or(|&(ns, _)| found.end_ns > ns)
                {
                    most = Some((found.end_ns, cause.clone()));
                }
                if found.ui_ns > 0 || found.end_ns > 0 {
                    earlier.insert((number, change), found);
                }
            }
            gains.insert(cause.clone(), gain);
        }
        if let Some(gain) = most.and_then(|(_, cause)| gains.get_mut(&cause)) {
            gain.most = true;
        }
        if let Some(tid) = late.tid {
            let Late { frame, ui_end_ns, drawn_ns, .. } = late;
            let (due_ns, begin_ns) = (frame.start_ns, frame.ui_start_ns);
            self.before.insert(tid, Before { due_ns, begin_ns, ui_end_ns, drawn_ns, earlier });
        }
        gains
    }

    /// True if a frame that is earlier by this much is in time, by the rules that found it late.
    fn is_in_time(&self, late: &Late<'_>, earlier: &Earlier, changed: (u32, Change)) -> bool {
        if matches!(late.frame.outcome, Outcome::System | Outcome::Display) {
            // The app was in time already.
            return false;
        }
        let by_markers = late.frame.evidence == Evidence::Markers;
        let is_other = |found: &&Found| by_markers && found.pipeline != Pipeline::Views;
        let Some(found) = self.found.get(late.index).filter(is_other) else {
            return earlier.end_ns >= late.frame.jank_ns + earlier.due_ns;
        };
        let judged = Judged::new(found, self.periods.at(found.ui.start_ns));
        let mut dur_ns = judged.dur_ns.saturating_sub(earlier.end_ns);
        if judged.is_loop {
            // The display delays it until a vsync, however early it is ready.
            let work_ns =
                dur_ns.saturating_sub(self.held_ns(late.steps, changed, judged.period_ns));
            dur_ns = work_ns.div_ceil(judged.period_ns.max(1)).saturating_mul(judged.period_ns);
        }
        let less = Judged {
            ui_ns: judged.ui_ns.saturating_sub(earlier.ui_cut_ns),
            draw_ns: judged.draw_ns.map(|ns| ns.saturating_sub(earlier.draw_cut_ns)),
            dur_ns,
            ..judged
        };
        !Verdict::new(&less, &self.cadences).slow
    }

    /// Returns the time for which the display held a turn of a loop back, less than a period.
    fn held_ns(&self, steps: &[Step], (changed, _): (u32, Change), period_ns: u64) -> u64 {
        let is_held = |step: &&Step| {
            step.cause != changed
                && self.cause(step.cause).is_some_and(|(cause, key)| {
                    *cause == Cause::Buffer
                        || &**key == "WaitForTargetFPS"
                        || of_swap(key).is_some()
                })
        };
        let held_ns = steps.iter().filter(is_held).map(|step| step.to_ns - step.from_ns).sum();
        period_ns.saturating_sub(1).min(held_ns)
    }
}

impl Before {
    /// Returns by how much a frame is due earlier if it follows this one with a delay: it is due at the first vsync after
    /// this one has asked for it, at its begin, or half a period after its vsync.
    fn due_earlier_ns(&self, delay: &Earlier, due_ns: u64, period_ns: u64) -> u64 {
        let period_ns = period_ns.max(1);
        let begin_ns = self.begin_ns - delay.begin_ns;
        let asked_ns = begin_ns.max(self.due_ns - delay.due_ns + period_ns / 2);
        due_ns.saturating_sub(asked_ns + 1) / period_ns * period_ns
    }
}

impl<'a> Late<'a> {
    /// Makes a late frame of its path through its windows.
    pub(crate) fn new(
        index: usize,
        frame: &'a Frame,
        windows: &[Window],
        steps: &'a [Step],
    ) -> Self {
        let first = windows.first();
        let ui_end_ns = first.map_or(frame.start_ns, |first| first.to_ns);
        let drawn = windows.iter().rev().find(|window| window.thread.is_ok());
        let drawn_ns = drawn.map_or(ui_end_ns, |drawn| drawn.to_ns);
        let tid = first.and_then(|first| first.thread.ok()).map(|_| frame.ui_tid);
        Self { index, frame, tid, ui_end_ns, drawn_ns, steps }
    }

    /// Follows the path with one cause changed.
    fn walk(&self, before: &Before, changed: (u32, Change), period_ns: u64) -> Earlier {
        let (cause, change) = changed;
        let frame = self.frame;
        let delay = before.earlier.get(&changed).copied().unwrap_or_default();
        let is_delayed = before.ui_end_ns > frame.start_ns;
        let mut earlier = Earlier::default();
        if is_delayed {
            earlier.due_ns = before.due_earlier_ns(&delay, frame.start_ns, period_ns);
        }
        let start_ns = frame.start_ns - earlier.due_ns;
        // The time until then belongs to the previous frame.
        let from_ns = if is_delayed { before.ui_end_ns } else { start_ns };
        let mut now_ns = if is_delayed { from_ns - delay.ui_ns } else { from_ns };
        let (mut has_begun, mut ui_end_ns) = (false, None);
        for step in self.steps.iter().filter(|step| step.to_ns > from_ns) {
            let step = &Step { from_ns: step.from_ns.max(from_ns), ..*step };
            if !has_begun && step.from_ns >= frame.ui_start_ns {
                has_begun = true;
                now_ns = now_ns.max(start_ns);
                earlier.begin_ns = frame.ui_start_ns.saturating_sub(now_ns);
            }
            if ui_end_ns.is_none() && step.from_ns >= self.ui_end_ns {
                ui_end_ns = Some(now_ns);
            }
            let cut_ns = if step.cause == cause { change.cut_ns(step) } else { 0 };
            let end_ns = step.to_ns - cut_ns;
            let drawn_ns = before.drawn_ns.min(step.to_ns);
            now_ns = if end_ns == step.from_ns {
                now_ns
            } else if step.is_for_draw && drawn_ns > step.from_ns {
                // The drawing before is over earlier, by what its own replay says.
                let drawn_ns = drawn_ns.saturating_sub(delay.end_ns).max(now_ns);
                drawn_ns + end_ns.saturating_sub(before.drawn_ns.max(step.from_ns))
            } else if step.is_given {
                now_ns.max(end_ns)
            } else {
                now_ns + (end_ns - step.from_ns)
            };
            *if step.is_first { &mut earlier.ui_cut_ns } else { &mut earlier.draw_cut_ns } +=
                cut_ns;
        }
        let end_ns = frame.start_ns + frame.dur_ns;
        earlier.ui_ns = self.ui_end_ns.saturating_sub(ui_end_ns.unwrap_or(now_ns));
        earlier.end_ns = end_ns.saturating_sub(now_ns.max(start_ns));
        earlier
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
