//! The Firefox Profiler's processed format, by Mozilla's `fxprof-processed-profile`.
//!
//! Whenever the stack of a thread's slices changes, a sample begins; its weight is the number of µs until the next one. The
//! stack chart then shows each slice as it was, and the call tree adds up their time. Callstacks are samples of a thread of
//! their own.

use crate::calls::{self, Caller, Step};
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;
use tracetee_trace::Trace;

pub(crate) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let first_ns = calls::first_ns(trace);
    let unix_ns = trace.realtime.map_or(0, |wall| {
        let ns = i128::from(wall.unix_ns) + i128::from(first_ns) - i128::from(wall.at_ns);
        u64::try_from(ns).unwrap_or(0)
    });
    let begin = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(unix_ns));
    let mut profile = Profile::new("tracetee", begin, SamplingInterval::from_nanos(1000));
    profile.set_symbolicated(true);
    let mut processes: BTreeMap<u32, ProcessHandle> = BTreeMap::new();
    let at = |at_ns: u64| Timestamp::from_nanos_since_reference(at_ns.saturating_sub(first_ns));
    for caller in calls::callers(trace) {
        let process = *processes.entry(caller.pid).or_insert_with(|| {
            let name = if caller.process.is_empty() { "process" } else { caller.process };
            profile.add_process(name, caller.pid, at(first_ns))
        });
        let thread = |profile: &mut Profile, name: &str| {
            let is_main = caller.pid == caller.tid;
            let thread = profile.add_thread(process, caller.tid, at(first_ns), is_main);
            profile.set_thread_name(thread, name);
            thread
        };
        if let Some(slices) = caller.slices.filter(|thread| !thread.slices.is_empty()) {
            let thread = thread(&mut profile, caller.thread);
            let steps = calls::steps(slices);
            let mut open: Vec<StackHandle> = Vec::new();
            for (place, &(at_ns, step)) in steps.iter().enumerate() {
                match step {
                    Step::Enter(name) => {
                        let outer = open.last().copied();
                        open.push(stack(&mut profile, thread, outer, trace.names.text(name)));
                    }
                    Step::Leave(_) => {
                        open.pop();
                    }
                }
                // Of steps at one time the last is the state that lasts.
                let next_ns = steps.get(place + 1).map_or(at_ns, |&(next_ns, _)| next_ns);
                if next_ns == at_ns && place + 1 < steps.len() {
                    continue;
                }
                let us = (next_ns / 1000).saturating_sub(at_ns / 1000);
                let weight =
                    if open.is_empty() { 0 } else { i32::try_from(us).unwrap_or(i32::MAX) };
                profile.add_sample(thread, at(at_ns), open.last().copied(), CpuDelta::ZERO, weight);
            }
        }
        if !caller.samples.is_empty() {
            let thread = thread(&mut profile, &format!("{} samples", caller.thread));
            samples(trace, &caller, &mut profile, thread, first_ns);
        }
    }
    serde_json::to_writer(out, &profile)?;
    Ok(())
}

fn samples(
    trace: &Trace,
    caller: &Caller<'_>,
    profile: &mut Profile,
    thread: ThreadHandle,
    first_ns: u64,
) {
    for sample in &caller.samples {
        let mut innermost = None;
        for name in calls::frames(trace, sample).iter().rev() {
            innermost = Some(stack(profile, thread, innermost, name));
        }
        let at = Timestamp::from_nanos_since_reference(sample.at_ns.saturating_sub(first_ns));
        let weight = i32::try_from(sample.weight).unwrap_or(i32::MAX);
        profile.add_sample(thread, at, innermost, CpuDelta::ZERO, weight);
    }
}

/// Returns the stack of a function that is called in another one.
fn stack(
    profile: &mut Profile,
    thread: ThreadHandle,
    outer: Option<StackHandle>,
    name: &str,
) -> StackHandle {
    let frame = Frame::Label(profile.intern_string(name));
    let info = FrameInfo {
        frame,
        category_pair: CategoryHandle::OTHER.into(),
        flags: FrameFlags::empty(),
    };
    let frame = profile.intern_frame(thread, info);
    profile.intern_stack(thread, outer, frame)
}
