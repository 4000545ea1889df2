//! Work outside of frames that holds the main thread up: long slices, and those that make an app not respond.

use crate::name_index::NameIndex;
use crate::process::Process;
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, Trace};

/// Android reports an app as not responding when its main thread is busy for this long.
const ANR_NS: u64 = 5_000_000_000;
/// A user notices a tap that is answered later than this.
const LONG_NS: u64 = 100_000_000;

/// A long outermost slice of the main thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongSlice {
    /// The name.
    pub name: Arc<str>,
    /// Begin, ns of the trace's clock.
    pub start_ns: u64,
    /// Duration.
    pub dur_ns: u64,
    /// True if 5 s or longer.
    pub anr: bool,
}

pub(crate) fn long_slices(
    trace: &Trace,
    process: &Process,
    names: &NameIndex<'_>,
) -> Vec<LongSlice> {
    let main = trace.threads.get(&process.pid);
    let outermost = main.iter().flat_map(|thread| &thread.slices);
    outermost
        .filter(|slice| slice.parent == NO_PARENT)
        .filter_map(|slice| {
            let (name, dur_ns) = (Arc::clone(&names.named(slice.name).name), slice.duration_ns());
            let is_frame = name.starts_with("Choreographer#doFrame");
            let anr = dur_ns >= ANR_NS;
            let is_long = anr || (dur_ns >= LONG_NS && !is_frame);
            is_long.then_some(LongSlice { name, start_ns: slice.start_ns, dur_ns, anr })
        })
        .collect()
}
