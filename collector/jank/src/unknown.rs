//! Questions that the report of a trace leaves open, because the trace lacks the events for them.

use crate::deadline::StartSource;
use crate::frames::Frame;
use serde::Serialize;
use tracetee_trace::Trace;

/// A question that a trace leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// No `sched_switch`: whether a thread ran, waited for a processor or slept.
    ThreadStates,
    /// No `sched_waking` or `sched_wakeup`: who ended a sleep.
    Wakers,
    /// No `sched_blocked_reason`: whether an uninterruptible wait was for a disk.
    DiskWaits,
    /// No `binder_transaction`: which thread answered a binder call; matched by names and times.
    BinderPeers,
    /// No `cpu_frequency`: the processors' clocks.
    Clocks,
    /// Neither FrameTimeline nor `VSYNC-app`: when a frame's vsync was; the frames' own distance tells.
    Vsyncs,
    /// No FrameTimeline: the frames' own deadlines, and whether SurfaceFlinger showed them in time.
    Display,
}

impl Unknown {
    /// Explains the question in one clause, for a report.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::ThreadStates => {
                "whether a thread ran, waited for a processor or slept (no sched_switch)"
            }
            Self::Wakers => "who woke a thread (no sched_waking)",
            Self::DiskWaits => {
                "whether a thread waited for a disk in the kernel (no sched_blocked_reason)"
            }
            Self::BinderPeers => {
                "which thread answered a binder call, except by names and times (no binder_transaction)"
            }
            Self::Clocks => "the processors' clocks (no cpu_frequency)",
            Self::Vsyncs => {
                "when a vsync was, except by the frames' distance (no VSYNC-app, no FrameTimeline)"
            }
            Self::Display => {
                "the frames' own deadlines, and whether the display showed them in time (no FrameTimeline)"
            }
        }
    }

    /// Finds what a trace with these frames leaves open.
    pub(crate) fn find(trace: &Trace, frames: &[Frame]) -> Vec<Self> {
        let has = |event: &str| trace.kernel_events.contains_key(event);
        let names = || trace.counters.iter().map(|counter| trace.names.text(counter.name));
        let of_timeline = frames.iter().any(|frame| frame.start_source == StartSource::Timeline);
        let has_switch = has("sched_switch");
        let mut unknown = Vec::new();
        let mut add = |is_unknown: bool, what: Self| unknown.extend(is_unknown.then_some(what));
        add(!has_switch, Self::ThreadStates);
        // Without thread states there is no sleep to explain.
        add(has_switch && !has("sched_waking") && !has("sched_wakeup"), Self::Wakers);
        add(has_switch && !has("sched_blocked_reason"), Self::DiskWaits);
        add(!has("binder_transaction"), Self::BinderPeers);
        add(!has("cpu_frequency"), Self::Clocks);
        add(!of_timeline && !names().any(|name| name == "VSYNC-app"), Self::Vsyncs);
        add(!of_timeline, Self::Display);
        unknown
    }
}
