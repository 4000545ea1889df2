//! Adds a capture, or a row of a loss report, to the sums.

use super::bucket::TIMES;
use super::device::{self, is_rated};
use super::schema::{
    CauseRollup, DeviceRollup, StartupRollup, capture_rollup, cause_rollup, death_rollup,
    frame_rollup, loss_rollup, stack_rollup,
};
use super::{MOST, Sums, whole};
use crate::rows::Rows;
use crate::schema::{CaptureRow, FrameSliceRow, LossRow};
use crate::table::symbols::{Symbol, Symbols};

/// A capture with the numbers of its names.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) row: &'a CaptureRow,
    pub(crate) app: Symbol,
    pub(crate) dt: Symbol,
    pub(crate) ver: Symbol,
    pub(crate) device: Symbol,
}

/// A cause in a frame.
pub(super) struct CauseOfFrame {
    frame: u64,
    /// The row of sums that the cause adds to in this frame.
    pub(super) row: CauseRollup<Symbol>,
    frame_ns: i64,
    /// True if rates count the frame in a capture that they count.
    is_rated: bool,
    /// True if the frame would be in time: without the cause, with half of it, with the cause elsewhere; and if this cause gains
    /// most.
    saved: [bool; 4],
}

impl CauseOfFrame {
    const fn key(&self) -> (u64, Symbol, Symbol, Symbol) {
        (self.frame, self.row.screen, self.row.cause, self.row.cause_key)
    }

    /// True if the cause took a tenth of the frame or more.
    pub(super) const fn is_big(&self) -> bool {
        self.in_frame_ns().saturating_mul(10) >= self.frame_ns
    }

    /// Returns for each change of the cause whether it saves the frame, if rates count it.
    pub(super) fn saved(&self) -> [i64; 4] {
        self.saved.map(|is_saved| (is_saved && self.is_rated).into())
    }

    /// Returns the time that the cause took in the frame, carried on from the one before or not.
    const fn in_frame_ns(&self) -> i64 {
        self.row.self_ns.saturating_add(self.row.carried_ns)
    }
}

impl Sums {
    /// Adds a capture. Losses and examples are not part of it.
    pub fn add_capture(&mut self, rows: &Rows) {
        let Some(row) = &rows.capture else { return };
        let [app, dt, ver, device] =
            [&row.app, &row.dt, &row.ver, &row.device].map(|text| self.symbols.intern(text));
        let capture = Named { row, app, dt, ver, device };
        self.add(&capture_rollup(capture), 1);
        for (kind, ns) in [
            ("cold", row.startup_ns),
            ("warm", row.warm_start_ns),
            ("hot", row.hot_start_ns),
            ("fully_drawn", row.ttfd_ns),
        ] {
            let Some(ns) = ns.filter(|_| !row.over_budget) else { continue };
            let bucket_ns = TIMES.middle(ns.min(MOST));
            let kind = self.symbols.intern_static(kind);
            self.add(&StartupRollup { app, dt, ver, kind, bucket_ns, starts: 1 }, 1);
        }
        for frame in &rows.frames {
            let row = frame_rollup(&mut self.symbols, capture, frame);
            self.add(&row, 1);
        }
        let causes = causes_of_frames(&mut self.symbols, capture, &rows.frame_slices);
        for cause in causes.iter().filter(|cause| cause.in_frame_ns() > 0) {
            self.add(&cause.row, 1);
        }
        for stack in &rows.stacks {
            let row = stack_rollup(&mut self.symbols, capture, stack);
            self.add(&row, 1);
        }
        for death in &rows.deaths {
            let row = death_rollup(&mut self.symbols, capture, death);
            self.add(&row, 1);
        }
        device::add(self, capture, rows, &causes);
    }

    /// Adds a row of a loss report, or subtracts it if `sign` is -1.
    pub fn add_loss(&mut self, loss: &LossRow, sign: i64) {
        let of_loss = loss_rollup(&mut self.symbols, loss);
        self.add(&of_loss, sign);
        let row = DeviceRollup {
            app: of_loss.app,
            device: self.symbols.intern(&loss.device),
            kind: self.symbols.intern_static("loss"),
            cause: of_loss.reason,
            cause_key: of_loss.window_id,
            captures: 1,
            captures_once: 1,
            ..DeviceRollup::default()
        };
        self.add(&row, sign);
    }
}

fn causes_of_frames(
    symbols: &mut Symbols,
    capture: Named<'_>,
    slices: &[FrameSliceRow],
) -> Vec<CauseOfFrame> {
    let mut causes: Vec<CauseOfFrame> = slices
        .iter()
        .map(|slice| CauseOfFrame {
            frame: slice.frame,
            row: cause_rollup(symbols, capture, slice),
            frame_ns: whole(slice.frame_ns),
            is_rated: is_rated(&slice.pipeline),
            saved: [slice.saved, slice.saved_halved, slice.saved_moved, slice.saved_most],
        })
        .collect();
    causes.sort_unstable_by_key(CauseOfFrame::key);
    causes.dedup_by(|next, sum| {
        let is_same = next.key() == sum.key();
        if is_same {
            sum.row += &next.row;
            sum.frame_ns = sum.frame_ns.max(next.frame_ns);
            // Of names beyond the limits, any.
            sum.saved.iter_mut().zip(next.saved).for_each(|(saved, next)| *saved |= next);
        }
        is_same
    });
    for cause in &mut causes {
        cause.row.frames = 1;
        cause.row.bucket_ns = TIMES.middle(cause.in_frame_ns().cast_unsigned().min(MOST));
    }
    causes
}
