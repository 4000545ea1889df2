//! Contribution of one device to the sums over devices: it counts once in each group, however many captures it sent.

use super::Sums;
use super::schema::{DeviceRollup, Reach};
use crate::table::symbols::Symbol;
use std::collections::BTreeMap;

/// The groups whose devices are counted, by kind. Cause and key are part of each group.
fn groupings(kind: &str) -> &'static [&'static str] {
    match kind {
        "capture" | "start" => &["ver"],
        "frames" => &[
            "",
            "screen",
            "ver",
            "screen,ver",
            "dt,ver",
            "dt,screen,ver",
            "pipeline,ver",
            "pipeline,screen,ver",
        ],
        "cause" => &["", "screen", "ver", "screen,ver"],
        "stack" => &["", "screen"],
        _ => &[""],
    }
}

/// Largest number of late frames of a device, so that no sum of squares overflows.
const MOST_LATE: i64 = 1 << 20;

/// A device's row of sums, with the numbers of its texts.
struct Numbered {
    kind: Symbol,
    /// Day, version, screen, pipeline.
    place: [Symbol; 4],
    cause: Symbol,
    cause_key: Symbol,
}

/// Adds what a device with these rows, all of one app, counts in the sums over devices; times `sign`.
pub fn of_device(sums: &mut Sums, rows: &[DeviceRollup], sign: i64) {
    let Some(first) = rows.first() else { return };
    let app = sums.symbols.of(&first.app);
    let numbered: Vec<Numbered> = rows
        .iter()
        .map(|row| Numbered {
            kind: sums.symbols.of(&row.kind),
            place: [&row.day, &row.ver, &row.screen, &row.pipeline]
                .map(|text| sums.symbols.of(text)),
            cause: sums.symbols.of(&row.cause),
            cause_key: sums.symbols.of(&row.cause_key),
        })
        .collect();
    let mut groups = Vec::new();
    for (row, of) in rows.iter().zip(&numbered) {
        for grouped_by in groupings(&row.kind) {
            let has = |column: &str| grouped_by.split(',').any(|of| of == column);
            let [dt, ver, screen, pipeline] = of.place;
            let place = [("dt", dt), ("ver", ver), ("screen", screen), ("pipeline", pipeline)]
                .map(|(column, value)| if has(column) { value } else { Symbol::EMPTY });
            let captures = if has("screen") { row.captures } else { row.captures_once };
            let grouped_by = sums.symbols.of_static(grouped_by);
            let late =
                [row.late, row.late_halved, row.late_moved, row.late_most, row.late_stateless];
            groups.push(([of.kind, grouped_by, of.cause, of.cause_key], place, (captures, late)));
        }
    }
    groups.sort_unstable();
    type Group = ([Symbol; 4], [Symbol; 4], (i64, [i64; 5]));
    let is_same = |a: &Group, b: &Group| (a.0, a.1) == (b.0, b.1);
    let of_frames = sums.symbols.of_static("frames");
    // Late frames of the device, by grouping and place.
    let mut all_late: BTreeMap<(Symbol, [Symbol; 4]), i64> = BTreeMap::new();
    for &([kind, grouped_by, ..], place, (_, [late, ..])) in &groups {
        if kind == of_frames {
            *all_late.entry((grouped_by, place)).or_default() += late;
        }
    }
    for group in groups.chunk_by(is_same) {
        let Some(&([kind, grouped_by, cause, cause_key], place, _)) = group.first() else {
            continue;
        };
        let [dt, ver, screen, pipeline] = place;
        let mut late = [0; 5];
        for &(.., (_, of)) in group {
            late.iter_mut().zip(of).for_each(|(sum, one)| *sum += one);
        }
        let [late, late_halved, late_moved, late_most, late_stateless] = late;
        let all = all_late.get(&(grouped_by, place)).copied().unwrap_or(0).min(MOST_LATE);
        let limited = late.min(MOST_LATE);
        let reach = Reach {
            app,
            kind,
            grouped_by,
            dt,
            ver,
            screen,
            pipeline,
            cause,
            cause_key,
            devices: 1,
            captures: group.iter().map(|&(.., (captures, _))| captures).sum(),
            late,
            late_halved,
            late_moved,
            late_most,
            late_stateless,
            late_devices: (late > 0).into(),
            late_squares: limited * limited,
            late_products: if kind == of_frames { 0 } else { limited * all },
        };
        sums.add(&reach, sign);
    }
}
