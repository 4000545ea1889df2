//! Perfetto's protobuf. One pass over the packets, each in place; events are buffered compactly with interned names until
//! all clocks and tracks are known, then sorted by time and put into the model.
//!
//! [`packets`] extracts packets from the file, [`wire`] reads fields, [`sequence`] keeps what a writer interned, [`clock`]
//! relates clocks, [`tracks`] describes tracks; [`track_event`], [`legacy`], [`ftrace`], [`frames`], [`stacks`], [`gpu`] and
//! [`processes`] read packets of their kinds; [`finish`] sorts, and [`put`] makes the trace. It uses our own field walker,
//! not generated types: it allocates nothing for a field that is only compared or interned, and reads additions of unknown
//! writers. Fields that are not read are counted ([`unread`]).

mod annotations;
mod check;
mod clock;
mod copy;
mod event;
mod fields;
mod finish;
mod frames;
mod ftrace;
mod gaps;
mod gpu;
mod legacy;
mod packets;
mod processes;
mod put;
mod sched;
mod sequence;
pub(crate) mod stacks;
mod track_event;
mod tracks;
mod unread;
mod wall_clocks;
pub(crate) mod wire;

pub(crate) use check::begins_with_packet;
pub use check::{check, check_first};
pub use copy::{Copied, SequenceIds, TrackIds, copy};
pub(crate) use packets::MAX_UNPACKED_BYTES;
pub use wall_clocks::wall_clocks;

use crate::builder::{Builder, MAX_EVENTS};
use crate::error::Error;
use crate::kernel::KernelEvent;
use crate::model::{Losses, Trace};
use clock::{Clock, Clocks};
use event::Event;
use fields::packet;
use sequence::{Descriptor, Reference, Sequence, Sequences};
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use tracks::Tracks;
use unread::Unread;
use wire::{Fields, Malformed};

/// Kinds of packets without a writer.
const METADATA: &str = "packets of metadata about the system and the recording";
/// Counters that Perfetto derives from samples.
const TIME_BASES: &str = "counters of samples, written as those of the processor's clock";
/// Limit of packets, most of which may be empty.
const MAX_PACKETS: u64 = 256 << 20;
/// Flags of a packet.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Reads a trace in Perfetto's format, with all events.
///
/// # Errors
/// [`Error::NoTrace`] if it has no packet; [`Error::At`] if its first packet cannot be read.
pub fn read<R: BufRead>(trace: R) -> Result<Trace, Error> {
    read_within(trace, MAX_UNPACKED_BYTES, true)
}

/// The same; the compressed packets of the trace may unpack to `most` bytes, and the rest is ignored like that of a
/// truncated file. Events that only writers need ([`Trace::kernel`]) are kept if `keeps_events` says so.
///
/// # Errors
/// As [`read`].
pub fn read_within<R: BufRead>(
    mut trace: R,
    most: u64,
    keeps_events: bool,
) -> Result<Trace, Error> {
    let mut reader = Reader { keeps_events, ..Reader::default() };
    let end = packets::walk(&mut trace, &mut reader, most);
    let losses = &mut reader.builder.trace.losses;
    if let Some(error) = end.error {
        if losses.lines == 0 {
            return Err(Error::At { offset: end.at, why: error.to_string() });
        }
        losses.truncated = Some((end.at, error.to_string()));
    } else if let Some(why) = reader.full.take() {
        losses.truncated = Some((end.at, why));
    }
    reader.check()?;
    Ok(reader.finish())
}

#[derive(Default)]
struct Reader {
    builder: Builder,
    /// True if events stay that only writers need.
    keeps_events: bool,
    sequences: Sequences,
    /// Interned entries so far.
    interned: u64,
    clocks: Clocks,
    tracks: Tracks,
    events: Vec<Event>,
    kernel: Vec<(Clock, KernelEvent)>,
    frames: Vec<(Clock, frames::FrameEvent)>,
    buffers: Vec<(Clock, crate::frames::BufferEvent)>,
    samples: Vec<(Clock, crate::samples::Sample)>,
    /// Names of the counters of a GPU, by their ids, and the index of their last event.
    gpu_counters: HashMap<(u64, u64), (crate::names::NameId, Option<usize>)>,
    completes: u32,
    /// Version of the kernel, which decides the meaning of thread states.
    kernel_version: Option<(u32, u32)>,
    /// Time from which the kernel's events count.
    started: Option<(Clock, u64)>,
    /// Thread names of the process tree, by thread id: process and name.
    tree: BTreeMap<u32, (u32, crate::names::NameId)>,
    /// By processor: the time from which its first bundle has all of its events.
    covered: BTreeMap<u16, (Clock, u64)>,
    /// Counts of the kernel's losses at the begin of the recording, by processor: overwritten, dropped.
    kernel_losses: BTreeMap<u32, [u64; 2]>,
    /// The last kernel event of each processor.
    last_of_cpu: BTreeMap<u16, (Clock, u64)>,
    gaps: gaps::Gaps,
    /// Counts of the kernel's events that are not read, by their field.
    other_ftrace: BTreeMap<u32, u64>,
    /// Clock of each step of a suspend.
    suspend_clocks: Vec<Clock>,
    unread: Unread,
    lost: BTreeMap<&'static str, u64>,
    /// Buffer for JSON of arguments.
    json: String,
    full: Option<String>,
    /// True if a packet was valid.
    has_packet: bool,
}

impl packets::Take for Reader {
    fn packet(&mut self, packet: &[u8]) -> bool {
        self.builder.trace.losses.lines += 1;
        let read = if packet.is_empty() { Ok(()) } else { self.read_packet(packet) };
        match read {
            Ok(()) => self.has_packet = true,
            Err(why) => self.bad(why, packet),
        }
        self.full = self.limit();
        self.full.is_none()
    }

    fn bad(&mut self, why: &'static str, bytes: &[u8]) {
        let losses = &mut self.builder.trace.losses;
        let number = losses.lines;
        losses.bad(number, why, bytes);
    }
}

/// The fields of a packet that decide how the others are read.
#[derive(Debug, Default)]
struct Head {
    sequence: u32,
    timestamp: Option<u64>,
    clock: Option<u32>,
    flags: u64,
    dropped: u64,
    machine: u64,
    /// True if it has what later fields need: defaults, interned data, clocks.
    has_state: bool,
}

impl Reader {
    /// Returns the reason for ending early, if a limit is reached.
    fn limit(&self) -> Option<String> {
        let losses = &self.builder.trace.losses;
        if losses.lines > MAX_PACKETS {
            return Some(format!("more than {MAX_PACKETS} packets"));
        }
        let waiting = self.events.len() + self.kernel.len() + self.frames.len();
        let waiting = waiting + self.buffers.len() + self.samples.len();
        if waiting as u64 > MAX_EVENTS {
            return Some(format!("more than {MAX_EVENTS} events"));
        }
        if losses.lines.is_multiple_of(64) { self.builder.is_full_of_names() } else { None }
    }

    fn sequence(&mut self, id: u32) -> &mut Sequence {
        self.sequences.entry(id).or_default()
    }

    /// Fails if no packet so far was valid.
    fn check(&self) -> Result<(), Error> {
        let Losses { lines, shown, .. } = &self.builder.trace.losses;
        if self.has_packet {
            return Ok(());
        }
        let why = shown.first().map_or("it is empty", |bad| bad.why);
        Err(Error::NoTrace(format!("none of its {lines} packets is valid: {why}")))
    }

    fn lost(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.lost.entry(what).or_default() += count;
        }
    }

    fn read_packet(&mut self, packet: &[u8]) -> Result<(), Malformed> {
        let head = head(packet)?;
        if head.machine != 0 {
            self.unread.event("packets of other machines");
            return Ok(());
        }
        let is_new = !self.sequences.contains_key(&head.sequence);
        if is_new && self.sequences.len() >= sequence::MAX_SEQUENCES {
            return Err("too many sequences");
        }
        let state = self.sequences.entry(head.sequence).or_default();
        let is_first = !std::mem::replace(&mut state.is_known, true);
        if head.flags & CLEARED != 0 {
            state.clear();
        } else if head.dropped != 0 {
            state.lose();
        }
        // The first packet of a sequence always has the flag.
        if head.dropped != 0 && !is_first {
            state.lost_since = state.lost_since.or(state.last);
            self.lost(gaps::PACKETS, 1);
        }
        if head.has_state {
            self.read_state(&head, packet)?;
        }
        if head.flags & NEEDS_STATE != 0 && !self.sequence(head.sequence).is_valid {
            self.unread.event("packets whose interned data was lost");
            return Ok(());
        }
        let time = self.time(&head)?;
        if let Some(time) = time {
            let state = self.sequence(head.sequence);
            state.last = Some(time);
            if let Some(since) = state.lost_since.take() {
                self.gaps.packets(since, time);
            }
        }
        self.read_content(&head, time, packet)
    }

    /// Reads what later fields need: defaults, interned data, clocks.
    fn read_state(&mut self, head: &Head, packet: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(packet) {
            let (number, value) = field?;
            match number {
                packet::trace_packet_defaults => {
                    let (defaults, unread) = sequence::defaults(value.bytes()?)?;
                    self.sequence(head.sequence).defaults = defaults;
                    for number in unread {
                        self.unread.field("packet defaults", number);
                    }
                }
                packet::clock_snapshot => {
                    self.builder
                        .reshaped("clock snapshots, of which one pair of clocks is written", 1);
                    self.clocks.snapshot(head.sequence, value.bytes()?)?;
                }
                _ => {}
            }
        }
        // Interned data may come before or after the field with the defaults.
        for field in Fields::of(packet) {
            let (packet::interned_data, value) = field? else { continue };
            let state = self.sequences.entry(head.sequence).or_default();
            if !state.is_valid {
                self.unread.event("interned data after a loss");
                continue;
            }
            let names = &mut self.builder.trace.names;
            let unread = sequence::intern(state, names, &mut self.interned, value.bytes()?)?;
            for number in unread {
                self.unread.field("interned data", number);
            }
        }
        Ok(())
    }

    fn time(&mut self, head: &Head) -> Result<Option<(Clock, u64)>, Malformed> {
        let Some(timestamp) = head.timestamp else { return Ok(None) };
        let default = self.sequence(head.sequence).defaults.clock;
        let id = head.clock.or(default).filter(|&id| id != 0).unwrap_or(clock::BOOTTIME);
        let clock = self.clocks.clock(head.sequence, id).ok_or("too many clocks")?;
        Ok(Some((clock, self.clocks.absolute(clock, timestamp))))
    }

    fn read_content(
        &mut self,
        head: &Head,
        time: Option<(Clock, u64)>,
        packet: &[u8],
    ) -> Result<(), Malformed> {
        for field in Fields::of(packet) {
            let (number, value) = field?;
            match number {
                // The head, the state, and the marks that the service adds.
                packet::trusted_uid
                | packet::clock_snapshot
                | packet::timestamp
                | packet::trusted_packet_sequence_id
                | packet::interned_data
                | packet::sequence_flags
                | packet::synchronization_marker
                | packet::incremental_state_cleared
                | packet::previous_packet_dropped
                | packet::timestamp_clock_id
                | packet::trace_packet_defaults
                | packet::trusted_pid
                | packet::first_packet_on_sequence
                | packet::trace_uuid
                | packet::machine_id => {}
                packet::track_event => self.track_event(head.sequence, time, value.bytes()?)?,
                packet::track_descriptor => {
                    let names = &mut self.builder.trace.names;
                    self.tracks.describe(value.bytes()?, names, &mut self.unread)?;
                }
                packet::ftrace_events => self.ftrace_bundle(head.sequence, value.bytes()?)?,
                packet::process_tree => self.process_tree(value.bytes()?)?,
                packet::generic_kernel_task_rename_event => self.renamed(value.bytes()?)?,
                packet::process_descriptor => self.process_descriptor(value.bytes()?)?,
                packet::thread_descriptor => {
                    self.thread_descriptor(head.sequence, value.bytes()?)?
                }
                packet::frame_timeline_event => self.frame_timeline(time, value.bytes()?)?,
                packet::graphics_frame_event => self.graphics_frame(time, value.bytes()?)?,
                packet::gpu_counter_event => self.gpu_counters(time, value.bytes()?)?,
                packet::perf_sample => self.perf_sample(head.sequence, time, value.bytes()?)?,
                packet::stack_sample => self.stack_sample(head.sequence, time, value.bytes()?)?,
                packet::packages_list => self.packages(value.bytes()?)?,
                packet::ftrace_stats => self.ftrace_stats(value.bytes()?)?,
                packet::trace_stats => self.trace_stats(value.bytes()?)?,
                packet::system_info => self.system_info(value.bytes()?)?,
                packet::service_event => {
                    self.builder.reshaped(METADATA, 1);
                    self.service_event(time, value.bytes()?)?;
                }
                // The configuration says how the trace was recorded; nothing here depends on it.
                packet::trace_config => self.builder.reshaped(METADATA, 1),
                _ => self.unread.field("packet", number),
            }
        }
        Ok(())
    }

    /// A sequence's thread, in the older form; deltas are relative to its times.
    fn thread_descriptor(&mut self, sequence: u32, message: &[u8]) -> Result<(), Malformed> {
        let names = &mut self.builder.trace.names;
        let (pid, tid, name, at_us, cpu_us) =
            tracks::legacy_thread(message, names, &mut self.unread)?;
        if name != crate::names::NameId::NONE {
            self.tracks.thread_names.push((pid, tid, name));
        }
        let state = self.sequence(sequence);
        if !state.is_valid {
            self.unread.event("thread descriptors after a loss");
            return Ok(());
        }
        state.thread = Some(Descriptor { pid, tid });
        let ns = |us: i64| us.saturating_mul(1000);
        state.reference = Some(Reference { at_ns: ns(at_us), cpu_ns: ns(cpu_us) });
        Ok(())
    }
}

fn head(packet: &[u8]) -> Result<Head, Malformed> {
    let mut head = Head::default();
    for field in Fields::of(packet) {
        match field? {
            (packet::trusted_packet_sequence_id, value) => head.sequence = value.u32()?,
            (packet::timestamp, value) => head.timestamp = Some(value.number()?),
            (packet::timestamp_clock_id, value) => head.clock = Some(value.u32()?),
            (packet::sequence_flags, value) => head.flags |= value.number()?,
            (packet::incremental_state_cleared, value) => head.flags |= u64::from(value.bool()?),
            (packet::previous_packet_dropped, value) => head.dropped = value.number()?,
            (packet::machine_id, value) => head.machine = value.number()?,
            (packet::clock_snapshot | packet::interned_data | packet::trace_packet_defaults, _) => {
                head.has_state = true
            }
            _ => {}
        }
    }
    Ok(head)
}
