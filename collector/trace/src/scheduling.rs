//! Facts about threads and processors that analyses read: why threads slept, binder calls, processor clocks. Filled from
//! the kernel's events, of ftrace text and of Perfetto's traces alike.

use crate::names::NameId;
use std::collections::BTreeMap;

/// [`crate::State::waker`] of a thread that an interrupt woke, for example a timer's.
pub const INTERRUPT: u32 = 0;
/// [`crate::State::waker`] of a state that no wake-up began.
pub const NO_WAKER: u32 = u32::MAX;

/// Reason of a sleep, as `sched_blocked_reason` reports it when the sleep ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// Time of the report: the end of the sleep.
    pub at_ns: u64,
    /// Kernel function in which the thread slept, without its offset; empty if only its address is known.
    pub function: NameId,
    /// True if the kernel waited for a disk.
    pub io_wait: bool,
}

/// A binder transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// Time at which it was sent.
    pub at_ns: u64,
    /// Thread that sent it.
    pub from_tid: u32,
    /// Number of the transaction.
    pub id: i32,
    /// Process of the receiver.
    pub to_pid: u32,
    /// True for a reply.
    pub is_reply: bool,
    /// True if the sender does not wait for a reply.
    pub is_one_way: bool,
    /// Time at which it was received, and the thread.
    pub received: Option<(u64, u32)>,
}

/// A processor's clock from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuClock {
    /// Time.
    pub at_ns: u64,
    /// Processor.
    pub cpu: u16,
    /// Clock, kHz.
    pub khz: u32,
}

/// Binder calls and processor clocks of a trace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Scheduling {
    /// Binder transactions, by time.
    pub transactions: Vec<Transaction>,
    /// Clocks, by time.
    pub clocks: Vec<CpuClock>,
    /// Highest clock of each processor that an event names, kHz.
    pub max_khz: BTreeMap<u16, u32>,
    /// Begins (true) and ends of the times in which the system froze all processes to suspend the device.
    pub suspends: Vec<(u64, bool)>,
}

/// Flag of a binder transaction: the sender does not wait.
pub(crate) const ONE_WAY: u32 = 1;

impl Scheduling {
    /// Takes a step of a suspend, `suspend_resume`: the processes stand from the first of these to the last.
    pub(crate) fn suspend_step(&mut self, at_ns: u64, action: &[u8], begins: bool) {
        let stops = action == b"freeze_processes" || action == b"machine_suspend";
        let resumes = action == b"thaw_processes" || action == b"machine_suspend";
        if (begins && stops) || (!begins && resumes) {
            self.suspends.push((at_ns, begins));
        }
    }

    /// Sets a processor's clock.
    pub(crate) fn clock(&mut self, clock: CpuClock) {
        self.limit(clock.cpu, clock.khz);
        self.clocks.push(clock);
    }

    /// A processor can have this clock.
    pub(crate) fn limit(&mut self, cpu: u16, khz: u32) {
        let max = self.max_khz.entry(cpu).or_default();
        *max = khz.max(*max);
    }
}
