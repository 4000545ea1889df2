//! Contribution of one device to the sums over devices: it counts once in each group, however many captures it sent.

use super::Sums;
use super::row::{Key, RollupRow};
use super::schema::{DeviceRollup, Reach};
use crate::table::symbols::Symbol;
use foldhash::fast::RandomState;
use std::collections::HashMap;

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

/// Adds what a device with these rows, all of one app, counts in the sums over devices; times `sign`.
pub fn of_device(sums: &mut Sums, rows: &[DeviceRollup], sign: i64) {
    let mut groups: HashMap<Key, Reach<Symbol>, RandomState> = HashMap::default();
    for row in rows {
        let mut symbol = |text| sums.symbols.intern(text);
        let [dt, ver, screen, pipeline] =
            [&row.day, &row.ver, &row.screen, &row.pipeline].map(&mut symbol);
        let reach = Reach {
            app: symbol(&row.app),
            kind: symbol(&row.kind),
            cause: symbol(&row.cause),
            cause_key: symbol(&row.cause_key),
            late: row.late,
            late_halved: row.late_halved,
            late_moved: row.late_moved,
            late_most: row.late_most,
            late_stateless: row.late_stateless,
            ..Reach::default()
        };
        for grouped_by in groupings(&row.kind) {
            let has = |column| grouped_by.split(',').any(|grouped| grouped == column);
            let only = |column, name| if has(column) { name } else { Symbol::EMPTY };
            let group = Reach {
                grouped_by: sums.symbols.intern_static(grouped_by),
                dt: only("dt", dt),
                ver: only("ver", ver),
                screen: only("screen", screen),
                pipeline: only("pipeline", pipeline),
                captures: if has("screen") { row.captures } else { row.captures_once },
                ..reach.clone()
            };
            groups.entry(group.key()).and_modify(|sum| *sum += &group).or_insert(group);
        }
    }
    let frames = sums.symbols.intern_static("frames");
    for group in groups.values() {
        let none = Symbol::EMPTY;
        let all = Reach { kind: frames, cause: none, cause_key: none, ..group.clone() };
        let all = groups.get(&all.key()).map_or(0, |all| all.late.min(MOST_LATE));
        let limited = group.late.min(MOST_LATE);
        let group = Reach {
            devices: 1,
            late_devices: (group.late > 0).into(),
            late_squares: limited * limited,
            late_products: if group.kind == frames { 0 } else { limited * all },
            ..group.clone()
        };
        sums.add(&group, sign);
    }
}
