//! The rows of a capture's report: frames, parts, causes, long work.

use serde::Serialize;
use tracetee_jank::{
    Cause, Evidence, FrameExplanation, Level, Outcome, Pipeline, StateTimes, ThreadRole,
};

/// A frame.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameRow {
    /// Time at which it was due to begin, ns since the begin of the capture.
    pub at_ns: u64,
    /// Begin of its own work, ns since the begin of the capture.
    pub ui_at_ns: u64,
    /// Way in which the app made it.
    pub pipeline: Pipeline,
    /// True if late.
    pub slow: bool,
    /// Duration.
    pub dur_ns: u64,
    /// Time from `at_ns` to its deadline.
    pub deadline_ns: u64,
    /// Level by missed vsyncs.
    pub level: Level,
    /// True if late; judged by markers, also longer than twice the time to its deadline.
    pub janky: bool,
    /// Events that judge the frame.
    pub evidence: Evidence,
    /// The frame's way to the display.
    pub outcome: Outcome,
    /// The screen that was shown.
    pub screen: Option<String>,
}

/// A frame that is reported in full.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worst {
    /// Number of the frame, from 1.
    pub number: usize,
    /// Way in which the app made it.
    pub pipeline: Pipeline,
    /// Index of its explanation in [`super::single::SingleReport::explanations`].
    pub explanation: Option<usize>,
    /// Begin, ns since the begin of the capture.
    pub at_ns: u64,
    /// Begin, ns of the trace's clock, as in the timeline.
    pub start_ns: u64,
    /// Duration.
    pub dur_ns: u64,
    /// Time past the deadline.
    pub overrun_ns: u64,
    /// Time since its begin in which its threads still worked on an earlier frame.
    pub delayed_ns: u64,
    /// Time on the main thread.
    pub ui_ns: u64,
    /// Time on the render thread.
    pub render_ns: Option<u64>,
    /// Missed vsyncs; judged by markers, whole periods beyond one.
    pub dropped: u64,
    /// Periods until the deadline of a turn of a loop; 0 for other frames.
    pub cadence: u64,
    /// Events that show that the frame was late.
    pub evidence: Evidence,
    /// The frame's way to the display.
    pub outcome: Outcome,
    /// The screen that was shown.
    pub screen: Option<String>,
    /// A sentence: by how much the frame was late, and the part of it that made most of that.
    pub sentence: String,
    /// Parts of the frame, the longest first.
    pub parts: Vec<PartRow>,
}

/// The explanation of a frame, with its sentence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// See [`Worst::sentence`].
    pub sentence: String,
    /// The explanation.
    #[serde(flatten)]
    pub explanation: FrameExplanation,
}

/// A part of a frame's time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    /// Thread, or method.
    pub thread: ThreadRole,
    /// True if the thread still worked on an earlier frame, which was in time: this frame was due meanwhile.
    pub earlier: bool,
    /// Cause.
    pub cause: Cause,
    /// Key of the cause: the slice, lock or method.
    pub key: String,
    /// The innermost slice.
    pub name: String,
    /// Duration, without `carried_ns`.
    pub self_ns: u64,
    /// Time that a part of another late frame has, mostly an earlier one: this frame was due while the thread was busy with
    /// that one.
    pub carried_ns: u64,
    /// Share of the frame's overrun.
    pub overrun_ns: u64,
    /// Scheduler states during `self_ns`.
    pub states: StateTimes,
    /// Thread that held the lock.
    pub owner: Option<String>,
}

/// A cause, over all late frames.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseRow {
    /// Cause.
    pub cause: Cause,
    /// Key of the cause: the slice, lock or method.
    pub key: String,
    /// The action to take.
    pub action: &'static str,
    /// Number of late frames with the cause.
    pub frames: u64,
    /// Duration, each moment once.
    pub self_ns: u64,
    /// Time in these frames that an earlier late frame has, and that delayed these.
    pub carried_ns: u64,
    /// Share of the frames' overruns.
    pub overrun_ns: u64,
    /// Scheduler states during `self_ns`.
    pub states: StateTimes,
    /// Late frames that would be in time without the cause.
    pub saved: u64,
    /// Late frames that would be in time if the cause took half the time.
    pub saved_halved: u64,
    /// Late frames that would be in time if the cause were moved off their first thread.
    pub saved_moved: u64,
}
