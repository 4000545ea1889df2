//! A frame of the analysis: its times, which display period it missed, and on what evidence.

use crate::cause::Cause;
use crate::pipeline::Pipeline;
use serde::Serialize;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

/// Matrix's levels, by missed vsyncs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    /// 0 to 2 missed vsyncs.
    #[default]
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

    pub(crate) const fn from_dropped(dropped: u64) -> Self {
        match dropped {
            0..3 => Self::Best,
            3..9 => Self::Normal,
            9..24 => Self::Middle,
            24..42 => Self::High,
            42.. => Self::Frozen,
        }
    }
}

/// A frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Thread that begins it.
    pub ui_tid: u32,
    /// Begin on the main thread (other pipelines: on the thread that begins frames).
    pub ui_start_ns: u64,
    /// Time by which the frame had to be complete: a period after `start_ns`, SurfaceFlinger's vsync then, or as
    /// FrameTimeline says.
    pub deadline_ns: u64,
    /// Periods until the deadline of a turn of a loop, whose frames take so many; 0 of other frames.
    pub cadence: u64,
    /// FrameTimeline's verdict, if the trace has one.
    pub timeline: Option<TimelineVerdict>,
    /// Time on that thread.
    pub ui_ns: u64,
    /// Time on the thread that completes frames (render thread), if it drew.
    pub render_ns: Option<u64>,
    /// Time from `start_ns` to the end of both threads' work. If the app has no render thread, 5 ms are
    /// assumed for it.
    pub dur_ns: u64,
    /// Events that show whether the frame was late.
    pub evidence: Evidence,
    /// The frame's way to the display.
    pub outcome: Outcome,
    /// Vsyncs at which the display showed an older frame in its place. By [`Evidence::Markers`] whole periods in `dur_ns`,
    /// less those that the deadline allows beyond one.
    pub dropped: u64,
    /// Level by missed vsyncs.
    pub level: Level,
    /// True if late: the display missed a vsync for it. By [`Evidence::Markers`]: complete after its deadline.
    pub slow: bool,
    /// True if late; by [`Evidence::Markers`] also longer than twice the time to the deadline.
    pub janky: bool,
    /// True if longer than 700 ms.
    pub frozen: bool,
    /// Overrun: time past the deadline.
    pub jank_ns: u64,
    /// Cause that took most of a late frame, and its key.
    pub cause: Option<(Cause, Arc<str>)>,
}

/// Origin of a frame's expected start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StartSource {
    /// FrameTimeline's expectation for the vsync id.
    Timeline,
    /// The intended vsync of FrameMetrics.
    Platform,
    /// An edge of the counter `VSYNC-app`.
    Vsync,
    /// The distance of the frames before.
    Cadence,
    /// The begin of the frame's first section: nothing shows that the frame was due earlier.
    #[default]
    Begin,
}

/// FrameTimeline's verdict about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimelineVerdict {
    /// Time at which the frame's last buffer was complete, ns of the trace's clock.
    pub end_ns: u64,
    /// Bits of Perfetto's `JankType`: 1 none, 2 SurfaceFlinger's scheduling, 64 the app missed its deadline …
    pub jank: i32,
    /// `PresentType`: 1 on time, 2 late, 3 early, 4 dropped; the worst of the frame's surfaces.
    pub present: u8,
    /// Time by which the display's frame with it was later than SurfaceFlinger expected; 0 if it is not known.
    pub shown_late_ns: u64,
}

/// Events that show whether a frame was late, the most exact first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Evidence {
    /// FrameTimeline's record of the frame.
    Timeline,
    /// The platform's verdict, as the Android library recorded it: JankData, FrameMetrics.
    Platform,
    /// The layer's counter of buffers: when SurfaceFlinger took the frame's buffer.
    Buffers,
    /// The app's own sections: the frame's time and the display's period.
    #[default]
    Markers,
}

impl Evidence {
    /// All kinds, the most exact first.
    pub const ALL: [Self; 4] = [Self::Timeline, Self::Platform, Self::Buffers, Self::Markers];

    /// Names it for a reader, after "judged by".
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Timeline => "FrameTimeline",
            Self::Platform => "the platform's verdicts (JankData, FrameMetrics)",
            Self::Buffers => "the buffers of the app's layers",
            Self::Markers => "the app's markers, against one period",
        }
    }

    /// True if it shows the display's vsyncs.
    #[must_use]
    pub const fn shows_display(self) -> bool {
        !matches!(self, Self::Markers)
    }
}

/// The way of a frame to the display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// Shown at its vsync.
    #[default]
    InTime,
    /// Late: the app completed it after its deadline.
    App,
    /// Late, though the app was in time: the graphics processor or SurfaceFlinger was not.
    System,
    /// Late, though app and SurfaceFlinger were in time: the display's driver was not.
    Display,
    /// Shown a period late because earlier buffers waited; the display missed no vsync.
    Stuffing,
    /// Never shown: a later frame took its place.
    Dropped,
    /// The app drew nothing, so that there was nothing to show.
    Undrawn,
    /// Late for a reason that FrameTimeline does not know.
    Unknown,
}

impl Outcome {
    /// All ways, in the order of the columns of tables.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Describes the way by this evidence, after a number of frames.
    #[must_use]
    pub const fn text(self, evidence: Evidence) -> &'static str {
        match (self, evidence) {
            (Self::InTime, Evidence::Markers) => "within it",
            (Self::App, Evidence::Markers) => "over one period",
            (Self::InTime, _) => "in time",
            (Self::App, _) => "late by the app",
            (Self::System, Evidence::Timeline) => "late by SurfaceFlinger",
            (Self::System, _) => "late by SurfaceFlinger or the graphics processor",
            (Self::Display, _) => "late by the display",
            (Self::Stuffing, _) => "behind earlier buffers",
            (Self::Dropped, _) => "never shown",
            (Self::Undrawn, _) => "without a buffer",
            (Self::Unknown, _) => "late for an unknown reason",
        }
    }
}
