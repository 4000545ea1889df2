//! Lateness of frames by the buffers of their layers: a frame is late if the display showed an older one at a vsync at which
//! this one was due.
//!
//! A frame is due at the vsync of SurfaceFlinger that lies as many periods after its begin as the app's frames in time
//! need, but not before the display has shown the frame before it. Frames that queue behind each other, each a period late,
//! make no vsync missed; a frame after a pause is due by its own begin.

use crate::buffers::{Buffer, Layer, layers};
use crate::composed::Composer;
use crate::found::Found;
use crate::frame::{Evidence, Outcome};
use crate::frame_budget::edges;
use crate::judge::Judgement;
use crate::periods::Periods;
use crate::pipeline::Pipeline;
use crate::process::Process;
use std::collections::{BTreeMap, HashMap, HashSet};
use tracetee_trace::{Seeded, Trace, last_before};

/// Frames of which this share, percent, are taken as soon are in time: others may all be late.
const IN_TIME_PERCENT: usize = 10;
/// Periods for which the last vsync tells the next ones.
const MAX_SLEEP: u64 = 60;
/// Frames of a layer over which its cadence is the mean.
const MEAN_OF: usize = 10;
/// Limit of the periods that frames in time need.
const MAX_PERIODS: u64 = 6;

/// Facts that the buffers of a process tell about its frames.
#[derive(Debug, Default)]
pub(crate) struct Latches {
    /// By index of the frame.
    judged: HashMap<usize, Judgement, Seeded>,
}

/// Vsyncs of SurfaceFlinger.
struct Display<'a> {
    edges: Vec<u64>,
    periods: &'a Periods,
    composer: Composer<'a>,
}

impl Display<'_> {
    /// Returns the vsync at which SurfaceFlinger took something at this time.
    fn vsync_of(&self, at_ns: u64) -> u64 {
        let last = last_before(&self.edges, |&edge_ns| edge_ns <= at_ns).copied();
        last.filter(|edge_ns| at_ns - edge_ns < self.periods.at(at_ns)).unwrap_or(at_ns)
    }

    /// Returns the vsync nearest to a time. SurfaceFlinger sleeps while it has nothing to show: then it is as many periods
    /// after the last one.
    fn nearest(&self, at_ns: u64) -> u64 {
        let next = self.edges.partition_point(|&edge_ns| edge_ns < at_ns);
        let around = self.edges.get(next.saturating_sub(1)..).unwrap_or_default().iter().take(2);
        let nearest = around.copied().min_by_key(|edge_ns| edge_ns.abs_diff(at_ns));
        let period_ns = self.periods.at(at_ns).max(1);
        if let Some(edge_ns) = nearest.filter(|edge_ns| edge_ns.abs_diff(at_ns) <= period_ns / 2) {
            return edge_ns;
        }
        let last = next.checked_sub(1).and_then(|last| self.edges.get(last)).copied();
        let last = last.filter(|last_ns| at_ns - last_ns <= MAX_SLEEP * period_ns);
        last.map_or(at_ns, |last_ns| last_ns + self.periods(last_ns, at_ns) * period_ns)
    }

    /// Returns the time between two times in whole periods, rounded.
    fn periods(&self, from_ns: u64, to_ns: u64) -> u64 {
        let period_ns = self.periods.at(to_ns);
        to_ns.saturating_sub(from_ns).saturating_add(period_ns / 2) / period_ns
    }
}

/// The slices in which frames are drawn, by thread: begin, end, index of the frame.
struct Draws(HashMap<u32, Vec<(u64, u64, usize)>, Seeded>);

impl Draws {
    fn find(found: &[Found]) -> Self {
        let mut all: HashMap<u32, Vec<_>, Seeded> = HashMap::default();
        for (index, frame) in found.iter().enumerate() {
            if frame.draws.is_empty() && frame.is_loop {
                let ui = frame.ui;
                all.entry(frame.ui_tid).or_default().push((ui.start_ns, ui.end_ns, index));
            }
            for &(tid, draw) in &frame.draws {
                all.entry(tid).or_default().push((draw.start_ns, draw.end_ns, index));
            }
        }
        all.values_mut().for_each(|slices| slices.sort_unstable());
        Self(all)
    }

    /// Returns the frame in whose draw a thread queued a buffer.
    fn frame(&self, (tid, at_ns): (u32, u64)) -> Option<usize> {
        let draws = self.0.get(&tid)?;
        let &(_, end_ns, index) = last_before(draws, |&(start_ns, ..)| start_ns <= at_ns)?;
        (at_ns <= end_ns).then_some(index)
    }
}

/// Returns the time between the buffers of a layer that is usual, in thousandths of a period, up to whole ones: the median of the
/// means of some. Pictures need not come at multiples of the display's period; 24 a second take three of 60 Hz, 59.94 one.
fn cadence(depths: &[u64]) -> u64 {
    let sum = |times: &[u64]| times.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
    let mut means: Vec<u64> = depths.windows(MEAN_OF).map(sum).collect();
    means.sort_unstable();
    let mean = means.get(means.len() / 2).map_or(1_000, |sum| sum / MEAN_OF as u64);
    mean.saturating_add(870) / 1_000 * 1_000
}

impl Latches {
    /// Judges frames, which were due to begin at `starts_ns`.
    pub(crate) fn find(
        trace: &Trace,
        process: &Process,
        periods: &Periods,
        (found, starts_ns): (&[Found], &[u64]),
        looks: &mut u64,
    ) -> Self {
        let (own, views) = layers(trace, process);
        let layers: Vec<Layer> = own.into_iter().chain(views).collect();
        let mut all = Self::default();
        if layers.is_empty() {
            return all;
        }
        let composer = Composer::find(trace);
        // Before Android 4.4 those of apps and SurfaceFlinger are at once.
        let vsyncs = ["VSYNC-sf", "VSYNC"].map(|name| edges(trace, name));
        let vsyncs = vsyncs.into_iter().find(|edges| !edges.is_empty());
        let display = Display { edges: vsyncs.unwrap_or_default(), periods, composer };
        let draws = Draws::find(found);
        let index_of = |buffer: &Buffer| buffer.by.and_then(|by| draws.frame(by));
        let placed: Vec<(Layer, Vec<Option<usize>>)> = layers
            .into_iter()
            .map(|layer| {
                let indices = layer.buffers.iter().map(index_of).collect();
                (layer, indices)
            })
            .collect();
        let start_of = |index: usize| starts_ns.get(index).copied().unwrap_or(0);
        // From the begins of frames to the vsyncs that took them, in thousandths of a period.
        let mut depths: BTreeMap<Pipeline, Vec<u64>> = BTreeMap::new();
        for (layer, indices) in &placed {
            for (buffer, index) in layer.buffers.iter().zip(indices) {
                if let Some((index, latched_ns)) = index.zip(layer.latched_ns(buffer))
                    && let Some(frame) = found.get(index)
                {
                    let ns = display.vsync_of(latched_ns).saturating_sub(start_of(index));
                    let depth = ns.saturating_mul(1_000) / periods.at(latched_ns).max(1);
                    depths.entry(frame.pipeline).or_default().push(depth);
                }
            }
        }
        // Whole periods first, then how far within one: vsyncs of app and SurfaceFlinger need not be at once.
        let needed = |depths: &mut Vec<u64>| {
            depths.sort_unstable();
            let whole = |depth: u64| (depth + 500) / 1_000;
            let tenth = depths.get(depths.len() * IN_TIME_PERCENT / 100).copied().unwrap_or(1_000);
            let most = whole(tenth).clamp(1, MAX_PERIODS);
            let alike: Vec<u64> =
                depths.iter().copied().filter(|&depth| whole(depth) == most).collect();
            alike.get(alike.len() / 2).copied().unwrap_or(most * 1_000)
        };
        let needed = |(&pipeline, depths): (&Pipeline, &mut Vec<u64>)| {
            let needed = if pipeline.is_layer() { cadence(depths) } else { needed(depths) };
            (pipeline, needed)
        };
        let needed: BTreeMap<Pipeline, u64> = depths.iter_mut().map(needed).collect();
        let wanted_ns = |index: usize| {
            let needed = found.get(index).and_then(|frame| needed.get(&frame.pipeline)).copied();
            let start_ns = start_of(index);
            let needs_ns = periods.at(start_ns).saturating_mul(needed.unwrap_or(1_000)) / 1_000;
            display.nearest(start_ns.saturating_add(needs_ns))
        };
        for (layer, indices) in &placed {
            let mut of_layer = Self::default();
            of_layer.judge((layer, indices), &display, wanted_ns, looks);
            // A frame may draw several windows: that which draws most shows it.
            for (index, judgement) in of_layer.judged {
                all.judged.entry(index).or_insert(judgement);
            }
        }
        all.judge_undrawn(&placed, found);
        all
    }

    pub(crate) fn judgement(&self, index: usize) -> Option<Judgement> {
        self.judged.get(&index).copied()
    }

    /// Judges the frames of a layer's buffers. `wanted_ns` is the vsync that a frame was made for.
    fn judge(
        &mut self,
        (layer, indices): (&Layer, &[Option<usize>]),
        display: &Display<'_>,
        wanted_ns: impl Fn(usize) -> u64,
        looks: &mut u64,
    ) {
        let mut buffers = layer.buffers.iter().zip(indices).peekable();
        // The vsync from which on the display has shown the frame before.
        let mut shown_ns: Option<u64> = None;
        for (latch, &latched_ns) in layer.latches.iter().enumerate() {
            let vsync_ns = display.vsync_of(latched_ns);
            let mut due_ns =
                shown_ns.map_or(vsync_ns, |shown_ns| shown_ns + display.periods.at(shown_ns));
            while let Some((buffer, index)) =
                buffers.next_if(|(one, _)| one.latch.is_none_or(|own| own <= latch))
            {
                let Some(index) = index.filter(|_| buffer.latch.is_some()) else { continue };
                let wanted_ns_of = wanted_ns(index);
                due_ns = due_ns.max(wanted_ns_of);
                // Of buffers that were taken at once the last is shown. Each missed the vsyncs before the next was due.
                let follower = buffers.peek().filter(|(one, _)| one.latch == Some(latch));
                let until_ns = match follower {
                    Some(&(_, next)) => {
                        next.map_or(due_ns, &wanted_ns).clamp(due_ns, vsync_ns.max(due_ns))
                    }
                    None => vsync_ns,
                };
                let missed = display.periods(due_ns, until_ns);
                let late = missed > 0;
                let is_app = late && buffer.queued_ns > due_ns;
                let outcome = if follower.is_some() {
                    Outcome::Dropped
                } else if is_app {
                    Outcome::App
                } else if late {
                    Outcome::System
                } else if display.periods(wanted_ns_of, vsync_ns) > 0 {
                    Outcome::Stuffing
                } else {
                    Outcome::InTime
                };
                let deadline_ns = if late { due_ns } else { wanted_ns_of };
                // The app's work ends when it queues the buffer, which waits from then on.
                let end_ns = if is_app { buffer.queued_ns } else { latched_ns };
                let of_frame = Judgement::in_time(Evidence::Buffers, end_ns, deadline_ns);
                let mut judged = Judgement { outcome, late, missed, ..of_frame };
                let mut composed = (due_ns, latched_ns);
                let period_ns = display.periods.at(vsync_ns);
                let overrun = display.composer.late(vsync_ns, latched_ns, period_ns);
                if let Some((deadline_ns, end_ns)) = overrun.filter(|_| !late && follower.is_none())
                {
                    // The display showed it at a later vsync than the one that took it.
                    composed = (vsync_ns, end_ns);
                    judged = Judgement { deadline_ns, end_ns, ..judged }.late(period_ns);
                    judged.outcome = Outcome::System;
                }
                if judged.outcome == Outcome::System {
                    judged.waited = display.composer.name(composed, !late, looks);
                }
                self.add(index, judged);
            }
            shown_ns = Some(vsync_ns);
        }
    }

    /// Of the buffers of a frame in a layer, that counts which missed most.
    fn add(&mut self, index: usize, one: Judgement) {
        let kept = self.judged.entry(index).or_insert(one);
        if (one.missed, one.outcome) > (kept.missed, kept.outcome) {
            *kept = one;
        }
    }

    /// Frames of the views that queued no buffer, though those of their threads are known.
    fn judge_undrawn(&mut self, placed: &[(Layer, Vec<Option<usize>>)], found: &[Found]) {
        let buffers = || placed.iter().flat_map(|(layer, _)| &layer.buffers);
        let threads: HashSet<u32> = buffers().filter_map(|buffer| Some(buffer.by?.0)).collect();
        let drawn: HashSet<usize> =
            placed.iter().flat_map(|(_, indices)| indices).filter_map(|&index| index).collect();
        // The layers may be those of a video alone.
        let is_views = |frame: &Found| frame.pipeline == Pipeline::Views;
        let has_views = drawn.iter().any(|&index| found.get(index).is_some_and(is_views));
        let latches = || placed.iter().flat_map(|(layer, _)| &layer.latches).copied();
        let known = latches().min().unwrap_or(0)..latches().max().unwrap_or(0);
        for (index, frame) in found.iter().enumerate() {
            let is_undrawn = has_views
                && is_views(frame)
                && !drawn.contains(&index)
                && frame.draws.iter().all(|(tid, _)| threads.contains(tid))
                && known.contains(&frame.ui.start_ns);
            if is_undrawn {
                let end_ns = frame.end_ns();
                let undrawn = Judgement::in_time(Evidence::Buffers, end_ns, end_ns);
                self.add(index, Judgement { outcome: Outcome::Undrawn, ..undrawn });
            }
        }
    }
}
