//! Contribution of one device to the sums over devices: it counts once in each group, however many captures it sent.

use super::Sums;
use super::schema::{DeviceRollup, Reach};
use crate::table::symbols::Symbol;

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
            groups.push(([of.kind, grouped_by, of.cause, of.cause_key], place, captures));
        }
    }
    groups.sort_unstable();
    let is_same = |a: &(_, [Symbol; 4], i64), b: &(_, _, i64)| (a.0, a.1) == (b.0, b.1);
    for group in groups.chunk_by(is_same) {
        let Some(&([kind, grouped_by, cause, cause_key], [dt, ver, screen, pipeline], _)) =
            group.first()
        else {
            continue;
        };
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
            captures: group.iter().map(|&(.., captures)| captures).sum(),
        };
        sums.add(&reach, sign);
    }
}
