//! The frames of a simulated capture, and the truth about them.

use super::ledger::count;
use super::plan::{Plan, PlannedCause, PlannedClass, PlannedPipeline, Plant, has};
use super::text::{Drawn, Text};
use super::truth::{TrueFrames, Truth, share};
use super::{PERIOD_NS, VSYNC_US};
use fastrand::Rng;
use std::collections::BTreeSet;
use tracetee_ledger::{Pipeline, Sums};
use tracetee_protocol::CaptureMeta;

/// Time that a slow frame takes in addition to the 2.2 to 4.5 ms of others: between one and two periods in total.
const SLOW_US: std::ops::Range<u64> = 15_000..28_000;
/// Frames in time after a late one of a loop, so that the median of its frames is one period.
const CALM_FRAMES: u64 = 2;

/// Time between two frames of a busy main thread; a frame that begins later after its vsync was delayed.
const GAP_US: u64 = 20;
const LATE_NS: u64 = 500_000;

/// Total time of a frame by a record that cannot be right, ns.
const GARBAGE_NS: u64 = 500_000_000_000;

/// Longest time of a frame that is not frozen, ns.
const FROZEN_NS: u64 = 700_000_000;

/// Parts of a capture that the plan does not say.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    /// The metadata.
    pub(super) meta: &'a CaptureMeta,
    /// Number of the device.
    pub(super) device: u64,
    pub(super) class: Option<&'a PlannedClass>,
    /// Factor of the times of causes, in thousandths.
    pub(super) in_1000: u64,
    /// Day of the capture, counted from the plan's first.
    pub(super) day: u64,
    /// True on the day of the device's update, after it.
    pub(super) is_first_day: bool,
    /// True if a record of the capture cannot be right.
    pub(super) is_garbage: bool,
}

/// A frame that the capture has.
#[derive(Debug, Clone, Copy)]
struct Shown {
    /// When it was due, ns.
    due_ns: u64,
    /// Duration, ns.
    dur_ns: u64,
    /// Time past the deadline, ns.
    jank_ns: u64,
    is_janky: bool,
    /// Begin of the next frame, µs.
    next_us: u64,
}

/// Makes the text of a capture and the counts of its frames, and adds to the truth.
pub(super) fn capture(
    plan: &Plan,
    rng: &mut Rng,
    about: &About<'_>,
    truth: &mut Truth,
) -> (String, Sums) {
    let About { meta, device, class, .. } = *about;
    let version = meta.version_name.as_deref().unwrap_or_default();
    let of_version = truth.versions.entry(version.to_owned()).or_default();
    of_version.devices.insert(device);
    of_version.captures += 1;
    let is_counted = meta.opens.as_deref() == Some("schedule");
    of_version.counted += u64::from(is_counted);
    let mut counted = BTreeSet::new();
    let mut at = 1_000_000 + rng.u64(0..1_000_000_000);
    let screens = plan.screens_of(version);
    let of_a_screen = plan.frames.div_ceil(screens.len() as u64);
    let slowness = class.map_or(100, |class| class.slowness_percent);
    let text = Text::new(meta, slowness);
    let mut sums = Sums::default();
    let mut recording = Recording {
        text,
        rng,
        class,
        slowness,
        in_1000: about.in_1000,
        before: None,
        phase_ns: 0,
        pending_ns: None,
        calm: 0,
    };
    for frame in 0..plan.frames {
        let screen = usize::try_from(frame / of_a_screen).ok().and_then(|index| screens.get(index));
        let Some(&screen) = screen else { break };
        let pipeline = plan.pipelines.get(screen).copied();
        let is_first = frame % of_a_screen == 0;
        if is_first {
            recording.text.main(at, &format!("I|4000|screen:{screen}"));
            at += 1;
        }
        let planted = recording.choose(plan, screen, version, at);
        let (planted, shown) = match pipeline {
            None => recording.view(plan, at, frame, planted),
            Some(PlannedPipeline::Flutter) => recording.flutter(plan, at, planted),
            Some(PlannedPipeline::Gl) => recording.swap(plan, at, planted, is_first),
        };
        let pipeline = pipeline.map_or(Pipeline::Views, PlannedPipeline::found);
        let is_frozen = shown.dur_ns > FROZEN_NS;
        count(&mut sums, (screen, pipeline), is_frozen, shown.jank_ns.div_ceil(1000));
        if is_counted {
            of_version.all.count(&shown.truth());
            of_version.days.entry(about.day).or_default().count(&shown.truth());
            if about.is_first_day {
                of_version.first_days.count(&shown.truth());
            }
            let of_pipeline = of_version.pipelines.entry(pipeline.name().to_owned()).or_default();
            of_pipeline.count(&shown.truth());
        }
        for Planted { cause, us } in planted.into_iter().filter(|_| shown.jank_ns > 0) {
            let name = format!("{}: {}", cause.cause, cause.key);
            let of_cause = truth.causes.entry(name.clone()).or_default();
            of_cause.devices.insert(device);
            of_cause.captures += u64::from(counted.insert(name));
            of_cause.frames += 1;
            let self_ns = match cause.plant {
                Plant::Before => (at + us) * 1000 - shown.due_ns,
                _ => us * 1000,
            };
            of_cause.self_ns += self_ns;
            of_cause.overrun_ns += share(self_ns, shown.jank_ns, shown.dur_ns);
        }
        if about.is_garbage && is_first {
            recording.text.metrics(at, frame, GARBAGE_NS);
        }
        at = shown.next_us;
    }
    (recording.text.finish(), sums)
}

/// A cause in a frame, and its time in µs.
#[derive(Debug, Clone, Copy)]
struct Planted<'a> {
    cause: &'a PlannedCause,
    us: u64,
}

struct Recording<'a> {
    text: Text,
    rng: &'a mut Rng,
    class: Option<&'a PlannedClass>,
    /// Percent of the planned times.
    slowness: u64,
    /// Factor of the times of causes, in thousandths.
    in_1000: u64,
    /// Begin of the frame of views before, if it began when it was due.
    before: Option<u64>,
    /// Begin of the last frame that began when it was due, ns.
    phase_ns: u64,
    /// When the next frame is due, if the previous one delays it, ns.
    pending_ns: Option<u64>,
    /// Frames of a loop that must be in time.
    calm: u64,
}

impl Recording<'_> {
    /// Chooses the causes of the next frame.
    fn choose<'a>(
        &mut self,
        plan: &'a Plan,
        screen: &str,
        version: &str,
        at: u64,
    ) -> Vec<Planted<'a>> {
        let is_here =
            |cause: &&PlannedCause| Plan::has_on(cause, screen) && has(&cause.versions, version);
        let rate = |cause: &PlannedCause| {
            let percent = self.class.map_or(100, |class| class.causes_percent);
            let changed = plan.change(version, cause, screen, self.class).rate_percent;
            cause.in_10000 * percent * changed / 10_000
        };
        let of_views = !plan.pipelines.contains_key(screen);
        let most = if of_views { plan.causes_in_frame.max(1) } else { 1 };
        let here = plan.causes.iter().filter(is_here);
        let causes: Vec<_> =
            here.filter(|cause| self.rng.u64(0..10_000) < rate(cause)).take(most).collect();
        // A message before the frame delays it only if the previous frame requested the vsync.
        let can_be = |cause: &&&PlannedCause| {
            cause.plant != Plant::Before
                || self.before.is_some_and(|before| at - before <= VSYNC_US + 1)
        };
        let causes: Vec<_> = causes.iter().filter(can_be).collect();
        let planted = |&cause: &&'a PlannedCause| {
            let changed = plan.change(version, cause, screen, self.class).time_percent;
            let us = cause.ms * 500 + self.rng.u64(0..=cause.ms * 1000);
            Planted { cause, us: us * self.slowness * changed / 10_000 * self.in_1000 / 1000 }
        };
        causes.into_iter().map(planted).collect()
    }

    /// Time that a frame without a cause takes in addition to others, µs.
    fn slow_us(&mut self, plan: &Plan, planted: &[Planted<'_>]) -> u64 {
        let is_slow = planted.is_empty() && self.rng.u64(0..10_000) < plan.slow_in_10000;
        if is_slow { self.rng.u64(SLOW_US) * self.slowness / 100 } else { 0 }
    }

    /// Writes a frame of Android's views.
    fn view<'a>(
        &mut self,
        plan: &Plan,
        at: u64,
        vsync: u64,
        planted: Vec<Planted<'a>>,
    ) -> (Vec<Planted<'a>>, Shown) {
        let slow_us = self.slow_us(plan, &planted);
        let slices: Vec<_> =
            planted.iter().map(|one| (&*one.cause.slice, one.cause.plant, one.us)).collect();
        let Drawn { begin, ui_end, end } = self.text.frame(self.rng, at, vsync, &slices, slow_us);
        // A delayed frame was due one period after the previous frame.
        let due_ns = match (self.pending_ns.take(), self.before.filter(|_| begin != at)) {
            (Some(due_ns), _) => due_ns,
            (None, Some(before)) => before * 1000 + PERIOD_NS,
            (None, None) => at * 1000,
        };
        let is_delayed = due_ns < begin * 1000;
        self.before = (!is_delayed).then_some(at);
        if !is_delayed {
            self.phase_ns = due_ns;
        }
        let next_us = if plan.queued {
            self.next_us(due_ns, begin, ui_end)
        } else {
            at + vsyncs(end - at) * VSYNC_US
        };
        let dur_ns = end * 1000 - due_ns;
        let shown = Shown {
            due_ns,
            dur_ns,
            jank_ns: dur_ns.saturating_sub(PERIOD_NS),
            is_janky: dur_ns > 2 * PERIOD_NS,
            next_us,
        };
        (planted, shown)
    }

    /// Returns when the next frame begins: at the vsync for which this one has asked, or, if the main thread is busy then,
    /// at the end of its part.
    fn next_us(&mut self, due_ns: u64, begin: u64, ui_end: u64) -> u64 {
        let asked_ns = (begin * 1000).max(due_ns + PERIOD_NS / 2);
        let vsyncs = (asked_ns - self.phase_ns) / PERIOD_NS + 1;
        let next_ns = self.phase_ns + vsyncs * PERIOD_NS;
        let free = ui_end + GAP_US;
        self.pending_ns = (free * 1000 > next_ns + LATE_NS).then_some(next_ns);
        free.max(next_ns.div_ceil(1000))
    }

    /// Writes a frame of Flutter: each of its threads may take a period.
    fn flutter<'a>(
        &mut self,
        plan: &Plan,
        at: u64,
        planted: Vec<Planted<'a>>,
    ) -> (Vec<Planted<'a>>, Shown) {
        self.before = None;
        let slow_us = self.slow_us(plan, &planted);
        let slice = planted.first().map(|one| (&*one.cause.slice, one.us));
        let drawn = self.text.flutter(self.rng, at, slice, slow_us);
        let [ui_ns, raster_ns, dur_ns] =
            [drawn.ui_us, drawn.raster_us, drawn.end - at].map(|us| us * 1000);
        let over_ns = ui_ns.max(raster_ns).saturating_sub(PERIOD_NS);
        let shown = Shown {
            due_ns: at * 1000,
            dur_ns,
            jank_ns: over_ns.max(dur_ns.saturating_sub(2 * PERIOD_NS)),
            is_janky: dur_ns > 2 * PERIOD_NS,
            next_us: at + vsyncs(drawn.end - at) * VSYNC_US,
        };
        (planted, shown)
    }

    /// Writes a frame of a loop that swaps buffers. The display holds a frame back until a vsync; the first frame is only
    /// the swap.
    fn swap<'a>(
        &mut self,
        plan: &Plan,
        at: u64,
        planted: Vec<Planted<'a>>,
        is_first: bool,
    ) -> (Vec<Planted<'a>>, Shown) {
        self.before = None;
        let is_calm = is_first || self.calm > 0;
        self.calm = self.calm.saturating_sub(1);
        let planted = if is_calm { Vec::new() } else { planted };
        let slow_us = self.slow_us(plan, &planted);
        let slow_us = if is_calm { 0 } else { slow_us };
        let slice = planted.first().map(|one| (&*one.cause.slice, one.us));
        let drawn = self.text.swap(self.rng, at, slice, slow_us);
        let is_late = drawn.end - at > VSYNC_US;
        if is_late {
            self.calm = CALM_FRAMES;
        }
        let begin = if is_first { drawn.swap_begin } else { at };
        let dur_ns = (drawn.end - begin) * 1000;
        let shown = Shown {
            due_ns: begin * 1000,
            dur_ns,
            jank_ns: if is_late { dur_ns - PERIOD_NS } else { 0 },
            is_janky: is_late,
            next_us: drawn.end,
        };
        (planted, shown)
    }
}

impl Shown {
    /// The frame as the truth counts it.
    fn truth(&self) -> TrueFrames {
        TrueFrames {
            frames: 1,
            slow: u64::from(self.jank_ns > 0),
            janky: u64::from(self.is_janky),
            frozen: u64::from(self.dur_ns > FROZEN_NS),
            jank_ns: self.jank_ns,
        }
    }
}

/// The number of vsyncs in a duration, at least one.
pub(super) const fn vsyncs(us: u64) -> u64 {
    let whole = us.div_ceil(VSYNC_US);
    if whole == 0 { 1 } else { whole }
}
