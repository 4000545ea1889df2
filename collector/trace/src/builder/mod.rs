//! Puts begins, ends and values into a trace: pairs and nests them, and counts mismatches.
//!
//! A thread's events must be in the order of time; an earlier one gets the time of the thread's last event, and is counted.
//! `finish` closes open slices at the end.

mod asyncs;
mod finish;
mod scheduler;
mod slices;

pub(crate) use slices::{MAX_LOOKED_AT, is_ended_by};

use crate::gaps::Processors;
use crate::model::{
    AsyncKey, FIRST_KEY, FlowRecord, Instant, LooseEnd, Process, State, Thread, Trace,
};
use crate::names::NameId;
use crate::samples::Sample;
use crate::scheduling::Blocked;
use crate::seeded::Seeded;
use std::collections::HashMap;

/// Maximum number of events read from a trace, so that a decompression bomb does not exhaust memory.
pub(crate) const MAX_EVENTS: u64 = 32 << 20;
/// Bytes of names.
const MAX_NAME_BYTES: usize = 512 << 20;
/// Threads, processes, and kinds of events: eight times as many thread ids as a phone has.
const MAX_THREADS: usize = 1 << 18;
/// Ends without a begin that are kept; a part of a trace lacks the begins of some thousand slices at most.
const MAX_ENDS: usize = 1 << 16;
/// Bytes of a text's kernel events that are kept for writers.
const MAX_KERNEL_BYTES: usize = 1 << 30;

/// A thread being built, by its index in the builder.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Live(usize);

#[derive(Debug, Default)]
struct Running {
    key: u32,
    thread: Thread,
    /// The slices that are open, the innermost last.
    open: Vec<u32>,
    last_ns: u64,
    /// Time of the event before the last one.
    before_ns: u64,
    /// Processor of the last line.
    cpu: u32,
    /// The last slice of a frame that began.
    frame: Option<u32>,
    /// True if a TGID or a dump names the process; false if only a marker does.
    is_pid_sure: bool,
}

/// A trace being built.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    /// The trace so far, without threads.
    pub(crate) trace: Trace,
    running: Vec<Running>,
    by_tid: HashMap<u32, Live, Seeded>,
    /// The last requested thread: lines of a thread come in groups.
    last: Option<(u32, Live)>,
    extra_keys: u32,
    open_asyncs: HashMap<AsyncKey, Vec<usize>, Seeded>,
    states: HashMap<u32, Vec<State>, Seeded>,
    blocked: HashMap<u32, Vec<Blocked>, Seeded>,
    /// Binder transactions that were not received yet, by number.
    pending: HashMap<i32, usize, Seeded>,
    events: u64,
    /// The last record of each processor.
    processors: Processors,
    /// Number of threads that notes of losses have checked.
    looks_at_losses: u64,
    /// Last name in a scheduler event, by thread id.
    comms: HashMap<u32, NameId, Seeded>,
}

impl Builder {
    /// The thread with this id. Another process than before: another thread, ids are given again.
    pub(crate) fn thread(&mut self, tid: u32, pid: Option<u32>) -> Live {
        let known = match self.last {
            Some((last, live)) if last == tid => Some(live),
            _ => self.known(tid),
        };
        let live = match known {
            Some(live) => match (self.running.get(live.0), pid) {
                (Some(running), Some(pid))
                    if running.is_pid_sure && running.thread.pid != Some(pid) =>
                {
                    self.extra_keys += 1;
                    self.start(tid, FIRST_KEY + self.extra_keys - 1)
                }
                _ => live,
            },
            None => self.start(tid, tid),
        };
        self.last = Some((tid, live));
        if let (Some(pid), Some(running)) = (pid, self.running.get_mut(live.0)) {
            running.thread.pid = Some(pid);
            running.is_pid_sure = true;
        }
        live
    }

    /// Returns the last thread with this id, if there is one.
    pub(crate) fn known(&self, tid: u32) -> Option<Live> {
        self.by_tid.get(&tid).copied()
    }

    /// A thread of a format in which a thread is known by its process and its id: another one may have the
    /// same id.
    pub(crate) fn new_thread(&mut self, tid: u32, pid: Option<u32>) -> Live {
        let key = if self.by_tid.contains_key(&tid) {
            self.extra_keys += 1;
            FIRST_KEY + self.extra_keys - 1
        } else {
            tid
        };
        let live = self.start(tid, key);
        if let Some(running) = self.running.get_mut(live.0) {
            running.thread.pid = pid;
            running.is_pid_sure = pid.is_some();
        }
        live
    }

    fn start(&mut self, tid: u32, key: u32) -> Live {
        let live = Live(self.running.len());
        let thread = Thread { tid, ..Thread::default() };
        self.running.push(Running { key, thread, ..Running::default() });
        self.by_tid.insert(tid, live);
        live
    }

    /// Returns the thread's key in the trace.
    pub(crate) fn key(&self, live: Live) -> u32 {
        self.running.get(live.0).map_or(0, |running| running.key)
    }

    /// Registers an event of the thread; returns its time in the trace.
    pub(crate) fn at(&mut self, live: Live, at_ns: u64) -> u64 {
        let mut at_ns = at_ns;
        self.events += 1;
        if let Some(running) = self.running.get_mut(live.0) {
            if at_ns < running.last_ns {
                self.trace.losses.out_of_order += 1;
                at_ns = running.last_ns;
            }
            (running.before_ns, running.last_ns) = (running.last_ns, at_ns);
        }
        self.span(at_ns);
        at_ns
    }

    /// Names a thread from that time on.
    pub(crate) fn name(&mut self, live: Live, at_ns: u64, name: &[u8]) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        if let Some(&(_, last)) = running.thread.names.last()
            && self.trace.names.text(last).as_bytes() == name
        {
            return;
        }
        let name = self.trace.names.id(name);
        self.name_id(live, at_ns, name);
    }

    /// Names a thread from that time on.
    pub(crate) fn name_id(&mut self, live: Live, at_ns: u64, name: NameId) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        // Bytes that are not UTF-8 are another text each time, and the same name.
        if running.thread.names.last().is_none_or(|&(_, last)| last != name) {
            running.thread.names.push((at_ns, name));
        }
    }

    /// Extends the trace's span.
    pub(crate) fn span(&mut self, at_ns: u64) {
        let (first, last) = self.trace.span_ns.unwrap_or((at_ns, at_ns));
        self.trace.span_ns = Some((first.min(at_ns), last.max(at_ns)));
    }

    /// Adds names, states and reasons of sleeps of a thread from elsewhere.
    pub(crate) fn more(
        &mut self,
        live: Live,
        names: Vec<(u64, NameId)>,
        states: Vec<State>,
        blocked: Vec<Blocked>,
    ) {
        if let Some(running) = self.running.get_mut(live.0) {
            running.thread.names.extend(names);
            running.thread.states.extend(states);
            running.thread.blocked.extend(blocked);
        }
    }

    /// Sets a thread's process unless a better source has named it.
    pub(crate) fn guess_pid(&mut self, live: Live, pid: u32) {
        if let Some(running) = self.running.get_mut(live.0) {
            running.thread.pid.get_or_insert(pid);
        }
    }

    /// Adds an instant. Returns it as a record that flows can be at, unless it is on another track than its thread's.
    pub(crate) fn instant(&mut self, instant: Instant) -> Option<FlowRecord> {
        self.trace.instants.push(instant);
        let index = u32::try_from(self.trace.instants.len() - 1).ok();
        index.filter(|_| instant.track.is_none()).map(FlowRecord::Instant)
    }

    pub(crate) fn sample(&mut self, sample: Sample) {
        self.events += 1;
        self.span(sample.at_ns);
        self.trace.samples.push(sample);
    }

    /// Counts an end without a begin, and keeps it for a join. `key`: the key of an async slice.
    pub(crate) fn loose_end(&mut self, live: Live, at_ns: u64, key: Option<AsyncKey>) {
        let losses = &mut self.trace.losses;
        match key {
            Some(_) => losses.unmatched_async_ends += 1,
            None => losses.unmatched_ends += 1,
        }
        // An end whose name matches no open slice does not belong to them.
        let may_be_cut = key.is_some() || self.open(live).is_empty();
        if may_be_cut && self.trace.ends.len() < MAX_ENDS {
            let thread = self.key(live);
            self.trace.ends.push(LooseEnd { thread, at_ns, key });
        }
    }

    /// Counts input that is not in the trace.
    pub(crate) fn not_read(&mut self, what: &str, count: u64) {
        self.trace.losses.not_read(what, count);
    }

    /// Counts input that is read but not reproduced exactly.
    pub(crate) fn reshaped(&mut self, what: &'static str, count: u64) {
        *self.trace.reshaped.entry(what).or_default() += count;
    }

    /// Sets a process' name.
    pub(crate) fn process_name(&mut self, pid: u32, name: NameId) {
        self.trace.processes.insert(pid, Process { name });
    }

    /// Returns the thread's process, if it is known.
    pub(crate) fn pid(&self, live: Live) -> Option<u32> {
        self.running.get(live.0)?.thread.pid
    }

    /// Counts an event of another kind.
    pub(crate) fn other(&mut self, event: &[u8]) {
        self.others(&String::from_utf8_lossy(event), 1);
    }

    /// Counts events of another kind.
    pub(crate) fn others(&mut self, event: &str, count: u64) {
        match self.trace.kernel_events.get_mut(event) {
            Some(known) => *known += count,
            None => {
                self.trace.kernel_events.insert(event.to_owned(), count);
            }
        }
    }

    /// Returns why the builder accepts no more events, if a limit is reached.
    pub(crate) fn is_full(&self) -> Option<String> {
        if self.trace.losses.lines.is_multiple_of(1024) {
            if self.events.max(self.trace.stacks.nodes.len() as u64) > MAX_EVENTS {
                return Some(format!("more than {MAX_EVENTS} events"));
            }
            if self.trace.kernel_text.len() > MAX_KERNEL_BYTES {
                return Some(format!("its kernel events have more than {MAX_KERNEL_BYTES} bytes"));
            }
            let counts = [
                ("threads", self.running.len()),
                ("processes", self.trace.processes.len()),
                ("kinds of events", self.trace.kernel_events.len()),
            ];
            let full = counts.into_iter().find(|&(_, count)| count > MAX_THREADS);
            let full = full.map(|(what, _)| format!("more than {MAX_THREADS} {what}"));
            return full.or_else(|| self.is_full_of_names());
        }
        None
    }

    /// True if it has as many threads as it may.
    pub(crate) fn is_full_of_threads(&self) -> bool {
        self.running.len() >= MAX_THREADS
    }

    /// The same, for only the names.
    pub(crate) fn is_full_of_names(&self) -> Option<String> {
        (self.trace.names.bytes() > MAX_NAME_BYTES)
            .then(|| format!("its names have more than {MAX_NAME_BYTES} bytes"))
    }
}
