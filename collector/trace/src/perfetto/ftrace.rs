//! Bundles of the kernel's events: markers of atrace, the scheduler, processor clocks, binder.

use super::Reader;
use super::clock::{BOOTTIME, Clock, FTRACE, Reading};
use super::event::{Event, Mark, NORMAL, What};
use super::unread::Message;
use super::wire::{Fields, Malformed};
use crate::kernel::{KernelEvent, KernelKind, Task, Wake};
use crate::names::NameId;
use crate::text::marker::{self, Marker};

/// Processors that a trace may have, as in Perfetto.
const MAX_CPUS: u32 = 1024;

/// Flags of an event: in a hardware or a software interrupt.
pub(super) const IN_INTERRUPT: u64 = 0x18;
/// Limit of the kinds of events that are counted apart.
const MAX_KINDS: usize = 4096;

/// An event's time and thread.
#[derive(Debug, Clone, Copy)]
struct At {
    clock: Clock,
    ns: u64,
    tid: u32,
}

impl Reader {
    pub(super) fn ftrace_bundle(&mut self, sequence: u32, message: &[u8]) -> Result<(), Malformed> {
        let (mut cpu, mut kind, mut ftrace_ns, mut boot_ns) = (None, 0, None, None);
        for field in Fields::of(message) {
            match field? {
                (1, value) => cpu = Some(value.u32()?),
                (3, value) if value.bool()? => self.lost("gaps in the kernel's events", 1),
                (5, value) => kind = value.number()?,
                (6, value) => ftrace_ns = Some(value.number()?),
                (7, value) => boot_ns = Some(value.number()?),
                _ => {}
            }
        }
        let cpu = cpu.filter(|&cpu| cpu < MAX_CPUS).ok_or("an ftrace bundle has no valid cpu")?;
        let cpu = u16::try_from(cpu).unwrap_or(0);
        let mut clock = self.clocks.clock(0, BOOTTIME).ok_or("too many clocks")?;
        if kind != 0 {
            clock = self.clocks.clock(sequence, FTRACE).ok_or("too many clocks")?;
            if let (Some(ftrace_ns), Some(boot_ns)) = (ftrace_ns, boot_ns) {
                let reading = |id, time| Reading { id, time, is_incremental: false, unit_ns: 1 };
                self.clocks
                    .add(sequence, &[reading(FTRACE, ftrace_ns), reading(BOOTTIME, boot_ns)])?;
            }
        }
        for field in Fields::of(message) {
            // Before this time the buffers of other processors may have what this one's lacks.
            if let (9 | 10, value) = field? {
                self.covered.entry(cpu).or_insert((clock, value.number()?));
            }
        }
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                2 => self.ftrace_event(clock, cpu, value.bytes()?)?,
                4 => self.compact_sched(clock, cpu, value.bytes()?)?,
                8 => self.lost("errors while the kernel's events were parsed", 1),
                // Clocks and the bounds of what the processor's buffer held.
                1 | 3 | 5..=7 | 9 | 10 => {}
                _ => self.unread.field(Message::FtraceBundle, number),
            }
        }
        Ok(())
    }

    fn ftrace_event(&mut self, clock: Clock, cpu: u16, message: &[u8]) -> Result<(), Malformed> {
        let mut at = At { clock, ns: 0, tid: 0 };
        let mut found = None;
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => at.ns = value.number()?,
                2 => at.tid = value.u32()?,
                // Flags: whether an interrupt did it.
                5 if value.number()? & IN_INTERRUPT != 0 => {
                    self.unread.field(Message::FtraceEvent, 5);
                }
                5 => {}
                _ => found = Some((number, value.bytes()?)),
            }
        }
        let Some((number, content)) = found else {
            self.unread.event("ftrace events without content");
            return Ok(());
        };
        if number == 3 {
            return self.print(at, content);
        }
        let Some(kind) = self.kernel_kind(number, content)? else {
            let is_counted =
                self.other_ftrace.len() < MAX_KINDS || self.other_ftrace.contains_key(&number);
            *self.other_ftrace.entry(if is_counted { number } else { 0 }).or_default() += 1;
            return Ok(());
        };
        self.kernel_event(clock, KernelEvent { at_ns: at.ns, tid: at.tid, cpu, kind });
        Ok(())
    }

    pub(super) fn kernel_event(&mut self, clock: Clock, event: KernelEvent) {
        self.kernel.push((clock, event));
    }

    fn kernel_kind(
        &mut self,
        number: u32,
        message: &[u8],
    ) -> Result<Option<KernelKind>, Malformed> {
        let mut int = [0_i64; 8];
        let mut text = [NameId::NONE; 8];
        // Events whose fields are read: all have at most seven.
        if !matches!(number, 4 | 11..=13 | 17 | 18 | 20 | 50 | 51 | 114 | 235 | 236) {
            return Ok(None);
        }
        for field in Fields::of(message) {
            let (field, value) = field?;
            let place = (field as usize).min(7);
            match value {
                super::wire::Value::Number(number) => {
                    if let Some(int) = int.get_mut(place) {
                        *int = number.cast_signed();
                    }
                }
                super::wire::Value::Bytes(bytes) => {
                    if let Some(text) = text.get_mut(place) {
                        *text = self.comm(bytes);
                    }
                }
            }
        }
        let low = |place: usize| low(int.get(place).copied().unwrap_or(0));
        let signed = |place: usize| low(place).cast_signed();
        let name = |place: usize| text.get(place).copied().unwrap_or_default();
        let task = |tid: usize, comm: usize, priority: usize| Task {
            tid: low(tid),
            name: name(comm),
            priority: signed(priority),
        };
        let wake = |how| KernelKind::Wake { how, task: task(2, 1, 3), target: signed(5) };
        Ok(Some(match number {
            4 => KernelKind::Switch {
                prev: task(2, 1, 3),
                state: raw_state(int[4]),
                next: task(6, 5, 7),
            },
            11 => KernelKind::Frequency { khz: low(1), cpu: low(2) },
            12 => KernelKind::FrequencyLimits { min_khz: low(1), max_khz: low(2), cpu: low(3) },
            13 => KernelKind::Idle { state: low(1), cpu: low(2) },
            17 => wake(Wake::Wakeup),
            20 => wake(Wake::Waking),
            114 => wake(Wake::New),
            18 => KernelKind::Blocked {
                tid: low(1),
                caller: int[2].cast_unsigned(),
                io_wait: int[3] != 0,
            },
            50 => KernelKind::Transaction {
                id: signed(1),
                node: signed(2),
                pid: signed(3),
                tid: signed(4),
                is_reply: int[5] != 0,
                code: low(6),
                flags: low(7),
            },
            51 => KernelKind::Received { id: signed(1) },
            235 => KernelKind::NewTask {
                tid: low(1),
                name: name(2),
                flags: int[3].cast_unsigned(),
                oom: i16::try_from(signed(4)).unwrap_or(0),
            },
            _ => KernelKind::Rename {
                tid: low(1),
                before: name(2),
                name: name(3),
                oom: i16::try_from(signed(4)).unwrap_or(0),
            },
        }))
    }

    /// A thread's name.
    pub(super) fn comm(&mut self, name: &[u8]) -> NameId {
        self.builder.trace.names.id(name)
    }

    fn print(&mut self, at: At, message: &[u8]) -> Result<(), Malformed> {
        let mut text = &[][..];
        for field in Fields::of(message) {
            if let (2, value) = field? {
                text = value.bytes()?;
            }
        }
        let mark = match marker::parse(text) {
            Ok(marker) => self.mark(&marker),
            Err(why) => return Err(why),
        };
        match mark {
            Some(mark) => {
                let what = What::Mark { tid: at.tid, mark };
                self.events.push(Event { at_ns: at.ns, clock: at.clock, rank: NORMAL, what });
            }
            None => self.builder.other(b"print"),
        }
        Ok(())
    }

    fn mark(&mut self, marker: &Marker<'_>) -> Option<Mark> {
        let names = &mut self.builder.trace.names;
        Some(match *marker {
            Marker::Begin { pid, name } => Mark::Begin { pid, name: names.id(name) },
            Marker::End => Mark::End,
            Marker::AsyncBegin { pid, track, name, cookie } => {
                let (track, name) = (track.map(|track| names.id(track)), names.id(name));
                Mark::AsyncBegin { pid, track, name, cookie }
            }
            Marker::AsyncEnd { pid, track, name, cookie } => {
                let (track, name) = (track.map(|track| names.id(track)), names.id(name));
                Mark::AsyncEnd { pid, track, name, cookie }
            }
            Marker::Instant { pid, track, name } => {
                let (track, name) = (track.map(|track| names.id(track)), names.id(name));
                Mark::Instant { pid, track, name }
            }
            Marker::Counter { pid, name, value } => {
                let name = names.id(name);
                Mark::Counter { pid, name, value: value.real(&mut self.builder.trace.losses) }
            }
            Marker::RealTime(ms) => Mark::RealTime { ms },
            Marker::Other => return None,
        })
    }
}

/// A state as the kernel has it, until the kernel's version is known.
pub(super) fn raw_state(state: i64) -> u16 {
    u16::try_from(state & 0xffff).unwrap_or(0)
}

/// The low 32 bits, as protobuf narrows numbers.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "protobuf narrows so")]
pub(super) const fn low(number: i64) -> u32 {
    number as u32
}
