//! Events of the scheduler and of binder: states, sleeps, names of threads.

use super::Builder;
use crate::kernel::{KernelEvent, KernelKind, state_letter};
use crate::model::State;
use crate::names::NameId;
use crate::scheduling::{Blocked, CpuClock, NO_WAKER, ONE_WAY, Transaction};

impl Builder {
    /// Names a thread that nothing else names.
    pub(crate) fn comm(&mut self, tid: u32, name: NameId) {
        if tid != 0 && name != NameId::NONE {
            self.comms.insert(tid, name);
        }
    }

    /// The scheduler did something with a thread, which may be none of the trace's.
    fn state(&mut self, tid: u32, state: State) {
        if tid != 0 {
            self.states.entry(tid).or_default().push(state);
        }
    }

    /// Adds the reason of a thread's sleep.
    fn blocked(&mut self, tid: u32, blocked: Blocked) {
        if tid != 0 {
            self.blocked.entry(tid).or_default().push(blocked);
        }
    }

    /// Adds a binder transaction.
    fn sent(&mut self, transaction: Transaction) {
        self.trace.scheduling.sent(&mut self.pending, transaction);
    }

    /// A thread receives a binder transaction.
    fn received(&mut self, id: i32, at_ns: u64, tid: u32) {
        self.trace.scheduling.received(&mut self.pending, id, at_ns, tid);
    }

    /// Marks a sleeping thread as runnable.
    fn woken(&mut self, tid: u32, woken: State) {
        let last = self.states.get(&tid).and_then(|states| states.last());
        if last.is_none_or(|state| !matches!(state.kind, b'r' | b'R')) {
            self.state(tid, woken);
        }
    }

    /// Begins a thread. An earlier thread with the same id stays the same thread in the trace, which is counted.
    fn new_task(&mut self, tid: u32) {
        if self.states.contains_key(&tid) {
            self.not_read("new threads with the id of an earlier one, shown as one", 1);
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

    /// Takes names and states of threads, binder calls and clocks from an event of the kernel.
    pub(crate) fn kernel_event(&mut self, event: &KernelEvent) {
        let at_ns = event.at_ns;
        self.span(at_ns);
        match event.kind {
            KernelKind::Switch { prev, state, next } => {
                self.comm(prev.tid, prev.name);
                self.comm(next.tid, next.name);
                let (cpu, waker) = (event.cpu, NO_WAKER);
                let kind = state_letter(state);
                self.state(prev.tid, State { at_ns, kind, cpu, waker });
                self.state(next.tid, State { at_ns, kind: b'r', cpu, waker });
            }
            KernelKind::Wake { task, .. } => {
                self.comm(task.tid, task.name);
                let (cpu, waker) = (event.cpu, event.tid);
                self.woken(task.tid, State { at_ns, kind: b'R', cpu, waker });
            }
            KernelKind::Blocked { tid, function: caller, io_wait } => {
                let caller = self.trace.names.text(caller);
                // Without its offset; empty for an address.
                let function = caller.split('+').next().filter(|name| !name.starts_with("0x"));
                let function = function.unwrap_or_default().to_owned();
                let function = self.trace.names.id(function.as_bytes());
                self.blocked(tid, Blocked { at_ns, function, io_wait });
            }
            KernelKind::Transaction { id, pid, is_reply, flags, .. } => {
                self.sent(Transaction {
                    at_ns,
                    from_tid: event.tid,
                    id,
                    to_pid: u32::try_from(pid).unwrap_or(0),
                    is_reply,
                    is_one_way: flags & ONE_WAY != 0,
                    received: None,
                });
            }
            KernelKind::Received { id } => self.received(id, at_ns, event.tid),
            KernelKind::Frequency { cpu, khz } => {
                if let Ok(cpu) = u16::try_from(cpu) {
                    self.trace.scheduling.clock(CpuClock { at_ns, cpu, khz });
                }
            }
            KernelKind::FrequencyLimits { cpu, max_khz, .. } => {
                if let Ok(cpu) = u16::try_from(cpu) {
                    self.trace.scheduling.limit(cpu, max_khz);
                }
            }
            KernelKind::Rename { tid, name, .. } => self.comm(tid, name),
            KernelKind::NewTask { tid, name, .. } => {
                self.comm(tid, name);
                self.new_task(tid);
            }
            _ => {}
        }
        if event.tid != 0 {
            self.thread(event.tid, None);
        }
    }
}
