//! Sums by app, version and screen of captures that came into the tables since the start, for `/metrics`.
//!
//! The thread that writes the tables adds; requests read. Names beyond [`MOST_SERIES`] count as `(other)`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracetee_fleet::database::OTHER;
use tracetee_fleet::rows::Rows;
use tracetee_fleet::schema::Text;

/// Names that are told apart.
const MOST_SERIES: usize = 2_000;
const CALLBACK: &str = "vsync_callback";

/// App, version and screen.
pub(crate) type SeriesName = [Text; 3];

/// Sums of a screen's frames, of captures that count for rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ScreenSums {
    /// Number of frames.
    pub(crate) frames: u64,
    /// Late frames.
    pub(crate) slow: u64,
    /// Janky frames.
    pub(crate) janky: u64,
    /// Frames longer than 700 ms.
    pub(crate) frozen: u64,
    /// Time past the deadlines, ns.
    pub(crate) jank_ns: u64,
}

/// All that was observed.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    sums: Mutex<BTreeMap<SeriesName, ScreenSums>>,
}

impl Observed {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<SeriesName, ScreenSums>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what came into the tables.
    pub(super) fn add<'a>(&self, rows: impl IntoIterator<Item = &'a Rows>) {
        for rows in rows {
            let Some(capture) = rows.capture.as_ref().filter(|capture| capture.counted) else {
                continue;
            };
            let mut sums = self.locked();
            for frame in rows.frames.iter().filter(|frame| frame.pipeline != CALLBACK) {
                let name = [capture.app.clone(), capture.ver.clone(), frame.screen.clone()];
                let is_known = sums.len() < MOST_SERIES || sums.contains_key(&name);
                let other = || [OTHER; 3].map(Text::new_static);
                let sum = sums.entry(if is_known { name } else { other() }).or_default();
                sum.frames += 1;
                sum.slow += u64::from(frame.slow);
                sum.janky += u64::from(frame.janky);
                sum.frozen += u64::from(frame.frozen);
                sum.jank_ns += frame.jank_ns;
            }
        }
    }

    /// Returns the sums, in the order of their names.
    pub(crate) fn sums(&self) -> Vec<(SeriesName, ScreenSums)> {
        self.locked().iter().map(|(name, sums)| (name.clone(), *sums)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_fleet::schema::{CaptureRow, FrameRow};

    fn rows(app: &str, screen: &str, late: u64) -> Rows {
        let capture = CaptureRow { app: app.into(), counted: true, ..CaptureRow::default() };
        let frame = |frame: u64| FrameRow {
            frame,
            screen: screen.into(),
            slow: frame < late,
            frozen: frame == 0 && late > 1,
            jank_ns: u64::from(frame < late) * 7,
            ..FrameRow::default()
        };
        let callback = FrameRow { pipeline: CALLBACK.into(), slow: true, ..FrameRow::default() };
        let frames = (0..4).map(frame).chain([callback]).collect();
        Rows { capture: Some(capture), frames, ..Rows::default() }
    }

    #[test]
    fn names_beyond_the_limit_count_as_others() {
        let observed = Observed::default();
        observed.add(&[rows("a", "Feed", 2), rows("a", "Feed", 0), rows("a", "Detail", 1)]);
        let sums = observed.sums();
        assert_eq!(sums[0].0, ["a", "", "Detail"].map(Text::new_static));
        let feed = ScreenSums { frames: 8, slow: 2, janky: 0, frozen: 1, jank_ns: 14 };
        assert_eq!(sums[1].1, feed);
        for number in 0..MOST_SERIES + 5 {
            observed.add(&[rows("b", &number.to_string(), 1)]);
        }
        let sums = observed.sums();
        assert_eq!(sums.len(), MOST_SERIES + 1);
        assert_eq!(sums.iter().map(|(_, sums)| sums.frames).sum::<u64>(), 12 + 2_005 * 4);
    }
}
