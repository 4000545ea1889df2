//! Binder calls as the page shows them: a slice for each call that waits for its reply, on a track of the calling thread,
//! from the send of the call to the receipt of the reply. Its arguments name the thread that answered.

use std::borrow::Cow;
use std::collections::HashMap;
use tracetee_trace::{Async, NameId, Names, Trace, Transaction, UNFINISHED};

/// Name of the tracks.
const TRACK: &[u8] = b"binder calls";

/// Returns the calls by time, with the names that they need added to `names`. A call without a reply in the trace has no end.
pub(super) fn calls<'a>(
    trace: &'a Trace,
    mut names: Cow<'a, Names>,
) -> (Cow<'a, Names>, Vec<Async>) {
    // Calls that wait, by thread, the innermost last: a waiting thread may serve another call and call again.
    let mut waiting: HashMap<u32, Vec<(usize, Transaction)>> = HashMap::new();
    let (mut calls, mut answers) = (Vec::new(), HashMap::new());
    for &transaction in &trace.scheduling.transactions {
        if !transaction.is_reply {
            if !transaction.is_one_way {
                let one = (calls.len(), transaction);
                waiting.entry(transaction.from_tid).or_default().push(one);
                calls.push(transaction);
            }
            continue;
        }
        let Some((at_ns, caller)) = transaction.received else { continue };
        let Some(open) = waiting.get_mut(&caller) else { continue };
        let is_answered = |(_, call): &(usize, Transaction)| {
            call.received.is_some_and(|(_, server)| server == transaction.from_tid)
        };
        if let Some(index) = open.iter().rposition(is_answered) {
            // Transactions inside it can no longer be answered.
            open.drain(index..).take(1).for_each(|(call, _)| {
                answers.insert(call, (at_ns, transaction.from_tid));
            });
        }
    }
    if calls.is_empty() {
        return (names, Vec::new());
    }
    let processes = trace.process_names();
    let track = Some(names.to_mut().id(TRACK));
    let slice = |(index, call): (usize, Transaction)| {
        let thread = trace.threads.get(&call.from_tid)?;
        let (end_ns, server) =
            answers.get(&index).map_or((UNFINISHED, None), |&(at, tid)| (at, Some(tid)));
        let server = server.or(call.received.map(|(_, tid)| tid));
        let about = serde_json::json!({
            "to": format!("{} {}", processes.of(call.to_pid), call.to_pid),
            "answered by": server.map(|tid| {
                let name = trace.threads.get(&tid).map_or("", |thread| thread.name(&trace.names));
                format!("{name} {tid}")
            }),
            "received after µs": call.received.map(|(at_ns, _)| at_ns.saturating_sub(call.at_ns) / 1000),
        });
        let name = format!("binder call to {}", processes.of(call.to_pid));
        let mut id = |text: &str| names.to_mut().id(text.as_bytes());
        let (name, args) = (id(&name), id(&about.to_string()));
        let (threads, category, cookie) = ([call.from_tid; 2], NameId::NONE, 0);
        let pid = thread.pid.unwrap_or(call.from_tid);
        Some(Async {
            threads,
            pid,
            track,
            name,
            category,
            args,
            cookie,
            start_ns: call.at_ns,
            end_ns,
        })
    };
    let made = calls.into_iter().enumerate().filter_map(slice).collect();
    (names, made)
}
