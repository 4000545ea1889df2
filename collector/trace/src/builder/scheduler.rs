//! Events of the scheduler and of binder: states, sleeps, names of threads.

use super::{Builder, MAX_THREADS};
use crate::kernel::{KernelEvent, KernelKind, state_letter};
use crate::model::State;
use crate::names::NameId;
use crate::scheduling::{Blocked, CpuClock, NO_WAKER, ONE_WAY, Transaction};

impl Builder {
    /// Names a thread that has no other name.
    pub(crate) fn comm(&mut self, tid: u32, name: NameId) {
        if tid != 0 && name != NameId::NONE {
            self.comms.insert(tid, name);
        }
    }

    /// The scheduler did something with a thread, which may be none of the trace's.
    fn state(&mut self, tid: u32, state: State) {
        if tid == 0 {
            return;
        }
        if self.states.len() >= MAX_THREADS && !self.states.contains_key(&tid) {
            self.not_read("states of threads beyond the first 262144", 1);
            return;
        }
        self.states.entry(tid).or_default().push(state);
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
                let last = self.states.get(&task.tid).and_then(|states| states.last());
                if last.is_none_or(|state| !matches!(state.kind, b'r' | b'R')) {
                    self.state(task.tid, State { at_ns, kind: b'R', cpu, waker });
                }
            }
            KernelKind::Blocked { tid, function: caller, io_wait } => {
                let caller = self.trace.names.text(caller);
                // Without its offset; empty for an address.
                let function = caller.split('+').next().filter(|name| !name.starts_with("0x"));
                let function = function.unwrap_or_default().to_owned();
                let function = self.trace.names.id(function.as_bytes());
                if tid != 0 {
                    let reason = Blocked { at_ns, function, io_wait };
                    self.blocked.entry(tid).or_default().push(reason);
                }
            }
            KernelKind::Transaction { id, pid, is_reply, flags, .. } => {
                let transactions = &mut self.trace.scheduling.transactions;
                self.pending.insert(id, transactions.len());
                transactions.push(Transaction {
                    at_ns,
                    from_tid: event.tid,
                    id,
                    to_pid: u32::try_from(pid).unwrap_or(0),
                    is_reply,
                    is_one_way: flags & ONE_WAY != 0,
                    received: None,
                });
            }
            KernelKind::Received { id } => {
                let transactions = &mut self.trace.scheduling.transactions;
                let sent = self.pending.remove(&id).and_then(|index| transactions.get_mut(index));
                if let Some(sent) = sent {
                    sent.received = Some((at_ns, event.tid));
                }
            }
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
                // An earlier thread with the same id stays the same thread in the trace.
                let is_again = self.states.contains_key(&tid);
                self.not_read(
                    "new threads with the id of an earlier one, shown as the same thread",
                    is_again.into(),
                );
            }
            _ => {}
        }
        if event.tid != 0 {
            self.thread(event.tid, None);
        }
    }
}
