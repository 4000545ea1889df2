//! Reads thread states and names, binder calls and processor clocks from the kernel's events.

use super::line::{Line, decimal, digits};
use crate::builder::Builder;
use crate::model::State;
use crate::names::NameId;
use crate::scheduling::{Blocked, CpuClock, INTERRUPT, NO_WAKER, ONE_WAY, Transaction};

pub(crate) fn take(builder: &mut Builder, at_ns: u64, line: &Line<'_>) {
    let payload = line.payload;
    if line.event == b"sched_switch"
        && let Some(switch) = Switch::parse(payload)
    {
        switch.put(builder, at_ns, u16::try_from(line.cpu).unwrap_or(u16::MAX));
        return;
    }
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
        b"task_newtask" => {
            if let Some(tid) = first_number(payload, b"pid=") {
                builder.new_task(tid);
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
        b"suspend_resume" => {
            let action = payload.split(|&byte| byte == b'[').next().unwrap_or_default();
            let begins = payload.ends_with(b" begin");
            builder.trace.scheduling.suspend_step(at_ns, action, begins);
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

/// A switch whose fields are in the kernel's order, without `=` in its texts: no key is there twice.
#[derive(Debug, PartialEq, Eq)]
struct Switch<'a> {
    prev: Option<u32>,
    prev_comm: &'a [u8],
    prev_state: u8,
    next: Option<u32>,
    next_comm: &'a [u8],
}

impl<'a> Switch<'a> {
    /// Reads each byte once; `None` for a payload that only a search for the last of each key reads right.
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (prev_comm, rest) = until_key(payload.strip_prefix(b"prev_comm=")?, b" prev_pid=")?;
        let (prev, rest) = id(rest)?;
        let rest = rest.strip_prefix(b" prev_prio=")?;
        let (_, count) = digits(rest)?;
        let rest = rest.get(count..)?.strip_prefix(b" prev_state=")?;
        let (state, rest) = rest.split_at_checked(memchr::memchr(b' ', rest)?)?;
        let &prev_state = state.first().filter(|_| !state.contains(&b'='))?;
        let rest = rest.strip_prefix(b" ==> next_comm=")?;
        let (next_comm, rest) = until_key(rest, b" next_pid=")?;
        let (next, rest) = id(rest)?;
        let (_, count) = digits(rest.strip_prefix(b" next_prio=")?)?;
        let is_all = b" next_prio=".len() + count == rest.len();
        is_all.then_some(Self { prev, prev_comm, prev_state, next, next_comm })
    }

    fn put(&self, builder: &mut Builder, at_ns: u64, cpu: u16) {
        let threads = [(self.prev, self.prev_comm), (self.next, self.next_comm)];
        for (tid, name) in threads {
            if let Some(tid) = tid.filter(|&tid| tid != 0)
                && !name.is_empty()
                && name != b"<...>"
            {
                builder.comm(tid, name);
            }
        }
        let state = |kind| State { at_ns, kind, cpu, waker: NO_WAKER };
        if let Some(tid) = self.prev {
            builder.state(tid, state(self.prev_state));
        }
        if let Some(tid) = self.next {
            builder.state(tid, state(b'r'));
        }
    }
}

/// Returns the texts before and after a key that ends at the first `=`.
fn until_key<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (before, rest) = text.split_at_checked(memchr::memchr(b'=', text)? + 1)?;
    Some((before.strip_suffix(key)?, rest))
}

/// Returns an id and the text after it; no id for one that is too large.
fn id(text: &[u8]) -> Option<(Option<u32>, &[u8])> {
    let (number, count) = digits(text)?;
    Some((u32::try_from(number).ok(), text.get(count..)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(payload: &[u8]) -> Line<'_> {
        let (event, task): (&[u8], &[u8]) = (b"sched_switch", b"a");
        Line { task, tid: 1, tgid: None, cpu: 0, flags: b"", at_ns: 0, event, payload }
    }

    /// Named threads, ids and the first one's state.
    type Fields = (Vec<(u32, Vec<u8>)>, [Option<u32>; 2], Option<u8>);

    /// The fields of a switch, each found by the last of its key.
    fn searched(payload: &[u8]) -> Fields {
        let ids = [number(payload, b"prev_pid="), number(payload, b"next_pid=")];
        let state = value(payload, b"prev_state=").and_then(|state| state.first().copied());
        (names(&line(payload)).map(|(tid, name)| (tid, name.to_vec())).collect(), ids, state)
    }

    fn parsed(switch: &Switch<'_>) -> Fields {
        let threads = [(switch.prev, switch.prev_comm), (switch.next, switch.next_comm)];
        let names = threads.into_iter().filter_map(|(tid, name)| {
            let is_named = !name.is_empty() && name != b"<...>";
            Some((tid.filter(|&tid| tid != 0 && is_named)?, name.to_vec()))
        });
        (names.collect(), [switch.prev, switch.next], Some(switch.prev_state))
    }

    #[test]
    fn a_switch_of_the_kernel_is_read_at_once() {
        let payload = b"prev_comm=Binder:1_2 prev_pid=7 prev_prio=120 prev_state=R+ ==> \
                        next_comm=a -> b next_pid=8 next_prio=98";
        let switch = Switch::parse(payload).unwrap();
        assert_eq!((switch.prev, switch.prev_comm), (Some(7), &b"Binder:1_2"[..]));
        assert_eq!((switch.next, switch.next_comm), (Some(8), &b"a -> b"[..]));
        assert_eq!(switch.prev_state, b'R');
        assert_eq!(parsed(&switch), searched(payload));
    }

    proptest::proptest! {
        #[test]
        fn a_switch_is_what_a_search_finds(
            prev in "(a|b c|<...>|prev_comm=| prev_pid=3|[ -~]{0,9})", next in "(a|b c|| ==> next_comm=x|next_pid=|[ -~]{0,9})",
            ids in proptest::array::uniform2("(0|7|[0-9]{1,12}|x)"), prio in "(120|98|0|-1)",
            state in "(S|R[+]|D[|]K|Sprev_pid=3|Snext_comm=|)", end in "(|||| next_pid=5| x)",
        ) {
            let [first, second] = ids;
            let payload = format!(
                "prev_comm={prev} prev_pid={first} prev_prio={prio} prev_state={state} ==> next_comm={next} next_pid={second} next_prio=120{end}"
            );
            if let Some(switch) = Switch::parse(payload.as_bytes()) {
                proptest::prop_assert_eq!(parsed(&switch), searched(payload.as_bytes()), "{}", payload);
            }
        }
    }
}
