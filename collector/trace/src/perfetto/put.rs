//! Puts sorted events into the trace: finds each event's thread or process, pairs and nests.

use super::Reader;
use super::event::{Event, Labels, NO_CPU, Phase, What};
use super::tracks::{Place, TrackId};
use crate::builder::{Builder, Live, is_ended_by};
use crate::model::{
    Async, AsyncKey, Counter, Flow, FlowKind, FlowRecord, Instant, Scope, Trace, UNFINISHED,
};
use crate::names::NameId;
use crate::text::details::Details;
use std::collections::{HashMap, HashSet};

/// Whose a track is, with its thread in the builder.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Thread(Live),
    /// Process, the thread that its events are shown with, name of the track.
    Process {
        pid: u32,
        live: Live,
        thread: bool,
        name: NameId,
    },
}

/// Events being put into the trace.
#[derive(Default)]
pub(super) struct Put {
    reader: Reader,
    /// By the track's index: its owner, `None` if it has no descriptor; outer `None` until an event asks.
    owners: Vec<Option<Option<Owner>>>,
    threads: HashMap<(u32, u32), Live>,
    names: HashMap<(u32, u32), NameId>,
    /// Open complete slices: thread and index.
    completes: HashMap<u32, (Live, u32)>,
    /// The last slice or instant of a thread's track, which flows are at.
    records: HashMap<TrackId, Option<FlowRecord>>,
    /// Flows without a name, by id: true until they end, after which another flow may have the id.
    flows: HashMap<u64, bool>,
    /// Open slices of async tracks, and the state of state tracks.
    open: HashMap<TrackId, Vec<usize>>,
    /// Tracks that get a name or lose a scope, with the names that distinguish them.
    renamed: HashSet<(TrackId, NameId, i64)>,
    /// Names of the counters of each track, and how many of a thread or process have a name.
    counters: HashMap<(TrackId, NameId), NameId>,
    counted: HashMap<(Option<u32>, u32, NameId), u64>,
}

/// Counters whose name another one of their thread or process has.
const TWIN_COUNTERS: &str = "counters of one name, distinguished by a number";

impl Put {
    pub(super) fn new(mut reader: Reader) -> Self {
        let names = std::mem::take(&mut reader.tracks.thread_names);
        let names = names.into_iter().map(|(pid, tid, name)| ((pid, tid), name)).collect();
        Self { reader, names, ..Self::default() }
    }

    fn thread(&mut self, pid: u32, tid: u32) -> Live {
        if let Some(&live) = self.threads.get(&(pid, tid)) {
            return live;
        }
        let builder = &mut self.reader.builder;
        let live = builder.thread(tid, Some(pid));
        let from_ns = builder.trace.span_ns.map_or(0, |(first, _)| first);
        if let Some(name) = self.names.remove(&(pid, tid)) {
            builder.name_id(live, from_ns, name);
        }
        self.threads.insert((pid, tid), live);
        live
    }

    fn owner(&mut self, on: TrackId) -> Option<Owner> {
        let index = on.0 as usize;
        if let Some(&Some(owner)) = self.owners.get(index) {
            return owner;
        }
        let owner = match self.reader.tracks.index(on) {
            Place::Thread { pid, tid } => Some(Owner::Thread(self.thread(pid, tid))),
            Place::Process { pid, thread, name } => {
                self.reader.builder.trace.losses.tracks_of_nobody += u64::from(pid.is_none());
                let pid = pid.unwrap_or(0);
                // Records of text need a thread: the process' main one, if it has no other.
                let live = self.thread(pid, thread.unwrap_or(pid));
                Some(Owner::Process { pid, live, thread: thread.is_some(), name })
            }
            Place::Unknown => None,
        };
        if self.reader.tracks.is_nested(on) {
            self.reader.unread.event("tracks within other tracks, shown next to them");
        }
        if index >= self.owners.len() {
            self.owners.resize(index + 1, None);
        }
        if let Some(known) = self.owners.get_mut(index) {
            *known = Some(owner);
        }
        owner
    }

    /// True if the trace has as many threads as it may. Counts an event that is not read for it.
    pub(super) fn is_full(&mut self) -> bool {
        let is_full = self.reader.builder.is_full_of_threads();
        if is_full {
            self.reader.unread.event("events after the limit of threads");
        }
        is_full
    }

    pub(super) fn event(&mut self, event: Event) {
        let at_ns = event.at_ns;
        match event.what {
            What::Mark { tid, mark } => {
                let builder = &mut self.reader.builder;
                let live = builder.thread(tid, None);
                let at_ns = builder.at(live, at_ns);
                builder.mark(live, at_ns, mark, &Details::default());
            }
            What::CompleteEnd { id } => {
                if let Some((live, index)) = self.completes.remove(&id) {
                    let builder = &mut self.reader.builder;
                    let at_ns = builder.at(live, at_ns);
                    builder.end_open(live, index, at_ns, true);
                }
            }
            what => match event.on.and_then(|on| Some((on, self.owner(on)?))) {
                Some((on, owner)) => self.on_track(owner, on, at_ns, what),
                None => self.reader.unread.event("track events on tracks without a descriptor"),
            },
        }
    }

    fn on_track(&mut self, owner: Owner, on: TrackId, at_ns: u64, what: What) {
        let (live, pid, track) = match owner {
            Owner::Thread(live) => (live, None, None),
            Owner::Process { pid, live, name, .. } => (live, Some(pid), Some(name)),
        };
        let Self { reader, completes, records, open, renamed, counters, counted, flows, .. } = self;
        let builder = &mut reader.builder;
        let at_ns = builder.at(live, at_ns);
        let thread = builder.key(live);
        let cookie = reader.tracks.get(on).map_or(0, |track| track.uuid.cast_signed());
        let named = |track: Option<NameId>| track.filter(|&name| name != NameId::NONE);
        let slice = |name, category, args| Async {
            threads: [thread; 2],
            pid: pid.unwrap_or_default(),
            track: named(track),
            name,
            category,
            args,
            cookie,
            start_ns: at_ns,
            end_ns: UNFINISHED,
        };
        match (what, pid) {
            (What::Begin { labels: Labels { name, category, args }, cpu_ns }, None) => {
                let index = builder.begin(live, at_ns, name, category);
                records.insert(on, index.map(FlowRecord::Slice));
                if let Some(index) = index {
                    builder.args(live, index, args);
                    builder.cpu(live, index, Some(cpu_ns).filter(|&ns| ns != NO_CPU), None);
                }
            }
            (What::End { labels: Labels { name, category, args }, cpu_ns }, None) => {
                if let Some(index) = builder.end_named(live, at_ns, (name, category)) {
                    builder.more_args(live, index, args);
                    builder.cpu(live, index, None, Some(cpu_ns).filter(|&ns| ns != NO_CPU));
                }
                records.insert(on, builder.innermost(live));
            }
            (What::Complete { labels: Labels { name, category, args }, id }, None) => {
                let index = builder.begin(live, at_ns, name, category);
                records.insert(on, index.map(FlowRecord::Slice));
                if let Some(index) = index {
                    builder.args(live, index, args);
                    completes.insert(id, (live, index));
                }
            }
            (What::Begin { labels: Labels { name, category, args }, .. }, Some(_)) => {
                let is_within = open.get(&on).is_some_and(|open| !open.is_empty());
                // Perfetto names a track after its first slice, except a process's track.
                if named(track).is_none() {
                    let is_own = reader.tracks.is_of_process(on);
                    let is_other = !renamed.insert((on, NameId::NONE, 0)) || is_own;
                    if renamed.insert((on, name, 0)) && is_other {
                        builder.reshaped("tracks without a name, named as their slices", 1);
                    }
                }
                match named(track) {
                    Some(_) => builder.trace.losses.nested_asyncs += u64::from(is_within),
                    None if is_within => {
                        let why = "slices within others on tracks without a name, shown apart";
                        reader.unread.event(why);
                    }
                    None => {}
                }
                open.entry(on).or_default().push(builder.trace.asyncs.len());
                builder.trace.asyncs.push(slice(name, category, args));
            }
            (What::End { labels: Labels { name, category, args }, .. }, Some(_)) => {
                let asyncs = &builder.trace.asyncs;
                let ends = |&index: &usize| {
                    let begun = asyncs.get(index).map(|one| (one.name, one.category));
                    begun.is_some_and(|begun| is_ended_by(begun, (name, category)))
                };
                // Slices inside it stay open.
                let begun = open.get_mut(&on).and_then(|open| {
                    let index = open.iter().rposition(ends)?;
                    Some(open.remove(index))
                });
                match begun.and_then(|index| builder.trace.asyncs.get_mut(index)) {
                    Some(one) => (one.end_ns, one.threads[1]) = (at_ns, thread),
                    None => {
                        let (pid, track) = (pid.unwrap_or_default(), named(track));
                        let key = AsyncKey { pid, track, name, cookie };
                        builder.loose_end(live, at_ns, Some(key));
                    }
                }
                if let Some(index) = begun {
                    builder.more_async_args(index, args);
                }
            }
            (What::State { .. }, _)
                if !reader.tracks.get(on).is_some_and(|track| track.has_states) =>
            {
                reader.unread.event("states on tracks that are not of states");
            }
            (What::State { labels: Labels { name, args, .. } }, _) => {
                let last = open.entry(on).or_default();
                if let Some(begun) =
                    last.pop().and_then(|index| builder.trace.asyncs.get_mut(index))
                {
                    begun.end_ns = at_ns;
                }
                // A state without a name is none.
                if name != NameId::NONE {
                    last.push(builder.trace.asyncs.len());
                    builder.trace.asyncs.push(slice(name, NameId::NONE, args));
                }
            }
            (What::Instant { labels: Labels { name, category, args }, cpu_ns }, _) => {
                let cpu_ns = if cpu_ns == NO_CPU { 0 } else { cpu_ns };
                let pid = pid.or_else(|| builder.pid(live)).unwrap_or_default();
                // An instant of a process' own track is on one of its name.
                let track = track.map(|track| named(Some(track)).unwrap_or(name));
                let instant = Instant { thread, pid, track, name, category, args, at_ns, cpu_ns };
                if let Some(record) = builder.instant(instant) {
                    records.insert(on, Some(record));
                }
            }
            (What::Counter { name, value }, _) => {
                let counter = reader.tracks.get(on).and_then(|track| track.counter);
                let name = track.and_then(|track| named(Some(track))).unwrap_or(name);
                let is_of_thread = matches!(owner, Owner::Process { thread: true, .. });
                let scope = if is_of_thread { Scope::Thread } else { Scope::Process };
                let pid = pid.unwrap_or_default();
                let name = *counters.entry((on, name)).or_insert_with(|| {
                    let of_thread = is_of_thread.then_some(thread);
                    let twins = counted.entry((of_thread, pid, name)).or_insert(0_u64);
                    *twins += 1;
                    if *twins == 1 {
                        return name;
                    }
                    builder.not_read(TWIN_COUNTERS, 1);
                    let names = &mut builder.trace.names;
                    names.id(format!("{} #{twins}", names.text(name)).as_bytes())
                });
                if let Some(unit) = counter.map(|counter| counter.unit)
                    && unit != NameId::NONE
                {
                    builder.trace.units.insert((pid, name), unit);
                }
                builder.trace.counters.push(Counter { thread, pid, name, at_ns, value, scope });
            }
            (What::Flow { id, name: NameId::NONE, kind: FlowKind::End, .. }, None)
                if flows.get(&id) == Some(&false) =>
            {
                reader.unread.event("ends of flows that have ended before");
            }
            (What::Flow { id, name, category, kind }, None) => {
                let is_first = matches!(kind, FlowKind::Start | FlowKind::Step)
                    && name == NameId::NONE
                    && flows.insert(id, true) != Some(true);
                let kind = if is_first { FlowKind::Start } else { kind };
                if let (FlowKind::End, Some(is_open)) = (kind, flows.get_mut(&id)) {
                    *is_open = false;
                }
                let record =
                    builder.flow_record(live, records.get(&on).copied().flatten(), kind, at_ns);
                builder.trace.flows.push(Flow { thread, name, category, id, kind, at_ns, record });
            }
            (What::Flow { .. }, Some(_)) => reader.unread.event("flows of slices on async tracks"),
            (What::Async { labels: Labels { name, category, args }, id, phase }, _) => {
                let pid = pid.or_else(|| builder.pid(live)).unwrap_or_default();
                let one = Async {
                    pid,
                    cookie: id.cast_signed(),
                    track: None,
                    ..slice(name, category, args)
                };
                if category != NameId::NONE && renamed.insert((on, category, one.cookie)) {
                    builder.reshaped("tracks of legacy async events, without their scope", 1);
                }
                legacy_async(builder, live, at_ns, one, phase);
            }
            (What::Complete { .. }, Some(_)) => {
                reader.unread.event("complete slices on async tracks");
            }
            (What::Mark { .. } | What::CompleteEnd { .. }, _) => {}
        }
    }

    pub(super) fn finish(mut self) -> Trace {
        let open: usize = self.open.values().map(Vec::len).sum();
        // Threads with a name and without an event.
        for ((pid, tid), name) in std::mem::take(&mut self.names) {
            self.reader.builder.trace.dumped.insert(tid, (pid, name));
        }
        let Reader { mut builder, unread, lost, .. } = self.reader;
        builder.threads_of_states();
        let mut trace = builder.finish();
        trace.losses.unclosed_asyncs += open as u64;
        trace.losses.unread.extend(unread.into_counts());
        trace.cut_gaps();
        trace.losses.lost =
            lost.into_iter().map(|(what, count)| (what.to_owned(), count)).collect();
        trace
    }
}

/// A legacy async event: the older phases pair by name, the newer by category.
fn legacy_async(builder: &mut Builder, live: Live, at_ns: u64, one: Async, phase: Phase) {
    let Async { pid, name, category, args, cookie, .. } = one;
    let key = |by_name| AsyncKey {
        pid,
        track: None,
        name: if by_name { name } else { category },
        cookie,
    };
    match phase {
        Phase::Begin { by_name } => builder.begin_async(key(by_name), one),
        Phase::End { by_name } => {
            if let Some(index) = builder.end_async(key(by_name), live, at_ns, name) {
                builder.more_async_args(index, args);
            }
        }
        Phase::Instant => {
            let (thread, track, cpu_ns) = (one.threads[0], Some(name), 0);
            builder.instant(Instant { thread, pid, track, name, category, args, at_ns, cpu_ns });
        }
    }
}
