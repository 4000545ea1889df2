//! Jank: the frames of an app in one trace, which were late, and why.
//!
//! The journey: [`process`] finds the process and its threads; [`frame_budget`] finds how long a frame may
//! take; [`frames`] pairs what the main thread and the render thread did for each frame; [`attribute`] divides
//! the time of late ones among [`cause`]s, by names that [`name_index`] maps and normalizes; [`totals`],
//! [`startup`] and [`long_slices`] (ANR) look at the trace as a whole. The rules are those of Android vitals,
//! JankStats and Matrix; each stands where it is applied. An app sees neither the scheduler nor SurfaceFlinger:
//! all of this is the app's side.

#![forbid(unsafe_code)]

mod attribute;
mod buffers;
mod carried;
mod cause;
mod composed;
mod contention;
mod counted;
mod critical_path;
mod deadline;
mod death;
mod explain;
mod fences;
mod found;
mod frame;
mod frame_budget;
mod frames;
mod idle;
mod interactions;
mod judge;
mod latches;
mod long_slices;
mod name_index;
mod normalize;
mod parts;
mod periods;
mod pieces;
mod pipeline;
mod pipelines;
mod process;
mod processors;
mod replay;
mod sampled;
mod screens;
mod slowness;
mod stacks;
mod startup;
mod states;
mod still;
mod thread_role;
mod timeline;
mod totals;
mod unknown;
mod verdicts;
mod waits;
mod watch;
mod window;

pub use cause::Cause;
pub use contention::Contention;
pub use critical_path::{NO_SECTION, Step};
pub use death::{BEFORE_NS, Before, DeathCause, DeathReport, DumpKind, LockOwner};
pub use explain::{FrameExplanation, ThreadTimes, WeightedCause};
pub use frame::{Evidence, Frame, Level, Outcome, StartSource, TimelineVerdict};
pub use frame_budget::{BudgetSource, FrameBudget};
pub use interactions::{Interaction, Interactions};
pub use long_slices::{LongKind, LongSlice};
pub use normalize::normalize;
pub use parts::Part;
pub use pipeline::Pipeline;
pub use pipelines::PipelineTotals;
pub use process::{Error, OtherProcess, Process, Which};
pub use processors::{CoreClass, ProcessorUse};
pub use replay::Gain;
pub use stacks::Stack;
pub use startup::{Phase, PhaseCause, PhaseKind, StartKind, Startup, Startups};
pub use states::{StateTimes, ThreadState, state_times};
pub use still::StoodStill;
pub use thread_role::ThreadRole;
pub use totals::{Judged, Missed, Totals};
pub use unknown::Unknown;
pub use waits::ANOTHER;
pub use watch::{Stopped, Watch};

use name_index::NameIndex;
use std::collections::BTreeMap;
use tracetee_protocol::Death;
use tracetee_trace::{Dump, Mapping, Trace};

/// Options of an analysis.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// The process; by default that of the capture, or the app with most frames.
    pub process: Which<'a>,
    /// Mapping that restores obfuscated names.
    pub mapping: Option<&'a Mapping>,
    /// Limit that ends the analysis.
    pub watch: Watch,
    /// True to leave out what tables do not hold: explanations of late frames, phases of start-ups.
    pub without_details: bool,
    /// The end of the process; by default that of the trace's header.
    pub death: Option<&'a Death>,
    /// Dump that the system made at the end of the process.
    pub dump: Option<&'a Dump>,
}

/// Result of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The analyzed process.
    pub process: Process,
    /// The time that a frame may take: the refresh period that most of the trace has.
    pub frame_budget: FrameBudget,
    /// Number of times at which the display changed its refresh rate. Frames are judged by the rate of their time.
    pub refresh_switches: usize,
    /// Sums over the rated frames by the evidence that judges them, the most exact first.
    pub judged: BTreeMap<Evidence, Judged>,
    /// Number of verdicts of the platform that could not be read, or that fit no frame.
    pub verdicts_left_out: u64,
    /// Times in which no thread of the process could run, and frames that are left out.
    pub stood_still: StoodStill,
    /// The frames of all pipelines, by time.
    pub frames: Vec<Frame>,
    /// Parts of the late frames. The parts of a frame add up to its duration, with what is carried, their overruns to its
    /// overrun.
    pub parts: Vec<Part>,
    /// The time of late frames by screen and stack.
    pub stacks: Vec<Stack>,
    /// Explanations of the late frames with the largest overruns, by time; none without details.
    pub explanations: Vec<FrameExplanation>,
    /// Questions that the trace leaves open.
    pub unknown: Vec<Unknown>,
    /// Slices of the main thread of 5 s and more, for which Android reports the app as not responding, and others
    /// outside of frames that delay input (100 ms).
    pub long_slices: Vec<LongSlice>,
    /// Start-ups: the ways in which the app came to the screen.
    pub startups: Startups,
    /// Sums over the frames that rates count: all but those of [`Pipeline::VsyncCallback`].
    pub totals: Totals,
    /// Sums by pipeline.
    pub pipelines: Vec<PipelineTotals>,
    /// Interactions that the system's jank monitor names.
    pub interactions: Interactions,
    /// The end of the process, of a capture of its last seconds.
    pub death: Option<DeathReport>,
}

/// Budget of looks at slices and states, per one of the trace. Windows of frames may overlap; a trace in which all of
/// them do must not cost the square of its size.
const LOOKS_EACH: u64 = 16;
const FREE_LOOKS: u64 = 1 << 20;

fn looks(trace: &Trace) -> u64 {
    let states: u64 = trace.threads.values().map(|thread| thread.states.len() as u64).sum();
    let clocks = trace.scheduling.clocks.len() as u64;
    let all = trace.slice_count().saturating_add(states).saturating_add(clocks);
    all.saturating_mul(LOOKS_EACH).saturating_add(FREE_LOOKS)
}

/// Analyzes a trace.
///
/// # Errors
/// [`Error`] if the process cannot be determined, or if the analysis was stopped.
pub fn analyze(trace: &Trace, options: &Options<'_>) -> Result<Analysis, Error> {
    let process = Process::find(trace, options.process)?;
    let names = NameIndex::new(&trace.names, options.mapping);
    let mut frame_slices = frames::FrameSlices::find(trace, &process);
    pipelines::find(trace, &process, &mut frame_slices.found);
    let frame_budget = FrameBudget::find(trace, frame_slices.starts_ns());
    let screens = screens::Screens::find(trace, &process, &names);
    let looks = &mut looks(trace);
    let periods = periods::Periods::find(trace, frame_budget);
    let mut frames = frame_slices.frames(trace, &process, &periods, &screens, looks);
    let still = still::Still::find(trace, &process);
    let waits = waits::Waits::find(trace, &process);
    // The first frame of a start-up counts even if the process stood still in it: that time is cut out.
    let startups =
        startup::startups(trace, &process, &frame_slices, &names, &waits, &still, options)?;
    let stood_still = still.cut(trace, &mut frames, &mut frame_slices.found, looks);
    let found = frames.iter().zip(&frame_slices.found);
    let windows: Vec<_> = found.map(|(frame, found)| window::of_late(frame, found)).collect();
    let counted = counted::Counted::find(trace, &process);
    let sampled = sampled::Sampled::find(trace, &process, &names);
    let watch = &options.watch;
    let processors = processors::Processors::find(trace);
    let slowness =
        slowness::Slowness::find(trace, &frames, &frame_slices.found, &processors, looks);
    let attribute::Attributed { parts, stacks } = attribute::attribute(
        trace,
        &mut frames,
        &windows,
        (&names, &waits, &slowness, &counted, &sampled),
        replay::Replay::new(&frame_slices.found, &periods),
        looks,
        watch,
    )?;
    let paths = critical_path::Paths { trace, names: &names, waits: &waits };
    let explanations = if options.without_details {
        Vec::new()
    } else {
        explain::explain(
            trace,
            &frames,
            &windows,
            &parts,
            (&paths, &processors, &counted),
            looks,
            watch,
        )?
    };
    let totals = Totals::from_frames(frames.iter().filter(|frame| frame.pipeline.is_rated()));
    let pipelines = pipelines::by_pipeline(trace, &frame_slices.found, &frames);
    let interactions = interactions::interactions(trace, &process, &frames);
    let long_slices = long_slices::long_slices(trace, &process, &names, &still);
    let unknown = Unknown::find(trace, process.pid, &frames, &counted);
    let death = options.death.or(trace.about.death.as_ref()).map(|death| {
        death::explain(trace, &process, (&names, &still), death, options.dump, options.mapping)
    });
    Ok(Analysis {
        process,
        frame_budget,
        refresh_switches: periods.switches(),
        judged: Judged::by_evidence(
            frames.iter().filter(|frame| frame.pipeline.is_rated()),
            frame_budget.ns,
        ),
        verdicts_left_out: frame_slices.verdicts.left_out,
        stood_still,
        frames,
        parts,
        stacks,
        explanations,
        unknown,
        long_slices,
        startups,
        totals,
        pipelines,
        interactions,
        death,
    })
}

/// Values of an enum, which have names in tables.
pub trait Named: Copy + Into<&'static str> {
    /// Returns the name.
    fn name(self) -> &'static str {
        self.into()
    }
}

impl<T: Copy + Into<&'static str>> Named for T {}

#[cfg(test)]
mod tests;
