//! Perfetto's protobuf: track events with interned names, and the tracks that they are on.

mod births;
mod flows;
mod ftrace;
mod messages;
mod system;
mod track_ids;

use crate::lossiness::Dropped;
use births::Births;
use flows::{Flows, flow_id};
use messages::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, GenericRename, InternedData,
    InternedName, NestedValue, ProcessDescriptor, ThreadDescriptor, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent,
};
use prost::Message;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use tracetee_trace::perfetto::TrackIds;
use tracetee_trace::{
    Async, Counter, Event, FlowKind, FlowRecord, NameId, Scope, Slice, Thread, Timeline, Trace,
};
use track_ids::{hash, process_track, thread_track};

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// Maximum nesting of objects and lists in an argument; deeper ones are text. The reader accepts somewhat more.
const MAX_DEPTH: u32 = 30;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// The id of the sequence of packets that are written. Joined traces have other ids, from 1 on.
pub const PERFETTO_SEQUENCE: u32 = 0x7472_6365;

/// Writes a trace: by itself, or with the ends that copied traces lack, on their tracks.
pub(crate) fn write(
    trace: &Trace,
    beside: Option<&TrackIds>,
    out: &mut impl Write,
    dropped: &mut Dropped,
) -> io::Result<()> {
    let (mut rounded, mut halves) = (0, 0);
    for thread in trace.threads.values() {
        for (slice, &(begin_ns, end_ns)) in thread.slices.iter().zip(&thread.cpu_ns) {
            rounded += u64::from(begin_ns % 1000 != 0 || end_ns % 1000 != 0);
            halves += u64::from(begin_ns != 0 && end_ns == 0 && slice.ended);
        }
    }
    let instants = trace.instants.iter();
    rounded += instants.filter(|one| one.cpu_ns % 1000 != 0).count() as u64;
    dropped.add("CPU times, rounded to microseconds", rounded);
    dropped.add("CPU times of begins whose ends have none", halves);
    let alone = TrackIds::new();
    let mut writer = Writer::for_trace(trace, beside.unwrap_or(&alone), out);
    writer.head()?;
    // First, because Perfetto processes packets of equal time in file order, and a thread must be created before it is
    // described.
    writer.system()?;
    writer.tracks()?;
    for end in trace.ends.iter().filter(|end| beside.is_some() && end.key.is_none()) {
        let track_event = Some(writer.slice_end(end.thread, None));
        let timestamp = Some(end.at_ns);
        writer.packet(TracePacket { timestamp, track_event, ..TracePacket::default() })?;
    }
    for (at_ns, event) in Timeline::new(trace) {
        writer.event(at_ns, event)?;
    }
    let loose = writer.flows.loose.len() as u64;
    dropped.add("flow points outside of slices, written as instants", loose);
    dropped.add("arguments whose keys or indices Perfetto shows otherwise", writer.odd_args);
    Ok(())
}

struct Writer<'a, W> {
    trace: &'a Trace,
    /// Tracks that copied traces have.
    copied: &'a TrackIds,
    out: &'a mut W,
    buffer: Vec<u8>,
    interned: InternedData,
    names: HashSet<NameId>,
    categories: HashSet<NameId>,
    /// Ids of the names of kernel functions.
    symbols: HashMap<String, u64>,
    /// Tracks that are described.
    tracks: HashSet<u64>,
    flows: Flows,
    births: Births,
    /// Tracks of the open async slices, by index.
    async_tracks: HashMap<usize, u64>,
    /// Ends of the open slices of each stack, by its track.
    stacks: HashMap<u64, Vec<u64>>,
    /// Arguments of which [`odd`] is true.
    odd_args: u64,
    /// Time of the event that is written.
    now_ns: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    fn for_trace(trace: &'a Trace, copied: &'a TrackIds, out: &'a mut W) -> Self {
        Self {
            trace,
            copied,
            out,
            buffer: Vec::new(),
            interned: InternedData::default(),
            names: HashSet::new(),
            categories: HashSet::new(),
            symbols: HashMap::new(),
            tracks: copied.values().copied().collect(),
            flows: Flows::new(trace),
            births: Births::new(trace),
            async_tracks: HashMap::new(),
            stacks: HashMap::new(),
            odd_args: 0,
            now_ns: 0,
        }
    }

    fn packet(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(PERFETTO_SEQUENCE);
        packet.sequence_flags.get_or_insert(NEEDS_STATE);
        if self.interned != InternedData::default() && packet.interned_data.is_none() {
            packet.interned_data = Some(std::mem::take(&mut self.interned));
        }
        self.buffer.clear();
        // Field 1 of Trace: a packet.
        self.buffer.push(0x0a);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    fn head(&mut self) -> io::Result<()> {
        let first = TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(BOOTTIME) }),
            ..TracePacket::default()
        };
        self.packet(first)?;
        let Some(wall) = self.trace.realtime else { return Ok(()) };
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        let clocks = vec![clock(BOOTTIME, wall.at_ns), clock(REALTIME, wall.unix_ns)];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(BOOTTIME) };
        self.packet(TracePacket { clock_snapshot: Some(snapshot), ..TracePacket::default() })
    }

    fn tracks(&mut self) -> io::Result<()> {
        for &pid in self.trace.processes.keys() {
            self.process(pid)?;
        }
        for (&tid, &(pid, name)) in &self.trace.dumped {
            if !self.trace.threads.contains_key(&tid) {
                self.process(pid)?;
                self.thread(tid, pid, tid, self.trace.names.text(name))?;
            }
        }
        let with_events = with_events(self.trace);
        for (&key, thread) in &self.trace.threads {
            // A thread without a known process and without events has only a name; the kernel's idle threads have none.
            if (thread.tid == 0 || thread.pid.is_none()) && !with_events.contains(&key) {
                // The scheduler's events name their threads.
                let name = thread.name(&self.trace.names);
                if thread.tid != 0 && thread.states.is_empty() && !name.is_empty() {
                    let (tid, comm) = (Some(thread.tid.into()), Some(name.to_owned()));
                    self.packet(TracePacket {
                        timestamp: Some(self.births.thread(key)),
                        generic_kernel_task_rename_event: Some(GenericRename { tid, comm }),
                        ..TracePacket::default()
                    })?;
                }
                continue;
            }
            let pid = pid_of(key, thread);
            self.process(pid)?;
            self.thread(key, pid, thread.tid, thread.name(&self.trace.names))?;
        }
        Ok(())
    }

    fn thread(&mut self, key: u32, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        self.now_ns = self.births.thread(key);
        let copied = self.copied.get(&(pid, Some(tid))).copied();
        self.track(TrackDescriptor {
            uuid: Some(copied.unwrap_or_else(|| thread_track(key))),
            parent_uuid: Some(self.process_track(pid)),
            thread: Some(ThreadDescriptor {
                pid: Some(pid.cast_signed()),
                tid: Some(tid.cast_signed()),
                thread_name: (!name.is_empty()).then(|| name.to_owned()),
            }),
            ..TrackDescriptor::default()
        })
    }

    /// Returns the track of a thread.
    fn thread_track(&self, key: u32) -> u64 {
        if self.copied.is_empty() {
            return thread_track(key);
        }
        let thread = self.trace.threads.get(&key);
        let own = thread.map(|thread| (pid_of(key, thread), Some(thread.tid)));
        let copied = own.and_then(|own| self.copied.get(&own).copied());
        copied.unwrap_or_else(|| thread_track(key))
    }

    /// Returns the track of a process.
    fn process_track(&self, pid: u32) -> u64 {
        self.copied.get(&(pid, None)).copied().unwrap_or_else(|| process_track(pid))
    }

    fn process(&mut self, pid: u32) -> io::Result<()> {
        let trace = self.trace;
        self.now_ns = self.births.process(pid);
        let named = trace.processes.get(&pid).map(|process| trace.names.text(process.name));
        let process_name = named.map(str::to_owned);
        self.track(TrackDescriptor {
            uuid: Some(self.process_track(pid)),
            process: Some(ProcessDescriptor { pid: Some(pid.cast_signed()), process_name }),
            ..TrackDescriptor::default()
        })
    }

    /// Describes a track, once.
    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        if !self.tracks.insert(track.uuid.unwrap_or_default()) {
            return Ok(());
        }
        self.packet(TracePacket {
            timestamp: Some(self.now_ns),
            track_descriptor: Some(track),
            ..TracePacket::default()
        })
    }

    /// The track of the process that owns others; none if no process does.
    fn parent(&mut self, pid: u32) -> io::Result<Option<u64>> {
        // In a trace without such tracks it is a process.
        if pid == 0 && self.trace.losses.tracks_of_nobody > 0 {
            return Ok(None);
        }
        let now_ns = self.now_ns;
        self.process(pid)?;
        self.now_ns = now_ns;
        Ok(Some(self.process_track(pid)))
    }

    /// A track of a process, of that name.
    fn track_of(&mut self, pid: u32, uuid: u64, name: NameId) -> io::Result<u64> {
        if !self.tracks.contains(&uuid) {
            let parent_uuid = self.parent(pid)?;
            self.track(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid,
                name: Some(self.trace.names.text(name).to_owned()),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(uuid)
    }

    /// The track of an async slice that begins. Those of one category and id are a stack, as Dart's TimelineTask makes them, on a
    /// track named as the first, as in Perfetto; one that ends later than those around it is not.
    fn async_track(&mut self, index: usize, one: &Async) -> io::Result<u64> {
        let label = one.track.unwrap_or(one.name);
        let track = |kind, key: NameId| {
            hash(&[kind, one.pid.into(), key.number().into(), one.cookie.cast_unsigned()])
        };
        let mut uuid = track(3, label);
        if one.track.is_none() && one.category != NameId::NONE {
            let stack = track(9, one.category);
            let open = self.stacks.entry(stack).or_default();
            while open.pop_if(|end_ns| *end_ns <= one.start_ns).is_some() {}
            if open.last().is_none_or(|&around_ns| one.end_ns <= around_ns) {
                open.push(one.end_ns);
                uuid = stack;
            }
        }
        self.async_tracks.insert(index, uuid);
        self.track_of(one.pid, uuid, label)
    }

    /// The track of a counter: of its thread, its process or no owner.
    fn counter_track(&mut self, one: &Counter) -> io::Result<u64> {
        let name = one.name.number().into();
        let uuid = match one.scope {
            Scope::Thread => hash(&[7, one.thread.into(), name]),
            Scope::Process => hash(&[5, one.pid.into(), name]),
        };
        if !self.tracks.contains(&uuid) {
            let parent_uuid = match one.scope {
                Scope::Thread => Some(self.thread_track(one.thread)),
                Scope::Process => self.parent(one.pid)?,
            };
            let unit = self.trace.units.get(&(one.pid, one.name));
            let unit_name = unit.map(|&unit| self.trace.names.text(unit).to_owned());
            self.track(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid,
                name: Some(self.trace.names.text(one.name).to_owned()),
                counter: Some(CounterDescriptor { unit_name }),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(uuid)
    }

    fn name(&mut self, id: NameId) -> Option<u64> {
        let iid = u64::from(id.number()) + 1;
        if self.names.insert(id) {
            let name = self.trace.names.text(id).to_owned();
            self.interned.event_names.push(InternedName { iid: Some(iid), name: Some(name) });
        }
        Some(iid)
    }

    fn category(&mut self, id: NameId) -> Vec<u64> {
        if id == NameId::NONE {
            return Vec::new();
        }
        let iid = u64::from(id.number()) + 1;
        if self.categories.insert(id) {
            let name = self.trace.names.text(id).to_owned();
            self.interned.event_categories.push(InternedName { iid: Some(iid), name: Some(name) });
        }
        vec![iid]
    }

    /// An annotation for each argument, by its name.
    fn args(&mut self, args: NameId) -> Vec<DebugAnnotation> {
        if args == NameId::NONE {
            return Vec::new();
        }
        let json = self.trace.names.text(args);
        let args = members(json, MAX_DEPTH).unwrap_or_else(|| {
            vec![DebugAnnotation {
                name: Some("args".to_owned()),
                ..annotation_of(json, MAX_DEPTH)
            }]
        });
        self.odd_args += args.iter().filter(|arg| odd(arg)).count() as u64;
        args
    }

    fn event(&mut self, at_ns: u64, event: Event) -> io::Result<()> {
        self.now_ns = at_ns;
        let Some(track_event) = self.track_event(event)? else { return Ok(()) };
        self.packet(TracePacket {
            timestamp: Some(at_ns),
            track_event: Some(track_event),
            ..TracePacket::default()
        })
    }

    fn track_event(&mut self, event: Event) -> io::Result<Option<TrackEvent>> {
        let trace = self.trace;
        Ok(match event {
            Event::Begin(key, index) => {
                let Some(thread) = trace.threads.get(&key) else { return Ok(None) };
                let Some(&slice) = thread.slices.get(index as usize) else { return Ok(None) };
                Some(self.begin(key, index, thread, slice))
            }
            Event::End(key, index) => {
                let thread = trace.threads.get(&key);
                let thread = thread.filter(|thread| thread.slices.len() > index as usize);
                thread.map(|thread| self.slice_end(key, thread.cpu_of(index).1))
            }
            Event::StayOpen(..) => None,
            Event::AsyncBegin(index) => {
                let Some(one) = trace.asyncs.get(index) else { return Ok(None) };
                Some(TrackEvent {
                    r#type: Some(SLICE_BEGIN),
                    track_uuid: Some(self.async_track(index, one)?),
                    name_iid: self.name(one.name),
                    category_iids: self.category(one.category),
                    debug_annotations: self.args(one.args),
                    ..TrackEvent::default()
                })
            }
            Event::AsyncEnd(index) => {
                // The name says which one ends: another one may be open in it.
                let name_iid = trace.asyncs.get(index).and_then(|one| self.name(one.name));
                let (r#type, track_uuid) = (Some(SLICE_END), self.async_tracks.remove(&index));
                Some(TrackEvent { r#type, track_uuid, name_iid, ..TrackEvent::default() })
            }
            Event::Instant(index) => {
                let Some(one) = trace.instants.get(index) else { return Ok(None) };
                let track = match one.track {
                    Some(track) => {
                        let uuid = hash(&[4, one.pid.into(), track.number().into()]);
                        self.track_of(one.pid, uuid, track)?
                    }
                    None => self.thread_track(one.thread),
                };
                let (flow_ids, terminating_flow_ids) = match u32::try_from(index) {
                    Ok(index) => self.flows.take(one.thread, FlowRecord::Instant(index)),
                    Err(_) => Default::default(),
                };
                let cpu_ns = Some(one.cpu_ns).filter(|&cpu_ns| cpu_ns > 0 && one.track.is_none());
                Some(TrackEvent {
                    r#type: Some(INSTANT),
                    track_uuid: Some(track),
                    name_iid: self.name(one.name),
                    category_iids: self.category(one.category),
                    debug_annotations: self.args(one.args),
                    thread_time_absolute_us: us(cpu_ns),
                    flow_ids,
                    terminating_flow_ids,
                    ..TrackEvent::default()
                })
            }
            Event::Counter(index) => {
                let Some(one) = trace.counters.get(index) else { return Ok(None) };
                Some(TrackEvent {
                    r#type: Some(COUNTER),
                    track_uuid: Some(self.counter_track(one)?),
                    counter_value: whole(one.value),
                    double_counter_value: Some(one.value).filter(|&value| whole(value).is_none()),
                    ..TrackEvent::default()
                })
            }
            Event::Flow(index) if self.flows.loose.contains(&index) => {
                let Some(one) = trace.flows.get(index) else { return Ok(None) };
                let id = vec![flow_id(trace, index)];
                let ends = matches!(one.kind, FlowKind::End | FlowKind::EndAtNext);
                let (flow_ids, terminating_flow_ids) =
                    if ends { (Vec::new(), id) } else { (id, Vec::new()) };
                Some(TrackEvent {
                    r#type: Some(INSTANT),
                    track_uuid: Some(self.thread_track(one.thread)),
                    name_iid: self.name(one.name),
                    category_iids: self.category(one.category),
                    flow_ids,
                    terminating_flow_ids,
                    ..TrackEvent::default()
                })
            }
            Event::Flow(_) => None,
        })
    }

    fn slice_end(&self, key: u32, cpu_ns: Option<u64>) -> TrackEvent {
        TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(self.thread_track(key)),
            thread_time_absolute_us: us(cpu_ns),
            ..TrackEvent::default()
        }
    }

    fn begin(&mut self, key: u32, index: u32, thread: &Thread, slice: Slice) -> TrackEvent {
        let (flow_ids, terminating_flow_ids) = self.flows.take(key, FlowRecord::Slice(index));
        // Perfetto computes a wrong duration from an end without a time.
        let (begin_ns, end_ns) = thread.cpu_of(index);
        let begin_ns = begin_ns.filter(|_| end_ns.is_some() || !slice.ended);
        TrackEvent {
            r#type: Some(SLICE_BEGIN),
            track_uuid: Some(self.thread_track(key)),
            name_iid: self.name(slice.name),
            category_iids: self.category(slice.category),
            debug_annotations: self.args(thread.args.get(&index).copied().unwrap_or_default()),
            thread_time_absolute_us: us(begin_ns),
            flow_ids,
            terminating_flow_ids,
            ..TrackEvent::default()
        }
    }
}

/// Keys of the threads whose own tracks have events.
fn with_events(trace: &Trace) -> HashSet<u32> {
    let of_slices = trace.threads.iter().filter(|(_, thread)| !thread.slices.is_empty());
    let of_instants = trace.instants.iter().filter(|one| one.track.is_none());
    let of_counters = trace.counters.iter().filter(|one| one.scope == Scope::Thread);
    of_slices
        .map(|(&key, _)| key)
        .chain(of_instants.map(|one| one.thread))
        .chain(of_counters.map(|one| one.thread))
        .chain(trace.flows.iter().map(|one| one.thread))
        .collect()
}

/// A counter's value as an integer, which takes fewer bytes; `None` if it is not one.
fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "in range, and without a fraction")]
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

/// Processor time in Perfetto's unit: microseconds.
fn us(ns: Option<u64>) -> Option<i64> {
    Some((ns? / 1000).cast_signed())
}

pub(crate) fn pid_of(key: u32, thread: &Thread) -> u32 {
    thread.pid.unwrap_or(if key == thread.tid { key } else { thread.tid })
}

/// True if trace processor shows an argument differently: `_` for a point or a bracket of its key, and different indices
/// after an empty list in a list.
fn odd(arg: &DebugAnnotation) -> bool {
    let is_full = |value: &&DebugAnnotation| value.nested_value.is_none();
    arg.name.as_ref().is_some_and(|name| name.contains(['.', '[', ']']))
        || arg.array_values.iter().skip_while(is_full).any(|value| is_full(&value))
        || arg.dict_entries.iter().chain(&arg.array_values).any(odd)
}

/// Annotations of the members of a JSON object, by name.
fn members(json: &str, depth: u32) -> Option<Vec<DebugAnnotation>> {
    let all = serde_json::from_str::<BTreeMap<String, &RawValue>>(json).ok()?;
    let annotation = |(name, value): (String, &RawValue)| DebugAnnotation {
        name: Some(name),
        ..annotation_of(value.get(), depth)
    };
    Some(all.into_iter().map(annotation).collect())
}

/// The value of an annotation: none for `null`. Trace processor reads no numbers in `legacy_json_value`, and crashes on some
/// values there. Values that JSON can represent and an annotation cannot become text.
fn annotation_of(json: &str, depth: u32) -> DebugAnnotation {
    let mut annotation = DebugAnnotation::default();
    let is_shallow = depth > 0;
    match json.as_bytes().first() {
        Some(b't' | b'f') => annotation.bool_value = json.parse().ok(),
        Some(b'n') => return annotation,
        Some(b'{') if is_shallow => {
            let members = members(json, depth - 1);
            let is_empty = members.as_ref().is_some_and(Vec::is_empty);
            annotation.nested_value = is_empty.then_some(NestedValue { nested_type: Some(1) });
            annotation.dict_entries = members.unwrap_or_default();
        }
        Some(b'[') if is_shallow => {
            let values = serde_json::from_str::<Vec<&RawValue>>(json).ok();
            let is_empty = values.as_ref().is_some_and(Vec::is_empty);
            annotation.nested_value = is_empty.then_some(NestedValue { nested_type: Some(2) });
            let values = values.iter().flatten();
            annotation.array_values =
                values.map(|value| annotation_of(value.get(), depth - 1)).collect();
        }
        Some(b'"') => annotation.string_value = serde_json::from_str(json).ok(),
        Some(b'-' | b'0'..=b'9') => match (json.parse(), json.parse(), json.parse::<f64>()) {
            (Ok(int), ..) => annotation.int_value = Some(int),
            (_, Ok(uint), _) => annotation.uint_value = Some(uint),
            (.., Ok(real)) if real.is_finite() => annotation.double_value = Some(real),
            _ => {}
        },
        _ => {}
    }
    if annotation == DebugAnnotation::default() {
        annotation.string_value = Some(json.to_owned());
    }
    annotation
}
