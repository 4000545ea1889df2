//! FrameTimeline's frames of a process, by vsync id: their expected times, and their way to the display.

use crate::frame::{Evidence, Outcome, TimelineVerdict};
use crate::judge::Judgement;
use std::collections::HashMap;
use tracetee_trace::{Seeded, Trace, UNFINISHED};

/// Bits of Perfetto's `JankType`.
const SYSTEM: i32 = 2 | 16 | 32;
const DISPLAY: i32 = 8;
const APP: i32 = 64;
const STUFFING: i32 = 128 | 512;
const UNKNOWN: i32 = 256;
const DROPPED: i32 = 1024;
/// `PresentType`.
const PRESENTED_LATE: u8 = 2;
const PRESENTED_NEVER: u8 = 4;

impl TimelineVerdict {
    /// Returns what delayed the frame. Jitter of a prediction and a change of the display's mode delay none.
    fn outcome(self) -> Outcome {
        let has = |bits: i32| self.jank & bits != 0;
        if has(DROPPED) || self.present == PRESENTED_NEVER {
            Outcome::Dropped
        } else if has(APP) {
            Outcome::App
        } else if has(SYSTEM) {
            Outcome::System
        } else if has(DISPLAY) {
            Outcome::Display
        } else if has(UNKNOWN) && self.present == PRESENTED_LATE {
            Outcome::Unknown
        } else if has(STUFFING) {
            Outcome::Stuffing
        } else {
            Outcome::InTime
        }
    }

    pub(crate) fn is_late(self) -> bool {
        is_late(self.outcome())
    }

    /// Returns the time by which SurfaceFlinger or the graphics processor was late with the frame, after the app.
    #[must_use]
    pub const fn late_by_system_ns(self) -> u64 {
        if self.jank & SYSTEM == 0 { 0 } else { self.shown_late_ns }
    }
}

const fn is_late(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::InTime | Outcome::Stuffing | Outcome::Undrawn)
}

/// FrameTimeline's frames of a process.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Begin and end by vsync id.
    expected: HashMap<i64, (u64, u64), Seeded>,
    /// The verdict, and the display's frame that shows it.
    actual: HashMap<i64, (TimelineVerdict, i64), Seeded>,
    /// Expected and actual end of the display's frames, by token.
    displays: HashMap<i64, (u64, u64), Seeded>,
    /// Time by which the display showed a frame later after its deadline than the frame that it showed before, and when it
    /// showed that one.
    further_ns: HashMap<i64, (u64, u64), Seeded>,
    /// First and last vsync id of an actual frame.
    pub(crate) ids: Option<(i64, i64)>,
}

impl Timeline {
    pub(crate) fn find(trace: &Trace, pid: u32) -> Self {
        let mut all = Self::default();
        for frame in trace.frames.iter().filter(|frame| frame.end_ns != UNFINISHED) {
            if frame.is_display {
                let (expected_ns, actual_ns) = all.displays.entry(frame.token).or_default();
                *(if frame.actual.is_some() { actual_ns } else { expected_ns }) = frame.end_ns;
                continue;
            }
            if frame.pid != pid {
                continue;
            }
            let Some(actual) = frame.actual else {
                all.expected.insert(frame.token, (frame.start_ns, frame.end_ns));
                continue;
            };
            let none = TimelineVerdict { end_ns: 0, jank: 0, present: 0, shown_late_ns: 0 };
            let (verdict, shown_by) =
                all.actual.entry(frame.token).or_insert((none, frame.display_token));
            verdict.end_ns = verdict.end_ns.max(frame.end_ns);
            verdict.jank |= actual.jank;
            verdict.present = worse(verdict.present, actual.present);
            *shown_by = frame.display_token.max(*shown_by);
            let (first, last) = all.ids.get_or_insert((frame.token, frame.token));
            (*first, *last) = (frame.token.min(*first), frame.token.max(*last));
        }
        for (verdict, shown_by) in all.actual.values_mut() {
            // None, unless another surface had one.
            if verdict.jank & !1 != 0 {
                verdict.jank &= !1;
            }
            let shown = all.displays.get(shown_by).filter(|(expected_ns, _)| *expected_ns > 0);
            let late_ns =
                shown.map(|(expected_ns, actual_ns)| actual_ns.saturating_sub(*expected_ns));
            verdict.shown_late_ns = late_ns.unwrap_or(0);
        }
        let shown = all.actual.iter().filter_map(|(&id, (_, shown_by))| {
            let (deadline_ns, &(_, shown_ns)) = (all.expected(id)?.1, all.displays.get(shown_by)?);
            Some((shown_ns, shown_ns.saturating_sub(deadline_ns), id))
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort_unstable();
        // Frames that the display shows at once are those of several windows.
        let mut before: Option<(u64, u64)> = None;
        for at_once in shown.chunk_by(|one, next| one.0 == next.0) {
            if let Some((shown_ns, before_ns)) = before {
                for &(_, late_ns, id) in at_once {
                    all.further_ns.insert(id, (late_ns.saturating_sub(before_ns), shown_ns));
                }
            }
            before = at_once.last().map(|&(shown_ns, late_ns, _)| (shown_ns, late_ns));
        }
        all
    }

    /// Returns begin and end of the expected frame of a vsync.
    pub(crate) fn expected(&self, id: i64) -> Option<(u64, u64)> {
        self.expected.get(&id).copied()
    }

    pub(crate) fn verdict(&self, id: i64) -> Option<TimelineVerdict> {
        self.actual.get(&id).map(|&(verdict, _)| verdict)
    }

    /// Judges the frame of a vsync, whose threads were done at `own_end_ns`. None if the records do not reach it.
    pub(crate) fn judge(
        &self,
        id: i64,
        own_end_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    ) -> Option<Judgement> {
        let Some(&(verdict, shown_by)) = self.actual.get(&id) else {
            let is_known = self.ids.is_some_and(|(first, last)| (first..=last).contains(&id));
            let undrawn = Judgement::in_time(Evidence::Timeline, own_end_ns, deadline_ns);
            return is_known.then_some(Judgement { outcome: Outcome::Undrawn, ..undrawn });
        };
        // FrameTimeline calls a frame stuffed if a buffer for a later vsync was taken before it: of the render thread, which
        // animated while the main thread was late with this one. If it was complete a period before the display showed the
        // frame before it, it was not what the display waited for.
        let (further_ns, before_ns) = self.further_ns.get(&id).copied().unwrap_or_default();
        let is_own_delay = verdict.end_ns > deadline_ns
            && further_ns > period_ns / 2
            && verdict.end_ns.saturating_add(period_ns) > before_ns;
        let outcome = match verdict.outcome() {
            Outcome::Stuffing if is_own_delay => Outcome::App,
            outcome => outcome,
        };
        let end_ns = verdict.end_ns.max(own_end_ns);
        // The deadline that was missed: that of the app's part, or of the display's frame.
        let displayed = self.displays.get(&shown_by).filter(|(expected, actual)| actual > expected);
        let (deadline_ns, end_ns) = match (outcome, displayed) {
            (Outcome::App, _) => (deadline_ns, verdict.end_ns),
            (Outcome::System | Outcome::Display | Outcome::Unknown, Some(&(expected, actual))) => {
                (expected.max(deadline_ns), actual.max(end_ns))
            }
            _ => (deadline_ns, end_ns),
        };
        let frame =
            Judgement { outcome, ..Judgement::in_time(Evidence::Timeline, end_ns, deadline_ns) };
        Some(if is_late(outcome) { frame.late(period_ns) } else { frame })
    }
}

/// The worse of two results: dropped, late, early, on time.
fn worse(one: u8, other: u8) -> u8 {
    let rank = |present: u8| [0, 2, 4, 3, 5].get(usize::from(present)).copied().unwrap_or(1);
    if rank(other) > rank(one) { other } else { one }
}
