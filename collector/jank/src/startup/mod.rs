//! Start-ups: how the app came to the screen, in phases, with the causes of each.
//!
//! [`launches`] finds the starts (cold, warm, hot; those for a service or a receiver are left out), [`phases`] divides the
//! time to the first frame (TTID) and to the frame after `reportFullyDrawn` (TTFD), and attributes it by the rules of late
//! frames. All of it is on the main thread, and at the end on the thread that draws. [`platform`] has what Android itself
//! recorded of a start.

mod launches;
mod phases;
mod platform;

pub use phases::{Phase, PhaseCause, PhaseKind};

use crate::Options;
use crate::found::Found;
use crate::frames::FrameSlices;
use crate::name_index::NameIndex;
use crate::pipeline::Pipeline;
use crate::process::{Error, Process};
use crate::still::Still;
use crate::waits::Waits;
use launches::Launch;
use serde::Serialize;
use strum::IntoStaticStr;
use tracetee_trace::{Trace, from_place, last_before};

/// Limit of reported start-ups of a trace.
const MAX_STARTUPS: usize = 100;

/// Kind of a start-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StartKind {
    /// The process is new.
    Cold,
    /// The process was there, the activity is new.
    Warm,
    /// The activity was there and comes back.
    Hot,
}

/// A start-up of the app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Startup {
    /// The kind.
    pub kind: StartKind,
    /// Begin, ns of the trace's clock: the system's launch if the trace has it, or else that of ApplicationStartInfo,
    /// otherwise the process' first marker (cold), or that of the activity.
    pub start_ns: u64,
    /// True if the system's own record of the launch says when it began.
    pub from_system: bool,
    /// True if the platform's ApplicationStartInfo says when it began.
    pub from_platform: bool,
    /// Class of the first activity, if it is named.
    pub activity: Option<String>,
    /// Time to the end of the first drawn frame; without one in the trace, to that of ApplicationStartInfo.
    pub ttid_ns: Option<u64>,
    /// Time to the end of the first frame after `reportFullyDrawn`.
    pub ttfd_ns: Option<u64>,
    /// Phases in order. Their times add up to `ttfd_ns`, without it to `ttid_ns`.
    pub phases: Vec<Phase>,
}

/// The start-ups of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Startups {
    /// The first ones, by time.
    pub rows: Vec<Startup>,
    /// Number of others.
    pub left_out: u64,
    /// Starts of the process for a service, a receiver or a provider, which show nothing.
    pub background: u64,
}

impl Startups {
    /// Returns the time to the first frame of the first start-up of this kind that drew one.
    #[must_use]
    pub fn ttid_ns(&self, kind: StartKind) -> Option<u64> {
        self.rows.iter().filter(|row| row.kind == kind).find_map(|row| row.ttid_ns)
    }

    /// Returns the time to the fully drawn frame of the first start-up that reported it.
    #[must_use]
    pub fn ttfd_ns(&self) -> Option<u64> {
        self.rows.iter().find_map(|row| row.ttfd_ns)
    }
}

/// Finds the start-ups of a process.
///
/// # Errors
/// [`Error::Stopped`] if `watch` ends the analysis.
pub(crate) fn startups(
    trace: &Trace,
    process: &Process,
    frames: &FrameSlices,
    names: &NameIndex<'_>,
    waits: &Waits<'_>,
    still: &Still,
    options: &Options<'_>,
) -> Result<Startups, Error> {
    let Some(main) = trace.threads.get(&process.pid) else { return Ok(Startups::default()) };
    let shown = Shown::new(frames);
    let (launches, background) = launches::find(trace, process, main, names, &shown);
    let left_out = launches.len().saturating_sub(MAX_STARTUPS) as u64;
    let mut rows = Vec::new();
    for (index, launch) in launches.iter().take(MAX_STARTUPS).enumerate() {
        options.watch.check()?;
        let until_ns = launches.get(index + 1).map_or(u64::MAX, |next| next.start_ns);
        rows.push((launch, Ends::find(trace, main, launch, until_ns, &shown)));
    }
    let rows = phases::divide(trace, process, main, rows, (names, waits, still), options)?;
    Ok(Startups { rows, left_out, background })
}

/// The frames that show something, by their begin.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    frames: Vec<&'a Found>,
    assumed_ns: u64,
}

impl<'a> Shown<'a> {
    fn new(slices: &'a FrameSlices) -> Self {
        let has_render_thread = slices.has_render_thread;
        let shows = |found: &&Found| match found.pipeline {
            Pipeline::Views => !found.draws.is_empty() || !has_render_thread,
            Pipeline::Flutter => !found.draws.is_empty() || found.is_loop,
            Pipeline::Unity | Pipeline::Gl | Pipeline::Vulkan => true,
            Pipeline::Video
            | Pipeline::Surface
            | Pipeline::ReactNative
            | Pipeline::VsyncCallback => false,
        };
        let whole = slices.found.iter().filter(|found| !found.is_torn);
        Self { frames: whole.filter(shows).collect(), assumed_ns: slices.assumed_ns }
    }

    /// The first frame that begins at this time or later.
    fn from(&self, at_ns: u64) -> Option<&'a Found> {
        from_place(&self.frames, |found| found.ui.start_ns < at_ns).first().copied()
    }

    /// The last frame that began before this time.
    pub(crate) fn before(&self, at_ns: u64) -> Option<&'a Found> {
        last_before(&self.frames, |found| found.ui.start_ns < at_ns).copied()
    }

    /// The first frame of the views whose part on the main thread ends after this time.
    fn ending_after(&self, at_ns: u64) -> Option<&'a Found> {
        self.before(at_ns).filter(|found| found.ui.end_ns > at_ns).or_else(|| self.from(at_ns))
    }

    /// The end of a frame's last draw: the main thread can wait for that, and go on.
    fn end_ns(&self, found: &Found) -> u64 {
        let is_views = found.pipeline == Pipeline::Views;
        let drawn = found.last_draw().filter(|_| is_views).map(|(_, draw)| draw.end_ns);
        drawn.unwrap_or_else(|| found.end_ns() + if is_views { self.assumed_ns } else { 0 })
    }
}

/// End of a start-up: a frame, with the end of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends<'a> {
    first: Option<(&'a Found, u64)>,
    full: Option<(&'a Found, u64)>,
}

impl<'a> Ends<'a> {
    fn find(
        trace: &Trace,
        main: &tracetee_trace::Thread,
        launch: &Launch,
        until_ns: u64,
        shown: &Shown<'a>,
    ) -> Self {
        let with_end = |found: &'a Found| (found, shown.end_ns(found));
        let first = shown.from(launch.shows_from_ns);
        let first = first.filter(|found| found.ui.start_ns < until_ns).map(with_end);
        let from = main.slices.partition_point(|slice| slice.start_ns < launch.start_ns);
        let mut later = main.slices.iter().skip(from).take_while(|one| one.start_ns < until_ns);
        let reported =
            later.find(|slice| trace.names.text(slice.name).starts_with("reportFullyDrawn"));
        let full = reported.and_then(|slice| shown.ending_after(slice.start_ns));
        // Reported before anything was drawn: the first frame is the full one.
        let full = full.map(with_end).map(|full| match first {
            Some(first) if first.1 > full.1 => first,
            _ => full,
        });
        Self { first, full: full.filter(|_| first.is_some()) }
    }
}

#[cfg(test)]
mod tests;
