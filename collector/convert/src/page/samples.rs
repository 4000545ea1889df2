//! Samples of callstacks in the form that the page shows: slices on their own track, named after the innermost function,
//! with the stack as their argument. Only samples that state which time they cover: the agent's.

use std::borrow::Cow;
use tracetee_trace::{Async, NameId, Names, Sample, Trace};

/// Name of the track.
const TRACK: &[u8] = b"samples";
/// Frames of a stack that are shown, the innermost first.
const MAX_SHOWN: usize = 80;

/// Returns the samples as slices, with the trace's names and theirs. A thread's samples of one stack that follow each other
/// are one slice.
pub(super) fn slices(trace: &Trace) -> (Cow<'_, Names>, Vec<Async>) {
    let (mut names, mut slices) = (Cow::Borrowed(&trace.names), Vec::<Async>::new());
    let mut last_stack = None;
    for sample in trace.samples.iter().filter(|sample| sample.has_time()) {
        let &Sample { since_ns: start_ns, at_ns: end_ns, pid, tid, stack, .. } = sample;
        let is_same = |slice: &&mut Async| {
            last_stack == Some(stack) && slice.threads == [tid; 2] && slice.end_ns >= start_ns
        };
        if let Some(slice) = slices.last_mut().filter(is_same) {
            slice.end_ns = end_ns.max(slice.end_ns);
            continue;
        }
        last_stack = Some(stack);
        let frames = trace.stacks.frames(stack).take(MAX_SHOWN);
        let functions: Vec<&str> = frames.map(|frame| trace.names.text(frame.function)).collect();
        let args = serde_json::json!({ "stack": functions.join(" < ") }).to_string();
        let name = functions.first().copied().unwrap_or_default();
        let mut id = |text: &[u8]| names.to_mut().id(text);
        let (track, name, args) = (Some(id(TRACK)), id(name.as_bytes()), id(args.as_bytes()));
        let (threads, category, cookie) = ([tid; 2], NameId::NONE, 0);
        slices.push(Async { threads, pid, track, name, category, args, cookie, start_ns, end_ns });
    }
    (names, slices)
}
