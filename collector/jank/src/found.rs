//! The slices of one frame, before it is judged. [`crate::frames`] finds those of the views, [`crate::pipelines`] the others.

use crate::pipeline::Pipeline;
use crate::thread_role::ThreadRole;
use tracetee_trace::Slice;

/// The slices that make a frame.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pipeline: Pipeline,
    /// The vsync's id, or the number that the pipeline gives its frames.
    pub(crate) vsync_id: Option<i64>,
    /// True for a turn of a loop that the display delays.
    pub(crate) is_loop: bool,
    /// The thread of `ui`, and its role.
    pub(crate) ui_tid: u32,
    pub(crate) role: ThreadRole,
    /// Begin of another thread's work that led to `ui`, if it is part of the frame.
    pub(crate) called_ns: Option<u64>,
    /// First slice of the frame; of a loop, the time from the last frame's end to this one's.
    pub(crate) ui: Slice,
    pub(crate) draws: Vec<(u32, Slice)>,
    /// True if the render thread was busy with earlier frames from the begin of this one until its draw.
    pub(crate) is_behind: bool,
    /// Time until which the graphics processor worked, if a thread of the app waited for it to complete.
    pub(crate) gpu_ns: Option<u64>,
    /// Next vsync that SurfaceFlinger skipped, because the display did not have the frame before yet.
    pub(crate) pending_ns: Option<u64>,
    /// Name of the compositor, if its main thread shows why the complete frame waited for it.
    pub(crate) waited: Option<&'static str>,
    /// True if another process makes the frame, of a layer of this one.
    pub(crate) is_moved: bool,
    /// True if records are missing: the next frame begins inside of this one.
    pub(crate) is_torn: bool,
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
        Self {
            pipeline,
            vsync_id,
            is_loop: false,
            ui_tid,
            role,
            called_ns: None,
            ui,
            draws: Vec::new(),
            is_behind: false,
            gpu_ns: None,
            pending_ns: None,
            waited: None,
            is_moved: false,
            is_torn: false,
        }
    }

    /// Returns the time of the draws, if there are any. Those of a damaged trace overlap.
    pub(crate) fn draw_ns(&self) -> Option<u64> {
        let sum = |sum: u64, (_, slice): &(u32, Slice)| sum.saturating_add(slice.duration_ns());
        (!self.draws.is_empty()).then(|| self.draws.iter().fold(0, sum))
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

    /// The draw that ended last, if after the main thread's part.
    pub(crate) fn last_draw(&self) -> Option<(u32, Slice)> {
        self.draws.iter().copied().max_by_key(|(_, slice)| slice.end_ns)
    }
}
