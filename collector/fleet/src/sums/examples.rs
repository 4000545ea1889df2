//! The captures in which each cause took most time: what may become an example of the cause.

use super::Sums;
use super::schema::{CauseExample, CauseRollup};
use crate::schema::CaptureRow;
use crate::table::symbols::{Symbol, Symbols};
use crate::table::{TableRow, Value};
use foldhash::fast::RandomState;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Examples of a cause that are kept for each day.
const EXAMPLES: usize = 3;

/// App, day, screen, cause and key; with `true`, the time is that on the screen.
type Cause = (bool, [Symbol; 5]);

/// The best examples of each cause.
#[derive(Debug, Default)]
pub struct Examples {
    symbols: Symbols,
    by_cause: HashMap<Cause, Vec<CauseExample>, RandomState>,
}

impl Examples {
    /// Takes a capture's time of each cause, by screen and in total.
    pub fn offer(&mut self, capture: &CaptureRow, sums: &Sums) {
        let [app, dt] = [&capture.app, &capture.dt].map(|text| self.symbols.intern(text));
        let mut times: HashMap<Cause, i64, RandomState> = HashMap::default();
        for row in sums.rows::<CauseRollup<Symbol>>() {
            let [screen, cause, key] = [row.screen, row.cause, row.cause_key]
                .map(|symbol| self.symbols.intern(sums.symbols.text_ref(symbol)));
            for (by_screen, screen) in [(true, screen), (false, Symbol::EMPTY)] {
                let time = times.entry((by_screen, [app, dt, screen, cause, key])).or_default();
                *time += row.self_ns;
            }
        }
        for (cause, self_ns) in times {
            let best = self.by_cause.entry(cause).or_default();
            let worst = best.get(EXAMPLES - 1);
            if worst.is_some_and(|worst| worst.self_ns > self_ns) {
                continue;
            }
            let (by_screen, [app, dt, screen, cause, cause_key]) = cause;
            let [app, dt, screen, cause, cause_key] =
                [app, dt, screen, cause, cause_key].map(|symbol| self.symbols.text(symbol));
            best.push(CauseExample {
                app,
                dt,
                by_screen,
                screen,
                cause,
                cause_key,
                capture_id: capture.capture_id.clone(),
                raw_key: capture.raw_key.clone(),
                ver: capture.ver.clone(),
                self_ns,
            });
            keep_best(best);
        }
    }

    /// Returns the examples by the columns that name a cause, sorted.
    #[must_use]
    pub fn by_cause(self) -> Vec<(Vec<Value>, Vec<CauseExample>)> {
        let mut sorted: Vec<_> = self
            .by_cause
            .into_values()
            .filter_map(|best| Some((best.first()?.cause_of(), best)))
            .collect();
        sorted.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        sorted
    }
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
