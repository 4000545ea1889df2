//! The summary of a trace: the writer's own counts, and the recorder's.

use crate::merge::Source;
use crate::threads::{Threads, name_of};
use crate::writer::Writer;
use tracetee_protocol::{Summary, ThreadSummary};
use tracetee_recorder::layout::Loss;
use tracetee_recorder::reader::ThreadFacts;
use tracetee_recorder::record::Kind;

/// Counts of a trace that is being written.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The counts that the summary contains unchanged.
    pub(crate) summary: Summary,
    by_kind: [u64; Kind::ALL.len()],
    /// Indexed by thread.
    by_thread: Vec<u64>,
    first_ns: Option<u64>,
    /// Boot time of the last event.
    pub(crate) last_ns: u64,
}

impl Tally {
    /// Notes that the trace begins at that boot time, unless it has begun.
    pub(crate) fn begin_at(&mut self, boot_ns: u64) {
        self.first_ns.get_or_insert(boot_ns);
    }

    /// Counts a record of a thread.
    pub(crate) fn count(&mut self, thread: usize, kind: Kind) {
        if let Some(count) = self.by_kind.get_mut(kind.index()) {
            *count += 1;
        }
        if self.by_thread.len() <= thread {
            self.by_thread.resize(thread + 1, 0);
        }
        if let Some(count) = self.by_thread.get_mut(thread) {
            *count += 1;
        }
    }

    /// Returns the summary so far, with the losses that the pools know of.
    pub(crate) fn complete(
        &self,
        writer: &mut Writer,
        threads: &Threads,
        sources: &[Source<'_>],
    ) -> Summary {
        let mut summary = self.summary.clone();
        set_records(&mut summary, &self.by_kind);
        summary.lines = writer.lines;
        summary.stray_ends = writer.balance.stray_ends;
        summary.closed_sections = writer.balance.closed_sections;
        if let Some(redactor) = &writer.redactor {
            summary.redacted = redactor.changed;
            summary.redacted_out = redactor.dropped;
        }
        add_sources(&mut summary, sources);
        summary.threads = thread_summaries(threads, &self.by_thread, sources);
        for thread in &mut summary.threads {
            thread.name = writer.thread_name(std::mem::take(&mut thread.name));
        }
        summary.start_boot_ns = self.first_ns.unwrap_or(0);
        summary.duration_ns = self.last_ns.saturating_sub(summary.start_boot_ns);
        summary
    }
}

/// Adds a thread's lost records.
fn count_dropped(summary: &mut Summary, dropped: &[u64; Loss::ALL.len()]) {
    for (loss, &count) in Loss::ALL.iter().zip(dropped) {
        if count > 0 {
            *summary.dropped.entry(loss.name().to_owned()).or_default() += count;
        }
    }
}

/// Number of a thread's records that newer ones have overwritten, or will soon overwrite.
fn overwritten(source: &Source<'_>, facts: &ThreadFacts) -> u64 {
    facts.overwritten + source.snapshot.outlived(facts.incarnation)
}

/// Adds the pools' own data and their losses.
fn add_sources(summary: &mut Summary, sources: &[Source<'_>]) {
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
fn set_records(summary: &mut Summary, by_kind: &[u64; Kind::ALL.len()]) {
    // Collecting them would add another sort function.
    summary.records.clear();
    for (kind, &count) in Kind::ALL.iter().zip(by_kind) {
        if count > 0 {
            summary.records.insert(kind.letter(), count);
        }
    }
}

/// All threads that recorded or lost records; `records` counts by the index of the thread.
fn thread_summaries(
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
