//! Adds a capture, or a row of a loss report, to the sums.

use super::bucket::{FRAMES, TIMES};
use super::schema::{
    CaptureRollup, CauseRollup, DeviceRollup, FrameRollup, LossRollup, StackRollup, StartupRollup,
};
use super::{MOST, Sums, device, whole};
use crate::rows::Rows;
use crate::schema::{CaptureRow, FrameRow, FrameSliceRow, LossRow};
use crate::table::symbols::{Symbol, Symbols};

/// A capture with the numbers of its names.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) row: &'a CaptureRow,
    pub(super) app: Symbol,
    pub(super) dt: Symbol,
    pub(super) ver: Symbol,
    pub(super) device: Symbol,
}

/// A cause's time in a frame.
#[derive(Clone, Copy)]
pub(super) struct CauseOfFrame {
    frame: u64,
    pub(super) screen: Symbol,
    pub(super) cause: Symbol,
    pub(super) key: Symbol,
    pub(super) self_ns: u64,
    overrun_ns: u64,
    frame_ns: u64,
}

impl CauseOfFrame {
    const fn of(&self) -> (u64, Symbol, Symbol, Symbol) {
        (self.frame, self.screen, self.cause, self.key)
    }

    /// True if the cause took a tenth of the frame or more.
    pub(super) const fn is_big(&self) -> bool {
        self.self_ns.saturating_mul(10) >= self.frame_ns
    }
}

impl Sums {
    /// Adds a capture, or subtracts it if `sign` is -1. Losses and examples are not part of it.
    pub fn add_capture(&mut self, rows: &Rows, sign: i64) {
        let Some(row) = &rows.capture else { return };
        let [app, dt, ver, device] =
            [&row.app, &row.dt, &row.ver, &row.device].map(|text| self.symbols.of(text));
        let capture = Named { row, app, dt, ver, device };
        self.add(&capture_rollup(capture), sign);
        for (kind, ns) in [
            ("cold", row.startup_ns),
            ("warm", row.warm_start_ns),
            ("hot", row.hot_start_ns),
            ("fully_drawn", row.ttfd_ns),
        ] {
            let Some(ns) = ns.filter(|_| !row.over_budget) else { continue };
            let bucket_ns = TIMES.middle(ns.min(MOST));
            let kind = self.symbols.of_static(kind);
            self.add(&StartupRollup { app, dt, ver, kind, bucket_ns, starts: 1 }, sign);
        }
        for frame in &rows.frames {
            let row = frame_rollup(&mut self.symbols, capture, frame);
            self.add(&row, sign);
        }
        let causes = causes_of_frames(&mut self.symbols, &rows.frame_slices);
        for of in &causes {
            let row = CauseRollup {
                app,
                dt,
                ver,
                screen: of.screen,
                cause: of.cause,
                cause_key: of.key,
                bucket_ns: TIMES.middle(of.self_ns.min(MOST)),
                frames: 1,
                self_ns: whole(of.self_ns),
                overrun_ns: whole(of.overrun_ns),
            };
            self.add(&row, sign);
        }
        for stack in &rows.stacks {
            let row = StackRollup {
                app,
                dt,
                screen: self.symbols.of(&stack.screen),
                stack: self.symbols.of(&stack.stack),
                slices: whole(stack.slices),
                self_ns: whole(stack.self_ns),
            };
            self.add(&row, sign);
        }
        device::add(self, capture, rows, &causes, sign);
    }

    /// Adds a row of a loss report, or subtracts it if `sign` is -1.
    pub fn add_loss(&mut self, loss: &LossRow, sign: i64) {
        let [app, dt, reason, window_id, device] =
            [&loss.app, &loss.dt, &loss.reason, &loss.window_id, &loss.device]
                .map(|text| self.symbols.of(text));
        let row = LossRollup {
            app,
            dt,
            reason,
            window_id,
            row_count: 1,
            captures: whole(loss.captures),
            unconfirmed: loss.unconfirmed.into(),
        };
        self.add(&row, sign);
        let row = DeviceRollup {
            app,
            device,
            kind: self.symbols.of_static("loss"),
            cause: reason,
            cause_key: window_id,
            captures: 1,
            captures_once: 1,
            ..DeviceRollup::default()
        };
        self.add(&row, sign);
    }
}

fn capture_rollup(capture: Named<'_>) -> CaptureRollup<Symbol> {
    let Named { row, app, dt, ver, .. } = capture;
    let code = row.version_code.and_then(|code| i64::try_from(code).ok());
    CaptureRollup {
        app,
        dt,
        ver,
        version_code: code.unwrap_or(-1),
        captures: 1,
        counted: row.counted.into(),
        triggered: (row.cohort == "trigger").into(),
        over_budget: row.over_budget.into(),
        recovered: row.recovered.into(),
        lost_records: whole(row.lost_records),
        anrs: whole(row.anrs),
        slow_sessions_20fps: (row.counted && row.slow_session_20fps).into(),
        slow_sessions_30fps: (row.counted && row.slow_session_30fps).into(),
    }
}

/// Returns the refresh rate of a period, rounded.
fn hz(period_ns: u64) -> u64 {
    if period_ns == 0 {
        return 0;
    }
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as the query computes it; at most 1e9"
    )]
    let hz = (1e9 / period_ns as f64).round() as u64;
    hz
}

fn frame_rollup(
    symbols: &mut Symbols,
    capture: Named<'_>,
    frame: &FrameRow,
) -> FrameRollup<Symbol> {
    let is_of = |level: &str| i64::from(frame.level == level);
    FrameRollup {
        app: capture.app,
        dt: capture.dt,
        ver: capture.ver,
        screen: symbols.of(&frame.screen),
        pipeline: symbols.of(&frame.pipeline),
        hz: hz(capture.row.period_ns),
        counted: capture.row.counted,
        dur_100us: FRAMES.middle(frame.dur_100us),
        frames: 1,
        slow: frame.slow.into(),
        janky: frame.janky.into(),
        frozen: frame.frozen.into(),
        level_normal: is_of("normal"),
        level_middle: is_of("middle"),
        level_high: is_of("high"),
        level_frozen: is_of("frozen"),
        dropped_vsyncs: whole(frame.dropped_vsyncs),
        jank_ns: whole(frame.jank_ns),
        frame_ns: whole(frame.dur_ns),
    }
}

fn causes_of_frames(symbols: &mut Symbols, slices: &[FrameSliceRow]) -> Vec<CauseOfFrame> {
    let mut causes: Vec<CauseOfFrame> = slices
        .iter()
        .map(|slice| CauseOfFrame {
            frame: slice.frame,
            screen: symbols.of(&slice.screen),
            cause: symbols.of(&slice.cause),
            key: symbols.of(&slice.cause_key),
            self_ns: slice.self_ns,
            overrun_ns: slice.overrun_ns,
            frame_ns: slice.frame_ns,
        })
        .collect();
    causes.sort_unstable_by_key(CauseOfFrame::of);
    causes.dedup_by(|next, sum| {
        let is_same = next.of() == sum.of();
        if is_same {
            sum.self_ns += next.self_ns;
            sum.overrun_ns += next.overrun_ns;
            sum.frame_ns = sum.frame_ns.max(next.frame_ns);
        }
        is_same
    });
    causes
}
