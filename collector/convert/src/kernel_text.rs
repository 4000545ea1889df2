//! Events of the kernel as ftrace prints their fields.

use tracetee_trace::{KernelEvent, KernelKind, NameId, Task, state_text};

/// Returns the text of an event; `name` returns the text of a name in a form that is valid in a line.
pub(crate) fn payload<'a>(event: &KernelEvent, name: impl Fn(NameId) -> &'a str) -> String {
    // An idle processor's thread has the processor's number.
    let named = |task: Task| match (task.tid, name(task.name)) {
        (0, "") => (format!("swapper/{}", event.cpu), 0, task.priority),
        (tid, name) => (name.to_owned(), tid, task.priority),
    };
    match event.kind {
        KernelKind::Switch { prev, state, next } => {
            let ((prev_name, prev_tid, prev_priority), (next_name, next_tid, next_priority)) =
                (named(prev), named(next));
            format!(
                "prev_comm={prev_name} prev_pid={prev_tid} prev_prio={prev_priority} prev_state={} ==> \
                 next_comm={next_name} next_pid={next_tid} next_prio={next_priority}",
                state_text(state)
            )
        }
        KernelKind::Wake { task, target, .. } => {
            format!(
                "comm={} pid={} prio={} target_cpu={target:03}",
                name(task.name),
                task.tid,
                task.priority
            )
        }
        KernelKind::Blocked { tid, function, io_wait } => {
            format!("pid={tid} iowait={} caller={}", u8::from(io_wait), name(function))
        }
        KernelKind::Frequency { cpu, khz } => format!("state={khz} cpu_id={cpu}"),
        KernelKind::FrequencyLimits { cpu, min_khz, max_khz } => {
            format!("min={min_khz} max={max_khz} cpu_id={cpu}")
        }
        KernelKind::Idle { cpu, state } => format!("state={state} cpu_id={cpu}"),
        KernelKind::Transaction { id, node, pid, tid, is_reply, code, flags } => format!(
            "transaction={id} dest_node={node} dest_proc={pid} dest_thread={tid} reply={} flags={flags:#x} \
             code={code:#x}",
            u8::from(is_reply)
        ),
        KernelKind::Received { id } => format!("transaction={id}"),
        KernelKind::Rename { tid, before, name: after, oom } => {
            let (before, after) = (name(before), name(after));
            format!("pid={tid} oldcomm={before} newcomm={after} oom_score_adj={oom}")
        }
        KernelKind::NewTask { tid, name: own, flags, oom } => {
            format!("pid={tid} comm={} clone_flags={flags:x} oom_score_adj={oom}", name(own))
        }
        // In the original form.
        KernelKind::Text { .. } => String::new(),
    }
}
