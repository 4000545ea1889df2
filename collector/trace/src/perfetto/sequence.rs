//! The state of a packet sequence: what a writer interned, its defaults, and the deltas that its values are relative to.
//! Packet loss makes it invalid until the writer starts over.

use super::clock::Clock;
use super::fields::{
    callstack, execution_context, frame, interned, interned_data, mapping, packet_defaults,
    task_context, track_event,
};
use super::wire::{Fields, Malformed, bytes_of, low, numbers, numbers_of};
use crate::names::{NameId, Names};
use crate::seeded::Seeded;
use std::collections::HashMap;

/// Limit of sequences of a file; a device has some hundreds.
pub(super) const MAX_SEQUENCES: usize = 1 << 16;
/// Limit of interned entries of all sequences.
const MAX_INTERNED: u64 = 16 << 20;

/// State of a sequence, by its packets so far.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// False from a loss, or the beginning, until the writer clears its state.
    pub(super) is_valid: bool,
    /// True after the sequence's first packet.
    pub(super) is_known: bool,
    /// Time of the last packet that has one.
    pub(super) last: Option<(Clock, u64)>,
    /// The same at a loss, until the first packet that is read after it.
    pub(super) lost_since: Option<(Clock, u64)>,
    pub(super) categories: Table<NameId>,
    pub(super) names: Table<NameId>,
    pub(super) annotation_names: Table<NameId>,
    pub(super) annotation_values: Table<NameId>,
    pub(super) functions: Table<NameId>,
    pub(super) kernel_symbols: Table<NameId>,
    pub(super) paths: Table<NameId>,
    pub(super) build_ids: Table<NameId>,
    pub(super) mappings: Table<Mapping>,
    pub(super) frames: Table<Frame>,
    pub(super) callstacks: Table<Vec<u64>>,
    /// Stacks already made from `callstacks`.
    pub(super) stacks: HashMap<u64, u32>,
    pub(super) tasks: Table<(u32, u32)>,
    pub(super) processors: Table<u32>,
    pub(super) defaults: Defaults,
    /// The last value of incremental counters, by track.
    pub(super) counters: HashMap<u64, f64>,
    pub(super) thread: Option<Descriptor>,
    pub(super) reference: Option<Reference>,
}

/// All sequences by their ids.
pub(super) type Sequences = HashMap<u32, Sequence, Seeded>;
/// Interned values by their ids.
pub(super) type Table<T> = HashMap<u64, T, Seeded>;

/// Defaults of the sequence's packets.
#[derive(Debug, Default, Clone)]
pub(super) struct Defaults {
    pub(super) clock: Option<u32>,
    pub(super) track: Option<u64>,
    pub(super) extra_tracks: Vec<u64>,
    pub(super) extra_double_tracks: Vec<u64>,
}

/// Process and thread of a sequence, from its (legacy) thread descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// Time (ns, monotonic) and CPU time that a sequence's deltas are relative to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) at_ns: i64,
    pub(super) cpu_ns: i64,
}

/// A mapped file.
#[derive(Debug, Default, Clone)]
pub(super) struct Mapping {
    pub(super) build_id: u64,
    pub(super) paths: Vec<u64>,
}

/// A frame of a callstack.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Frame {
    pub(super) function: u64,
    pub(super) mapping: u64,
    pub(super) rel_pc: u64,
}

impl Sequence {
    /// The writer starts over: all interned data is void. Its thread and the times of its packets stay.
    pub(super) fn clear(&mut self) {
        let Self { thread, last, lost_since, .. } = *self;
        let is_valid = true;
        *self = Self { is_valid, is_known: true, thread, last, lost_since, ..Self::default() };
    }

    /// Packets were lost.
    pub(super) fn lose(&mut self) {
        self.is_valid = false;
        self.reference = None;
    }
}

/// Takes interned entries. Returns the numbers of unknown fields.
pub(super) fn intern(
    sequence: &mut Sequence,
    names: &mut Names,
    total: &mut u64,
    message: &[u8],
) -> Result<Vec<u32>, Malformed> {
    let mut unread = Vec::new();
    for field in Fields::of(message) {
        let (number, value) = field?;
        *total += 1;
        if *total > MAX_INTERNED {
            return Err("too many interned entries");
        }
        let table = match number {
            interned_data::event_categories => &mut sequence.categories,
            interned_data::event_names => &mut sequence.names,
            interned_data::debug_annotation_names => &mut sequence.annotation_names,
            interned_data::debug_annotation_string_values => &mut sequence.annotation_values,
            interned_data::function_names => &mut sequence.functions,
            interned_data::kernel_symbols => &mut sequence.kernel_symbols,
            interned_data::mapping_paths => &mut sequence.paths,
            interned_data::build_ids => &mut sequence.build_ids,
            interned_data::frames => {
                let (iid, frame) = frame(value.bytes()?)?;
                sequence.frames.insert(iid, frame);
                continue;
            }
            interned_data::callstacks => {
                let (iid, frames) = callstack(value.bytes()?)?;
                sequence.stacks.remove(&iid);
                sequence.callstacks.insert(iid, frames);
                continue;
            }
            interned_data::mappings => {
                let (iid, mapping) = mapping(value.bytes()?)?;
                sequence.mappings.insert(iid, mapping);
                continue;
            }
            interned_data::stack_sample_task_contexts => {
                let (iid, task) = task(value.bytes()?)?;
                sequence.tasks.insert(iid, task);
                continue;
            }
            interned_data::stack_sample_execution_contexts => {
                let (iid, cpu) = processor(value.bytes()?)?;
                sequence.processors.insert(iid, cpu);
                continue;
            }
            _ => {
                unread.push(number);
                continue;
            }
        };
        let (iid, text) = entry(value.bytes()?)?;
        let text = match number {
            // Build ids are bytes; shown as hex.
            interned_data::build_ids => names.id(hex::encode(text).as_bytes()),
            _ => names.id(text),
        };
        table.insert(iid, text);
    }
    Ok(unread)
}

/// Id and text of an entry: fields 1 and 2 of all such messages.
fn entry(message: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let [iid] = numbers_of(message, [interned::iid])?;
    let [text] = bytes_of(message, [interned::name])?;
    Ok((iid, text))
}

pub(super) fn frame(message: &[u8]) -> Result<(u64, Frame), Malformed> {
    let fields = [frame::iid, frame::function_name_id, frame::mapping_id, frame::rel_pc];
    let [iid, function, mapping, rel_pc] = numbers_of(message, fields)?;
    Ok((iid, Frame { function, mapping, rel_pc }))
}

/// Limit of a callstack's frames; more are cut.
const MAX_FRAMES: usize = 4096;

fn callstack(message: &[u8]) -> Result<(u64, Vec<u64>), Malformed> {
    let [iid] = numbers_of(message, [callstack::iid])?;
    let mut frames = Vec::new();
    for field in Fields::of(message) {
        let (callstack::frame_ids, value) = field? else { continue };
        for frame in numbers(value) {
            if frames.len() < MAX_FRAMES {
                frames.push(frame?);
            }
        }
    }
    Ok((iid, frames))
}

fn mapping(message: &[u8]) -> Result<(u64, Mapping), Malformed> {
    let [iid, build_id] = numbers_of(message, [mapping::iid, mapping::build_id])?;
    let mut paths = Vec::new();
    for field in Fields::of(message) {
        let (mapping::path_string_ids, value) = field? else { continue };
        for path in numbers(value).take(64) {
            paths.push(path?);
        }
    }
    Ok((iid, Mapping { build_id, paths }))
}

/// Process and thread of a stack sample.
pub(super) fn task(message: &[u8]) -> Result<(u64, (u32, u32)), Malformed> {
    let fields = [task_context::iid, task_context::pid, task_context::tid];
    let [iid, pid, tid] = numbers_of(message, fields)?;
    Ok((iid, (low(pid), low(tid))))
}

/// Processor of a stack sample.
pub(super) fn processor(message: &[u8]) -> Result<(u64, u32), Malformed> {
    let [iid, cpu] = numbers_of(message, [execution_context::iid, execution_context::cpu])?;
    Ok((iid, low(cpu)))
}

/// Takes the defaults of a sequence's packets. Returns the numbers of unknown fields.
pub(super) fn defaults(message: &[u8]) -> Result<(Defaults, Vec<u32>), Malformed> {
    let (mut defaults, mut unread) = (Defaults::default(), Vec::new());
    for field in Fields::of(message) {
        match field? {
            (packet_defaults::timestamp_clock_id, value) => defaults.clock = Some(value.u32()?),
            (packet_defaults::track_event_defaults, value) => {
                for field in Fields::of(value.bytes()?) {
                    match field? {
                        (track_event::track_uuid, value) => defaults.track = Some(value.number()?),
                        (track_event::extra_counter_track_uuids, value) => {
                            extend(&mut defaults.extra_tracks, value)?
                        }
                        (track_event::extra_double_counter_track_uuids, value) => {
                            extend(&mut defaults.extra_double_tracks, value)?
                        }
                        _ => {}
                    }
                }
            }
            // Units and sources of samples.
            (packet_defaults::perf_sample_defaults | packet_defaults::stack_sample_defaults, _) => {
            }
            (number, _) => unread.push(number),
        }
    }
    Ok((defaults, unread))
}

/// Limit of the additional counters of an event.
const MAX_EXTRA: usize = 16;

pub(super) fn extend(all: &mut Vec<u64>, value: super::wire::Value<'_>) -> Result<(), Malformed> {
    for number in numbers(value) {
        if all.len() >= MAX_EXTRA {
            return Err("an event has more than 16 extra counters");
        }
        all.push(number?);
    }
    Ok(())
}
