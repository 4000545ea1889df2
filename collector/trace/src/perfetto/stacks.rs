//! Samples of callstacks: perf's, and the newer form of any sampler, with interned frames or their own.

use super::Reader;
use super::clock::Clock;
use super::fields::{inline_callstack, inline_frame, perf_sample, stack_sample};
use super::sequence;
use super::tracks::{Place, TrackId};
use super::wire::{Fields, Malformed, Value, bytes_of};
use crate::model::NO_PARENT;
use crate::names::NameId;
use crate::samples::{Sample, StackFrame};

/// Loss that perf reports.
pub(crate) const BY_KERNEL: &str = "samples lost by the kernel";
/// Reason for a sample without a callstack: its process was not requested.
const NOT_IN_SCOPE: u64 = 4;
/// Limit of the frames of an inline callstack.
const MAX_FRAMES: usize = 4096;

impl Reader {
    pub(super) fn perf_sample(
        &mut self,
        sequence: u32,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        self.builder.reshaped(super::TIME_BASES, 1);
        let (clock, at_ns) = time.ok_or("a sample has no time")?;
        let mut sample = Sample::new(at_ns);
        let (mut callstack, mut is_skipped) = (None, false);
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                perf_sample::cpu => sample.cpu = value.u32()?,
                perf_sample::pid => sample.pid = value.u32()?,
                perf_sample::tid => sample.tid = value.u32()?,
                perf_sample::callstack_iid => callstack = Some(value.number()?),
                perf_sample::timebase_count => sample.weight = value.number()?,
                perf_sample::kernel_records_lost => self.lost(BY_KERNEL, value.number()?),
                // Samples of processes out of scope are taken only for their counters.
                perf_sample::sample_skipped_reason => is_skipped = value.number()? != NOT_IN_SCOPE,
                perf_sample::producer_event => return Ok(()),
                _ => self.unread.field("perf sample", number),
            }
        }
        if is_skipped {
            self.lost("samples skipped by the profiler", 1);
            return Ok(());
        }
        if let Some(iid) = callstack {
            sample.stack = self.interned_stack(sequence, iid);
        }
        self.samples.push((clock, sample));
        Ok(())
    }

    pub(super) fn stack_sample(
        &mut self,
        sequence: u32,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        self.builder.reshaped(super::TIME_BASES, 1);
        let (clock, at_ns) = time.ok_or("a sample has no time")?;
        let mut sample = Sample::new(at_ns);
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                stack_sample::task_context => {
                    (sample.pid, sample.tid) = sequence::task(value.bytes()?)?.1
                }
                stack_sample::task_context_iid => {
                    let task = self.sequence(sequence).tasks.get(&value.number()?).copied();
                    (sample.pid, sample.tid) = task.unwrap_or_default();
                }
                stack_sample::execution_context => {
                    sample.cpu = sequence::processor(value.bytes()?)?.1
                }
                stack_sample::execution_context_iid => {
                    let cpu = self.sequence(sequence).processors.get(&value.number()?).copied();
                    sample.cpu = cpu.unwrap_or_default();
                }
                stack_sample::callstack | stack_sample::callstack_iid => {
                    sample.stack = self.stack(sequence, value)?
                }
                stack_sample::primary_weight => sample.weight = value.number()?,
                // Errors and units.
                stack_sample::unwind_error
                | stack_sample::unwind_error_iid
                | stack_sample::primary_descriptor
                | stack_sample::primary_descriptor_iid => {}
                _ => self.unread.field("stack sample", number),
            }
        }
        self.samples.push((clock, sample));
        Ok(())
    }

    /// The callstack of a track event: a sample of its thread.
    pub(super) fn event_stack(
        &mut self,
        sequence: u32,
        on: TrackId,
        (clock, at_ns): (Clock, u64),
        value: Value<'_>,
    ) -> Result<(), Malformed> {
        self.builder.reshaped(super::TIME_BASES, 1);
        let stack = self.stack(sequence, value)?;
        let Place::Thread { pid, tid } = self.tracks.index(on) else {
            self.unread.event("callstacks of events on async tracks");
            return Ok(());
        };
        self.samples.push((clock, Sample { pid, tid, stack, ..Sample::new(at_ns) }));
        Ok(())
    }

    /// A callstack: an interned one by its number, or one with its frames.
    fn stack(&mut self, sequence: u32, value: Value<'_>) -> Result<u32, Malformed> {
        let message = match value {
            Value::Number(iid) => return Ok(self.interned_stack(sequence, iid)),
            Value::Bytes(message) => message,
        };
        let mut stack = NO_PARENT;
        for field in Fields::of(message).take(MAX_FRAMES) {
            let (inline_callstack::frames, value) = field? else { continue };
            let [function] = bytes_of(value.bytes()?, [inline_frame::function_name])?;
            let function = self.builder.trace.names.id(function);
            let frame = StackFrame { function, ..StackFrame::default() };
            stack = self.builder.trace.stacks.node(stack, frame);
        }
        Ok(stack)
    }

    fn interned_stack(&mut self, sequence: u32, iid: u64) -> u32 {
        let Self { sequences, builder, unread, .. } = self;
        let state = sequences.entry(sequence).or_default();
        if let Some(&stack) = state.stacks.get(&iid) {
            return stack;
        }
        let Some(frames) = state.callstacks.get(&iid) else {
            unread.event("callstacks that were not interned");
            return NO_PARENT;
        };
        let mut stack = NO_PARENT;
        let text = |table: &sequence::Table<NameId>, iid: u64| table.get(&iid).copied();
        // The outermost frame comes first.
        for &iid in frames {
            let Some(frame) = state.frames.get(&iid) else {
                unread.event("frames that were not interned");
                continue;
            };
            let mapping = state.mappings.get(&frame.mapping);
            let names = &mut builder.trace.names;
            let path = mapping.map(|mapping| {
                let parts = mapping.paths.iter().filter_map(|&part| text(&state.paths, part));
                let parts: Vec<&str> = parts.map(|part| names.text(part)).collect();
                if parts.is_empty() { String::new() } else { format!("/{}", parts.join("/")) }
            });
            let frame = StackFrame {
                function: text(&state.functions, frame.function).unwrap_or_default(),
                mapping: path.map_or(NameId::NONE, |path| names.id(path.as_bytes())),
                build_id: mapping
                    .and_then(|mapping| text(&state.build_ids, mapping.build_id))
                    .unwrap_or_default(),
                rel_pc: frame.rel_pc,
            };
            stack = builder.trace.stacks.node(stack, frame);
        }
        state.stacks.insert(iid, stack);
        stack
    }
}
