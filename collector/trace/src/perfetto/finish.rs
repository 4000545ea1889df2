//! The end of a trace: converts the waiting events to one clock, sorts them, and infers what compact events leave out.

use super::Reader;
use super::clock::{Clock, Converters};
use super::event::What;
use super::frames::paired;
use super::put::Put;
use super::unread::ftrace_event;
use crate::kernel::{KernelEvent, KernelKind, NO_TID, Task, state_of_kernel};
use crate::model::{MAX_NS, Trace};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Number of waiting events after which their memory is released.
const EVENTS_OF_A_STEP: usize = 1 << 18;

impl Reader {
    /// Makes the trace.
    pub(super) fn finish(mut self) -> Trace {
        let own = self.own_clock();
        let converters = self.clocks.converters(own);
        self.builder.trace.realtime = self.clocks.realtime();
        self.put_names();
        let started = self.put_kernel(&converters);
        self.put_frames(&converters);
        self.put_gaps(&converters);
        let mut events = std::mem::take(&mut self.events);
        let unread = &mut self.unread;
        let mut number = 0..u32::MAX;
        events.retain_mut(|event| {
            event.rank += number.next().unwrap_or_default();
            let started = started.filter(|_| matches!(event.what, What::Mark { .. }));
            let at_ns = time(&converters, event.clock, event.at_ns, started);
            event.at_ns = at_ns.unwrap_or(0);
            at_ns.map_err(|why| unread.event(why)).is_ok()
        });
        // In place: a stable sort takes half as much memory again.
        events.sort_unstable_by_key(|event| (event.at_ns, event.rank));
        // From the end, so that the memory of events already in the trace is released as the trace grows.
        events.reverse();
        let mut writer = Put::new(self);
        while let Some(event) = events.pop() {
            if !writer.is_full() {
                writer.event(event);
            }
            if events.len().is_multiple_of(EVENTS_OF_A_STEP) {
                events.shrink_to_fit();
            }
        }
        writer.finish()
    }

    /// The clock that times are converted to. Without any snapshot the one that all events are on.
    fn own_clock(&self) -> u32 {
        let own = self.clocks.own();
        if self.clocks.has_snapshots() {
            return own;
        }
        let others = self.kernel.iter().map(|&(clock, _)| clock);
        let clocks = self.events.iter().map(|event| event.clock).chain(others);
        let clocks = clocks.chain(self.frames.iter().map(|&(clock, _)| clock));
        let mut clocks = clocks.chain(self.samples.iter().map(|&(clock, _)| clock));
        let Some(first) = clocks.next() else { return own };
        if clocks.all(|clock| clock == first) {
            self.clocks.global_id(first).unwrap_or(own)
        } else {
            own
        }
    }

    fn put_names(&mut self) {
        for &(pid, name) in &self.tracks.process_names {
            self.builder.process_name(pid, name);
        }
        for (tid, (pid, name)) in std::mem::take(&mut self.tree) {
            self.builder.trace.dumped.insert(tid, (pid, name));
        }
    }

    /// Puts the kernel's events into the trace. Returns the time from which they count.
    fn put_kernel(&mut self, converters: &Converters) -> Option<u64> {
        let covered = self.covered.values().copied().chain(self.started);
        let times = covered.filter_map(|(clock, ns)| converted(converters, clock, ns));
        let started = times.max();
        let version = self.kernel_version;
        let unread = &mut self.unread;
        // Reuses the memory of the source, with the events' number in place of their clock.
        let kernel = std::mem::take(&mut self.kernel).into_iter();
        let mut kernel: Vec<(u32, KernelEvent)> = kernel
            .zip(0..)
            .filter_map(|((clock, event), number)| {
                let at_ns = time(converters, clock, event.at_ns, started);
                let at_ns = at_ns.map_err(|why| unread.event(why)).ok()?;
                Some((number, KernelEvent { at_ns, ..event }))
            })
            .collect();
        // In place, and from the end: as `finish` does with the other events.
        kernel.sort_unstable_by_key(|&(number, event)| Reverse((event.at_ns, number)));
        let mut clocks = std::mem::take(&mut self.suspend_clocks).into_iter();
        let suspends = &mut self.builder.trace.scheduling.suspends;
        suspends.retain_mut(|(at_ns, _)| {
            let converted_ns = clocks.next().and_then(|clock| converted(converters, clock, *at_ns));
            converted_ns.map(|ns| *at_ns = ns).is_some()
        });
        suspends.sort_unstable();
        // The task that runs on each processor: compact events contain only the next one.
        let mut running: HashMap<u16, Task> = HashMap::new();
        let Self { builder, unread, other_ftrace, keeps_events, .. } = self;
        let mut counts: HashMap<&'static str, u64> = HashMap::new();
        while let Some((_, mut event)) = kernel.pop() {
            if kernel.len().is_multiple_of(EVENTS_OF_A_STEP) {
                kernel.shrink_to_fit();
            }
            let before = running.get(&event.cpu).copied();
            let is_compact = event.tid == NO_TID;
            if is_compact {
                event.tid = before.map_or(0, |task| task.tid);
            }
            if let KernelKind::Switch { prev, state, next } = &mut event.kind {
                if prev.tid == NO_TID {
                    *prev = before.unwrap_or(*prev);
                }
                *state = state_of_kernel((*state).into(), version);
                running.insert(event.cpu, *next);
            }
            if is_compact && before.is_none() {
                unread.event("compact scheduler events before the first switch of their processor");
                continue;
            }
            *counts.entry(event.kind.event()).or_default() += 1;
            builder.kernel_event(&event);
            if *keeps_events {
                builder.trace.kernel.push(event);
            }
        }
        for (event, count) in counts {
            builder.others(event, count);
        }
        for (number, count) in std::mem::take(other_ftrace) {
            builder.others(&ftrace_event(number), count);
        }
        started
    }

    fn put_frames(&mut self, converters: &Converters) {
        let unread = &mut self.unread;
        let mut at =
            |clock, ns| time(converters, clock, ns, None).map_err(|why| unread.event(why)).ok();
        let frames = std::mem::take(&mut self.frames);
        let frames = on_own_clock(frames, &mut at, |frame| &mut frame.at_ns);
        let buffers = std::mem::take(&mut self.buffers);
        let buffers = on_own_clock(buffers, &mut at, |event| &mut event.at_ns);
        let samples = std::mem::take(&mut self.samples);
        let mut samples = on_own_clock(samples, &mut at, |sample| &mut sample.at_ns);
        samples.iter_mut().for_each(|sample| sample.since_ns = sample.at_ns);
        let times = frames.iter().map(|frame| frame.at_ns);
        let times = times.chain(buffers.iter().map(|event| event.at_ns));
        times
            .chain(samples.iter().map(|sample| sample.at_ns))
            .for_each(|at_ns| self.builder.span(at_ns));
        let (frames, unpaired, moved) = paired(&frames);
        if moved > 0 {
            self.builder.reshaped("frames of one cookie, on tracks of their own", moved);
        }
        if unpaired > 0 {
            self.lost("frame ends without a begin", unpaired);
        }
        let trace = &mut self.builder.trace;
        (trace.frames, trace.buffers, trace.samples) = (frames, buffers, samples);
    }
}

/// Returns events with a time on the trace's own clock, sorted by it.
fn on_own_clock<T>(
    events: Vec<(Clock, T)>,
    mut at: impl FnMut(Clock, u64) -> Option<u64>,
    time: fn(&mut T) -> &mut u64,
) -> Vec<T> {
    let events = events.into_iter().filter_map(|(clock, mut event)| {
        let at_ns = at(clock, *time(&mut event))?;
        *time(&mut event) = at_ns;
        Some((at_ns, event))
    });
    let mut events: Vec<(u64, T)> = events.collect();
    events.sort_by_key(|&(at_ns, _)| at_ns);
    events.into_iter().map(|(_, event)| event).collect()
}

pub(super) fn converted(converters: &Converters, clock: Clock, at_ns: u64) -> Option<u64> {
    converters.convert(clock, at_ns).filter(|&at_ns| at_ns <= MAX_NS)
}

/// A time on the trace's own clock, not before `started`; or why it does not count.
fn time(
    converters: &Converters,
    clock: Clock,
    at_ns: u64,
    started: Option<u64>,
) -> Result<u64, &'static str> {
    match converted(converters, clock, at_ns) {
        Some(at_ns) if started.is_none_or(|started| at_ns >= started) => Ok(at_ns),
        Some(_) => Err("kernel events before the recording began"),
        None => Err("events on a clock that no snapshot relates to the trace's"),
    }
}
