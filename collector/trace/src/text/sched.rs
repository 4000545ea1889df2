//! Reads thread states and names, binder calls and processor clocks from the kernel's events.

use super::line::{Line, decimal};
use crate::builder::Builder;
use crate::model::State;
use crate::names::NameId;
use crate::scheduling::{Blocked, CpuClock, INTERRUPT, NO_WAKER, ONE_WAY, Transaction};

pub(crate) fn take(builder: &mut Builder, at_ns: u64, line: &Line<'_>) {
    let payload = line.payload;
    for (tid, name) in names(line) {
        builder.comm(tid, name);
    }
    let cpu = u16::try_from(line.cpu).unwrap_or(u16::MAX);
    match line.event {
        b"sched_switch" => {
            let state = value(payload, b"prev_state=").and_then(|state| state.first().copied());
            let waker = NO_WAKER;
            if let (Some(tid), Some(kind)) = (number(payload, b"prev_pid="), state) {
                builder.state(tid, State { at_ns, kind, cpu, waker });
            }
            if let Some(tid) = number(payload, b"next_pid=") {
                builder.state(tid, State { at_ns, kind: b'r', cpu, waker });
            }
        }
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => {
            if let Some(tid) = number(payload, b" pid=") {
                let waker = if is_interrupt(line.flags) { INTERRUPT } else { line.tid };
                builder.woken(tid, State { at_ns, kind: b'R', cpu, waker });
            }
        }
        b"sched_blocked_reason" => {
            let io_wait = number(payload, b"iowait=") == Some(1);
            let caller = value(payload, b"caller=").unwrap_or_default();
            if let Some(tid) = first_number(payload, b"pid=") {
                let function = function(builder, caller);
                builder.blocked(tid, Blocked { at_ns, function, io_wait });
            }
        }
        b"cpu_frequency" => {
            let (khz, cpu) = (first_number(payload, b"state="), number(payload, b"cpu_id="));
            if let (Some(khz), Some(cpu)) = (khz, cpu.and_then(|cpu| u16::try_from(cpu).ok())) {
                builder.trace.scheduling.clock(CpuClock { at_ns, cpu, khz });
            }
        }
        b"cpu_frequency_limits" => {
            let (khz, cpu) = (number(payload, b"max="), number(payload, b"cpu_id="));
            if let (Some(khz), Some(cpu)) = (khz, cpu.and_then(|cpu| u16::try_from(cpu).ok())) {
                builder.trace.scheduling.limit(cpu, khz);
            }
        }
        b"binder_transaction" => transaction(builder, at_ns, line),
        b"binder_transaction_received" => {
            if let Some(id) = first_number(payload, b"transaction=") {
                builder.received(id.cast_signed(), at_ns, line.tid);
            }
        }
        _ => {}
    }
}

fn transaction(builder: &mut Builder, at_ns: u64, line: &Line<'_>) {
    let payload = line.payload;
    let flags = value(payload, b"flags=0x").and_then(hexadecimal).unwrap_or(0);
    let id = first_number(payload, b"transaction=");
    if let (Some(id), Some(to_pid)) = (id, number(payload, b"dest_proc=")) {
        builder.sent(Transaction {
            at_ns,
            from_tid: line.tid,
            id: id.cast_signed(),
            to_pid,
            is_reply: number(payload, b"reply=") == Some(1),
            is_one_way: flags & ONE_WAY != 0,
            received: None,
        });
    }
}

/// True if the event happened in an interrupt: the third flag is `h`, `s`, `H`, or another letter for both.
fn is_interrupt(flags: &[u8]) -> bool {
    flags.get(2).is_some_and(u8::is_ascii_alphabetic)
}

/// Returns the name of a kernel function without its offset.
fn function(builder: &mut Builder, caller: &[u8]) -> NameId {
    let name = caller.split(|&byte| byte == b'+').next().unwrap_or_default();
    if name.is_empty() || name.starts_with(b"0x") {
        return NameId::NONE;
    }
    builder.trace.names.id(name)
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

/// Returns the number of the key with which the text begins.
fn first_number(payload: &[u8], key: &[u8]) -> Option<u32> {
    let rest = payload.strip_prefix(key)?;
    u32::try_from(decimal(rest.split(|&byte| byte == b' ').next()?)?).ok()
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
