//! Frames of a simulated capture that Android's views do not draw.

use super::VSYNC_US;
use super::capture::vsyncs;
use super::text::Text;
use fastrand::Rng;

/// Threads as lines name them.
const UI: &str = "            1.ui-4020   ";
const RASTER: &str = "        1.raster-4021   ";
const GAME: &str = "     GLThread 12-4030   ";

/// Times of a frame of Flutter, µs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rastered {
    /// Time on the UI thread.
    pub(super) ui_us: u64,
    /// Time on the raster thread.
    pub(super) raster_us: u64,
    /// The end of both.
    pub(super) end: u64,
}

/// Times of a frame of a loop, µs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swapped {
    pub(super) swap_begin: u64,
    pub(super) end: u64,
}

impl Text {
    /// Writes a frame of Flutter that begins at `from`, with a slice in its UI thread's part.
    pub(super) fn flutter(
        &mut self,
        rng: &mut Rng,
        from: u64,
        planted: Option<(&str, u64)>,
        slow_us: u64,
    ) -> Rastered {
        let mut at = from;
        self.line(UI, at, "B|4000|Animator::BeginFrame");
        // A release build of Flutter marks no steps of the framework.
        at += self.work_us(rng, 800, 800) + slow_us;
        at = self.planted(UI, at, planted);
        self.line(UI, at, "E|4000");
        let ui_us = at - from;
        let begin = at + 40;
        at = begin + self.work_us(rng, 1500, 1500);
        self.line(RASTER, begin, "B|4000|GPURasterizer::Draw");
        self.line(RASTER, at, "E|4000");
        Rastered { ui_us, raster_us: at - begin, end: at }
    }

    /// Writes a frame of a loop, which begins at `from` and ends with a swap that returns at a vsync.
    pub(super) fn swap(
        &mut self,
        rng: &mut Rng,
        from: u64,
        planted: Option<(&str, u64)>,
        slow_us: u64,
    ) -> Swapped {
        self.line(GAME, from, "B|4000|onDrawFrame");
        let at = from + self.work_us(rng, 3000, 3000) + slow_us;
        let at = self.planted(GAME, at, planted);
        self.line(GAME, at, "E|4000");
        self.line(GAME, at, "B|4000|eglSwapBuffersWithDamageKHR");
        let end = from + vsyncs(at + 1 - from) * VSYNC_US;
        self.line(GAME, end, "E|4000");
        Swapped { swap_begin: at, end }
    }

    /// Writes the slice of a cause. Returns its end.
    fn planted(&mut self, thread: &str, at: u64, planted: Option<(&str, u64)>) -> u64 {
        let Some((slice, us)) = planted else { return at };
        self.line(thread, at, &format!("B|4000|{slice}"));
        self.line(thread, at + us, "E|4000");
        at + us
    }
}
