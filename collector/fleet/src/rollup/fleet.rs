//! What one device adds to the sums over devices: it counts once in each group, however many captures it sent.

use super::Sums;
use super::schema::{DeviceRollup, Reach, SampleRollup};
use std::collections::BTreeMap;

/// The groups whose devices are counted, by kind. Cause and key are part of each group.
fn groupings(kind: &str) -> &'static [&'static str] {
    match kind {
        "capture" | "start" => &["ver"],
        "frames" => {
            &["ver", "screen,ver", "dt,ver", "dt,screen,ver", "pipeline,ver", "pipeline,screen,ver"]
        }
        "cause" => &["", "screen", "ver", "screen,ver"],
        "stack" => &["", "screen"],
        _ => &[""],
    }
}

/// Parts of an observation's sums: 2^-44ths, split at 2^40.
const UNIT: f64 = 17_592_186_044_416.0;
const LOW_BITS: u32 = 40;
/// Largest observation, ms in a thousand frames, so that no device makes a sum overflow: 10 s in each frame.
const MOST: f64 = 1e7;

/// Adds what a device with these rows, all of one app, counts in the sums over devices; times `sign`.
pub fn of_device(sums: &mut Sums, rows: &[DeviceRollup], sign: i64) {
    let Some(DeviceRollup { app, .. }) = rows.first() else { return };
    let mut groups: BTreeMap<[&str; 8], i64> = BTreeMap::new();
    for row in rows {
        for grouped_by in groupings(&row.kind) {
            let has = |column: &str| grouped_by.split(',').any(|of| of == column);
            let of = |column: &str, value| if has(column) { value } else { "" };
            let group = [
                &*row.kind,
                grouped_by,
                of("dt", &*row.day),
                of("ver", &*row.ver),
                of("screen", &*row.screen),
                of("pipeline", &*row.pipeline),
                &*row.cause,
                &*row.cause_key,
            ];
            let captures = if has("screen") { row.captures } else { row.captures_once };
            *groups.entry(group).or_default() += captures;
        }
    }
    for ([kind, grouped_by, dt, ver, screen, pipeline, cause, cause_key], captures) in groups {
        let reach = Reach {
            app: app.clone(),
            kind: kind.to_owned(),
            grouped_by: grouped_by.to_owned(),
            dt: dt.to_owned(),
            ver: ver.to_owned(),
            screen: screen.to_owned(),
            pipeline: pipeline.to_owned(),
            cause: cause.to_owned(),
            cause_key: cause_key.to_owned(),
            devices: 1,
            captures,
        };
        sums.add(&reach, sign);
    }
    for row in samples(app, rows) {
        sums.add(&row, sign);
    }
}

/// Whether of a screen, the version, the screen.
type Place<'a> = (bool, &'a str, &'a str);

fn samples(app: &str, rows: &[DeviceRollup]) -> Vec<SampleRollup> {
    let mut frames: BTreeMap<Place<'_>, (i64, i64)> = BTreeMap::new();
    let mut causes: BTreeMap<(Place<'_>, &str, &str), i64> = BTreeMap::new();
    for row in rows {
        for by_screen in [false, true] {
            let place = (by_screen, &*row.ver, if by_screen { &*row.screen } else { "" });
            match &*row.kind {
                "frames" => {
                    let (count, ns) = frames.entry(place).or_default();
                    *count += row.frames;
                    *ns += row.ns;
                }
                "cause" if row.ns > 0 => {
                    *causes.entry((place, &row.cause, &row.cause_key)).or_default() += row.ns;
                }
                _ => {}
            }
        }
    }
    let of_frames = frames.iter().map(|(&place, &(_, ns))| (place, "", "", ns));
    let of_causes = causes.iter().map(|(&(place, cause, key), &ns)| (place, cause, key, ns));
    of_frames
        .chain(of_causes)
        .filter_map(|(place, cause, cause_key, ns)| {
            let (count, _) = frames.get(&place)?;
            let (by_screen, ver, screen) = place;
            #[allow(clippy::cast_precision_loss, reason = "as the queries compute it")]
            let ms_in_1000 = (ns as f64 / *count as f64 / 1e3).min(MOST);
            let (total_high, total_low) = parts(ms_in_1000);
            let (squares_high, squares_low) = parts(ms_in_1000 * ms_in_1000);
            Some(SampleRollup {
                app: app.to_owned(),
                by_screen,
                ver: ver.to_owned(),
                screen: screen.to_owned(),
                cause: cause.to_owned(),
                cause_key: cause_key.to_owned(),
                devices_with: 1,
                total_high,
                total_low,
                squares_high,
                squares_low,
            })
        })
        .collect()
}

/// Splits a number of at most [`MOST`] squared into its parts.
fn parts(value: f64) -> (i64, i64) {
    #[allow(clippy::cast_possible_truncation, reason = "rounds down, and the value is limited")]
    let units = (value * UNIT) as i128;
    let high = i64::try_from(units >> LOW_BITS).unwrap_or(i64::MAX);
    let low = i64::try_from(units & ((1 << LOW_BITS) - 1)).unwrap_or(0);
    (high, low)
}
