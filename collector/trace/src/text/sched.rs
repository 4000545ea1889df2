//! Reads thread states and names, binder calls and processor clocks from the kernel's events.

use super::line::{Line, decimal, digits};
use crate::builder::Builder;
use crate::kernel::{KernelEvent, KernelKind, Task, Wake, state_of_text};
use crate::names::{NameId, Names};
use crate::scheduling::INTERRUPT;

pub(crate) fn take(builder: &mut Builder, at_ns: u64, line: &Line<'_>) {
    if line.event == b"suspend_resume" {
        let action = line.payload.split(|&byte| byte == b'[').next().unwrap_or_default();
        let begins = line.payload.ends_with(b" begin");
        builder.trace.scheduling.suspend_step(at_ns, action, begins);
    }
    let Some(kind) = parse(line, &mut builder.trace.names) else { return };
    let is_woken = matches!(kind, KernelKind::Wake { .. });
    let tid = if is_woken && is_interrupt(line.flags) { INTERRUPT } else { line.tid };
    let cpu = u16::try_from(line.cpu).unwrap_or(u16::MAX);
    builder.kernel_event(&KernelEvent { at_ns, tid, cpu, kind });
}

/// Reads an event as far as the model has its fields; writers take the others from its text.
fn parse(line: &Line<'_>, table: &mut Names) -> Option<KernelKind> {
    let payload = line.payload;
    let mut task = |tid: u32| {
        let name = names(line).find(|&(other, _)| other == tid);
        let name = name.map_or(NameId::NONE, |(_, name)| table.id(name));
        Task { tid, name, priority: 0 }
    };
    let int = |key: &[u8]| first_number(payload, key).map(u32::cast_signed);
    let how = match line.event {
        b"sched_wakeup" => Wake::Wakeup,
        b"sched_wakeup_new" => Wake::New,
        _ => Wake::Waking,
    };
    Some(match line.event {
        b"sched_switch" => match Switch::parse(payload) {
            Some(switch) => switch.kind(table),
            None => KernelKind::Switch {
                prev: task(number(payload, b"prev_pid=")?),
                state: state_of_text(value(payload, b"prev_state=")?),
                next: task(number(payload, b"next_pid=")?),
            },
        },
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => {
            KernelKind::Wake { how, task: task(number(payload, b" pid=")?), target: 0 }
        }
        b"sched_blocked_reason" => KernelKind::Blocked {
            tid: first_number(payload, b"pid=")?,
            function: table.id(value(payload, b"caller=").unwrap_or_default()),
            io_wait: number(payload, b"iowait=") == Some(1),
        },
        b"task_newtask" => {
            let (tid, name) = (first_number(payload, b"pid=")?, NameId::NONE);
            KernelKind::NewTask { tid, name, flags: 0, oom: 0 }
        }
        b"cpu_frequency" => KernelKind::Frequency {
            cpu: number(payload, b"cpu_id=")?,
            khz: first_number(payload, b"state=")?,
        },
        b"cpu_frequency_limits" => KernelKind::FrequencyLimits {
            cpu: number(payload, b"cpu_id=")?,
            min_khz: 0,
            // Kernels name it in two ways.
            max_khz: number(payload, b"max=").or_else(|| number(payload, b"max_freq="))?,
        },
        b"binder_transaction" => KernelKind::Transaction {
            id: int(b"transaction=")?,
            node: 0,
            pid: number(payload, b"dest_proc=")?.cast_signed(),
            tid: 0,
            is_reply: number(payload, b"reply=") == Some(1),
            code: 0,
            flags: value(payload, b"flags=0x").and_then(hexadecimal).unwrap_or(0),
        },
        b"binder_transaction_received" => KernelKind::Received { id: int(b"transaction=")? },
        _ => return None,
    })
}

/// A switch whose fields are in the kernel's order, without `=` in its texts: no key occurs twice.
#[derive(Debug, PartialEq, Eq)]
struct Switch<'a> {
    prev: u32,
    prev_comm: &'a [u8],
    prev_state: &'a [u8],
    next: u32,
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
        let (prev_state, rest) = rest.split_at_checked(memchr::memchr(b' ', rest)?)?;
        let rest = rest.strip_prefix(b" ==> next_comm=")?;
        let (next_comm, rest) = until_key(rest, b" next_pid=")?;
        let (next, rest) = id(rest)?;
        let (_, count) = digits(rest.strip_prefix(b" next_prio=")?)?;
        let is_all = b" next_prio=".len() + count == rest.len();
        let is_state = !prev_state.is_empty() && !prev_state.contains(&b'=');
        (is_all && is_state).then_some(Self { prev, prev_comm, prev_state, next, next_comm })
    }

    fn kind(&self, table: &mut Names) -> KernelKind {
        let mut task = |tid, name: &[u8]| {
            let is_name = tid != 0 && !name.is_empty() && name != b"<...>";
            let name = if is_name { table.id(name) } else { NameId::NONE };
            Task { tid, name, priority: 0 }
        };
        let (prev, next) = (task(self.prev, self.prev_comm), task(self.next, self.next_comm));
        KernelKind::Switch { prev, state: state_of_text(self.prev_state), next }
    }
}

/// Returns the texts before and after a key that ends at the first `=`.
fn until_key<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (before, rest) = text.split_at_checked(memchr::memchr(b'=', text)? + 1)?;
    Some((before.strip_suffix(key)?, rest))
}

/// Returns an id and the text after it.
fn id(text: &[u8]) -> Option<(u32, &[u8])> {
    let (number, count) = digits(text)?;
    Some((u32::try_from(number).ok()?, text.get(count..)?))
}

/// True if the event happened in an interrupt: the third flag is `h`, `s`, `H`, or another letter for both.
fn is_interrupt(flags: &[u8]) -> bool {
    flags.get(2).is_some_and(u8::is_ascii_alphabetic)
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
            let is_named = tid != 0 && !name.is_empty() && name != b"<...>";
            is_named.then(|| (tid, name.to_vec()))
        });
        let ids = [Some(switch.prev), Some(switch.next)];
        (names.collect(), ids, switch.prev_state.first().copied())
    }

    #[test]
    fn a_switch_of_the_kernel_is_read_at_once() {
        let payload = b"prev_comm=Binder:1_2 prev_pid=7 prev_prio=120 prev_state=R+ ==> \
                        next_comm=a -> b next_pid=8 next_prio=98";
        let switch = Switch::parse(payload).unwrap();
        assert_eq!((switch.prev, switch.prev_comm), (7, &b"Binder:1_2"[..]));
        assert_eq!((switch.next, switch.next_comm), (8, &b"a -> b"[..]));
        assert_eq!(switch.prev_state, b"R+");
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
