//! Sums by pipeline.

use crate::found::Found;
use crate::frame::Frame;
use crate::pipeline::Pipeline;
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
