//! Sums of captures, from which reports are made: what a capture adds to each table of [`schema`].
//!
//! The sums of captures are added up, in SQLite ([`crate::database`]) over all captures and in Parquet
//! ([`crate::parquet`]) over those of a part. All sums are whole numbers, so that a capture that is deleted is
//! subtracted exactly. `sql/rollups.sql` defines the same sums over the row tables.

pub mod bucket;
mod fleet;
pub mod schema;

use crate::rows::{Rows, Value};
use crate::schema::{CaptureRow, FrameRow, FrameSliceRow, LossRow};
use crate::table::{RollupRow, TableRow};
use bucket::{FRAMES, TIMES};
pub use fleet::of_device;
use schema::{
    CaptureRollup, CauseExample, CauseRollup, DeviceRollup, FrameRollup, LossRollup, StackRollup,
    StartupRollup,
};
use std::collections::BTreeMap;

/// Examples of a cause that are kept for each day.
pub const EXAMPLES: usize = 3;
/// Largest value that is added, so that no device makes a sum overflow: 19 hours in nanoseconds.
const MOST: u64 = 1 << 46;

fn whole(value: u64) -> i64 {
    i64::try_from(value.min(MOST)).unwrap_or(i64::MAX)
}

/// Sums by key, of several tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    tables: BTreeMap<&'static str, SumsByKey>,
}

/// Values of the key columns, and the sums.
pub type SumsByKey = BTreeMap<Vec<Value>, Vec<i64>>;

impl Sums {
    /// Adds a row's sums, times `sign`.
    pub fn add<R: RollupRow>(&mut self, row: &R, sign: i64) {
        let mut key = row.values();
        let added: Vec<i64> = key
            .split_off(R::KEYS)
            .into_iter()
            .map(|value| if let Value::Int(value) = value { value * sign } else { 0 })
            .collect();
        if added.iter().all(|&sum| sum == 0) {
            return;
        }
        let table = self.tables.entry(R::TABLE.name).or_default();
        match table.get_mut(&key) {
            Some(sums) => sums.iter_mut().zip(added).for_each(|(sum, added)| *sum += added),
            None => {
                table.insert(key, added);
            }
        }
    }

    /// Takes the sums of a table.
    #[must_use]
    pub fn take(&mut self, table: &str) -> SumsByKey {
        self.tables.remove(table).unwrap_or_default()
    }

    /// Iterates over the keys of all tables; each begins with the app.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<Value>> {
        self.tables.values().flat_map(BTreeMap::keys)
    }

    /// Adds a capture, or subtracts it if `sign` is -1. Losses and examples are not part of it.
    pub fn add_capture(&mut self, rows: &Rows, sign: i64) {
        let Some(capture) = &rows.capture else { return };
        let CaptureRow { app, dt, ver, .. } = capture;
        self.add(&capture_rollup(capture), sign);
        for (kind, ns) in [
            ("cold", capture.startup_ns),
            ("warm", capture.warm_start_ns),
            ("hot", capture.hot_start_ns),
            ("fully_drawn", capture.ttfd_ns),
        ] {
            let Some(ns) = ns.filter(|_| !capture.over_budget) else { continue };
            let bucket_ns = TIMES.middle(ns.min(MOST));
            let (app, dt, ver) = (app.clone(), dt.clone(), ver.clone());
            let kind = kind.to_owned();
            self.add(&StartupRollup { app, dt, ver, kind, bucket_ns, starts: 1 }, sign);
        }
        for row in frame_rollups(capture, &rows.frames) {
            self.add(&row, sign);
        }
        let causes = causes_of_frames(&rows.frame_slices);
        for of_frame in &causes {
            let row = CauseRollup {
                app: app.clone(),
                dt: dt.clone(),
                ver: ver.clone(),
                screen: of_frame.screen.to_owned(),
                cause: of_frame.cause.to_owned(),
                cause_key: of_frame.key.to_owned(),
                bucket_ns: TIMES.middle(of_frame.self_ns.min(MOST)),
                frames: 1,
                self_ns: whole(of_frame.self_ns),
                overrun_ns: whole(of_frame.overrun_ns),
            };
            self.add(&row, sign);
        }
        for stack in &rows.stacks {
            let row = StackRollup {
                app: app.clone(),
                dt: dt.clone(),
                screen: stack.screen.clone(),
                stack: stack.stack.clone(),
                slices: whole(stack.slices),
                self_ns: whole(stack.self_ns),
            };
            self.add(&row, sign);
        }
        for row in device_rollups(capture, rows, &causes) {
            self.add(&row, sign);
        }
    }

    /// Adds a row of a loss report, or subtracts it if `sign` is -1.
    pub fn add_loss(&mut self, loss: &LossRow, sign: i64) {
        let row = LossRollup {
            app: loss.app.clone(),
            dt: loss.dt.clone(),
            reason: loss.reason.clone(),
            window_id: loss.window_id.clone(),
            row_count: 1,
            captures: whole(loss.captures),
            unconfirmed: loss.unconfirmed.into(),
        };
        self.add(&row, sign);
        let row = DeviceRollup {
            app: loss.app.clone(),
            device: loss.device.clone(),
            kind: "loss".to_owned(),
            cause: loss.reason.clone(),
            cause_key: loss.window_id.clone(),
            captures: 1,
            captures_once: 1,
            ..DeviceRollup::default()
        };
        self.add(&row, sign);
    }
}

fn capture_rollup(row: &CaptureRow) -> CaptureRollup {
    let code = row.version_code.and_then(|code| i64::try_from(code).ok());
    CaptureRollup {
        app: row.app.clone(),
        dt: row.dt.clone(),
        ver: row.ver.clone(),
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

/// True if rates count the frame of a capture that they count.
fn is_rated(frame: &FrameRow) -> bool {
    frame.pipeline != "vsync_callback"
}

/// Sums a capture's frames by screen, pipeline and bucket.
fn frame_rollups(capture: &CaptureRow, frames: &[FrameRow]) -> Vec<FrameRollup> {
    let mut by_key: BTreeMap<(&str, &str, u64), FrameRollup> = BTreeMap::new();
    for frame in frames {
        let dur_100us = FRAMES.middle(frame.dur_100us);
        let key = (&*frame.screen, &*frame.pipeline, dur_100us);
        let sum = by_key.entry(key).or_insert_with(|| FrameRollup {
            app: capture.app.clone(),
            dt: capture.dt.clone(),
            ver: capture.ver.clone(),
            screen: frame.screen.clone(),
            pipeline: frame.pipeline.clone(),
            hz: hz(capture.period_ns),
            counted: capture.counted,
            dur_100us,
            ..FrameRollup::default()
        });
        let is_of = |level: &str| i64::from(frame.level == level);
        sum.frames += 1;
        sum.slow += i64::from(frame.slow);
        sum.janky += i64::from(frame.janky);
        sum.frozen += i64::from(frame.frozen);
        sum.level_normal += is_of("normal");
        sum.level_middle += is_of("middle");
        sum.level_high += is_of("high");
        sum.level_frozen += is_of("frozen");
        sum.dropped_vsyncs += whole(frame.dropped_vsyncs);
        sum.jank_ns += whole(frame.jank_ns);
        sum.frame_ns += whole(frame.dur_ns);
    }
    by_key.into_values().collect()
}

/// A cause's time in a frame.
struct CauseOfFrame<'a> {
    screen: &'a str,
    cause: &'a str,
    key: &'a str,
    self_ns: u64,
    overrun_ns: u64,
    /// The cause took a tenth of the frame or more.
    is_big: bool,
}

fn causes_of_frames(slices: &[FrameSliceRow]) -> Vec<CauseOfFrame<'_>> {
    let mut by_frame: BTreeMap<(u64, &str, &str, &str), [u64; 3]> = BTreeMap::new();
    for slice in slices {
        let key = (slice.frame, &*slice.screen, &*slice.cause, &*slice.cause_key);
        let [self_ns, overrun_ns, frame_ns] = by_frame.entry(key).or_default();
        *self_ns += slice.self_ns;
        *overrun_ns += slice.overrun_ns;
        *frame_ns = slice.frame_ns.max(*frame_ns);
    }
    by_frame
        .into_iter()
        .map(|((_, screen, cause, key), [self_ns, overrun_ns, frame_ns])| {
            let is_big = self_ns.saturating_mul(10) >= frame_ns;
            CauseOfFrame { screen, cause, key, self_ns, overrun_ns, is_big }
        })
        .collect()
}

fn device_rollups(
    capture: &CaptureRow,
    rows: &Rows,
    causes: &[CauseOfFrame<'_>],
) -> Vec<DeviceRollup> {
    let CaptureRow { app, dt, ver, device, .. } = capture;
    let row = |kind: &str| DeviceRollup {
        app: app.clone(),
        device: device.clone(),
        kind: kind.to_owned(),
        captures: 1,
        ..DeviceRollup::default()
    };
    let mut all = vec![DeviceRollup {
        day: dt.clone(),
        ver: ver.clone(),
        captures_once: 1,
        ..row("capture")
    }];
    if capture.startup_ns.is_some() && !capture.over_budget {
        all.push(DeviceRollup { ver: ver.clone(), captures_once: 1, ..row("start") });
    }
    let mut screens: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
    for frame in rows.frames.iter().filter(|frame| capture.counted && is_rated(frame)) {
        let (frames, ns) = screens.entry((&frame.screen, &frame.pipeline)).or_default();
        *frames += 1;
        *ns += whole(frame.jank_ns);
    }
    for (place, ((screen, pipeline), (frames, ns))) in screens.into_iter().enumerate() {
        all.push(DeviceRollup {
            day: dt.clone(),
            ver: ver.clone(),
            screen: screen.to_owned(),
            pipeline: pipeline.to_owned(),
            captures_once: (place == 0).into(),
            frames,
            ns,
            ..row("frames")
        });
    }
    let mut times: BTreeMap<(&str, &str, &str), i64> = BTreeMap::new();
    for of in causes {
        let big_ns = if of.is_big && capture.counted { whole(of.self_ns) } else { 0 };
        *times.entry((of.cause, of.key, of.screen)).or_default() += big_ns;
    }
    let mut last = None;
    for ((cause, key, screen), ns) in times {
        all.push(DeviceRollup {
            ver: ver.clone(),
            screen: screen.to_owned(),
            cause: cause.to_owned(),
            cause_key: key.to_owned(),
            captures_once: (last != Some((cause, key))).into(),
            ns,
            ..row("cause")
        });
        last = Some((cause, key));
    }
    let mut stacks: Vec<(&str, &str)> =
        rows.stacks.iter().map(|stack| (&*stack.stack, &*stack.screen)).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let mut last = None;
    for (stack, screen) in stacks {
        all.push(DeviceRollup {
            screen: screen.to_owned(),
            cause_key: stack.to_owned(),
            captures_once: (last != Some(stack)).into(),
            ..row("stack")
        });
        last = Some(stack);
    }
    all
}

/// Returns a capture's time of each cause, by screen and in total: what may become an example.
#[must_use]
pub fn examples(rows: &Rows) -> Vec<CauseExample> {
    let Some(capture) = &rows.capture else { return Vec::new() };
    let mut times: BTreeMap<(bool, &str, &str, &str), i64> = BTreeMap::new();
    for slice in &rows.frame_slices {
        for (by_screen, screen) in [(true, &*slice.screen), (false, "")] {
            let key = (by_screen, screen, &*slice.cause, &*slice.cause_key);
            *times.entry(key).or_default() += whole(slice.self_ns);
        }
    }
    times
        .into_iter()
        .map(|((by_screen, screen, cause, key), self_ns)| CauseExample {
            app: capture.app.clone(),
            dt: capture.dt.clone(),
            by_screen,
            screen: screen.to_owned(),
            cause: cause.to_owned(),
            cause_key: key.to_owned(),
            capture_id: capture.capture_id.clone(),
            raw_key: capture.raw_key.clone(),
            ver: capture.ver.clone(),
            self_ns,
        })
        .collect()
}

impl CauseExample {
    /// Columns that name the cause of which this is an example: app, day, `by_screen`, screen, cause and key.
    pub const CAUSE_KEYS: usize = 6;

    /// Returns the values of these columns.
    #[must_use]
    pub fn cause_of(&self) -> Vec<Value> {
        let mut key = self.values();
        key.truncate(Self::CAUSE_KEYS);
        key
    }
}

/// Keeps the [`EXAMPLES`] best of a cause, the best first.
pub fn keep_best(examples: &mut Vec<CauseExample>) {
    examples
        .sort_by(|a, b| b.self_ns.cmp(&a.self_ns).then_with(|| a.capture_id.cmp(&b.capture_id)));
    examples.truncate(EXAMPLES);
}

#[cfg(test)]
pub(crate) mod tests;
