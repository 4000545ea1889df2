//! The tables: one struct each, whose fields are the columns. The same in every engine.
//!
//! Each row carries the columns that reports group by (app, version, day, device, counted), so that a query over
//! frames needs no join, which costs next to nothing in Parquet (dictionaries). SQLite has captures, losses and `ledger_days` only, without
//! `part`. `docs/reference/COLUMNS.md` is printed from this file: `TRACETEE_BLESS=1 cargo test -p tracetee-fleet --lib columns`.

pub use crate::table::{Cell, Column, Kind, Source, Table, TableRow, Text};

use crate::table::{Value, shared_column, tables};

/// The version of the columns, which Parquet's paths name: raised by one when a column changes. New columns come last in
/// their table.
pub const VERSION: i64 = 3;

/// The version of the analysis: raised by one when it finds something else in the same capture. The collector
/// analyzes captures again whose rows an older version made.
pub const ANALYSIS: i64 = 8;

tables! {
    /// One row per capture.
    CAPTURES = "captures": CaptureRow {
        /// Package name of the app, or `unknown`.
        app: Text,
        /// Day of the capture's id, UTC, YYYY-MM-DD.
        dt: Text,
        /// Name of the app's version; its code if it has no name, or `unknown`.
        ver: Text,
        /// Id of the capture.
        capture_id: Text,
        /// Parquet file that contains the row; always empty in SQLite.
        part: Text,
        /// Install id of the device, or `unknown`.
        device: Text,
        /// Reason for the capture: `time`, `start`, `section`, `manual`, `trigger`, or `death` (the last seconds of a process).
        cohort: Text,
        /// 1 if rates count the capture: taken by schedule, not recovered and not over its overhead budget.
        counted: bool,
        /// Code of the app's version.
        version_code: Option<u64>,
        /// Id of the window in the remote configuration.
        window_id: Text,
        /// Event that opened the window.
        why: Text,
        /// Model of the device.
        model: Option<Text>,
        /// Android API level of the device.
        api: Option<u64>,
        /// Time of the capture, Unix time in ms.
        made_ms: u64,
        /// Time from the first event to the last, ns.
        span_ns: u64,
        /// Refresh period of the display, ns.
        period_ns: u64,
        /// Origin of `period_ns`: `said`, `vsync`, `spacing` or `assumed`.
        period_source: Text,
        /// Frames, without those of the pipeline `vsync_callback`, as in the sums that follow.
        frames: u64,
        /// Late frames: the display missed a vsync for them; judged by `markers`, complete after their deadline.
        slow: u64,
        /// Late frames; judged by `markers`, those that also take longer than twice the time to their deadline.
        janky: u64,
        /// Frames longer than 700 ms.
        frozen: u64,
        /// Missed vsyncs of all frames; of those judged by `markers`, whole periods beyond one.
        dropped_vsyncs: u64,
        /// Time of all frames past their deadlines, ns.
        jank_ns: u64,
        /// Duration of all frames, ns.
        frame_ns: u64,
        /// Time of a cold start to the end of the first drawn frame, ns.
        startup_ns: Option<u64>,
        /// Time of a warm start to the end of the first drawn frame, ns.
        warm_start_ns: Option<u64>,
        /// Time of a hot start to the end of the first drawn frame, ns.
        hot_start_ns: Option<u64>,
        /// Time of a start to the end of the first frame after `reportFullyDrawn`, ns.
        ttfd_ns: Option<u64>,
        /// Dispatches of the main thread that took 5 s, and input events that were not answered for 5 s.
        anrs: u64,
        /// 1 if more than a quarter of the frames take longer than 50 ms.
        slow_session_20fps: bool,
        /// 1 if more than a quarter of the frames take longer than 33.3 ms.
        slow_session_30fps: bool,
        /// Share of a processor that recording took, percent.
        overhead_percent: Option<f64>,
        /// 1 if the agent ended the recording because it cost too much.
        over_budget: bool,
        /// 1 if the capture was recovered after the app died.
        recovered: bool,
        /// Records that the agent dropped.
        lost_records: u64,
        /// Size of the stored capture, bytes.
        bytes: u64,
        /// Key of the stored capture.
        raw_key: Text,
        /// 1 if the build is debuggable.
        debuggable: bool,
        /// 1 if the device is an emulator.
        emulator: bool,
        /// Most exact evidence that judges a frame, as in `frames`; empty without frames.
        evidence: Text,
    }

    /// One row per frame.
    FRAMES = "frames": FrameRow {
        shared of CAPTURES { app, dt, ver, capture_id, part, device, counted }
        /// Number of the frame in its capture, from 0.
        frame: u64,
        /// Pipeline of the frame: `views`, `flutter`, `unity`, `gl`, `vulkan`, `video`, `surface`, `react_native`, or `vsync_callback` (draws nothing).
        pipeline: Text,
        /// Id of the vsync, since Android 12.
        vsync_id: Option<i64>,
        /// Screen that was shown, or empty.
        screen: Text,
        /// Time at which the frame was due to begin, its vsync, ns of the capture's clock.
        start_ns: u64,
        /// Origin of `start_ns`: `timeline`, `platform` (FrameMetrics), `vsync`, `cadence` or `begin` (nothing shows an earlier vsync).
        start_source: Text,
        /// Begin of the frame's own work on its first thread, ns of the capture's clock.
        ui_start_ns: u64,
        /// Time by which the frame had to be complete, ns of the capture's clock.
        deadline_ns: u64,
        /// Time on the main thread, ns.
        ui_ns: u64,
        /// Time on the render thread, ns.
        render_ns: Option<u64>,
        /// Time from `start_ns` to the end of all threads' work, ns.
        dur_ns: u64,
        /// `dur_ns` in tenths of a millisecond, rounded up: the unit of percentiles over a fleet.
        dur_100us: u64,
        /// Missed vsyncs; judged by `markers`, whole periods beyond one.
        dropped_vsyncs: u64,
        /// Level by missed vsyncs: `best` (0 to 2), `normal` (3 to 8), `middle` (9 to 23), `high` (24 to 41) or `frozen`.
        level: Text,
        /// 1 if late: the display missed a vsync for it; judged by `markers`, complete after `deadline_ns`.
        slow: bool,
        /// 1 if late; judged by `markers`, also longer than twice the time to the deadline.
        janky: bool,
        /// 1 if longer than 700 ms.
        frozen: bool,
        /// Time past the deadline, ns.
        jank_ns: u64,
        /// Cause that took most of a late frame; empty for other frames.
        cause: Text,
        /// Key of the cause: the slice, lock or method.
        cause_key: Text,
        /// Evidence of the verdict: `timeline` (FrameTimeline), `platform` (JankData, FrameMetrics), `buffers` (layers) or `markers`.
        evidence: Text,
        /// Way to the display: `in_time`, late by `app`, `system` or `display`, `unknown`, `stuffing` (no vsync missed), `dropped` (never shown), `undrawn`.
        outcome: Text,
    }

    /// One row per late frame, thread, cause and slice name: where the time of the frame went. Without time: a cause of the late frame before that delayed this one.
    FRAME_SLICES = "frame_slices": FrameSliceRow {
        shared of CAPTURES { app, dt, ver, capture_id, part, device, counted }
        /// Number of the frame in its capture.
        frame: u64,
        /// Pipeline of the frame, as in `frames`.
        pipeline: Text,
        /// Duration of the frame, ns.
        frame_ns: u64,
        /// Screen that was shown, or empty.
        screen: Text,
        /// Thread: `main`, `render`, `ui`, `raster`, `game`, `present`, `js`, or `gpu` for time without a thread.
        thread: Text,
        /// Cause to which the time is attributed.
        cause: Text,
        /// Key of the cause: the slice, lock or method.
        cause_key: Text,
        /// Innermost slice.
        name: Text,
        /// Time in which that slice was the innermost one, ns, without `carried_ns`: no time of a thread is in two rows.
        self_ns: u64,
        /// Time that a row of an earlier late frame has, ns: this frame was due while the thread was busy with that one.
        carried_ns: u64,
        /// Share of the frame's `jank_ns`, in proportion to `self_ns + carried_ns`; those of a frame add up to its `jank_ns`.
        overrun_ns: u64,
        /// Part of `self_ns` on a processor, ns. The four states are 0 if the trace does not have them.
        running_ns: u64,
        /// Part of `self_ns` ready to run, without a processor, ns.
        runnable_ns: u64,
        /// Part of `self_ns` asleep, ns.
        asleep_ns: u64,
        /// Part of `self_ns` waiting inside the kernel, also for a disk, ns.
        blocked_ns: u64,
        /// Number of slices.
        slices: u64,
        /// Thread that held the lock, or empty.
        owner: Text,
        /// 1 if the frame would be in time without the cause; this and the next three are the same in all rows of a frame and cause.
        saved: bool,
        /// 1 if the frame would be in time if the cause took half the time.
        saved_halved: bool,
        /// 1 if the frame would be in time if the cause were moved off its first thread.
        saved_moved: bool,
        /// 1 if `saved`, on the one cause of the frame that gains most.
        saved_most: bool,
    }

    /// One row per capture, screen and stack: the time of late frames by stack.
    STACKS = "stacks": StackRow {
        shared of CAPTURES { app, dt, ver, capture_id, part, device }
        /// Screen that was shown, or empty.
        screen: Text,
        /// Names of the slices from the thread inwards, separated by semicolons.
        stack: Text,
        /// Time in the innermost slice, ns.
        self_ns: u64,
        /// Number of slices.
        slices: u64,
    }

    /// One row per end of a process that the system has told to the app: of the capture of its last seconds.
    DEATHS = "deaths": DeathRow {
        shared of CAPTURES { app, dt, ver, capture_id, part, device, model, api }
        /// Android's reason: `anr`, `crash_native`, `low_memory`.
        reason: Text,
        /// Cause: `lock`, `section`, `binder`, `io`, `swap`, `idle`, `starved`, `frozen`, `limiter`, `native_crash` or `unknown`.
        cause: Text,
        /// Key of the cause: the functions of a lock, a section, a function, the limit; or empty.
        cause_key: Text,
        /// `user` (a screen was visible: a user noticed it), `background`, or `frozen`.
        noticed_by: Text,
        /// 1 if a screen of the app was visible.
        visible: bool,
        /// Android's importance of the process: 100 is the foreground, 400 is cached.
        importance: u64,
        /// The last screen, or empty.
        screen: Text,
        /// Name of the process.
        process: Text,
        /// Proportional memory at the system's last sample, KiB; 0 if it has none.
        pss_kb: u64,
        /// Resident memory at the system's last sample, KiB; 0 if it has none.
        rss_kb: u64,
        /// Time of the end, Unix time in ms.
        at_ms: u64,
        /// Time for which the main thread had been in what it did at the end, ns; 0 if unknown.
        waited_ns: u64,
        /// Dump of the process: `threads`, `native`, `tombstone` or `none`.
        dump: Text,
        /// The explanation in a sentence.
        sentence: Text,
    }

    /// One row per capture that a device reports as lost, or per number of them.
    LOSSES = "losses": LossRow {
        /// Package name of the app, or `unknown`.
        app: Text,
        /// Day of the report's id, UTC, YYYY-MM-DD.
        dt: Text,
        /// Parquet file that contains the row; always empty in SQLite.
        part: Text,
        /// Id of the loss report.
        report_id: Text,
        /// Install id of the device, or `unknown`.
        device: Text,
        /// Id of the lost capture; empty if the row stands for several.
        capture_id: Text,
        /// Id of the window in the remote configuration.
        window_id: Text,
        /// Reason for the loss.
        reason: Text,
        /// 1 if the capture may have arrived all the same.
        unconfirmed: bool,
        /// Number of captures.
        captures: u64,
    }

    /// One row per part of a ledger: what every device counts in a day under a version of the app.
    LEDGER_DAYS = "ledger_days": LedgerDayRow {
        /// Package name of the app, or `unknown`.
        app: Text,
        /// Day of the ledger, UTC, YYYY-MM-DD.
        dt: Text,
        /// Name of the app's version; its code if it has no name, or `unknown`.
        ver: Text,
        /// Parquet file that contains the row; always empty in SQLite.
        part: Text,
        /// Id of the stored part.
        ledger_id: Text,
        /// Install id of the device, or `unknown`.
        device: Text,
        /// Code of the app's version; 0 if it is unknown.
        version_code: u64,
        /// Number of the part in its day and version.
        ledger_part: u64,
        /// Model of the device.
        model: Option<Text>,
        /// Android API level of the device.
        api: Option<u64>,
        /// 1 if the build is debuggable.
        debuggable: bool,
        /// 1 if the device is an emulator.
        emulator: bool,
        /// Attributes that the app gives itself, `name=value`, separated by semicolons.
        segment: Text,
        /// Time that the app was visible, s.
        observed_s: u64,
        /// Part of that time in which the process did not run, s.
        stood_still_s: u64,
        /// Processor time of the agent, us.
        own_cost_us: u64,
        /// Major page faults of the process.
        major_faults: u64,
        /// Largest proportional set size of the process, KiB.
        peak_pss_kb: u64,
        /// Times of being visible.
        sessions: u64,
        /// Sessions in which more than a quarter of the frames were late.
        slow_sessions: u64,
        /// ANRs that a user saw.
        user_anrs: u64,
        /// Cold starts.
        cold_starts: u64,
        /// Cold starts of 5 s and more.
        slow_cold_starts: u64,
        /// Warm starts.
        warm_starts: u64,
        /// Warm starts of 2 s and more.
        slow_warm_starts: u64,
        /// Hot starts.
        hot_starts: u64,
        /// Hot starts of 1.5 s and more.
        slow_hot_starts: u64,
    }

    /// One row per part of a ledger, screen, refresh rate, pipeline and source.
    LEDGER_SCREENS = "ledger_screens": LedgerScreenRow {
        shared of LEDGER_DAYS { app, dt, ver, part, ledger_id, device }
        /// Screen that was shown, or empty.
        screen: Text,
        /// Refresh rate of the display, Hz.
        hz: u64,
        /// Pipeline of the frames, as in `frames`.
        pipeline: Text,
        /// Source of the times: `jank_data`, `frame_metrics`, `markers`. Those of different sources are not comparable.
        source: Text,
        /// Frames.
        frames: u64,
        /// Frames after their deadline, or that the compositor calls janky.
        late: u64,
        /// Frames longer than 700 ms.
        frozen: u64,
        /// Frames that are the app's fault by the compositor's verdict.
        late_app: u64,
        /// Frames that are the compositor's fault by its verdict.
        late_system: u64,
        /// Frames that are another's fault by the compositor's verdict.
        late_other: u64,
        /// Time of late frames past their deadlines, us.
        overrun_us: u64,
    }

    /// One row per part of a ledger and bucket of a histogram, or reason of an exit.
    LEDGER_BUCKETS = "ledger_buckets": LedgerBucketRow {
        shared of LEDGER_DAYS { app, dt, ver, part, ledger_id, device }
        /// Histogram: `overrun` of late frames, start-ups (`cold`, `warm`, `hot`, `fully_drawn`); or `exit`, `visible_exit` (that a user saw).
        kind: Text,
        /// Screen of an overrun, or empty.
        screen: Text,
        /// Source of an overrun, reason of an exit, or empty.
        name: Text,
        /// Middle of the bucket, ns: at most 3.2 % away; 0 of an exit.
        bucket_ns: u64,
        /// Number of frames, start-ups or exits.
        amount: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::path::Path;

    /// `docs/reference/COLUMNS.md` as it must be.
    fn columns() -> String {
        let mut text =
            "# Tables and columns\n\nPrinted from [`schema.rs`](../../collector/fleet/src/schema.rs).\n"
                .to_owned();
        for table in TABLES {
            let _ = write!(text, "\n## `{}`\n\n{}\n\n", table.name, table.doc.trim());
            text.push_str("| column | type | |\n|---|---|---|\n");
            for column in table.columns {
                let kind = match column.kind {
                    Kind::Text => "text",
                    Kind::Int => "integer",
                    Kind::Real => "double",
                };
                let null = if column.nullable { ", nullable" } else { "" };
                let _ =
                    writeln!(text, "| `{}` | {kind}{null} | {} |", column.name, column.doc.trim());
            }
        }
        text
    }

    #[test]
    fn the_page_of_columns_is_the_schema() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/COLUMNS.md");
        if std::env::var_os("TRACETEE_BLESS").is_some() {
            std::fs::write(&path, columns()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), columns());
    }
}
