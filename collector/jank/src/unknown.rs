//! Questions that the report of a trace leaves open, because the trace lacks the events for them.

use crate::counted::Counted;
use crate::frame::{Frame, StartSource};
use crate::process::threads_of;
use serde::Serialize;
use tracetee_trace::Trace;

/// A question that a trace leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// No sections of the process: what its code did.
    Sections,
    /// Neither `sched_switch` nor the agent's counters at frames: whether a thread ran, waited for a processor or slept.
    ThreadStates,
    /// No `sched_waking` or `sched_wakeup`: who ended a sleep.
    Wakers,
    /// No `sched_blocked_reason`: whether an uninterruptible wait was for a disk.
    DiskWaits,
    /// No `binder_transaction`: which thread answered a binder call; matched by names and times.
    BinderPeers,
    /// No `cpu_frequency`: the processors' clocks.
    Clocks,
    /// No FrameTimeline, no FrameMetrics, no `VSYNC-app`: the time of a frame's vsync, which is estimated from the intervals
    /// between frames.
    Vsyncs,
    /// No FrameTimeline, no verdicts of the platform, no buffers of layers: whether the display missed a vsync.
    Display,
}

impl Unknown {
    /// Names the missing information, and the events or categories that show it, in one line.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Sections => {
                "what the code did (atrace categories gfx and view, and the app's own sections)"
            }
            Self::ThreadStates => "whether a thread ran, waited or slept (sched/sched_switch)",
            Self::Wakers => "who woke a thread (sched/sched_waking)",
            Self::DiskWaits => "whether a kernel wait was for a disk (sched/sched_blocked_reason)",
            Self::BinderPeers => "who answered a binder call (binder/binder_transaction)",
            Self::Clocks => "the clocks of the processors (power/cpu_frequency)",
            Self::Vsyncs => "when the vsyncs were (atrace category gfx: VSYNC-app)",
            Self::Display => "what the display got (surfaceflinger.frametimeline, or gfx and view)",
        }
    }

    /// Finds the questions that a trace with these frames leaves open.
    pub(crate) fn find(trace: &Trace, pid: u32, frames: &[Frame], counted: &Counted) -> Vec<Self> {
        let has = |event: &str| trace.kernel_events.contains_key(event);
        let names = || trace.counters.iter().map(|counter| trace.names.text(counter.name));
        let knows_vsync = |frame: &Frame| {
            matches!(frame.start_source, StartSource::Timeline | StartSource::Platform)
        };
        let knows_vsyncs = frames.iter().any(knows_vsync);
        let has_switch = has("sched_switch");
        let mut unknown = Vec::new();
        let mut add = |is_unknown: bool, what: Self| unknown.extend(is_unknown.then_some(what));
        let own = threads_of(trace, pid);
        add(own.map(|(_, thread)| thread.slices.len()).sum::<usize>() == 0, Self::Sections);
        add(!has_switch && counted.is_empty(), Self::ThreadStates);
        // Without thread states there is no sleep to explain.
        add(has_switch && !has("sched_waking") && !has("sched_wakeup"), Self::Wakers);
        add(has_switch && !has("sched_blocked_reason"), Self::DiskWaits);
        add(!has("binder_transaction"), Self::BinderPeers);
        add(!has("cpu_frequency"), Self::Clocks);
        add(!knows_vsyncs && !names().any(|name| name == "VSYNC-app"), Self::Vsyncs);
        let shows_display = |frame: &Frame| frame.evidence.shows_display();
        add(!frames.iter().any(shows_display), Self::Display);
        unknown
    }
}
