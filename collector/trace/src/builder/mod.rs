//! Puts begins, ends and values into a trace: pairs and nests them, counts what does not fit.
//!
//! A thread's events come in the order of their times; one that does not is taken to be at the time of the
//! thread's last one, and counted. `finish` closes what is open at the end.

mod finish;

use crate::model::{
    Async, Counter, FIRST_KEY, Flow, Instant, NO_PARENT, Process, Slice, State, Thread, Trace,
    UNFINISHED,
};
use crate::names::NameId;
use crate::scheduling::{Blocked, Pending, Transaction};
use crate::seeded::Seeded;
use std::collections::HashMap;

/// Events of one trace that are read; what memory holds, not what a bomb unpacks to.
pub(crate) const MAX_EVENTS: u64 = 32 << 20;
/// Bytes of names.
const MAX_NAME_BYTES: usize = 512 << 20;

/// Begins that are not read.
const BEGUN_AGAIN: &str = "begins of async sections that were open";

/// A thread being built, by its index in the builder.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Live(usize);

#[derive(Debug, Default)]
struct Running {
    key: u32,
    thread: Thread,
    /// The slices that are open, the innermost last.
    open: Vec<u32>,
    last_ns: u64,
    /// True if a TGID or a dump names the process; false if only a marker does.
    is_pid_sure: bool,
}

/// Key that pairs an async end with its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AsyncKey {
    pub(crate) pid: u32,
    pub(crate) track: Option<NameId>,
    /// Name or category, depending on the format.
    pub(crate) of: NameId,
    pub(crate) cookie: i64,
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
    pending: Pending,
    events: u64,
    /// Last name in a scheduler event, by thread id.
    comms: HashMap<u32, NameId, Seeded>,
}

impl Builder {
    /// The thread with this id. Another process than before: another thread, ids are given again.
    pub(crate) fn thread(&mut self, tid: u32, pid: Option<u32>) -> Live {
        let known = match self.last {
            Some((last, live)) if last == tid => Some(live),
            _ => self.by_tid.get(&tid).copied(),
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

    /// Something of the thread happened then: the time as the trace has it.
    pub(crate) fn at(&mut self, live: Live, at_ns: u64) -> u64 {
        let mut at_ns = at_ns;
        self.events += 1;
        if let Some(running) = self.running.get_mut(live.0) {
            if at_ns < running.last_ns {
                self.trace.losses.out_of_order += 1;
                at_ns = running.last_ns;
            }
            running.last_ns = at_ns;
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
        // Bytes that are no UTF-8 are another text each time, and the same name.
        if running.thread.names.last().is_none_or(|&(_, last)| last != name) {
            running.thread.names.push((at_ns, name));
        }
    }

    /// Begins a slice. Returns its index.
    pub(crate) fn begin(
        &mut self,
        live: Live,
        at_ns: u64,
        name: NameId,
        category: NameId,
    ) -> Option<u32> {
        let running = self.running.get_mut(live.0)?;
        let place = u32::try_from(running.thread.slices.len()).ok()?;
        let parent = running.open.last().copied().unwrap_or(NO_PARENT);
        running.open.push(place);
        let (start_ns, end_ns) = (at_ns, UNFINISHED);
        let slice = Slice { name, category, start_ns, end_ns, parent, ended: false };
        running.thread.slices.push(slice);
        Some(place)
    }

    /// Ends the innermost slice. Returns its index, or `None` (which is counted) if nothing is open.
    pub(crate) fn end(&mut self, live: Live, at_ns: u64) -> Option<u32> {
        let running = self.running.get_mut(live.0)?;
        let Some(place) = running.open.pop() else {
            self.trace.losses.unmatched_ends += 1;
            return None;
        };
        let slice = running.thread.slices.get_mut(place as usize)?;
        (slice.end_ns, slice.ended) = (at_ns, true);
        Some(place)
    }

    /// Ends the innermost open slice that an end of this name and category is of. Those in it stay open: they are over with it.
    pub(crate) fn end_named(
        &mut self,
        live: Live,
        at_ns: u64,
        end: (NameId, NameId),
    ) -> Option<u32> {
        let ends = |&place: &u32| {
            let slice = self.slice(live, place);
            slice.is_some_and(|slice| is_ended_by((slice.name, slice.category), end))
        };
        let open = self.open(live);
        let Some(place) = open.iter().rposition(ends) else {
            self.trace.losses.unmatched_ends += 1;
            return None;
        };
        for _ in place + 1..open.len() {
            self.leave_open(live, at_ns);
        }
        self.end(live, at_ns)
    }

    /// Returns the open slices of a thread, the innermost last.
    pub(crate) fn open(&self, live: Live) -> &[u32] {
        self.running.get(live.0).map_or(&[], |running| &running.open)
    }

    /// Returns a slice of a thread.
    pub(crate) fn slice(&self, live: Live, place: u32) -> Option<&Slice> {
        self.running.get(live.0)?.thread.slices.get(place as usize)
    }

    /// Leaves a slice open: it ends with the enclosing slice.
    pub(crate) fn leave_open(&mut self, live: Live, at_ns: u64) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        let place = running.open.pop();
        let slice = place.and_then(|place| running.thread.slices.get_mut(place as usize));
        if let Some(slice) = slice {
            slice.end_ns = at_ns;
            self.trace.losses.unclosed += 1;
        }
    }

    /// This slice ends, if it has not. Those that are open in it overlap it: they end with it and are counted.
    /// `ended`: whether its end was there.
    pub(crate) fn end_open(&mut self, live: Live, place: u32, at_ns: u64, ended: bool) {
        let is_over = self.slice(live, place).is_none_or(|slice| slice.end_ns != UNFINISHED);
        while let Some(&innermost) = self.open(live).last()
            && !is_over
        {
            if innermost != place {
                self.trace.losses.overlapping += 1;
                self.end(live, at_ns);
                continue;
            }
            if ended {
                self.end(live, at_ns);
            } else {
                self.leave_open(live, at_ns);
            }
            return;
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

    /// Sets a slice's arguments.
    pub(crate) fn args(&mut self, live: Live, place: u32, args: NameId) {
        if let Some(running) = self.running.get_mut(live.0)
            && args != NameId::NONE
        {
            running.thread.args.insert(place, args);
        }
    }

    /// Adds the arguments of a slice's end to those of its begin.
    pub(crate) fn more_args(&mut self, live: Live, place: u32, args: NameId) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        if args == NameId::NONE {
            return;
        }
        let before = running.thread.args.get(&place).copied().unwrap_or_default();
        let names = &mut self.trace.names;
        let object = |id| serde_json::from_str::<serde_json::Value>(names.text(id)).ok();
        let args = match (object(before), object(args)) {
            (
                Some(serde_json::Value::Object(mut before)),
                Some(serde_json::Value::Object(more)),
            ) => {
                before.extend(more);
                names.id(serde_json::Value::Object(before).to_string().as_bytes())
            }
            _ => args,
        };
        running.thread.args.insert(place, args);
    }

    /// Sets the CPU time at a slice's begin and end.
    pub(crate) fn cpu(&mut self, live: Live, place: u32, begin: Option<u64>, end: Option<u64>) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        if begin.is_none() && end.is_none() {
            return;
        }
        let all = &mut running.thread.cpu_ns;
        if all.len() <= place as usize {
            all.resize(place as usize + 1, (0, 0));
        }
        if let Some(cpu) = all.get_mut(place as usize) {
            cpu.0 = begin.unwrap_or(cpu.0);
            cpu.1 = end.unwrap_or(cpu.1.max(cpu.0));
        }
    }

    /// Sets a thread's process unless a better source has named it.
    pub(crate) fn guess_pid(&mut self, live: Live, pid: u32) {
        if let Some(running) = self.running.get_mut(live.0) {
            running.thread.pid.get_or_insert(pid);
        }
    }

    /// Begins an async slice.
    pub(crate) fn begin_async(&mut self, key: AsyncKey, begun: Async) {
        self.open_asyncs.entry(key).or_default().push(self.trace.asyncs.len());
        self.trace.asyncs.push(Async { end_ns: UNFINISHED, ..begun });
    }

    /// Begins an async slice of a marker. One without a track that is open does not begin again (Android's wake locks begin
    /// theirs several times and end them once): as in Perfetto, the first begin counts.
    pub(crate) fn begin_marked_async(&mut self, key: AsyncKey, begun: Async) {
        let is_open = self.open_asyncs.get(&key).is_some_and(|open| !open.is_empty());
        if is_open && key.track.is_none() {
            *self.trace.losses.unread.entry(BEGUN_AGAIN.to_owned()).or_default() += 1;
        } else {
            self.begin_async(key, begun);
        }
    }

    /// Ends the last async slice that began with this key, preferably one with this name.
    pub(crate) fn end_async(&mut self, key: AsyncKey, live: Live, at_ns: u64, name: NameId) {
        let thread = self.key(live);
        let asyncs = &mut self.trace.asyncs;
        let begun = self.open_asyncs.get_mut(&key).and_then(|open| {
            let named = open.iter().rposition(|&place| {
                name == NameId::NONE || asyncs.get(place).is_some_and(|begun| begun.name == name)
            });
            let place = match named {
                Some(named) => Some(open.remove(named)),
                None => open.pop(),
            };
            asyncs.get_mut(place?)
        });
        match begun {
            Some(begun) => (begun.end_ns, begun.threads[1]) = (at_ns, thread),
            None => self.trace.losses.unmatched_async_ends += 1,
        }
    }

    pub(crate) fn instant(&mut self, instant: Instant) {
        self.trace.instants.push(instant);
    }

    pub(crate) fn counter(&mut self, counter: Counter) {
        self.trace.counters.push(counter);
    }

    pub(crate) fn flow(&mut self, flow: Flow) {
        self.trace.flows.push(flow);
    }

    /// The scheduler did something with a thread, which may be none of the trace's.
    pub(crate) fn state(&mut self, tid: u32, state: State) {
        if tid != 0 {
            self.states.entry(tid).or_default().push(state);
        }
    }

    /// Adds the reason of a thread's sleep.
    pub(crate) fn blocked(&mut self, tid: u32, blocked: Blocked) {
        if tid != 0 {
            self.blocked.entry(tid).or_default().push(blocked);
        }
    }

    /// Adds a binder transaction.
    pub(crate) fn sent(&mut self, transaction: Transaction) {
        self.trace.scheduling.sent(&mut self.pending, transaction);
    }

    /// A thread receives a binder transaction.
    pub(crate) fn received(&mut self, id: i32, at_ns: u64, tid: u32) {
        self.trace.scheduling.received(&mut self.pending, id, at_ns, tid);
    }

    /// Marks a sleeping thread as runnable.
    pub(crate) fn woken(&mut self, tid: u32, woken: State) {
        let last = self.states.get(&tid).and_then(|states| states.last());
        if last.is_none_or(|state| !matches!(state.kind, b'r' | b'R')) {
            self.state(tid, woken);
        }
    }

    /// A thread begins. One that had the id earlier is not told apart from it.
    pub(crate) fn new_task(&mut self, tid: u32) {
        if self.states.contains_key(&tid) {
            self.not_read("new threads with the id of an earlier one, shown as one", 1);
        }
    }

    /// Counts what is in the input and not in the trace.
    pub(crate) fn not_read(&mut self, what: &str, count: u64) {
        if count > 0 {
            *self.trace.losses.unread.entry(what.to_owned()).or_default() += count;
        }
    }

    /// Makes threads of those that only the scheduler's events name.
    pub(crate) fn threads_of_states(&mut self) {
        let mut tids: Vec<u32> =
            self.states.keys().filter(|tid| !self.by_tid.contains_key(tid)).copied().collect();
        tids.sort_unstable();
        for tid in tids {
            self.thread(tid, None);
        }
    }

    /// Sets a process' name.
    pub(crate) fn process_name(&mut self, pid: u32, name: NameId) {
        self.trace.processes.insert(pid, Process { name });
    }

    /// Adds a thread from a PROCESS DUMP.
    pub(crate) fn thread_of_dump(&mut self, tid: u32, pid: u32, name: &[u8]) {
        let name = self.trace.names.id(name);
        self.trace.dumped.insert(tid, (pid, name));
    }

    /// The scheduler gives a thread this name, which may be none of the trace's.
    pub(crate) fn comm(&mut self, tid: u32, name: &[u8]) {
        let known = self.comms.get(&tid);
        if known.is_none_or(|&known| self.trace.names.text(known).as_bytes() != name) {
            let name = self.trace.names.id(name);
            self.comms.insert(tid, name);
        }
    }

    /// The same, with a name of the trace.
    pub(crate) fn comm_id(&mut self, tid: u32, name: NameId) {
        self.comms.insert(tid, name);
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

    /// Returns why the builder accepts no more, if a limit is reached.
    pub(crate) fn is_full(&self) -> Option<String> {
        if self.trace.losses.lines.is_multiple_of(1024) {
            if self.events > MAX_EVENTS {
                return Some(format!("more than {MAX_EVENTS} events"));
            }
            return self.is_full_of_names();
        }
        None
    }

    /// The same, of the names alone.
    pub(crate) fn is_full_of_names(&self) -> Option<String> {
        (self.trace.names.bytes() > MAX_NAME_BYTES)
            .then(|| format!("its names have more than {MAX_NAME_BYTES} bytes"))
    }
}

/// True if an end of this name and category is a slice's. An end may have neither.
pub(crate) fn is_ended_by(begun: (NameId, NameId), end: (NameId, NameId)) -> bool {
    let fits = |begun, end| end == NameId::NONE || begun == NameId::NONE || begun == end;
    fits(begun.0, end.0) && fits(begun.1, end.1)
}
