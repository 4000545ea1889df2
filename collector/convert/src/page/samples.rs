//! Samples of callstacks as the page shows them: slices on a track of their own, named by the innermost function, with the
//! stack as their argument. Only samples that say for which time they stand: the agent's.

use std::borrow::Cow;
use tracetee_trace::{Async, NameId, Sample, Trace};

/// Name of the track.
const TRACK: &[u8] = b"samples";
/// Frames of a stack that are shown, the innermost first.
const MAX_SHOWN: usize = 40;

/// Returns the trace with its samples as async slices. Samples of one stack that follow each other are one slice.
pub(crate) fn with_samples(trace: &Trace) -> Cow<'_, Trace> {
    if !trace.samples.iter().any(Sample::has_time) {
        return Cow::Borrowed(trace);
    }
    let mut with = trace.clone();
    let track = Some(with.names.id(TRACK));
    let category = NameId::NONE;
    let mut open: Option<(u32, Async)> = None;
    for sample in trace.samples.iter().filter(|sample| sample.has_time()) {
        let (start_ns, end_ns) = (sample.since_ns, sample.at_ns);
        if let Some((_, slice)) = open
            .as_mut()
            .filter(|(stack, slice)| *stack == sample.stack && slice.end_ns >= start_ns)
        {
            slice.end_ns = end_ns.max(slice.end_ns);
            continue;
        }
        with.asyncs.extend(open.map(|(_, slice)| slice));
        let names: Vec<&str> = trace
            .stacks
            .frames(sample.stack)
            .take(MAX_SHOWN)
            .map(|frame| trace.names.text(frame.function))
            .collect();
        let name = with.names.id(names.first().copied().unwrap_or_default().as_bytes());
        let args = serde_json::json!({ "stack": names.join(" < ") }).to_string();
        let (args, threads) = (with.names.id(args.as_bytes()), [sample.tid; 2]);
        let (pid, cookie) = (sample.pid, 0);
        let slice = Async { threads, pid, track, name, category, args, cookie, start_ns, end_ns };
        open = Some((sample.stack, slice));
    }
    with.asyncs.extend(open.map(|(_, slice)| slice));
    // Columns have each time since the one before.
    with.asyncs.sort_by_key(|slice| slice.start_ns);
    Cow::Owned(with)
}
