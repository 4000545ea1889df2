//! Finds frames whose buffer SurfaceFlinger took in time and composed too late, and the reason by its main thread's states.
//!
//! SurfaceFlinger takes the buffers in one section and composes the display in the same section or in the next one. If
//! that section ends more than a period after SurfaceFlinger's vsync, the display shows the previous frame once more.
//! SurfaceFlinger's counter of missed frames overrides this rule. The sections do not show the work of the graphics
//! processor and of the display, which comes later.

use crate::states::{StateTimes, spans};
use crate::window::{COMPOSITOR_RAN, COMPOSITOR_READY, COMPOSITOR_WAITED};
use tracetee_trace::{NO_PARENT, Thread, Trace};

/// Begins of the outermost sections in which SurfaceFlinger takes buffers or composes.
const WORK: [&str; 3] = ["onMessage", "commit", "composite"];
/// Time between the section that takes buffers and the one that composes.
const GAP_NS: u64 = 500_000;
/// SurfaceFlinger's counters, 1 if its previous frame was shown late (the first since Android 11, the second in Android 10).
const MISSED: [&str; 2] = ["PrevFrameMissed", "HwcFrameMissed"];
/// Counter: time that SurfaceFlinger has from its vsync on, if that is more than a period (Android 12 and later).
const ALLOWED: [&str; 1] = ["VsyncWorkDuration-sf"];
/// Longer values of that counter are ignored, ns.
const MOST_ALLOWED: f64 = 1e8;

/// SurfaceFlinger's main thread.
#[derive(Debug, Default)]
pub(crate) struct Composer<'a> {
    thread: Option<&'a Thread>,
    /// Begin and end of its work, by time.
    works: Vec<(u64, u64)>,
    /// Time of each value of the counter of missed frames, and whether the previous frame was shown late.
    missed: Vec<(u64, bool)>,
    /// Time that it has from its vsync on, if that is more than a period.
    allowed_ns: u64,
}

impl<'a> Composer<'a> {
    pub(crate) fn find(trace: &'a Trace) -> Self {
        let named = |wanted: &[&str]| {
            let names = trace.names.select(|name| wanted.contains(&name));
            trace.counters.iter().filter(move |one| names.has(one.name))
        };
        let pid = named(&["VSYNC-sf"]).next().map(|one| one.pid);
        let Some(thread) = pid.and_then(|pid| trace.threads.get(&pid)) else {
            return Self::default();
        };
        let names =
            trace.names.select(|name| WORK.iter().any(|beginning| name.starts_with(beginning)));
        let works = thread.named(&names).filter(|one| one.parent == NO_PARENT && one.ended);
        let mut missed: Vec<_> = named(&MISSED).map(|one| (one.at_ns, one.value > 0.0)).collect();
        missed.sort_unstable();
        let allowed = named(&ALLOWED).map(|one| one.value).filter(|&ns| ns < MOST_ALLOWED);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let allowed_ns = allowed.fold(0.0, f64::max) as u64;
        let works = works.map(|one| (one.start_ns, one.end_ns)).collect();
        Self { thread: Some(thread), works, missed, allowed_ns }
    }

    /// Returns the deadline and the end of the composition for a vsync that took a buffer, if it was too late for the display.
    pub(crate) fn late(
        &self,
        vsync_ns: u64,
        latched_ns: u64,
        period_ns: u64,
    ) -> Option<(u64, u64)> {
        let next = self.works.partition_point(|&(start_ns, _)| start_ns <= latched_ns);
        let &(_, taken_ns) = self.works.get(next.checked_sub(1)?)?;
        let composed = self.works.get(next).filter(|work| work.0 <= taken_ns + GAP_NS);
        let done_ns = composed.map_or(taken_ns, |&(_, end_ns)| end_ns);
        let deadline_ns = vsync_ns.saturating_add(period_ns.max(self.allowed_ns));
        let said = self.missed.partition_point(|&(at_ns, _)| at_ns < done_ns);
        let is_in_time = self.missed.get(said).is_some_and(|&(_, is_missed)| !is_missed);
        (latched_ns <= taken_ns && done_ns > deadline_ns && !is_in_time)
            .then_some((deadline_ns, done_ns))
    }

    /// Names the compositor after the state in which its main thread spent most of this time. `composes`: it had work all this
    /// time, so it did not sleep for lack of work.
    pub(crate) fn name(
        &self,
        (from_ns, to_ns): (u64, u64),
        composes: bool,
        looks: &mut u64,
    ) -> Option<&'static str> {
        let spans = self.thread.and_then(|thread| spans(thread, from_ns, to_ns, looks));
        let mut times = StateTimes::default();
        for span in spans.into_iter().flatten() {
            times.add(span.state, span.to_ns - span.from_ns);
        }
        let half_ns = times.total_ns() / 2;
        if times.runnable_ns > half_ns {
            Some(COMPOSITOR_READY)
        } else if times.running_ns > half_ns {
            Some(COMPOSITOR_RAN)
        } else {
            composes.then_some(COMPOSITOR_WAITED)
        }
    }
}
