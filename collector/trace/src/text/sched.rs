//! Reads thread states and names from scheduler events.

use super::line::{Line, decimal};
use crate::builder::Builder;

pub(crate) fn take(builder: &mut Builder, at_ns: u64, line: &Line<'_>) {
    let payload = line.payload;
    for (tid, name) in names(line) {
        builder.comm(tid, name);
    }
    match line.event {
        b"sched_switch" => {
            let state = value(payload, b"prev_state=").and_then(|state| state.first().copied());
            if let (Some(tid), Some(state)) = (number(payload, b"prev_pid="), state) {
                builder.state(tid, at_ns, state);
            }
            if let Some(tid) = number(payload, b"next_pid=") {
                builder.state(tid, at_ns, b'r');
            }
        }
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => {
            if let Some(tid) = number(payload, b" pid=") {
                builder.woken(tid, at_ns);
            }
        }
        _ => {}
    }
}

/// The threads that an event of the scheduler names.
pub(crate) fn names<'a>(line: &Line<'a>) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
    let fields: [Option<(&[u8], &[u8])>; 2] = match line.event {
        b"sched_switch" => {
            [Some((b"prev_comm=", b" prev_pid=")), Some((b" ==> next_comm=", b" next_pid="))]
        }
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => {
            [Some((b"comm=", b" pid=")), None]
        }
        _ => [None, None],
    };
    let payload = line.payload;
    fields.into_iter().flatten().filter_map(move |(before, after)| {
        let tid = number(payload, after).filter(|&tid| tid != 0)?;
        let head = payload.get(..memchr::memmem::rfind(payload, after)?)?;
        let name = head.get(memchr::memmem::find(head, before)? + before.len()..)?;
        (!name.is_empty() && name != b"<...>").then_some((tid, name))
    })
}

/// Returns the value after a key, up to the next space. Thread names come before the ids, so the last key counts.
fn value<'a>(payload: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = payload.get(memchr::memmem::rfind(payload, key)? + key.len()..)?;
    rest.split(|&byte| byte == b' ').next()
}

fn number(payload: &[u8], key: &[u8]) -> Option<u32> {
    u32::try_from(decimal(value(payload, key)?)?).ok()
}
