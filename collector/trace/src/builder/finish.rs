//! The end of a trace: closes open slices, and names threads from the scheduler or a dump.

use super::Builder;
use crate::model::Trace;
use crate::names::NameId;

impl Builder {
    /// Completes the trace.
    pub(crate) fn finish(mut self) -> Trace {
        let mut of_others = 0;
        for mut running in self.running {
            let dumped = self.trace.dumped.get(&running.key).copied();
            // The thread is in another process: its id was reused.
            let dumped =
                dumped.filter(|&(pid, _)| !running.is_pid_sure || running.thread.pid == Some(pid));
            if let Some((pid, _)) = dumped {
                let is_other = running.thread.pid.is_some_and(|other| other != pid);
                of_others += if is_other { running.thread.slices.len() as u64 } else { 0 };
                running.thread.pid = Some(pid);
            }
            let named = dumped.map(|(_, name)| name).filter(|&name| name != NameId::NONE);
            let comm = || self.comms.get(&running.key).copied();
            if running.thread.names.is_empty()
                && let Some(name) = named.or_else(comm)
            {
                let from_ns = self.trace.span_ns.map_or(0, |(first, _)| first);
                running.thread.names.push((from_ns, name));
            }
            self.trace.losses.unclosed += running.open.len() as u64;
            let last_cpu_ns = running.thread.cpu_ns.iter().map(|&(_, end_ns)| end_ns).max();
            for index in running.open {
                if let Some(slice) = running.thread.slices.get_mut(index as usize) {
                    slice.end_ns = running.last_ns;
                }
                if let (Some(cpu), Some(last_ns)) =
                    (running.thread.cpu_ns.get_mut(index as usize), last_cpu_ns)
                    && *cpu != (0, 0)
                {
                    cpu.1 = last_ns;
                }
            }
            let thread = &mut running.thread;
            if !thread.cpu_ns.is_empty() {
                thread.cpu_ns.resize(thread.slices.len(), (0, 0));
            }
            // Scheduler events cannot distinguish two threads with the same id.
            if running.key == thread.tid {
                thread.states.extend(self.states.remove(&thread.tid).unwrap_or_default());
                thread.blocked.extend(self.blocked.remove(&thread.tid).unwrap_or_default());
            }
            thread.slices.shrink_to_fit();
            self.trace.threads.insert(running.key, running.thread);
        }
        let why =
            "slices that name another process than their thread's, moved to the thread's process";
        self.trace.losses.not_read(why, of_others);
        self.trace.losses.unclosed_asyncs =
            self.open_asyncs.values().map(|open| open.len() as u64).sum();
        self.trace
    }
}
