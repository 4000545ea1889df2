//! Bundles of the kernel's events: markers of atrace, the scheduler, processor clocks, binder.

use super::Reader;
use super::clock::{BOOTTIME, Clock, FTRACE, Reading};
use super::event::{Event, NORMAL, What};
use super::fields::{
    binder_transaction, binder_transaction_received, cpu_frequency_limits, cpu_state,
    ftrace_bundle, ftrace_event, print, sched_blocked_reason, sched_switch, sched_wakeup,
    suspend_resume, task_newtask, task_rename,
};
use super::gaps;
use super::wire::{Fields, Malformed, Value, bytes_of, low, numbers_of};
use crate::kernel::{KernelEvent, KernelKind, Task, Wake};
use crate::names::NameId;
use crate::text::marker::{self, Marker};

/// Processors that a trace may have, as in Perfetto.
const MAX_CPUS: u32 = 1024;

/// Flags of an event: in a hardware or a software interrupt.
pub(super) const IN_INTERRUPT: u64 = 0x18;
/// Limit of the kinds of events that are counted separately.
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
        let mut is_after_loss = false;
        for field in Fields::of(message) {
            match field? {
                (ftrace_bundle::cpu, value) => cpu = Some(value.u32()?),
                (ftrace_bundle::lost_events, value) if value.bool()? => {
                    is_after_loss = true;
                    self.lost(gaps::KERNEL, 1);
                }
                (ftrace_bundle::ftrace_clock, value) => kind = value.number()?,
                (ftrace_bundle::ftrace_timestamp, value) => ftrace_ns = Some(value.number()?),
                (ftrace_bundle::boot_timestamp, value) => boot_ns = Some(value.number()?),
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
        let mut read_until = None;
        for field in Fields::of(message) {
            // Before this time the buffers of other processors may contain events that this one's lacks.
            if let (
                ftrace_bundle::last_read_event_timestamp
                | ftrace_bundle::previous_bundle_end_timestamp,
                value,
            ) = field?
            {
                read_until = Some((clock, value.number()?));
                self.covered.entry(cpu).or_insert((clock, value.number()?));
                self.builder.reshaped(super::METADATA, 1);
            }
        }
        let before = (self.kernel.len(), self.events.len());
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                ftrace_bundle::event => self.ftrace_event(sequence, clock, cpu, value.bytes()?)?,
                ftrace_bundle::compact_sched => self.compact_sched(clock, cpu, value.bytes()?)?,
                ftrace_bundle::error => {
                    self.lost("errors while the kernel's events were parsed", 1)
                }
                // Clocks and the time bounds of the processor's buffer.
                ftrace_bundle::cpu
                | ftrace_bundle::lost_events
                | ftrace_bundle::ftrace_clock
                | ftrace_bundle::ftrace_timestamp
                | ftrace_bundle::boot_timestamp
                | ftrace_bundle::last_read_event_timestamp
                | ftrace_bundle::previous_bundle_end_timestamp => {}
                _ => self.unread.field("ftrace bundle", number),
            }
        }
        self.bundle_ends((clock, cpu), before, read_until, is_after_loss);
        Ok(())
    }

    fn ftrace_event(
        &mut self,
        sequence: u32,
        clock: Clock,
        cpu: u16,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let mut at = At { clock, ns: 0, tid: 0 };
        let mut found = None;
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                ftrace_event::timestamp => at.ns = value.number()?,
                ftrace_event::pid => at.tid = value.u32()?,
                // Flags; one is set if an interrupt caused the event.
                ftrace_event::common_flags if value.number()? & IN_INTERRUPT != 0 => {
                    self.unread.field("ftrace event", ftrace_event::common_flags);
                }
                ftrace_event::common_flags => {}
                _ => found = Some((number, value.bytes()?)),
            }
        }
        let Some((number, content)) = found else {
            self.unread.event("ftrace events without content");
            return Ok(());
        };
        if number == ftrace_event::print {
            return self.print(at, content);
        }
        if number == ftrace_event::suspend_resume {
            let [action] = bytes_of(content, [suspend_resume::action])?;
            let [begins] = numbers_of(content, [suspend_resume::start])?;
            let steps = &mut self.builder.trace.scheduling;
            steps.suspend_step(at.ns, action, begins != 0);
            self.suspend_clocks.resize(steps.suspends.len(), clock);
        }
        let Some(kind) = self.kernel_kind(sequence, number, content)? else {
            let is_counted =
                self.other_ftrace.len() < MAX_KINDS || self.other_ftrace.contains_key(&number);
            *self.other_ftrace.entry(if is_counted { number } else { 0 }).or_default() += 1;
            return Ok(());
        };
        self.kernel.push((clock, KernelEvent { at_ns: at.ns, tid: at.tid, cpu, kind }));
        Ok(())
    }

    fn kernel_kind(
        &mut self,
        sequence: u32,
        number: u32,
        message: &[u8],
    ) -> Result<Option<KernelKind>, Malformed> {
        let (mut int, mut text) = ([0; 8], [NameId::NONE; 8]);
        for field in Fields::of(message) {
            let (field, value) = field?;
            match value {
                Value::Number(number) => {
                    if let Some(int) = int.get_mut(field as usize) {
                        *int = number;
                    }
                }
                Value::Bytes(bytes) => {
                    if let Some(text) = text.get_mut(field as usize) {
                        *text = self.builder.trace.names.id(bytes);
                    }
                }
            }
        }
        let int = |field: u32| int.get(field as usize).copied().unwrap_or(0);
        let (low, signed) = (|field| low(int(field)), |field| low(int(field)).cast_signed());
        let name = |field: u32| text.get(field as usize).copied().unwrap_or_default();
        let task = |tid, comm, priority| Task {
            tid: low(tid),
            name: name(comm),
            priority: signed(priority),
        };
        let oom = |field| i16::try_from(signed(field)).unwrap_or(0);
        let wake = |how| {
            let task = task(sched_wakeup::pid, sched_wakeup::comm, sched_wakeup::prio);
            KernelKind::Wake { how, task, target: signed(sched_wakeup::target_cpu) }
        };
        Ok(Some(match number {
            ftrace_event::sched_switch => KernelKind::Switch {
                prev: task(
                    sched_switch::prev_pid,
                    sched_switch::prev_comm,
                    sched_switch::prev_prio,
                ),
                state: raw_state(int(sched_switch::prev_state)),
                next: task(
                    sched_switch::next_pid,
                    sched_switch::next_comm,
                    sched_switch::next_prio,
                ),
            },
            ftrace_event::cpu_frequency => {
                KernelKind::Frequency { khz: low(cpu_state::state), cpu: low(cpu_state::cpu_id) }
            }
            ftrace_event::cpu_frequency_limits => KernelKind::FrequencyLimits {
                min_khz: low(cpu_frequency_limits::min_freq),
                max_khz: low(cpu_frequency_limits::max_freq),
                cpu: low(cpu_frequency_limits::cpu_id),
            },
            ftrace_event::cpu_idle => {
                KernelKind::Idle { state: low(cpu_state::state), cpu: low(cpu_state::cpu_id) }
            }
            ftrace_event::sched_wakeup => wake(Wake::Wakeup),
            ftrace_event::sched_waking => wake(Wake::Waking),
            ftrace_event::sched_wakeup_new => wake(Wake::New),
            ftrace_event::sched_blocked_reason => KernelKind::Blocked {
                tid: low(sched_blocked_reason::pid),
                function: self.symbol(sequence, int(sched_blocked_reason::caller)),
                io_wait: int(sched_blocked_reason::io_wait) != 0,
            },
            ftrace_event::binder_transaction => KernelKind::Transaction {
                id: signed(binder_transaction::debug_id),
                node: signed(binder_transaction::target_node),
                pid: signed(binder_transaction::to_proc),
                tid: signed(binder_transaction::to_thread),
                is_reply: int(binder_transaction::reply) != 0,
                code: low(binder_transaction::code),
                flags: low(binder_transaction::flags),
            },
            ftrace_event::binder_transaction_received => {
                KernelKind::Received { id: signed(binder_transaction_received::debug_id) }
            }
            ftrace_event::task_newtask => KernelKind::NewTask {
                tid: low(task_newtask::pid),
                name: name(task_newtask::comm),
                flags: int(task_newtask::clone_flags),
                oom: oom(task_newtask::oom_score_adj),
            },
            ftrace_event::task_rename => KernelKind::Rename {
                tid: low(task_rename::pid),
                before: name(task_rename::oldcomm),
                name: name(task_rename::newcomm),
                oom: oom(task_rename::oom_score_adj),
            },
            _ => return Ok(None),
        }))
    }

    /// Returns the name of a kernel function, or its address.
    fn symbol(&mut self, sequence: u32, caller: u64) -> NameId {
        let known = self.sequence(sequence).kernel_symbols.get(&caller).copied();
        let names = &mut self.builder.trace.names;
        known.unwrap_or_else(|| names.id(format!("{caller:#x}").as_bytes()))
    }

    fn print(&mut self, at: At, message: &[u8]) -> Result<(), Malformed> {
        let [text] = bytes_of(message, [print::buf])?;
        let names = &mut self.builder.trace.names;
        match marker::parse(text)?.map(|name| names.id(name)) {
            Marker::Other => self.builder.other(b"print"),
            mark => {
                self.builder.reshaped("print events of ftrace, written as track events", 1);
                let what = What::Mark { tid: at.tid, mark };
                let (at_ns, clock) = (at.ns, at.clock);
                self.events.push(Event { at_ns, clock, rank: NORMAL, on: None, what });
            }
        }
        Ok(())
    }
}

/// A raw kernel state, until the kernel's version is known.
pub(super) fn raw_state(state: u64) -> u16 {
    u16::try_from(state & 0xffff).unwrap_or(0)
}
