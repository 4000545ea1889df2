//! Frames as SurfaceFlinger sees them: FrameTimeline's expected and actual frames, and events of graphics buffers.

use crate::names::NameId;

/// A frame of FrameTimeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineFrame {
    /// Begin.
    pub start_ns: u64,
    /// End; [`crate::UNFINISHED`] if it has none.
    pub end_ns: u64,
    /// Process of the surface; of a display frame SurfaceFlinger's.
    pub pid: u32,
    /// Layer of a surface frame.
    pub layer: NameId,
    /// The vsync's id.
    pub token: i64,
    /// Token of the display frame that shows a surface frame; of a display frame its own.
    pub display_token: i64,
    /// True for a frame of the display, false for one of an app's surface.
    pub is_display: bool,
    /// Result; `None` for an expected frame.
    pub actual: Option<ActualFrame>,
}

/// Outcome of a frame. The numbers are Perfetto's.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ActualFrame {
    /// Bits of `JankType`: 1 none, 2 SurfaceFlinger's scheduling, 64 the app missed its deadline …
    pub jank: i32,
    /// `PresentType`: 1 on time, 2 late, 3 early, 4 dropped.
    pub present: u8,
    /// `PredictionType`: 1 valid, 2 expired.
    pub prediction: u8,
    /// `JankSeverityType`: 1 none, 2 partial, 3 full.
    pub severity: u8,
    /// True if the frame was finished in time.
    pub on_time: bool,
    /// True if the GPU composed it.
    pub gpu: bool,
    /// True for a frame of a buffer; false for a frame of only an animation.
    pub is_buffer: bool,
}

/// Names of the bits of `JankType`, in the order in which trace_processor joins them.
const JANKS: [(i32, &str); 15] = [
    (2, "SurfaceFlinger Scheduling"),
    (4, "Prediction Error"),
    (8, "Display HAL"),
    (16, "SurfaceFlinger CPU Deadline Missed"),
    (32, "SurfaceFlinger GPU Deadline Missed"),
    (64, "App Deadline Missed"),
    (4096, "App Resynced Jitter"),
    (128, "Buffer Stuffing"),
    (256, "Unknown Jank"),
    (512, "SurfaceFlinger Stuffing"),
    (1024, "Dropped Frame"),
    (2048, "Non Animating"),
    (8192, "Display not ON"),
    (16384, "ModeChange in progress"),
    (32768, "PowerModeChange in progress"),
];

impl ActualFrame {
    /// Returns the jank's types as trace_processor names them, `None` if there is none.
    #[must_use]
    pub fn jank_text(&self) -> String {
        match self.jank {
            0 => "Unspecified".to_owned(),
            1 => "None".to_owned(),
            jank => {
                let names = JANKS.iter().filter(|&&(bit, _)| jank & bit != 0);
                names.map(|&(_, name)| name).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// An event of a graphics buffer between the app and the display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferEvent {
    /// Time.
    pub at_ns: u64,
    /// Duration; 0 if it has none.
    pub dur_ns: u64,
    /// `BufferEventType`: 1 dequeue, 2 queue, 3 post, 4 acquire fence, 5 latch, 8 present fence …
    pub kind: u8,
    /// Number of the frame.
    pub frame: u32,
    /// Layer.
    pub layer: NameId,
    /// Id of the buffer.
    pub buffer: u32,
}
