//! From pools to ftrace text: merge by time, filter, repair, format, compress.
//!
//! Runs on the thread that dumps, never on one that records. [`write_trace`] is the whole journey:
//! [`merge`] gives the records of all threads in order, [`trace`] takes them: [`shorts`] leaves out
//! what is too short, [`repair`] keeps sections balanced, [`mod@line`] writes them with the names
//! that [`threads`] knows and [`sanitize`] made safe, [`sink`] puts them into the file. The
//! [`Summary`] says what it came to.

mod line;
pub(crate) mod merge;
mod repair;
mod sanitize;
mod shorts;
pub(crate) mod sink;
mod summary;
mod threads;
pub(crate) mod trace;

pub use line::Precision;
pub use summary::{Summary, ThreadSummary};

use crate::error::Error;
use crate::recorder::reader::PoolReader;
use merge::Source;
use serde::{Deserialize, Serialize};
use std::path::Path;
use trace::Trace;

/// How the text is written, and what is left out of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TextOptions {
    /// Leave out the kinds that catapult does not know: I, N, G and H.
    pub catapult_only: bool,
    /// Decimals of the timestamps.
    pub precision: Precision,
    /// Leave out sections shorter than this. 0 keeps all.
    pub min_slice_us: MinSlice,
    /// Leave out all threads but each process's first.
    pub main_thread_only: bool,
}

/// The shortest section that is kept, in microseconds, by class of thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MinSlice {
    /// The process's first thread.
    pub main: u64,
    /// Threads called `RenderThread`.
    pub render: u64,
    /// All others.
    pub other: u64,
}

/// Counts what is in `pools` without writing anything.
#[must_use]
pub fn summarize(pools: &[PoolReader<'_>]) -> Summary {
    let sources: Vec<_> = pools.iter().map(|&pool| Source::of(pool)).collect();
    let mut trace = Trace::counting(&TextOptions::default());
    // Without a file nothing can fail.
    let _ = trace.take(&sources, u64::MAX);
    trace.summary(&sources)
}

/// Writes the records of `pools` as one trace to `path`, zstd-compressed when it ends in `.zst`.
///
/// # Errors
/// [`Error::Io`] when the file cannot be written; no part of it is left then.
pub fn write_trace(
    pools: &[PoolReader<'_>],
    options: &TextOptions,
    path: &Path,
) -> Result<Summary, Error> {
    write(pools, options, path, false)
}

/// As [`write_trace`]; `recovered`: the trace says that its process did not end it.
pub(crate) fn write(
    pools: &[PoolReader<'_>],
    options: &TextOptions,
    path: &Path,
    recovered: bool,
) -> Result<Summary, Error> {
    // The file first: when it cannot be made, nothing else is worth doing.
    let mut trace = Trace::create(path, options)?;
    if recovered {
        trace.mark_recovered();
    }
    let sources: Vec<_> = pools.iter().map(|&pool| Source::of(pool)).collect();
    trace.take(&sources, u64::MAX)?;
    trace.finish_with(&sources)
}
