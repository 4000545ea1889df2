//! The summary of a written trace: how the recorder's counts become it.

use crate::merge::Source;
use crate::threads::{Threads, name_of};
use tracetee_protocol::{Summary, ThreadSummary};
use tracetee_recorder::layout::Loss;
use tracetee_recorder::reader::ThreadFacts;
use tracetee_recorder::record::Kind;

/// Adds a thread's lost records.
fn count_dropped(summary: &mut Summary, dropped: &[u64; Loss::ALL.len()]) {
    for (loss, &count) in Loss::ALL.iter().zip(dropped) {
        if count > 0 {
            *summary.dropped.entry(loss.name().to_owned()).or_default() += count;
        }
    }
}

/// Records of a thread that newer ones have overwritten, or are about to.
fn overwritten(source: &Source<'_>, facts: &ThreadFacts) -> u64 {
    let outlived = source.snapshot.outlived.get(&facts.incarnation).copied();
    facts.overwritten + outlived.unwrap_or(0)
}

/// Adds what the pools say of themselves and of losses.
pub(crate) fn add_sources(summary: &mut Summary, sources: &[Source<'_>]) {
    summary.processes = sources.len() as u64;
    for source in sources {
        summary.damaged_blocks += source.snapshot.damaged;
        summary.clock_jumps += source.snapshot.clock_jumps();
        summary.counter_clock |= source.reader.uses_counter();
        for facts in source.reader.threads() {
            count_dropped(summary, &facts.dropped);
            summary.overwritten += overwritten(source, &facts);
        }
    }
}

/// Takes the number of records of each kind.
pub(crate) fn set_records(summary: &mut Summary, by_kind: &[u64; Kind::ALL.len()]) {
    summary.records = Kind::ALL
        .iter()
        .zip(by_kind)
        .filter(|&(_, &count)| count > 0)
        .map(|(kind, &count)| (kind.letter(), count))
        .collect();
}

/// All threads that recorded or lost records; `records` counts by the index of the thread.
pub(crate) fn thread_summaries(
    known: &Threads,
    records: &[u64],
    sources: &[Source<'_>],
) -> Vec<ThreadSummary> {
    let known = known.all();
    let mut threads: Vec<ThreadSummary> = known
        .iter()
        .enumerate()
        .map(|(index, thread)| ThreadSummary {
            pid: thread.pid,
            tid: thread.tid,
            name: thread.name(),
            records: records.get(index).copied().unwrap_or(0),
            ..ThreadSummary::default()
        })
        .collect();
    for (process, source) in sources.iter().enumerate() {
        for facts in source.reader.threads() {
            let dropped: u64 = facts.dropped.iter().sum();
            let overwritten = overwritten(source, &facts);
            if dropped + overwritten == 0 {
                continue;
            }
            let index = known.iter().position(|thread| {
                thread.process == process && thread.incarnation == facts.incarnation
            });
            match index.and_then(|index| threads.get_mut(index)) {
                Some(thread) => {
                    thread.dropped += dropped;
                    thread.overwritten += overwritten;
                }
                None => threads.push(ThreadSummary {
                    pid: source.reader.pid(),
                    tid: facts.tid,
                    name: name_of(&facts.name, facts.tid),
                    records: 0,
                    overwritten,
                    dropped,
                }),
            }
        }
    }
    threads.retain(|thread| thread.records + thread.dropped + thread.overwritten > 0);
    threads
}
