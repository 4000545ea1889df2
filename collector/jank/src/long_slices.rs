//! Work outside of frames that holds the main thread up: long dispatches, and those for which Android reports the app as not
//! responding.
//!
//! A dispatch is an outermost slice of the main thread, or one directly inside the loop of messages (`Looper.loop`). Waits
//! for messages are neither dispatches nor work: their time is taken from what surrounds them.

use crate::idle::{is_idle, is_loop};
use crate::name_index::NameIndex;
use crate::process::Process;
use crate::still::{Still, has_lost};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, NameId, Seeded, Slice, Thread, Trace, UNFINISHED};

/// Android reports an app as not responding when a dispatch does not end, or an input event is not answered, for this long.
const ANR_NS: u64 = 5_000_000_000;
/// A user notices a tap that is answered later than this.
const LONG_NS: u64 = 100_000_000;
/// A frame inside a section without an end shows that the end is lost, not that the thread hangs.
const INPUT: &str = "deliverInputEvent";
/// Counter of the input events that wait in a window's queue.
const PENDING: &str = "aq:pending:";

/// Kind of a long slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LongKind {
    /// A dispatch of the main thread.
    Dispatch,
    /// A dispatch that had not ended when the trace did.
    Open,
    /// An input event that was not answered.
    Input,
}

/// A long dispatch of the main thread, or an input event that waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LongSlice {
    /// The name.
    #[serde(serialize_with = "text")]
    pub name: Arc<str>,
    /// Begin, ns of the trace's clock; in a report, since the begin of the capture.
    #[serde(rename = "at_ns")]
    pub start_ns: u64,
    /// Duration, without waits for messages.
    pub dur_ns: u64,
    /// True for 5 s or longer: Android then reports that the app does not respond.
    pub anr: bool,
    /// The kind.
    pub kind: LongKind,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Finds long dispatches and unanswered input, by time.
pub(crate) fn long_slices(
    trace: &Trace,
    process: &Process,
    names: &NameIndex<'_>,
    still: &Still,
) -> Vec<LongSlice> {
    let mut found = Vec::new();
    if let Some(main) = trace.threads.get(&process.pid) {
        found = dispatches(trace, main, names, still);
        // Dispatches do not overlap: each state is looked at once.
        let mut looks = u64::MAX;
        found.retain(|one| {
            !has_lost(main, one.start_ns, one.start_ns.saturating_add(one.dur_ns), &mut looks)
        });
    }
    let hangs: Vec<(u64, u64)> = found
        .iter()
        .filter(|long: &&LongSlice| long.anr)
        .map(|long| (long.start_ns, long.start_ns.saturating_add(long.dur_ns)))
        .collect();
    // All messages that one hang keeps waiting are one ANR.
    let is_known = |from_ns: u64, to_ns: u64| {
        let index = hangs.partition_point(|&(start_ns, _)| start_ns < to_ns);
        index.checked_sub(1).and_then(|last| hangs.get(last)).is_some_and(|hang| hang.1 > from_ns)
    };
    let mut last_end_ns = 0;
    for (from_ns, to_ns, name) in unanswered(trace, process, still) {
        if from_ns >= last_end_ns && !is_known(from_ns, to_ns) {
            let name = Arc::clone(&names.named(name).name);
            let dur_ns = to_ns - from_ns - still.within_ns(from_ns, to_ns);
            let kind = LongKind::Input;
            found.push(LongSlice { name, start_ns: from_ns, dur_ns, anr: true, kind });
            last_end_ns = to_ns;
        }
    }
    found.sort_by_key(|long| long.start_ns);
    found
}

/// State of a dispatch while its slices are visited.
struct Dispatch<'a> {
    slice: &'a Slice,
    idle_ns: u64,
    has_frame: bool,
}

fn dispatches(
    trace: &Trace,
    main: &Thread,
    names: &NameIndex<'_>,
    still: &Still,
) -> Vec<LongSlice> {
    let last_ns = trace.span_ns.map_or(0, |(_, last_ns)| last_ns);
    let waits = names.select(is_idle);
    let around = names.select(is_loop);
    let frames = trace.names.select(|name| name.starts_with("Choreographer#doFrame"));
    let mut found = Vec::new();
    let mut open: Option<Dispatch<'_>> = None;
    // Until then time is counted as idle; loops that are open.
    let mut idle_until_ns = 0;
    let mut loops: Vec<u32> = Vec::new();
    for (index, slice) in (0_u32..).zip(&main.slices) {
        let is_idle = waits.has(slice.name);
        let is_frame = frames.has(slice.name);
        while let Some(&inner) = loops.last()
            && main.slices.get(inner as usize).is_none_or(|around| around.end_ns <= slice.start_ns)
        {
            loops.pop();
        }
        let is_outermost = slice.parent == NO_PARENT || loops.last() == Some(&slice.parent);
        if is_outermost {
            found.extend(open.take().and_then(|dispatch| dispatch.judged(names, last_ns, still)));
            if around.has(slice.name) {
                loops.push(index);
            } else if !is_idle {
                open = Some(Dispatch { slice, idle_ns: 0, has_frame: is_frame });
            }
            continue;
        }
        if let Some(dispatch) = &mut open {
            dispatch.has_frame |= is_frame;
            if is_idle && slice.start_ns >= idle_until_ns {
                dispatch.idle_ns += slice.duration_ns();
                idle_until_ns = slice.end_ns;
            }
        }
    }
    found.extend(open.take().and_then(|dispatch| dispatch.judged(names, last_ns, still)));
    found
}

impl Dispatch<'_> {
    fn judged(self, names: &NameIndex<'_>, last_ns: u64, still: &Still) -> Option<LongSlice> {
        // A frame inside of a section without an end: the end is lost, the thread does not hang.
        if !self.slice.ended && self.has_frame {
            return None;
        }
        let end_ns = if self.slice.ended { self.slice.end_ns } else { last_ns };
        let start_ns = self.slice.start_ns;
        let whole_ns = end_ns.saturating_sub(start_ns);
        let dur_ns = whole_ns.saturating_sub(self.idle_ns + still.within_ns(start_ns, end_ns));
        let anr = dur_ns >= ANR_NS;
        let is_outer_frame = names.mapped(self.slice.name).starts_with("Choreographer#doFrame");
        (anr || (dur_ns >= LONG_NS && !is_outer_frame)).then(|| LongSlice {
            name: Arc::clone(&names.named(self.slice.name).name),
            start_ns,
            dur_ns,
            anr,
            kind: if self.slice.ended { LongKind::Dispatch } else { LongKind::Open },
        })
    }
}

/// Input events of the process that were not answered for 5 s: begin, end, name; by time.
fn unanswered(trace: &Trace, process: &Process, still: &Still) -> Vec<(u64, u64, NameId)> {
    let last_ns = trace.span_ns.map_or(0, |(_, last_ns)| last_ns);
    let of_events = trace.asyncs.iter().filter(|one| one.pid == process.pid).filter_map(|one| {
        let end_ns = if one.end_ns == UNFINISHED { last_ns } else { one.end_ns };
        let is_input = trace.names.text(one.name).starts_with(INPUT);
        is_input.then_some((one.start_ns, end_ns, one.name))
    });
    let mut waits: Vec<(u64, u64, NameId)> = of_events.collect();
    let mut pending: HashMap<NameId, u64, Seeded> = HashMap::default();
    for counter in trace.counters.iter().filter(|counter| counter.pid == process.pid) {
        if !trace.names.text(counter.name).starts_with(PENDING) {
            continue;
        }
        // Values are steps: until the value falls, no event was answered.
        if let Some(since_ns) = pending.remove(&counter.name) {
            waits.push((since_ns, counter.at_ns, counter.name));
        }
        if counter.value > 0.0 {
            pending.insert(counter.name, counter.at_ns);
        }
    }
    waits.extend(pending.into_iter().map(|(name, since_ns)| (since_ns, last_ns, name)));
    waits.retain(|&(from_ns, to_ns, _)| {
        let still_ns = still.within_ns(from_ns, to_ns);
        to_ns.saturating_sub(from_ns).saturating_sub(still_ns) >= ANR_NS
    });
    waits.sort_unstable();
    waits
}

#[cfg(test)]
mod tests;
