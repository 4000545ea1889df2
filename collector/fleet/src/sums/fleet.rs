//! Contribution of one device to the sums over devices: it counts once in each group, however many captures it sent.

use super::Sums;
use super::schema::{DeviceRollup, Reach, SampleRollup};
use crate::table::symbols::Symbol;
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
    for row in samples(app, rows, &numbered) {
        sums.add(&row, sign);
    }
}

/// Whether of a screen, the version, the screen.
type Place = (bool, Symbol, Symbol);

fn samples(app: Symbol, rows: &[DeviceRollup], numbered: &[Numbered]) -> Vec<SampleRollup<Symbol>> {
    let mut frames: BTreeMap<Place, (i64, i64)> = BTreeMap::new();
    let mut causes: BTreeMap<(Place, Symbol, Symbol), i64> = BTreeMap::new();
    for (row, of) in rows.iter().zip(numbered) {
        let [_, ver, screen, _] = of.place;
        for place in [(false, ver, Symbol::EMPTY), (true, ver, screen)] {
            match &*row.kind {
                "frames" => {
                    let (count, ns) = frames.entry(place).or_default();
                    *count += row.frames;
                    *ns += row.ns;
                }
                "cause" if row.ns > 0 => {
                    *causes.entry((place, of.cause, of.cause_key)).or_default() += row.ns;
                }
                _ => {}
            }
        }
    }
    let of_frames =
        frames.iter().map(|(&place, &(_, ns))| (place, Symbol::EMPTY, Symbol::EMPTY, ns));
    let of_causes = causes.iter().map(|(&(place, cause, key), &ns)| (place, cause, key, ns));
    of_frames
        .chain(of_causes)
        .filter_map(|((by_screen, ver, screen), cause, cause_key, ns)| {
            let (count, _) = frames.get(&(by_screen, ver, screen))?;
            #[allow(clippy::cast_precision_loss, reason = "as the queries compute it")]
            let ms_in_1000 = (ns as f64 / *count as f64 / 1e3).min(MOST);
            let (total_high, total_low) = parts(ms_in_1000);
            let (squares_high, squares_low) = parts(ms_in_1000 * ms_in_1000);
            Some(SampleRollup {
                app,
                by_screen,
                ver,
                screen,
                cause,
                cause_key,
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
