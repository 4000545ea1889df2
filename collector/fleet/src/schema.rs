//! The tables: one struct each, whose fields are the columns, with the values that fill them. The same in every engine.
//!
//! Each row carries the columns that reports group by (app, version, day, device, counted), so that a query over
//! frames needs no join, which costs next to nothing in Parquet (dictionaries). SQLite has captures, losses and `ledger_days` only, without
//! `part`. `docs/reference/COLUMNS.md` is printed from this file: `TRACETEE_BLESS=1 cargo test -p tracetee-fleet --lib columns`.

pub use crate::table::{Cell, Column, Kind, Source, Table, TableRow, Text};

use crate::table::{
    MOST, NO_NAME, Value, cohort, cut, fill, known, shared_column, tables, text_of, version_of,
};
use std::sync::Arc;
use tracetee_jank::{Analysis, DeathReport, Frame, Named, Part as FramePart, Stack, StartKind};
use tracetee_ledger::{Part, Row, RowKey};
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::json::Decimal;
use tracetee_trace::{Dump, Trace};

/// The version of the columns, which Parquet's paths name: raised by one when a column changes. New columns come last in
/// their table.
pub const VERSION: i64 = 3;

/// The version of the analysis: raised by one when it finds something else in the same capture. The collector
/// analyzes captures again whose rows an older version made.
pub const ANALYSIS: i64 = 10;

/// Facts about a capture that its text does not contain.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The capture's id.
    pub capture_id: String,
    /// The app according to the store: the app of a token takes precedence over the device's statement.
    pub app: Option<String>,
    /// The day of the capture's id, UTC, YYYY-MM-DD.
    pub day: String,
    /// The metadata that was uploaded with the capture; the capture's own header takes precedence.
    pub meta: CaptureMeta,
    /// The size of the stored capture.
    pub bytes: u64,
    /// The key of the stored capture.
    pub raw_key: String,
    /// The dump that the system made when the process ended, of a capture of its last seconds.
    pub dump: Option<Arc<Dump>>,
}

tables! {
    /// One row per capture.
    CAPTURES = "captures": CaptureRow
        of capture_row(
            about: &About, meta: &CaptureMeta, trace: &Trace, analysis: &Analysis, over_budget: bool
        )
    {
        /// Package name of the app, or `unknown`.
        app: Text = about.app.as_ref().map(Text::from)
            .or_else(|| known(meta.app.as_deref()))
            .unwrap_or(NO_NAME),
        /// Day of the capture's id, UTC, YYYY-MM-DD.
        dt: Text = Text::from(&about.day),
        /// Name of the app's version; its code if it has no name, or `unknown`.
        ver: Text = Text::from(version_of(meta)),
        /// Id of the capture.
        capture_id: Text = Text::from(&about.capture_id),
        /// Parquet file that contains the row; always empty in SQLite.
        part: Text = Text::default(),
        /// Install id of the device, or `unknown`.
        device: Text = known(meta.install_id.as_deref()).unwrap_or(NO_NAME),
        /// Reason for the capture: `time`, `start`, `section`, `manual`, `trigger`, or `death` (the last seconds of a process).
        cohort: Text = Text::new_static(cohort(meta)),
        /// 1 if rates count the capture: taken by schedule, not recovered and not over its overhead budget.
        counted: bool = cohort(meta) == "time" && !over_budget && meta.recovered != Some(true),
        /// Code of the app's version.
        version_code: Option<u64> = meta.version_code,
        /// Id of the window in the remote configuration.
        window_id: Text = known(meta.window.as_deref()).unwrap_or_default(),
        /// Event that opened the window.
        why: Text = known(meta.why.as_deref()).unwrap_or_default(),
        /// Model of the device.
        model: Option<Text> = known(meta.model.as_deref()),
        /// Android API level of the device.
        api: Option<u64> = meta.api,
        /// Time of the capture, Unix time in ms.
        made_ms: u64 = meta.made_ms.unwrap_or(0),
        /// Time from the first event to the last, ns.
        span_ns: u64 = trace.span_ns.map_or(0, |(first_ns, last_ns)| last_ns - first_ns),
        /// Refresh period of the display, ns.
        period_ns: u64 = analysis.frame_budget.ns,
        /// Origin of `period_ns`: `said`, `vsync`, `spacing` or `assumed`.
        period_source: Text = Text::new_static(analysis.frame_budget.source.name()),
        /// Frames, without those of the pipeline `vsync_callback`, as in the sums that follow.
        frames: u64 = analysis.totals.frames,
        /// Late frames: the display missed a vsync for them; judged by `markers`, complete after their deadline.
        slow: u64 = analysis.totals.slow,
        /// Late frames; judged by `markers`, those that also take longer than twice the time to their deadline.
        janky: u64 = analysis.totals.janky,
        /// Frames longer than 700 ms.
        frozen: u64 = analysis.totals.frozen,
        /// Missed vsyncs of all frames; of those judged by `markers`, whole periods beyond one.
        dropped_vsyncs: u64 = analysis.totals.dropped,
        /// Time of all frames past their deadlines, ns.
        jank_ns: u64 = analysis.totals.jank_ns,
        /// Duration of all frames, ns.
        frame_ns: u64 = analysis.totals.frame_ns,
        /// Time of a cold start to the end of the first drawn frame, ns.
        startup_ns: Option<u64> = analysis.startups.ttid_ns(StartKind::Cold),
        /// Time of a warm start to the end of the first drawn frame, ns.
        warm_start_ns: Option<u64> = analysis.startups.ttid_ns(StartKind::Warm),
        /// Time of a hot start to the end of the first drawn frame, ns.
        hot_start_ns: Option<u64> = analysis.startups.ttid_ns(StartKind::Hot),
        /// Time of a start to the end of the first frame after `reportFullyDrawn`, ns.
        ttfd_ns: Option<u64> = analysis.startups.ttfd_ns(),
        /// Dispatches of the main thread that took 5 s, and input events that were not answered for 5 s.
        anrs: u64 = analysis.long_slices.iter().filter(|long| long.anr).count() as u64,
        /// 1 if more than a quarter of the frames take longer than 50 ms.
        slow_session_20fps: bool = analysis.totals.slow_session_20fps,
        /// 1 if more than a quarter of the frames take longer than 33.3 ms.
        slow_session_30fps: bool = analysis.totals.slow_session_30fps,
        /// Share of a processor that recording took, percent.
        overhead_percent: Option<f64> = meta.overhead_percent.map(Decimal::to_f64),
        /// 1 if the agent ended the recording because it cost too much.
        over_budget: bool = over_budget,
        /// 1 if the capture was recovered after the app died.
        recovered: bool = meta.recovered.unwrap_or(false),
        /// Records that the agent dropped.
        lost_records: u64 = meta.dropped.unwrap_or(0),
        /// Size of the stored capture, bytes.
        bytes: u64 = about.bytes,
        /// Key of the stored capture.
        raw_key: Text = Text::from(&about.raw_key),
        /// 1 if the build is debuggable.
        debuggable: bool = meta.debuggable.unwrap_or(false),
        /// 1 if the device is an emulator.
        emulator: bool = meta.emulator.unwrap_or(false),
        /// Most exact evidence that judges a frame, as in `frames`; empty without frames.
        evidence: Text =
            Text::new_static(analysis.judged.keys().next().map_or("", |best| best.name())),
    }

    /// One row per frame.
    FRAMES = "frames": FrameRow of frame_row(number: u64, frame: &Frame) {
        shared of CAPTURES { app, dt, ver, capture_id, part, device, counted }
        /// Number of the frame in its capture, from 0.
        frame: u64 = number,
        /// Pipeline of the frame: `views`, `flutter`, `unity`, `gl`, `vulkan`, `video`, `surface`, `react_native`, or `vsync_callback` (draws nothing).
        pipeline: Text = Text::new_static(frame.pipeline.name()),
        /// Id of the vsync, since Android 12.
        vsync_id: Option<i64> = frame.vsync_id,
        /// Screen that was shown, or empty.
        screen: Text = text_of(frame.screen.as_ref()),
        /// Time at which the frame was due to begin, its vsync, ns of the capture's clock.
        start_ns: u64 = frame.start_ns,
        /// Origin of `start_ns`: `timeline`, `platform` (FrameMetrics), `vsync`, `cadence` or `begin` (nothing shows an earlier vsync).
        start_source: Text = Text::new_static(frame.start_source.name()),
        /// Begin of the frame's own work on its first thread, ns of the capture's clock.
        ui_start_ns: u64 = frame.ui_start_ns,
        /// Time by which the frame had to be complete, ns of the capture's clock.
        deadline_ns: u64 = frame.deadline_ns,
        /// Time on the main thread, ns.
        ui_ns: u64 = frame.ui_ns,
        /// Time on the render thread, ns.
        render_ns: Option<u64> = frame.render_ns,
        /// Time from `start_ns` to the end of all threads' work, ns.
        dur_ns: u64 = frame.dur_ns,
        /// `dur_ns` in tenths of a millisecond, rounded up: the unit of percentiles over a fleet.
        dur_100us: u64 = frame.dur_ns.div_ceil(100_000),
        /// Missed vsyncs; judged by `markers`, whole periods beyond one.
        dropped_vsyncs: u64 = frame.dropped,
        /// Level by missed vsyncs: `best` (0 to 2), `normal` (3 to 8), `middle` (9 to 23), `high` (24 to 41) or `frozen`.
        level: Text = Text::new_static(frame.level.name()),
        /// 1 if late: the display missed a vsync for it; judged by `markers`, complete after `deadline_ns`.
        slow: bool = frame.slow,
        /// 1 if late; judged by `markers`, also longer than twice the time to the deadline.
        janky: bool = frame.janky,
        /// 1 if longer than 700 ms.
        frozen: bool = frame.frozen,
        /// Time past the deadline, ns.
        jank_ns: u64 = frame.jank_ns,
        /// Cause that took most of a late frame; empty for other frames.
        cause: Text = Text::new_static(frame.cause.as_ref().map_or("", |(cause, _)| cause.name())),
        /// Key of the cause: the slice, lock or method.
        cause_key: Text = text_of(frame.cause.as_ref().map(|(_, key)| key)),
        /// Evidence of the verdict: `timeline` (FrameTimeline), `platform` (JankData, FrameMetrics), `buffers` (layers) or `markers`.
        evidence: Text = Text::new_static(frame.evidence.name()),
        /// Way to the display: `in_time`, late by `app`, `system` or `display`, `unknown`, `stuffing` (no vsync missed), `dropped` (never shown), `undrawn`.
        outcome: Text = Text::new_static(frame.outcome.name()),
    }

    /// One row per late frame, thread, cause and slice name: where the time of the frame went. Without time: a cause of the late frame before that delayed this one.
    FRAME_SLICES = "frame_slices": FrameSliceRow
        of frame_slice_row(part: &FramePart, frame: Option<&Frame>)
    {
        shared of CAPTURES { app, dt, ver, capture_id, part, device, counted }
        /// Number of the frame in its capture.
        frame: u64 = part.frame as u64,
        /// Pipeline of the frame, as in `frames`.
        pipeline: Text = Text::new_static(frame.map_or("", |frame| frame.pipeline.name())),
        /// Duration of the frame, ns.
        frame_ns: u64 = frame.map_or(0, |frame| frame.dur_ns),
        /// Screen that was shown, or empty.
        screen: Text = text_of(frame.and_then(|frame| frame.screen.as_ref())),
        /// Thread: `main`, `render`, `ui`, `raster`, `game`, `present`, `js`, or `gpu` for time without a thread.
        thread: Text = Text::new_static(part.thread.name()),
        /// Cause to which the time is attributed.
        cause: Text = Text::new_static(part.cause.name()),
        /// Key of the cause: the slice, lock or method.
        cause_key: Text = text_of(Some(&part.key)),
        /// Innermost slice.
        name: Text = text_of(Some(&part.name)),
        /// Time in which that slice was the innermost one, ns, without `carried_ns`: no time of a thread is in two rows.
        self_ns: u64 = part.self_ns,
        /// Time that a row of another late frame has, mostly an earlier one, ns: this frame was due while the thread was busy with that one.
        carried_ns: u64 = part.carried_ns,
        /// Share of the frame's `jank_ns`, in proportion to `self_ns + carried_ns`; those of a frame add up to its `jank_ns`.
        overrun_ns: u64 = part.overrun_ns,
        /// Part of `self_ns` on a processor, ns. The four states are 0 if the trace does not have them.
        running_ns: u64 = part.states.running_ns,
        /// Part of `self_ns` ready to run, without a processor, ns.
        runnable_ns: u64 = part.states.runnable_ns,
        /// Part of `self_ns` asleep, ns.
        asleep_ns: u64 = part.states.asleep_ns,
        /// Part of `self_ns` waiting inside the kernel, also for a disk, ns.
        blocked_ns: u64 = part.states.uninterruptible_ns + part.states.io_ns,
        /// Number of slices.
        slices: u64 = part.count,
        /// Thread that held the lock, or empty.
        owner: Text =
            part.contention.as_ref().map(|held| Text::from(&*held.owner)).unwrap_or_default(),
        /// 1 if the frame would be in time without the cause; this and the next three are the same in all rows of a frame and cause.
        saved: bool = part.gain.removed,
        /// 1 if the frame would be in time if the cause took half the time.
        saved_halved: bool = part.gain.halved,
        /// 1 if the frame would be in time if the cause were moved off its first thread.
        saved_moved: bool = part.gain.moved,
        /// 1 if `saved`, on the one cause of the frame that gains most.
        saved_most: bool = part.gain.most,
    }

    /// One row per capture, screen and stack: the time of late frames by stack.
    STACKS = "stacks": StackRow of stack_row(stack: &Stack) {
        shared of CAPTURES { app, dt, ver, capture_id, part, device }
        /// Screen that was shown, or empty.
        screen: Text = text_of(stack.screen.as_ref()),
        /// Names of the slices from the thread inwards, separated by semicolons.
        stack: Text = Text::from(&*stack.stack),
        /// Time in the innermost slice, ns.
        self_ns: u64 = stack.self_ns,
        /// Number of slices.
        slices: u64 = stack.count,
    }

    /// One row per end of a process that the system has told to the app: of the capture of its last seconds.
    DEATHS = "deaths": DeathRow of death_row(death: &DeathReport) {
        shared of CAPTURES { app, dt, ver, capture_id, part, device, model, api }
        /// Android's reason: `anr`, `crash_native`, `low_memory`.
        reason: Text = Text::from(cut(&death.reason)),
        /// Cause: `lock`, `section`, `binder`, `io`, `swap`, `idle`, `starved`, `frozen`, `limiter`, `native_crash` or `unknown`.
        cause: Text = Text::new_static(death.cause.name()),
        /// Key of the cause: the functions of a lock, a section, a function, the limit; or empty.
        cause_key: Text = Text::from(cut(&death.key)),
        /// `user` (a screen was visible: a user noticed it), `background`, or `frozen`.
        noticed_by: Text = Text::new_static(death.noticed_by),
        /// 1 if a screen of the app was visible.
        visible: bool = death.visible,
        /// Android's importance of the process: 100 is the foreground, 400 is cached.
        importance: u64 = death.importance,
        /// The last screen, or empty.
        screen: Text = Text::from(cut(&death.screen)),
        /// Name of the process.
        process: Text = Text::from(cut(&death.process)),
        /// Proportional memory at the system's last sample, KiB; 0 if it has none.
        pss_kb: u64 = death.pss_kb,
        /// Resident memory at the system's last sample, KiB; 0 if it has none.
        rss_kb: u64 = death.rss_kb,
        /// Time of the end, Unix time in ms.
        at_ms: u64 = death.at_ms,
        /// Time for which the main thread had been in what it did at the end, ns; 0 if unknown.
        waited_ns: u64 = death.waited_ns,
        /// Dump of the process: `threads`, `native`, `tombstone` or `none`.
        dump: Text = Text::new_static(death.dump.name()),
        /// The explanation in a sentence.
        sentence: Text = Text::from(cut(&death.sentence)),
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
    LEDGER_DAYS = "ledger_days": LedgerDayRow
        of ledger_day_row(id: &str, app: Option<&str>, day: &str, meta: &CaptureMeta, part: &Part)
    {
        /// Package name of the app, or `unknown`.
        app: Text = known(app).unwrap_or(NO_NAME),
        /// Day of the ledger, UTC, YYYY-MM-DD.
        dt: Text = Text::from(day),
        /// Name of the app's version; its code if it has no name, or `unknown`.
        ver: Text = Text::from(version_of(meta)),
        /// Parquet file that contains the row; always empty in SQLite.
        part: Text = Text::default(),
        /// Id of the stored part.
        ledger_id: Text = Text::from(id),
        /// Install id of the device, or `unknown`.
        device: Text = known(meta.install_id.as_deref()).unwrap_or(NO_NAME),
        /// Code of the app's version; 0 if it is unknown.
        version_code: u64 = part.version_code,
        /// Number of the part in its day and version.
        ledger_part: u64 = part.part.into(),
        /// Model of the device.
        model: Option<Text> = known(meta.model.as_deref()),
        /// Android API level of the device.
        api: Option<u64> = meta.api,
        /// 1 if the build is debuggable.
        debuggable: bool = meta.debuggable.unwrap_or(false),
        /// 1 if the device is an emulator.
        emulator: bool = meta.emulator.unwrap_or(false),
        /// Attributes that the app gives itself, `name=value`, separated by semicolons.
        segment: Text = Text::from(pairs(&part.segment)),
        /// Time that the app was visible, s.
        observed_s: u64 = part.sums.observed_s.min(MOST),
        /// Part of that time in which the process did not run, s.
        stood_still_s: u64 = part.sums.stood_still_s.min(MOST),
        /// Processor time of the agent, us.
        own_cost_us: u64 = part.sums.own_cost_us.min(MOST),
        /// Major page faults of the process.
        major_faults: u64 = part.sums.major_faults.min(MOST),
        /// Largest proportional set size of the process, KiB.
        peak_pss_kb: u64 = part.sums.peak_pss_kb.min(MOST),
        /// Times of being visible.
        sessions: u64 = part.sums.sessions.min(MOST),
        /// Sessions in which more than a quarter of the frames were late.
        slow_sessions: u64 = part.sums.slow_sessions.min(MOST),
        /// ANRs that a user saw.
        user_anrs: u64 = part.sums.visible_exits.iter().map(anrs_of).sum::<u64>().min(MOST),
        /// Cold starts.
        cold_starts: u64 = part.sums.starts[0].count.min(MOST),
        /// Cold starts of 5 s and more.
        slow_cold_starts: u64 = part.sums.starts[0].slow.min(MOST),
        /// Warm starts.
        warm_starts: u64 = part.sums.starts[1].count.min(MOST),
        /// Warm starts of 2 s and more.
        slow_warm_starts: u64 = part.sums.starts[1].slow.min(MOST),
        /// Hot starts.
        hot_starts: u64 = part.sums.starts[2].count.min(MOST),
        /// Hot starts of 1.5 s and more.
        slow_hot_starts: u64 = part.sums.starts[2].slow.min(MOST),
    }

    /// One row per part of a ledger, screen, refresh rate, pipeline and source.
    LEDGER_SCREENS = "ledger_screens": LedgerScreenRow of screen_row(key: &RowKey, row: &Row) {
        shared of LEDGER_DAYS { app, dt, ver, part, ledger_id, device }
        /// Screen that was shown, or empty.
        screen: Text = Text::from(&key.screen),
        /// Refresh rate of the display, Hz.
        hz: u64 = u64::from(key.refresh_mhz).saturating_add(500) / 1000,
        /// Pipeline of the frames, as in `frames`.
        pipeline: Text = Text::new_static(key.pipeline.name()),
        /// Source of the times: `jank_data`, `frame_metrics`, `markers`. Those of different sources are not comparable.
        source: Text = Text::new_static(key.source.name()),
        /// Frames.
        frames: u64 = row.frames.min(MOST),
        /// Frames after their deadline, or that the compositor calls janky.
        late: u64 = row.late.min(MOST),
        /// Frames longer than 700 ms.
        frozen: u64 = row.frozen.min(MOST),
        /// Frames that are the app's fault by the compositor's verdict.
        late_app: u64 = row.verdicts[1].min(MOST),
        /// Frames that are the compositor's fault by its verdict.
        late_system: u64 = row.verdicts[2].min(MOST),
        /// Frames that are another's fault by the compositor's verdict.
        late_other: u64 = row.verdicts[3].min(MOST),
        /// Time of late frames past their deadlines, us.
        overrun_us: u64 = row.overrun_us.sum().min(MOST),
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

/// Reason of an exit that Android gives an ANR.
pub(crate) const ANR: &str = "anr";

/// Adds a histogram, whose values have a unit of so many ns.
/// Returns an exit's count if it is an ANR.
fn anrs_of((name, count): (&str, u64)) -> u64 {
    if name == ANR { count } else { 0 }
}

/// Writes attributes as `name=value`, separated by semicolons.
fn pairs(segment: &[(String, String)]) -> String {
    let pair = |(name, value): &(String, String)| format!("{name}={value}");
    segment.iter().map(pair).collect::<Vec<_>>().join(";")
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
