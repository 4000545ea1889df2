//! Sums by pipeline, and what Jetpack Compose did in the frames of the views.

use crate::found::Found;
use crate::frame::Frame;
use crate::pipeline::Pipeline;
use crate::process::Process;
use crate::totals::Totals;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tracetee_trace::Trace;

/// Limit of the named threads of a pipeline.
const MAX_THREADS: usize = 8;

/// The frames of one pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineTotals {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Names of the threads that begin its frames, at most eight.
    pub threads: Vec<String>,
    /// Sums over its frames.
    pub totals: Totals,
}

/// Composition by Jetpack Compose on the main thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// Frames with a composition in them.
    pub frames: u64,
    /// Late ones of these.
    pub late: u64,
    /// Time of compositions in frames.
    pub in_frames_ns: u64,
    /// Time of compositions outside of frames.
    pub outside_ns: u64,
}

/// Sums up each pipeline that has frames, in the order of [`Pipeline::ALL`].
pub(crate) fn by_pipeline(trace: &Trace, found: &[Found], frames: &[Frame]) -> Vec<PipelineTotals> {
    let mut tids: BTreeMap<Pipeline, BTreeSet<u32>> = BTreeMap::new();
    for frame in found {
        tids.entry(frame.pipeline).or_default().insert(frame.ui_tid);
    }
    let name = |tid: &u32| {
        let name = trace.threads.get(tid).map_or("", |thread| thread.name(&trace.names));
        if name.is_empty() { tid.to_string() } else { crate::name_index::cut(name).to_owned() }
    };
    let rows = tids.into_iter().map(|(pipeline, tids)| PipelineTotals {
        pipeline,
        threads: tids.iter().take(MAX_THREADS).map(name).collect(),
        totals: Totals::from_frames(frames.iter().filter(|frame| frame.pipeline == pipeline)),
    });
    rows.collect()
}

/// Sums up what Compose did on the main thread; `None` if it did nothing.
pub(crate) fn composition(
    trace: &Trace,
    process: &Process,
    frames: &[Frame],
) -> Option<Composition> {
    let main = trace.threads.get(&process.pid)?;
    let is_composition =
        |name: &str| name.starts_with("Recomposer:") || name.starts_with("Compose:");
    let of_views =
        |frame: &&Frame| matches!(frame.pipeline, Pipeline::Views | Pipeline::VsyncCallback);
    let mut frames = frames.iter().filter(of_views).peekable();
    let mut sum: Option<Composition> = None;
    let (mut done_ns, mut counted) = (0, None);
    let compositions = trace.names.select(is_composition);
    for slice in main.named(&compositions) {
        if slice.start_ns < done_ns {
            continue;
        }
        done_ns = slice.end_ns;
        let is_over = |frame: &&Frame| frame.start_ns + frame.dur_ns <= slice.start_ns;
        while frames.next_if(is_over).is_some() {}
        let sum = sum.get_or_insert_default();
        match frames.peek().filter(|frame| frame.start_ns <= slice.start_ns) {
            Some(frame) => {
                sum.in_frames_ns += slice.duration_ns();
                if counted.replace(frame.start_ns) != Some(frame.start_ns) {
                    sum.frames += 1;
                    sum.late += u64::from(frame.slow);
                }
            }
            None => sum.outside_ns += slice.duration_ns(),
        }
    }
    sum
}
