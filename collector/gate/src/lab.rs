//! Times of sections in the frames of a trace: of each slice on the main thread, without the slices within it.

use crate::real;
use std::collections::BTreeMap;
use tracetee_fleet::capture::Capture;
use tracetee_jank::{Frame, normalize};
use tracetee_trace::{NO_PARENT, Thread};

/// Limit of the names of a trace's sections.
const MOST_NAMES: usize = 20_000;

/// The frames of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Run {
    /// Number of frames.
    pub(crate) frames: usize,
    /// The time of each section in all frames.
    pub(crate) sections: BTreeMap<String, Total>,
}

/// A section in the frames of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Total {
    /// Time, ms.
    pub(crate) ms: f64,
    /// Number of calls.
    pub(crate) calls: usize,
}

impl Run {
    /// Sums up the sections of a trace's frames.
    pub(crate) fn of(capture: &Capture) -> Self {
        let mut run = Self::default();
        let mut names: BTreeMap<_, String> = BTreeMap::new();
        run.frames = rated(capture).len();
        each(capture, |_, name, ns| {
            let text =
                names.entry(name).or_insert_with(|| normalize(capture.trace.names.text(name)));
            if !run.sections.contains_key(text) && run.sections.len() >= MOST_NAMES {
                return;
            }
            let total = run.sections.entry(text.clone()).or_default();
            total.ms += ms_of(ns);
            total.calls += 1;
        });
        run
    }

    /// Returns the time of a section in a frame, ms.
    pub(crate) fn in_frame(&self, section: &str) -> f64 {
        self.total(section).ms / real(self.frames.max(1))
    }

    /// Returns the time of a call of a section, ms.
    pub(crate) fn in_call(&self, section: &str) -> f64 {
        let Total { ms, calls } = self.total(section);
        ms / real(calls.max(1))
    }

    /// Returns a section's time and calls.
    pub(crate) fn total(&self, section: &str) -> Total {
        self.sections.get(section).copied().unwrap_or_default()
    }
}

/// Returns a time in ms.
#[allow(clippy::cast_precision_loss, reason = "a trace lasts no 104 days")]
pub(crate) fn ms_of(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns the frames that rates count, by their begin on the main thread.
pub(crate) fn rated(capture: &Capture) -> Vec<&Frame> {
    let frames = capture.analysis.frames.iter();
    let mut frames: Vec<_> = frames.filter(|frame| frame.pipeline.is_rated()).collect();
    frames.sort_by_key(|frame| frame.ui_start_ns);
    frames
}

/// Calls `take` with each slice of the main thread in a frame: the frame's index in [`rated`], the slice's name, and its time
/// without the slices within it, ns.
pub(crate) fn each(capture: &Capture, mut take: impl FnMut(usize, tracetee_trace::NameId, u64)) {
    let frames = rated(capture);
    let pid = capture.analysis.process.pid;
    for thread in capture.trace.threads.values().filter(|thread| thread.tid == pid) {
        for (slice, own_ns) in thread.slices.iter().zip(own_times(thread)) {
            let after = frames.partition_point(|frame| frame.ui_start_ns <= slice.start_ns);
            let Some(index) = after.checked_sub(1) else { continue };
            let is_inside = frames
                .get(index)
                .is_some_and(|frame| slice.start_ns < frame.ui_start_ns + frame.ui_ns);
            if is_inside && slice.ended {
                take(index, slice.name, own_ns);
            }
        }
    }
}

/// Returns the time of each slice of a thread without those within it, ns.
fn own_times(thread: &Thread) -> Vec<u64> {
    let mut times: Vec<u64> = thread.slices.iter().map(|slice| slice.duration_ns()).collect();
    for slice in thread.slices.iter().filter(|slice| slice.parent != NO_PARENT) {
        if let Some(time) = times.get_mut(slice.parent as usize) {
            *time = time.saturating_sub(slice.duration_ns());
        }
    }
    times
}
