//! Perfetto's protobuf: track events with interned names, and the tracks that they are on.
//!
//! The messages are those of Perfetto's `protos/perfetto/trace` that are written here, by their field
//! numbers.

use crate::left::Left;
use crate::{cpu_times, states};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _, Write};
use tracetee_trace::{Event, FlowKind, NameId, Slice, Thread, Timeline, Trace};

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "59")]
    trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    primary_trace_clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "1")]
    event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<InternedName>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(string, optional, tag = "9")]
    legacy_json_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// A trace that ours is joined with has sequences of its own, from 1 on.
const SEQUENCE: u32 = 0x7472_6365;

pub(crate) fn write(trace: &Trace, out: &mut impl Write, left: &mut Left) -> io::Result<()> {
    let mut writer = Writer::of(trace, out);
    writer.head()?;
    writer.tracks()?;
    for (at_ns, event) in Timeline::of(trace) {
        writer.event(at_ns, event)?;
    }
    left.add("processor times", cpu_times(trace));
    left.add("threads' states", states(trace));
    left.add("what is known of the capture", u64::from(!trace.about.is_empty()));
    let renamed = trace.threads.values().map(|thread| thread.names.len().saturating_sub(1) as u64);
    left.add("earlier names of threads", renamed.sum());
    Ok(())
}

/// The first clock snapshot of a Perfetto trace that has the time of day: boot time (ns), and milliseconds
/// since 1970 at it.
///
/// # Errors
/// What the reader says; [`io::ErrorKind::InvalidData`] where it is no Perfetto trace.
pub fn clock(mut trace: impl io::Read) -> io::Result<Option<(u64, u64)>> {
    // Snapshots are among the first packets.
    const MAX_PACKETS: usize = 100_000;
    const MAX_PACKET_BYTES: u64 = 512 << 20;
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut offset = 0_u64;
    for _ in 0..MAX_PACKETS {
        let Some(tag) = varint(&mut trace, &mut offset)? else { return Ok(None) };
        if tag != 0x0a {
            return Err(invalid(format!("there is no packet at byte {offset}: field {tag:#x}")));
        }
        let length = varint(&mut trace, &mut offset)?.unwrap_or(0);
        if length > MAX_PACKET_BYTES {
            return Err(invalid(format!("a packet of {length} bytes at byte {offset}")));
        }
        let mut bytes = Vec::new();
        let read = io::Read::take(&mut trace, length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Ok(None);
        }
        offset += length;
        let Ok(packet) = TracePacket::decode(&*bytes) else { continue };
        let snapshot = packet.clock_snapshot.unwrap_or_default();
        let of = |id| {
            let clock = snapshot.clocks.iter().find(|clock| clock.clock_id == Some(id));
            clock.and_then(|clock| clock.timestamp)
        };
        if let (Some(boot_ns), Some(real_ns)) = (of(BOOTTIME), of(REALTIME)) {
            return Ok(Some((boot_ns, real_ns / 1_000_000)));
        }
    }
    Ok(None)
}

/// A number of seven bits a byte; none at the end.
fn varint(from: &mut impl io::Read, offset: &mut u64) -> io::Result<Option<u64>> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        *offset += 1;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    Ok(Some(number))
}

/// Flows that a slice has: of its thread's key and its place.
type Flows = HashMap<(u32, u32), (Vec<u64>, Vec<u64>)>;

struct Writer<'a, W> {
    trace: &'a Trace,
    out: &'a mut W,
    buffer: Vec<u8>,
    interned: InternedData,
    names: HashSet<NameId>,
    categories: HashSet<NameId>,
    tracks: HashSet<u64>,
    flows: Flows,
    /// Points of flows that are at no slice.
    loose: HashSet<usize>,
}

impl<'a, W: Write> Writer<'a, W> {
    fn of(trace: &'a Trace, out: &'a mut W) -> Self {
        let mut flows = Flows::new();
        let mut loose = HashSet::new();
        for (place, flow) in trace.flows.iter().enumerate() {
            let thread = trace.threads.get(&flow.thread);
            let next = flow.kind == FlowKind::EndAtNext;
            let Some(slice) = thread.and_then(|thread| slice_at(thread, flow.at_ns, next)) else {
                loose.insert(place);
                continue;
            };
            let of = flows.entry((flow.thread, slice)).or_default();
            let id = flow_id(trace, place);
            match flow.kind {
                FlowKind::Start | FlowKind::Step => of.0.push(id),
                FlowKind::End | FlowKind::EndAtNext => of.1.push(id),
            }
        }
        Self {
            trace,
            out,
            buffer: Vec::new(),
            interned: InternedData::default(),
            names: HashSet::new(),
            categories: HashSet::new(),
            tracks: HashSet::new(),
            flows,
            loose,
        }
    }

    fn packet(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags.get_or_insert(NEEDS_STATE);
        let has_new =
            !self.interned.event_names.is_empty() || !self.interned.event_categories.is_empty();
        if has_new {
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
        let Some((at_ns, ms)) = self.trace.realtime else { return Ok(()) };
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        let clocks = vec![clock(BOOTTIME, at_ns), clock(REALTIME, ms.saturating_mul(1_000_000))];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(BOOTTIME) };
        self.packet(TracePacket { clock_snapshot: Some(snapshot), ..TracePacket::default() })
    }

    fn tracks(&mut self) -> io::Result<()> {
        for &pid in self.trace.processes.keys() {
            self.process(pid)?;
        }
        for (&key, thread) in &self.trace.threads {
            let pid = pid_of(key, thread);
            self.process(pid)?;
            let name = thread.name(&self.trace.names);
            self.track(TrackDescriptor {
                uuid: Some(of_thread(key)),
                parent_uuid: Some(of_process(pid)),
                thread: Some(ThreadDescriptor {
                    pid: Some(pid.cast_signed()),
                    tid: Some(thread.tid.cast_signed()),
                    thread_name: (!name.is_empty()).then(|| name.to_owned()),
                }),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(())
    }

    fn process(&mut self, pid: u32) -> io::Result<()> {
        let trace = self.trace;
        let named = trace.processes.get(&pid).map(|process| trace.names.text(process.name));
        let process_name = named.map(str::to_owned);
        self.track(TrackDescriptor {
            uuid: Some(of_process(pid)),
            process: Some(ProcessDescriptor { pid: Some(pid.cast_signed()), process_name }),
            ..TrackDescriptor::default()
        })
    }

    /// Says what a track is, once.
    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        if !self.tracks.insert(track.uuid.unwrap_or_default()) {
            return Ok(());
        }
        self.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    /// A track of a process, of that name.
    fn track_of(&mut self, pid: u32, uuid: u64, name: NameId, is_counter: bool) -> io::Result<u64> {
        if !self.tracks.contains(&uuid) {
            self.process(pid)?;
            self.track(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: Some(of_process(pid)),
                name: Some(self.trace.names.text(name).to_owned()),
                counter: is_counter.then(CounterDescriptor::default),
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

    fn args(&self, args: NameId) -> Vec<DebugAnnotation> {
        if args == NameId::NONE {
            return Vec::new();
        }
        let json = self.trace.names.text(args).to_owned();
        vec![DebugAnnotation { legacy_json_value: Some(json), name: Some("args".to_owned()) }]
    }

    fn event(&mut self, at_ns: u64, event: Event) -> io::Result<()> {
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
            Event::Begin(key, place) => {
                let Some(thread) = trace.threads.get(&key) else { return Ok(None) };
                let Some(&slice) = thread.slices.get(place as usize) else { return Ok(None) };
                Some(self.begin(key, place, thread, slice))
            }
            Event::End(key, place) => {
                let thread = trace.threads.get(&key);
                let slice = thread.and_then(|thread| thread.slices.get(place as usize));
                slice.filter(|slice| slice.ended).map(|_| TrackEvent {
                    kind: Some(SLICE_END),
                    track_uuid: Some(of_thread(key)),
                    ..TrackEvent::default()
                })
            }
            Event::AsyncBegin(place) | Event::AsyncEnd(place) => {
                let Some(one) = trace.asyncs.get(place) else { return Ok(None) };
                let label = one.track.unwrap_or(one.name);
                let of = [3, one.pid.into(), label.number().into(), one.cookie.cast_unsigned()];
                let track_uuid = Some(self.track_of(one.pid, hash(&of), label, false)?);
                Some(if matches!(event, Event::AsyncBegin(_)) {
                    TrackEvent {
                        kind: Some(SLICE_BEGIN),
                        track_uuid,
                        name_iid: self.name(one.name),
                        category_iids: self.category(one.category),
                        debug_annotations: self.args(one.args),
                        ..TrackEvent::default()
                    }
                } else {
                    TrackEvent { kind: Some(SLICE_END), track_uuid, ..TrackEvent::default() }
                })
            }
            Event::Instant(place) => {
                let Some(one) = trace.instants.get(place) else { return Ok(None) };
                let track = match one.track {
                    Some(track) => {
                        let uuid = hash(&[4, one.pid.into(), track.number().into()]);
                        self.track_of(one.pid, uuid, track, false)?
                    }
                    None => of_thread(one.thread),
                };
                Some(TrackEvent {
                    kind: Some(INSTANT),
                    track_uuid: Some(track),
                    name_iid: self.name(one.name),
                    category_iids: self.category(one.category),
                    debug_annotations: self.args(one.args),
                    ..TrackEvent::default()
                })
            }
            Event::Counter(place) => {
                let Some(one) = trace.counters.get(place) else { return Ok(None) };
                let uuid = hash(&[5, one.pid.into(), one.name.number().into()]);
                Some(TrackEvent {
                    kind: Some(COUNTER),
                    track_uuid: Some(self.track_of(one.pid, uuid, one.name, true)?),
                    counter_value: Some(one.value),
                    ..TrackEvent::default()
                })
            }
            Event::Flow(place) if self.loose.contains(&place) => {
                let Some(one) = trace.flows.get(place) else { return Ok(None) };
                let id = vec![flow_id(trace, place)];
                let ends = matches!(one.kind, FlowKind::End | FlowKind::EndAtNext);
                let (flow_ids, terminating_flow_ids) =
                    if ends { (Vec::new(), id) } else { (id, Vec::new()) };
                Some(TrackEvent {
                    kind: Some(INSTANT),
                    track_uuid: Some(of_thread(one.thread)),
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

    fn begin(&mut self, key: u32, place: u32, thread: &Thread, slice: Slice) -> TrackEvent {
        let (flow_ids, terminating_flow_ids) = self.flows.remove(&(key, place)).unwrap_or_default();
        TrackEvent {
            kind: Some(SLICE_BEGIN),
            track_uuid: Some(of_thread(key)),
            name_iid: self.name(slice.name),
            category_iids: self.category(slice.category),
            debug_annotations: self.args(thread.args.get(&place).copied().unwrap_or_default()),
            flow_ids,
            terminating_flow_ids,
            ..TrackEvent::default()
        }
    }
}

fn pid_of(key: u32, thread: &Thread) -> u32 {
    thread.pid.unwrap_or(if key == thread.tid { key } else { thread.tid })
}

/// The innermost slice of a thread around a time; or the next to begin.
fn slice_at(thread: &Thread, at_ns: u64, next: bool) -> Option<u32> {
    let later = thread.slices.partition_point(|slice| slice.start_ns <= at_ns);
    if next {
        let same = thread.slices.partition_point(|slice| slice.start_ns < at_ns);
        return thread.slices.get(same).and_then(|_| u32::try_from(same).ok());
    }
    let mut place = u32::try_from(later.checked_sub(1)?).ok()?;
    loop {
        let slice = thread.slices.get(place as usize)?;
        if slice.end_ns >= at_ns {
            return Some(place);
        }
        place = slice.parent;
    }
}

fn flow_id(trace: &Trace, place: usize) -> u64 {
    trace.flows.get(place).map_or(0, |flow| {
        hash(&[6, flow.name.number().into(), flow.category.number().into(), flow.id])
    })
}

fn of_process(pid: u32) -> u64 {
    hash(&[1, pid.into()])
}

fn of_thread(key: u32) -> u64 {
    hash(&[2, key.into()])
}

/// A number that stands for these (FNV-1a).
fn hash(parts: &[u64]) -> u64 {
    parts.iter().flat_map(|part| part.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
