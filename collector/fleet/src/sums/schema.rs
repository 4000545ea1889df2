//! The tables of sums: one struct each, whose fields are the columns. `keys` identify a row, `sums` are added up.
//!
//! A new count is one field among the sums, with the value that fills it; a new dimension is one among the keys.

use super::add::Named;
use super::bucket::FRAMES;
use super::row::{Added, Key, MOST_KEYS, MOST_SUMS, RollupRow};
use super::{Days, whole};
use crate::schema::{
    CaptureRow, DeathRow, FrameRow, FrameSliceRow, LedgerDayRow, LedgerScreenRow, LossRow, StackRow,
};
use crate::table::symbols::{Code, Symbol, Symbols};
use crate::table::{
    Cell, Column, Kind, Rollup, Source, Table, TableRow, Text, Value, fill, rollups,
};

/// The version of `tables.sqlite`: raised by one when its layout changes, or a column. A file of another version is
/// refused; `tracetee store rebuild` makes it from the captures.
pub const FILE_VERSION: i64 = 18;

rollups! {
    /// The tables of sums of captures and loss reports.
    ROLLUPS;

    /// Captures by app, day and version.
    CAPTURE_ROLLUPS = "capture_rollups": CaptureRollup of capture_rollup(capture: Named<'_>) {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = capture.app,
            /// Day of the captures' ids, UTC, YYYY-MM-DD.
            dt: Text = capture.dt,
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text = capture.ver,
            /// Code of the app's version; -1 if there is none.
            version_code: i64 = code_of(capture.row),
        }
        sums {
            /// Captures.
            captures = 1,
            /// Captures that rates count.
            counted = capture.row.counted.into(),
            /// Captures that a trigger made.
            triggered = (capture.row.cohort == "trigger").into(),
            /// Captures that exceeded their overhead budget.
            over_budget = capture.row.over_budget.into(),
            /// Captures that were recovered after the app died.
            recovered = capture.row.recovered.into(),
            /// Records that the agents dropped.
            lost_records = whole(capture.row.lost_records),
            /// Dispatches of the main thread that took 5 s, and input that was not answered for 5 s.
            anrs = whole(capture.row.anrs),
            /// Counted captures with `slow_session_20fps`.
            slow_sessions_20fps = (capture.row.counted && capture.row.slow_session_20fps).into(),
            /// Counted captures with `slow_session_30fps`.
            slow_sessions_30fps = (capture.row.counted && capture.row.slow_session_30fps).into(),
        }
    }

    /// Frames by app, day, version, screen, pipeline, refresh rate, and bucket of durations.
    FRAME_ROLLUPS = "frame_rollups": FrameRollup
        of frame_rollup(symbols: &mut Symbols, capture: Named<'_>, frame: &FrameRow)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = capture.app,
            /// Day of the captures' ids, UTC, YYYY-MM-DD.
            dt: Text = capture.dt,
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text = capture.ver,
            /// Screen that was shown, or empty.
            screen: Text = symbols.intern(&frame.screen),
            /// Pipeline of the frame, as in `frames`.
            pipeline: Text = symbols.intern(&frame.pipeline),
            /// Refresh rate of the display, rounded, Hz.
            hz: u64 = hz(capture.row.period_ns),
            /// 1 if rates count the captures.
            counted: bool = capture.row.counted,
            /// Middle of the bucket of durations, 0.1 ms: exact up to 6.3 ms, then at most 1.6 % away.
            dur_100us: u64 = FRAMES.middle(frame.dur_100us),
        }
        sums {
            /// Frames.
            frames = 1,
            /// Late frames, as in `frames`.
            slow = frame.slow.into(),
            /// Janky frames, as in `frames`.
            janky = frame.janky.into(),
            /// Frames longer than 700 ms.
            frozen = frame.frozen.into(),
            /// Frames of the level `normal`.
            level_normal = (frame.level == "normal").into(),
            /// Frames of the level `middle`.
            level_middle = (frame.level == "middle").into(),
            /// Frames of the level `high`.
            level_high = (frame.level == "high").into(),
            /// Frames of the level `frozen`.
            level_frozen = (frame.level == "frozen").into(),
            /// Missed vsyncs.
            dropped_vsyncs = whole(frame.dropped_vsyncs),
            /// Time past the deadlines, ns.
            jank_ns = whole(frame.jank_ns),
            /// Duration, ns.
            frame_ns = whole(frame.dur_ns),
            /// Frames that FrameTimeline judges.
            by_timeline = (frame.evidence == "timeline").into(),
            /// Frames that the platform's verdicts judge: JankData, FrameMetrics.
            by_platform = (frame.evidence == "platform").into(),
            /// Frames that the buffers of the app's layers judge. The others are judged by the app's markers.
            by_buffers = (frame.evidence == "buffers").into(),
            /// Frames that SurfaceFlinger, the graphics processor or the display made late.
            late_system = ["system", "display"].contains(&&*frame.outcome).into(),
            /// Frames that waited behind earlier buffers; the display missed no vsync for them.
            stuffed = (frame.outcome == "stuffing").into(),
            /// Frames that the display never showed, though the app had drawn them.
            never_shown = (frame.outcome == "dropped").into(),
        }
    }

    /// Start-ups of captures within their overhead budget, by app, day, version, kind, and bucket of durations.
    STARTUP_ROLLUPS = "startup_rollups": StartupRollup {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text,
            /// Day of the captures' ids, UTC, YYYY-MM-DD.
            dt: Text,
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text,
            /// Kind of start-up: `cold`, `warm`, `hot`; or `fully_drawn`, to `reportFullyDrawn`.
            kind: Text,
            /// Middle of the bucket of durations, ns: at most 3.2 %, or 0.5 us, away.
            bucket_ns: u64,
        }
        sums {
            /// Start-ups.
            starts,
        }
    }

    /// Late frames with a cause, by app, day, version, screen, cause, and bucket of the cause's time in the frame.
    CAUSE_ROLLUPS = "cause_rollups": CauseRollup
        of cause_rollup(symbols: &mut Symbols, capture: Named<'_>, slice: &FrameSliceRow)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = capture.app,
            /// Day of the captures' ids, UTC, YYYY-MM-DD.
            dt: Text = capture.dt,
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text = capture.ver,
            /// Screen that was shown, or empty.
            screen: Text = symbols.intern(&slice.screen),
            /// Cause to which the time is attributed.
            cause: Text = symbols.intern(&slice.cause),
            /// Key of the cause: the slice, lock or method.
            cause_key: Text = symbols.intern(&slice.cause_key),
            /// Middle of the bucket of times, carried or not, ns: at most 3.2 %, or 0.5 us, away.
            bucket_ns: u64 = 0,
        }
        sums {
            /// Late frames in which the cause took time.
            frames = 0,
            /// Time of the cause, ns, each moment once.
            self_ns = whole(slice.self_ns),
            /// Time of the cause that an earlier late frame has, and that delayed this one, ns.
            carried_ns = whole(slice.carried_ns),
            /// Its share of the time past the deadlines, ns.
            overrun_ns = whole(slice.overrun_ns),
        }
    }

    /// Time of late frames by app, day, screen and stack.
    STACK_ROLLUPS = "stack_rollups": StackRollup
        of stack_rollup(symbols: &mut Symbols, capture: Named<'_>, stack: &StackRow)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = capture.app,
            /// Day of the captures' ids, UTC, YYYY-MM-DD.
            dt: Text = capture.dt,
            /// Screen that was shown, or empty.
            screen: Text = symbols.intern(&stack.screen),
            /// Names of the slices from the thread inwards, separated by semicolons.
            stack: Text = symbols.intern(&stack.stack),
        }
        sums {
            /// Number of slices.
            slices = whole(stack.slices),
            /// Time in the innermost slice, ns.
            self_ns = whole(stack.self_ns),
        }
    }

    /// Ends of processes: one row each, which the capture's id tells apart.
    DEATH_ROLLUPS = "death_rollups": DeathRollup
        of death_rollup(symbols: &mut Symbols, capture: Named<'_>, death: &DeathRow)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = capture.app,
            /// Day of the capture's id, UTC, YYYY-MM-DD.
            dt: Text = capture.dt,
            /// Id of the capture.
            capture_id: Text = symbols.intern(&capture.row.capture_id),
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text = capture.ver,
            /// Install id of the device, or `unknown`.
            device: Text = capture.device,
            /// Screen, or empty.
            screen: Text = symbols.intern(&death.screen),
            /// Android's reason.
            reason: Text = symbols.intern(&death.reason),
            /// Cause.
            cause: Text = symbols.intern(&death.cause),
            /// Key of the cause.
            cause_key: Text = symbols.intern(&death.cause_key),
        }
        sums {
            /// Deaths: 1.
            deaths = 1,
            /// 1 if a user noticed it: a screen was visible, and the process did not stand still.
            by_user = (death.noticed_by == "user").into(),
            /// 1 if the process stood still.
            frozen = (death.noticed_by == "frozen").into(),
            /// Proportional memory, KiB.
            pss_kb = whole(death.pss_kb),
            /// Resident memory, KiB.
            rss_kb = whole(death.rss_kb),
            /// Time for which the main thread had been in what it did at the end, ns.
            waited_ns = whole(death.waited_ns),
        }
    }

    /// Lost captures by app, day of the report, reason and window.
    LOSS_ROLLUPS = "loss_rollups": LossRollup
        of loss_rollup(symbols: &mut Symbols, loss: &LossRow)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = symbols.intern(&loss.app),
            /// Day of the reports' ids, UTC, YYYY-MM-DD.
            dt: Text = symbols.intern(&loss.dt),
            /// Reason for the loss.
            reason: Text = symbols.intern(&loss.reason),
            /// Id of the window in the remote configuration.
            window_id: Text = symbols.intern(&loss.window_id),
        }
        sums {
            /// Rows of loss reports.
            row_count = 1,
            /// Lost captures.
            captures = whole(loss.captures),
            /// Rows of captures that may have arrived all the same.
            unconfirmed = loss.unconfirmed.into(),
        }
    }

    /// Ledgers by app, day and version.
    LEDGER_ROLLUPS = "ledger_rollups": LedgerRollup
        of ledger_rollup(names: [Symbol; 3], row: &LedgerDayRow, days: Days)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = names[0],
            /// Day of the ledgers, UTC, YYYY-MM-DD.
            dt: Text = names[1],
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text = names[2],
        }
        sums {
            /// Parts.
            parts = 1,
            /// Days of devices, each counted once.
            device_days = days[0].into(),
            /// Days of devices with an ANR that a user saw.
            anr_days = days[1].into(),
            /// Time that the app was visible, s.
            observed_s = whole(row.observed_s),
            /// Part of that time in which processes did not run, s.
            stood_still_s = whole(row.stood_still_s),
            /// Processor time of the agent, us.
            own_cost_us = whole(row.own_cost_us),
            /// Major page faults.
            major_faults = whole(row.major_faults),
            /// Times of being visible.
            sessions = whole(row.sessions),
            /// Sessions in which more than a quarter of the frames were late.
            slow_sessions = whole(row.slow_sessions),
            /// ANRs that a user saw.
            user_anrs = whole(row.user_anrs),
            /// Cold starts.
            cold_starts = whole(row.cold_starts),
            /// Cold starts of 5 s and more.
            slow_cold_starts = whole(row.slow_cold_starts),
            /// Warm starts.
            warm_starts = whole(row.warm_starts),
            /// Warm starts of 2 s and more.
            slow_warm_starts = whole(row.slow_warm_starts),
            /// Hot starts.
            hot_starts = whole(row.hot_starts),
            /// Hot starts of 1.5 s and more.
            slow_hot_starts = whole(row.slow_hot_starts),
        }
    }

    /// Frames of ledgers by app, day, version, screen, pipeline and source.
    LEDGER_FRAMES = "ledger_frames": LedgerFrames
        of ledger_frames(symbols: &mut Symbols, names: [Symbol; 3], row: &LedgerScreenRow)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = names[0],
            /// Day of the ledgers, UTC, YYYY-MM-DD.
            dt: Text = names[1],
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text = names[2],
            /// Screen that was shown, or empty.
            screen: Text = symbols.intern(&row.screen),
            /// Pipeline of the frames, as in `frames`.
            pipeline: Text = symbols.intern(&row.pipeline),
            /// Source of the times, as in `ledger_screens`.
            source: Text = symbols.intern(&row.source),
        }
        sums {
            /// Frames.
            frames = whole(row.frames),
            /// Frames after their deadline, or that the compositor calls janky.
            late = whole(row.late),
            /// Frames longer than 700 ms.
            frozen = whole(row.frozen),
            /// Frames that are the app's fault by the compositor's verdict.
            late_app = whole(row.late_app),
            /// Frames that are the compositor's fault by its verdict.
            late_system = whole(row.late_system),
            /// Frames that are another's fault by the compositor's verdict.
            late_other = whole(row.late_other),
            /// Time of late frames past their deadlines, us.
            overrun_us = whole(row.overrun_us),
        }
    }

    /// Histograms of ledgers, and their exits, by app, day and version.
    LEDGER_HISTOGRAMS = "ledger_histograms": LedgerHistogram {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text,
            /// Day of the ledgers, UTC, YYYY-MM-DD.
            dt: Text,
            /// Name of the app's version; its code if it has no name, or `unknown`.
            ver: Text,
            /// Histogram, or kind of an exit, as in `ledger_buckets`.
            kind: Text,
            /// Screen of an overrun, or empty.
            screen: Text,
            /// Source of an overrun, reason of an exit, or empty.
            name: Text,
            /// Middle of the bucket, ns: at most 3.2 % away; 0 of an exit.
            bucket_ns: u64,
        }
        sums {
            /// Number of frames, start-ups or exits.
            amount,
        }
    }

    /// Captures of each device. Kinds: `capture`, `frames` (that rates count), `cause`, `stack`, `start` (cold), `loss`.
    DEVICE_ROLLUPS = "device_rollups": DeviceRollup {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text,
            /// Install id of the device, or `unknown`.
            device: Text,
            /// Kind of the sum.
            kind: Text,
            /// Day of the captures' ids, of the kinds `capture` and `frames`; otherwise empty.
            day: Text,
            /// Name of the version, or empty.
            ver: Text,
            /// Screen, or empty.
            screen: Text,
            /// Pipeline, of the kind `frames`; otherwise empty.
            pipeline: Text,
            /// Cause; of the kind `loss`, the reason.
            cause: Text,
            /// Key of the cause; of the kind `stack`, the stack; of the kind `loss`, the window.
            cause_key: Text,
        }
        sums {
            /// Captures; of the kind `loss`, rows of loss reports.
            captures,
            /// Captures, each counted on one of its screens only.
            captures_once,
            /// Late frames that rates count; of a cause, those that would be in time without it.
            late,
            /// Late frames that would be in time if the cause took half the time.
            late_halved,
            /// Late frames that would be in time if the cause were moved off their first thread.
            late_moved,
            /// Late frames that would be in time without the cause, each at the cause that gains most.
            late_most,
            /// Late frames without scheduler states, of the kind `frames`.
            late_stateless,
        }
    }

    /// Traits of devices, by version: those of their captures with frames that rates count. Comparisons read them.
    DEVICE_TRAITS = "device_traits": DeviceTraits
        of device_traits(symbols: &mut Symbols, capture: Named<'_>, frames: u64, quick_ns: u64)
    {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text = capture.app,
            /// Name of the version.
            ver: Text = capture.ver,
            /// Install id of the device, or `unknown`.
            device: Text = capture.device,
            /// Model of the device, or empty.
            model: Text = symbols.intern(capture.row.model.as_ref().unwrap_or(&Text::default())),
            /// Android API level; 0 if it is unknown.
            api: u64 = capture.row.api.unwrap_or_default(),
            /// Refresh rate of the display, rounded, Hz.
            hz: u64 = hz(capture.row.period_ns),
            /// 1 if the build is debuggable.
            debuggable: bool = capture.row.debuggable,
            /// 1 if the device is an emulator.
            emulator: bool = capture.row.emulator,
        }
        sums {
            /// Captures.
            captures = 1,
            /// Frames that rates count.
            frames = whole(frames),
            /// Time within which a tenth of a capture's frames are complete, times its frames, ns.
            quick_ns = whole(quick_ns.saturating_mul(frames)),
        }
    }

    /// Values of devices in frames that rates count, by version and day. Comparisons read them.
    DEVICE_VALUES = "device_values": DeviceValues {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text,
            /// Name of the version.
            ver: Text,
            /// Install id of the device, or `unknown`.
            device: Text,
            /// Day of the captures' ids, UTC, YYYY-MM-DD.
            day: Text,
            /// Screen, or empty.
            screen: Text,
            /// Cause; empty for all frames.
            cause: Text,
            /// Key of the cause.
            cause_key: Text,
        }
        sums {
            /// Frames; 0 of a cause.
            frames,
            /// Time, ns: of frames, past the deadlines; of a cause, without what is carried, in frames of which it took a tenth or more.
            ns,
        }
    }

    /// Captures in which each cause took most time, three of each day.
    CAUSE_EXAMPLES = "cause_examples": CauseExample {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text,
            /// Day of the capture's id, UTC, YYYY-MM-DD.
            dt: Text,
            /// 1 if `self_ns` is the time on `screen`, 0 if it is that of the capture.
            by_screen: bool,
            /// Screen, or empty.
            screen: Text,
            /// Cause.
            cause: Text,
            /// Key of the cause: the slice, lock or method.
            cause_key: Text,
            /// Id of the capture.
            capture_id: Text,
            /// Key of the stored capture.
            raw_key: Text,
            /// Name of the app's version.
            ver: Text,
        }
        sums {
            /// Time of the cause, ns.
            self_ns,
        }
    }
}

rollups! {
    /// The tables of sums over devices, made of [`DEVICE_ROLLUPS`].
    FLEET_ROLLUPS;

    /// Devices and captures by app and group.
    REACH = "reach": Reach {
        keys {
            /// Package name of the app, or `unknown`.
            app: Text,
            /// Kind, as in `device_rollups`.
            kind: Text,
            /// Those of the columns `dt`, `pipeline`, `screen` and `ver` that the group has, separated by commas; the others are empty.
            grouped_by: Text,
            /// Day, or empty.
            dt: Text,
            /// Name of the version, or empty.
            ver: Text,
            /// Screen, or empty.
            screen: Text,
            /// Pipeline, of the kind `frames`; otherwise empty.
            pipeline: Text,
            /// Cause; of the kind `loss`, the reason.
            cause: Text,
            /// Key of the cause; of the kind `stack`, the stack; of the kind `loss`, the window.
            cause_key: Text,
        }
        sums {
            /// Devices.
            devices,
            /// Captures; of the kind `loss`, rows of loss reports.
            captures,
            /// Late frames that rates count; of a cause, those that would be in time without it.
            late,
            /// Late frames that would be in time if the cause took half the time.
            late_halved,
            /// Late frames that would be in time if the cause were moved off their first thread.
            late_moved,
            /// Late frames that would be in time without the cause, each at the cause that gains most.
            late_most,
            /// Late frames without scheduler states, of the kind `frames`.
            late_stateless,
            /// Devices with `late`.
            late_devices,
            /// Sum of the squares of the devices' `late`.
            late_squares,
            /// Sum of the products of the devices' `late` of a cause and of their frames.
            late_products,
        }
    }
}

/// Returns the refresh rate of a period, rounded.
pub(super) fn hz(period_ns: u64) -> u64 {
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

/// Returns the code of a capture's version; -1 if it has none.
fn code_of(row: &CaptureRow) -> i64 {
    row.version_code.and_then(|code| i64::try_from(code).ok()).unwrap_or(-1)
}
