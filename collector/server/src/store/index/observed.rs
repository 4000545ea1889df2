//! Sums by app, version and screen of captures added to the tables since the start, for `/metrics`.
//!
//! The thread that writes the tables adds; requests read. The names are bounded, with a share for each app. An app that has
//! used its share counts further names as its `(other)`, until one of its names has no frames for an hour.

use crate::budget::Budget;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracetee_fleet::database::OTHER;
use tracetee_fleet::rows::Rows;
use tracetee_fleet::schema::Text;

/// Maximum number of distinguished names.
const MOST_SERIES: u64 = 2_000;
/// Time without frames after which a name gives its place to another one of its app.
const IDLE: Duration = Duration::from_secs(3600);
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
#[derive(Debug)]
pub(crate) struct Observed {
    /// By app, version and screen, with the time of the last frames.
    sums: Mutex<Sums>,
}

/// Sums, with the time of the last frames, by app; version and screen.
type Sums = Budget<Text, [Text; 2], (ScreenSums, Instant)>;

impl Default for Observed {
    fn default() -> Self {
        Self { sums: Mutex::new(Budget::new(MOST_SERIES, MOST_SERIES)) }
    }
}

impl Observed {
    fn locked(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds captures that were added to the tables.
    pub(crate) fn add<'a>(&self, rows: impl IntoIterator<Item = &'a Rows>) {
        for rows in rows {
            let Some(capture) = rows.capture.as_ref().filter(|capture| capture.counted) else {
                continue;
            };
            let mut of_screens: BTreeMap<Text, ScreenSums> = BTreeMap::new();
            for frame in rows.frames.iter().filter(|frame| frame.pipeline != CALLBACK) {
                let sum = of_screens.entry(frame.screen.clone()).or_default();
                sum.frames += 1;
                sum.slow += u64::from(frame.slow);
                sum.janky += u64::from(frame.janky);
                sum.frozen += u64::from(frame.frozen);
                sum.jank_ns += frame.jank_ns;
            }
            for (screen, more) in of_screens {
                self.count(&capture.app, [capture.ver.clone(), screen], more, Instant::now());
            }
        }
    }

    fn count(&self, app: &Text, name: [Text; 2], more: ScreenSums, now: Instant) {
        let mut sums = self.locked();
        let is_idle = |&(_, at): &(ScreenSums, Instant)| now.duration_since(at) >= IDLE;
        let is_apart = sums.get(app, &name).is_some()
            || !sums.is_full_for(app)
            || sums.oldest(app).is_some_and(is_idle);
        let name = if is_apart { name } else { [OTHER; 2].map(Text::new_static) };
        let mut sum = sums.get(app, &name).map_or_else(ScreenSums::default, |(sum, _)| *sum);
        sum.frames += more.frames;
        sum.slow += more.slow;
        sum.janky += more.janky;
        sum.frozen += more.frozen;
        sum.jank_ns += more.jank_ns;
        // Another app's oldest name may go. Its further frames count as the other app's `(other)`.
        sums.put(app.clone(), name, 1, (sum, now));
    }

    /// Returns the sums, in the order of their names.
    pub(crate) fn sums(&self) -> Vec<(SeriesName, ScreenSums)> {
        let named = |(app, [version, screen], (sums, _)): (&Text, &[Text; 2], &(ScreenSums, _))| {
            ([app, version, screen].map(Text::clone), *sums)
        };
        let mut sums: Vec<_> = self.locked().entries().map(named).collect();
        sums.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        sums
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
        let (observed, begun) = (Observed::default(), Instant::now());
        observed.add(&[rows("a", "Feed", 2), rows("a", "Feed", 0), rows("a", "Detail", 1)]);
        let sums = observed.sums();
        assert_eq!(sums[0].0, ["a", "", "Detail"].map(Text::new_static));
        let feed = ScreenSums { frames: 8, slow: 2, janky: 0, frozen: 1, jank_ns: 14 };
        assert_eq!(sums[1].1, feed);
        for number in 0..2_004 {
            observed.add(&[rows("b", &number.to_string(), 1)]);
        }
        let sums = observed.sums();
        assert_eq!(sums.len(), 2_000);
        let frames = |app: &str, screen: &str| {
            let sums = observed.sums();
            let is_wanted = |(name, _): &&(SeriesName, _)| name[0] == app && name[2] == screen;
            sums.iter().find(is_wanted).map(|(_, sums)| sums.frames)
        };
        assert_eq!([frames("b", "0"), frames("b", OTHER)], [None, Some(6 * 4)]);
        // Another app has its share, by name, though the first one has taken all that was left.
        for number in 0..900 {
            observed.add(&[rows("c", &number.to_string(), 0)]);
        }
        assert!((0..900).all(|number| frames("c", &number.to_string()) == Some(4)));
        assert_eq!([frames("a", "Feed"), frames("c", OTHER)], [Some(8), None]);
        // A name without frames for an hour gives its place to another one of its app.
        let found = [(begun, 3_590), (Instant::now(), 3_600)].map(|(from, s)| {
            let name = ["2", "New"].map(Text::new_static);
            let later = from + Duration::from_secs(s);
            observed.count(&"b".into(), name, ScreenSums { frames: 5, ..sums[0].1 }, later);
            frames("b", "New")
        });
        assert_eq!(found, [None, Some(5)]);
    }
}
