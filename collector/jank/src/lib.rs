//! Jank: the frames of an app in one trace, which were late, and why.
//!
//! The journey: [`app`] finds the process and its threads; [`period`] how long a frame may take;
//! [`frames`] pairs what the main thread and the render thread did of each; [`attribute`] divides the
//! time of late ones among [`cause`]s, by the [`namer`]'s names; [`whole`] looks at the trace as a
//! whole (start-up, ANR). The rules are those of Android vitals, JankStats and Matrix; each stands where
//! it is applied. An app sees no scheduler, no SurfaceFlinger: all of this is the app's side.

#![forbid(unsafe_code)]

mod app;
mod attribute;
mod cause;
mod contention;
mod frames;
mod namer;
mod normal;
mod period;
mod screens;
mod stacks;
mod watch;
mod whole;

pub use app::{App, Error};
pub use attribute::{Part, ThreadRole};
pub use cause::Cause;
pub use contention::Contention;
pub use frames::{Frame, Level};
pub use normal::normalise;
pub use period::{Period, PeriodSource};
pub use stacks::Stack;
pub use watch::{Stopped, Watch};
pub use whole::{LongSlice, Totals};

use namer::Namer;
use tracetee_trace::{Mapping, Trace};

/// What is asked for.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// The process; by default the one of the capture, or the only one that has frames.
    pub pid: Option<u32>,
    /// What obfuscated names were.
    pub mapping: Option<&'a Mapping>,
    /// Whether it may go on.
    pub watch: Watch,
}

/// What a trace comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Whose frames these are.
    pub app: App,
    /// How long a frame may take.
    pub period: Period,
    /// By time.
    pub frames: Vec<Frame>,
    /// Where the time of the janky frames went. All parts of a frame add up to its duration.
    pub parts: Vec<Part>,
    /// The same time by stack, over all janky frames of a screen.
    pub stacks: Vec<Stack>,
    /// Slices of the main thread that are so long that Android calls the app not responding (5 s), and
    /// others outside of frames that hold up input (100 ms).
    pub long_slices: Vec<LongSlice>,
    /// From `bindApplication` to the end of the first `DrawFrame`, if both are there.
    pub startup_ns: Option<u64>,
    /// Sums over the frames.
    pub totals: Totals,
}

/// Analyses a trace.
///
/// # Errors
/// [`Error`] when it cannot be told whose frames to look at, or when it is to go on no longer.
pub fn analyse(trace: &Trace, options: &Options<'_>) -> Result<Analysis, Error> {
    let app = App::find(trace, options.pid)?;
    let namer = Namer::new(&trace.names, options.mapping);
    let frame_slices = frames::FrameSlices::find(trace, &app);
    let period = Period::find(trace, &frame_slices);
    let screens = screens::Screens::find(trace, &app, &namer);
    let mut frames = frame_slices.frames(period, &screens);
    let attributed =
        attribute::attribute(trace, &app, &frame_slices, &mut frames, &namer, &options.watch)?;
    let totals = Totals::of(&frames);
    let long_slices = whole::long_slices(trace, &app, &namer);
    let startup_ns = whole::startup_ns(trace, &app, &frame_slices);
    let attribute::Attributed { parts, stacks } = attributed;
    Ok(Analysis { app, period, frames, parts, stacks, long_slices, startup_ns, totals })
}

#[cfg(test)]
mod poison_tests;
#[cfg(test)]
mod tests;
