//! Events of the kernel as Perfetto's, by their text in ftrace. Those that trace_processor makes rows of are typed; the others
//! are generic events with their text.

use super::messages::{
    BinderCommand, BinderTransaction, BinderTransactionReceived, BlockedReason, ClockSetRate,
    CpuFrequencyLimits, CpuState, FtraceEvent, GenericEvent, GenericField, SchedSwitch,
    SchedWakeup, TaskNewtask, TaskRename,
};
use tracetee_trace::{KernelEvent, state_of_text};

/// Returns an event by its name and text. `symbol` interns the name of a kernel function.
pub(super) fn of_text(
    event: &KernelEvent,
    name: &str,
    text: String,
    symbol: impl FnOnce(&str) -> u64,
) -> FtraceEvent {
    let mut event = FtraceEvent {
        timestamp: Some(event.at_ns),
        pid: Some(event.tid),
        ..FtraceEvent::default()
    };
    let fields = Fields(&text);
    let is_typed = match name {
        "sched_switch" => set(&mut event.sched_switch, switch(fields)),
        "sched_waking" => set(&mut event.sched_waking, wakeup(fields)),
        "sched_wakeup" => set(&mut event.sched_wakeup, wakeup(fields)),
        "sched_wakeup_new" => set(&mut event.sched_wakeup_new, wakeup(fields)),
        "cpu_frequency" => set(&mut event.cpu_frequency, cpu_state(fields)),
        "cpu_idle" => set(&mut event.cpu_idle, cpu_state(fields)),
        "cpu_frequency_limits" => set(&mut event.cpu_frequency_limits, limits(fields)),
        "sched_blocked_reason" => set(&mut event.sched_blocked_reason, blocked(fields, symbol)),
        "clock_enable" => set(&mut event.clock_enable, clock_rate(fields)),
        "clock_disable" => set(&mut event.clock_disable, clock_rate(fields)),
        "clock_set_rate" => set(&mut event.clock_set_rate, clock_rate(fields)),
        "binder_command" => set(&mut event.binder_command, command(fields)),
        "binder_return" => set(&mut event.binder_return, command(fields)),
        "task_newtask" => set(&mut event.task_newtask, new_task(fields)),
        "task_rename" => set(&mut event.task_rename, rename(fields)),
        "binder_transaction" => set(&mut event.binder_transaction, transaction(fields)),
        "binder_transaction_received" => {
            let debug_id = fields.number("transaction=");
            let received = debug_id.map(|id| BinderTransactionReceived { debug_id: Some(id) });
            set(&mut event.binder_transaction_received, received)
        }
        _ => false,
    };
    if !is_typed {
        let field = GenericField { name: Some("text".to_owned()), str_value: Some(text) };
        let event_name = Some(name.to_owned());
        event.generic = Some(GenericEvent { event_name, field: vec![field] });
    }
    event
}

fn set<T>(index: &mut Option<T>, value: Option<T>) -> bool {
    *index = value;
    index.is_some()
}

fn switch(fields: Fields<'_>) -> Option<SchedSwitch> {
    // A thread's name may have an arrow, too.
    let (prev, next) = fields.0.split_at(fields.0.find(" ==> next_comm=")?);
    let (prev, next) = (Fields(prev), Fields(next));
    Some(SchedSwitch {
        prev_comm: Some(prev.comm("prev_comm=", " prev_pid=")?),
        prev_pid: Some(prev.number("prev_pid=")?),
        prev_prio: prev.number("prev_prio="),
        // The numbers of Linux 4.4, if the version is unknown.
        prev_state: Some(state_of_text(prev.text("prev_state=")?.as_bytes()).into()),
        next_comm: Some(next.comm("next_comm=", " next_pid=")?),
        next_pid: Some(next.number("next_pid=")?),
        next_prio: next.number("next_prio="),
    })
}

fn wakeup(fields: Fields<'_>) -> Option<SchedWakeup> {
    Some(SchedWakeup {
        comm: Some(fields.comm("comm=", " pid=")?),
        pid: Some(fields.number(" pid=")?),
        prio: fields.number("prio="),
        success: fields.number("success=").or(Some(1)),
        target_cpu: fields.number("target_cpu="),
    })
}

fn cpu_state(fields: Fields<'_>) -> Option<CpuState> {
    Some(CpuState {
        state: Some(fields.number("state=")?),
        cpu_id: Some(fields.number("cpu_id=")?),
    })
}

fn limits(fields: Fields<'_>) -> Option<CpuFrequencyLimits> {
    Some(CpuFrequencyLimits {
        min_freq: Some(fields.number("min=").or_else(|| fields.number("min_freq="))?),
        max_freq: Some(fields.number("max=").or_else(|| fields.number("max_freq="))?),
        cpu_id: Some(fields.number("cpu_id=")?),
    })
}

fn blocked(fields: Fields<'_>, symbol: impl FnOnce(&str) -> u64) -> Option<BlockedReason> {
    Some(BlockedReason {
        pid: Some(fields.number("pid=")?),
        caller: fields.text("caller=").map(symbol),
        io_wait: fields.number("iowait="),
    })
}

fn clock_rate(fields: Fields<'_>) -> Option<ClockSetRate> {
    Some(ClockSetRate {
        name: Some(fields.0.split(' ').next()?.to_owned()),
        state: Some(fields.number("state=")?),
        cpu_id: fields.number("cpu_id="),
    })
}

/// A command or return code of the binder driver.
fn command(fields: Fields<'_>) -> Option<BinderCommand> {
    Some(BinderCommand { cmd: Some(fields.hex("cmd=")?) })
}

/// Marks the thread as new: Perfetto then treats an older thread with the same id as a different one.
fn new_task(fields: Fields<'_>) -> Option<TaskNewtask> {
    Some(TaskNewtask {
        pid: Some(fields.0.strip_prefix("pid=")?.split(' ').next()?.parse().ok()?),
        comm: Some(fields.comm("comm=", " clone_flags=")?),
        clone_flags: u64::from_str_radix(fields.text("clone_flags=")?, 16).ok(),
        oom_score_adj: fields.number("oom_score_adj="),
    })
}

fn rename(fields: Fields<'_>) -> Option<TaskRename> {
    Some(TaskRename {
        pid: Some(fields.0.strip_prefix("pid=")?.split(' ').next()?.parse().ok()?),
        oldcomm: Some(fields.comm("oldcomm=", " newcomm=")?),
        newcomm: Some(fields.comm("newcomm=", " oom_score_adj=")?),
        oom_score_adj: fields.number("oom_score_adj="),
    })
}

fn transaction(fields: Fields<'_>) -> Option<BinderTransaction> {
    Some(BinderTransaction {
        debug_id: Some(fields.number("transaction=")?),
        target_node: fields.number("dest_node="),
        to_proc: fields.number("dest_proc="),
        to_thread: fields.number("dest_thread="),
        reply: fields.number("reply="),
        code: fields.hex("code="),
        flags: fields.hex("flags="),
    })
}

/// `key=value key=value`. The name of a thread may hold anything: the last key counts.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn text(self, key: &str) -> Option<&'a str> {
        let start = self.0.rfind(key)? + key.len();
        self.0.get(start..)?.split(' ').next()
    }

    fn number<T: std::str::FromStr>(self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    fn hex(self, key: &str) -> Option<u32> {
        u32::from_str_radix(self.text(key)?.strip_prefix("0x")?, 16).ok()
    }

    fn comm(self, before: &str, after: &str) -> Option<String> {
        let head = self.0.get(..self.0.rfind(after)?)?;
        Some(head.get(head.find(before)? + before.len()..)?.to_owned())
    }
}
