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
mod cause;
mod contention;
mod frame_budget;
mod frames;
mod idle;
mod interactions;
mod long_slices;
mod name_index;
mod normalize;
mod pipelines;
mod process;
mod screens;
mod stacks;
mod startup;
mod thread_role;
mod totals;
mod watch;

pub use attribute::Part;
pub use cause::Cause;
pub use contention::Contention;
pub use frame_budget::{BudgetSource, FrameBudget};
pub use frames::{Frame, Level};
pub use interactions::{Interaction, Interactions};
pub use long_slices::{LongKind, LongSlice};
pub use normalize::normalize;
pub use pipelines::{Composition, Pipeline, PipelineTotals};
pub use process::{Error, Process, Which};
pub use stacks::Stack;
pub use startup::{Phase, PhaseCause, PhaseKind, StartKind, Startup, Startups};
pub use thread_role::ThreadRole;
pub use totals::Totals;
pub use watch::{Stopped, Watch};

use name_index::NameIndex;
use tracetee_trace::{Mapping, Trace};

/// Options of an analysis.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// The process; by default that of the capture, or the app with most frames.
    pub process: Which<'a>,
    /// Mapping that restores obfuscated names.
    pub mapping: Option<&'a Mapping>,
    /// Limit that ends the analysis.
    pub watch: Watch,
}

/// Result of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The analyzed process.
    pub process: Process,
    /// The time that a frame may take.
    pub frame_budget: FrameBudget,
    /// The frames of all pipelines, by time.
    pub frames: Vec<Frame>,
    /// Parts of the janky frames. The parts of a frame add up to its duration.
    pub parts: Vec<Part>,
    /// The time of janky frames by screen and stack.
    pub stacks: Vec<Stack>,
    /// Slices of the main thread of 5 s and more, for which Android reports the app as not responding, and others
    /// outside of frames that delay input (100 ms).
    pub long_slices: Vec<LongSlice>,
    /// How the app came to the screen.
    pub startups: Startups,
    /// Sums over the frames that rates count: all but those of [`Pipeline::VsyncCallback`].
    pub totals: Totals,
    /// Sums by pipeline.
    pub pipelines: Vec<PipelineTotals>,
    /// Composition by Jetpack Compose, if there is any.
    pub composition: Option<Composition>,
    /// Interactions that the system's jank monitor names.
    pub interactions: Interactions,
}

/// Analyzes a trace.
///
/// # Errors
/// [`Error`] if the process cannot be determined, or if the analysis was stopped.
pub fn analyze(trace: &Trace, options: &Options<'_>) -> Result<Analysis, Error> {
    let process = Process::find(trace, options.process)?;
    let names = NameIndex::new(&trace.names, options.mapping);
    let frame_slices = frames::FrameSlices::find(trace, &process);
    let frame_budget = FrameBudget::find(trace, frame_slices.starts_ns());
    let screens = screens::Screens::find(trace, &process, &names);
    let mut frames = frame_slices.frames(frame_budget, &screens);
    let attributed =
        attribute::attribute(trace, &frame_slices, &mut frames, &names, &options.watch)?;
    let totals = Totals::from_frames(frames.iter().filter(|frame| frame.pipeline.is_rated()));
    let pipelines = pipelines::by_pipeline(trace, &frame_slices.found, &frames);
    let composition = pipelines::composition(trace, &process, &frames);
    let interactions = interactions::interactions(trace, &process, &frames);
    let long_slices = long_slices::long_slices(trace, &process, &names);
    let startups = startup::startups(trace, &process, &frame_slices, &names, &options.watch)?;
    let attribute::Attributed { parts, stacks } = attributed;
    Ok(Analysis {
        process,
        frame_budget,
        frames,
        parts,
        stacks,
        long_slices,
        startups,
        totals,
        pipelines,
        composition,
        interactions,
    })
}

#[cfg(test)]
mod poison_tests;
#[cfg(test)]
mod tests;
