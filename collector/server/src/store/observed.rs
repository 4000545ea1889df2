//! Sums and events of captures that came into the tables since the start: sums by app, version and screen for `/metrics` and OTLP, and events for OTLP, one for each
//! capture, screen and threshold that late frames passed.
//!
//! The thread that writes the tables adds; requests and an exporter read. Both are bounded: names beyond [`MOST_SERIES`] count as
//! `(other)`, and of events that nobody takes the oldest go, counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracetee_fleet::database::OTHER;
use tracetee_fleet::rows::Rows;
use tracetee_fleet::schema::{CaptureRow, FrameRow, Text};

/// Names that are told apart.
const MOST_SERIES: usize = 2_000;
/// Events that wait for an exporter.
const MOST_EVENTS: usize = 10_000;
/// Screens of a capture that have events of their own.
const MOST_SCREENS: usize = 20;
/// A frame that takes longer is frozen (Android vitals).
const FROZEN_NS: u64 = 700_000_000;
const CALLBACK: &str = "vsync_callback";

/// App, version and screen.
pub type SeriesName = [Text; 3];

/// Sums of a screen's frames, of captures that count for rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScreenSums {
    /// Number of frames.
    pub frames: u64,
    /// Late frames.
    pub slow: u64,
    /// Janky frames.
    pub janky: u64,
    /// Frames longer than 700 ms.
    pub frozen: u64,
    /// Time past the deadlines, ns.
    pub jank_ns: u64,
}

/// Late frames of a screen in a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct JankEvent {
    /// The capture, without its frames.
    pub capture: CaptureRow,
    /// The screen, or empty.
    pub screen: Text,
    /// Time that all these frames took at least, ns.
    pub threshold_ns: u64,
    /// Number of frames.
    pub frames: u64,
    /// Cause of most of the time past the deadlines, and its key; empty if nobody knows.
    pub cause: [Text; 2],
}

/// All that was observed.
#[derive(Debug, Default)]
pub struct Observed {
    sums: Mutex<BTreeMap<SeriesName, ScreenSums>>,
    events: Mutex<VecDeque<JankEvent>>,
    /// Set if nobody exports events.
    without_events: AtomicBool,
    /// Events that an endpoint accepted.
    pub exported: AtomicU64,
    /// Events that were lost: too many waited, or the endpoint refused them for good.
    pub lost: AtomicU64,
    /// Requests of the exporter that failed.
    pub failures: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observed {
    /// Keeps no events from now on.
    pub(crate) fn end_events(&self) {
        // ORDERING: Relaxed, here and below; a wish, and counts.
        self.without_events.store(true, Ordering::Relaxed);
        locked(&self.events).clear();
    }

    /// Adds what came into the tables.
    pub(super) fn add<'a>(&self, rows: impl IntoIterator<Item = &'a Rows>) {
        for rows in rows {
            let Some(capture) = &rows.capture else { continue };
            let frames = || rows.frames.iter().filter(|frame| frame.pipeline != CALLBACK);
            if capture.counted {
                let mut sums = locked(&self.sums);
                for frame in frames() {
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
            if capture.slow > 0 && !self.without_events.load(Ordering::Relaxed) {
                self.push(capture, &mut frames().filter(|frame| frame.slow));
            }
        }
    }

    fn push(&self, capture: &CaptureRow, late: &mut dyn Iterator<Item = &FrameRow>) {
        let mut screens: BTreeMap<Text, Vec<&FrameRow>> = BTreeMap::new();
        for frame in late {
            let is_known = screens.len() < MOST_SCREENS || screens.contains_key(&frame.screen);
            let screen = if is_known { frame.screen.clone() } else { Text::new_static(OTHER) };
            screens.entry(screen).or_default().push(frame);
        }
        let mut events = locked(&self.events);
        for (screen, late) in screens {
            for threshold_ns in [capture.period_ns, FROZEN_NS] {
                let is_over = |frame: &&&FrameRow| threshold_ns != FROZEN_NS || frame.frozen;
                let over: Vec<_> = late.iter().filter(is_over).collect();
                if over.is_empty() {
                    continue;
                }
                let mut causes: BTreeMap<[&Text; 2], u64> = BTreeMap::new();
                for frame in &over {
                    *causes.entry([&frame.cause, &frame.cause_key]).or_default() += frame.jank_ns;
                }
                let cause = causes.into_iter().max_by_key(|(_, ns)| *ns).map(|(cause, _)| cause);
                if events.len() >= MOST_EVENTS {
                    events.pop_front();
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                events.push_back(JankEvent {
                    capture: capture.clone(),
                    screen: screen.clone(),
                    threshold_ns,
                    frames: over.len() as u64,
                    cause: cause.map(|cause| cause.map(Text::clone)).unwrap_or_default(),
                });
            }
        }
    }

    /// Returns the sums, in the order of their names.
    #[must_use]
    pub fn sums(&self) -> Vec<(SeriesName, ScreenSums)> {
        locked(&self.sums).iter().map(|(name, sums)| (name.clone(), *sums)).collect()
    }

    /// Takes the oldest events.
    #[must_use]
    pub fn take_events(&self, most: usize) -> Vec<JankEvent> {
        let mut events = locked(&self.events);
        let count = events.len().min(most);
        events.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(app: &str, screen: &str, late: u64) -> Rows {
        let capture =
            CaptureRow { app: app.into(), counted: true, slow: late, ..CaptureRow::default() };
        let frame = |frame: u64| FrameRow {
            frame,
            screen: screen.into(),
            slow: frame < late,
            frozen: frame == 0 && late > 1,
            jank_ns: u64::from(frame < late) * 7,
            cause: if frame < late { "gc".into() } else { Text::default() },
            ..FrameRow::default()
        };
        let callback = FrameRow { pipeline: CALLBACK.into(), slow: true, ..FrameRow::default() };
        let frames = (0..4).map(frame).chain([callback]).collect();
        Rows { capture: Some(capture), frames, ..Rows::default() }
    }

    #[test]
    fn names_and_events_are_bounded_and_what_is_left_out_is_counted() {
        let observed = Observed::default();
        observed.add(&[rows("a", "Feed", 2), rows("a", "Feed", 0), rows("a", "Detail", 1)]);
        let sums = observed.sums();
        assert_eq!(sums[0].0, ["a", "", "Detail"].map(Text::new_static));
        let feed = ScreenSums { frames: 8, slow: 2, janky: 0, frozen: 1, jank_ns: 14 };
        assert_eq!(sums[1].1, feed);
        let events = observed.take_events(9);
        let shown = |event: &JankEvent| (event.threshold_ns, event.frames, event.cause.clone());
        let gc = ["gc".into(), Text::default()];
        let shown: Vec<_> = events.iter().map(shown).collect();
        assert_eq!(shown, [(0, 2, gc.clone()), (FROZEN_NS, 1, gc.clone()), (0, 1, gc)]);

        for number in 0..MOST_SERIES + 5 {
            observed.add(&[rows("b", &number.to_string(), 1)]);
        }
        let sums = observed.sums();
        assert_eq!(sums.len(), MOST_SERIES + 1);
        assert_eq!(sums.iter().map(|(_, sums)| sums.frames).sum::<u64>(), 12 + 2_005 * 4);
        for _ in 0..MOST_EVENTS {
            observed.add(&[rows("b", "Feed", 1)]);
        }
        assert_eq!(observed.take_events(usize::MAX).len(), MOST_EVENTS);
        assert_eq!(observed.lost.load(Ordering::Relaxed), 2_005);
        observed.end_events();
        observed.add(&[rows("b", "Feed", 1)]);
        assert!(observed.take_events(9).is_empty());
    }
}
