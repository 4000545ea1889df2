//! What a written trace holds, and what it lacks.

use crate::merge::Source;
use crate::threads::{Threads, name_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracetee_recorder::layout::Loss;
use tracetee_recorder::record::Kind;

/// What a trace came to. Records = lines written + those left out by a named rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Records in the pools, by kind letter.
    pub records: BTreeMap<char, u64>,
    /// Records not recorded, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Records lost because newer ones took their place (recorder mode `ring`).
    pub overwritten: u64,
    /// Ends without a begin, left out.
    pub stray_ends: u64,
    /// Sections closed because their thread or the capture ended, or records were missing.
    pub closed_sections: u64,
    /// Places where a thread's records are missing in the middle.
    pub gaps: u64,
    /// Record-shaped writes whose fields are not those of their kind, left out.
    pub malformed: u64,
    /// Records left out because catapult does not know their kind.
    pub left_out: u64,
    /// Records of sections shorter than `min_slice_us`, left out.
    pub too_short: u64,
    /// Records of other threads than the main one, left out by `main_thread_only`.
    pub other_threads: u64,
    /// Records whose names the redaction has changed.
    pub redacted: u64,
    /// Records that the redaction has left out.
    pub redacted_out: u64,
    /// Blocks of a damaged recorder file whose rest was not readable.
    pub damaged_blocks: u64,
    /// Times when the clock's counter stood still or jumped (a suspend): records near them may be
    /// up to 250 ms of running time off.
    pub clock_jumps: u64,
    /// The records' time was taken from the processor's counter.
    pub counter_clock: bool,
    /// A process ended without stopping its capture; this is what it left.
    pub recovered: bool,
    /// Processes.
    pub processes: u64,
    /// Threads that recorded or lost records.
    pub threads: Vec<ThreadSummary>,
    /// From the first pool's start to the last record or stop, ns.
    pub duration_ns: u64,
    /// Boot time at which the first pool started, ns.
    pub start_boot_ns: u64,
    /// Lines that are records or the agent's own closing ends.
    pub lines: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// One thread of a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadSummary {
    /// Process id.
    pub pid: i32,
    /// Thread id; 0 for all threads together that came after the 4095th.
    pub tid: i32,
    /// Its last known name.
    pub name: String,
    /// Its records.
    pub records: u64,
    /// Its records that newer ones took the place of.
    #[serde(skip_serializing_if = "is_zero")]
    pub overwritten: u64,
    /// Its records that were not recorded, for whatever reason.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Summary {
    /// Records of all kinds.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.records.values().sum()
    }

    /// Records that were not recorded, for whatever reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.values().sum()
    }

    pub(crate) fn count_dropped(&mut self, dropped: &[u64; Loss::ALL.len()]) {
        for (loss, &count) in Loss::ALL.iter().zip(dropped) {
            if count > 0 {
                *self.dropped.entry(loss.name().to_owned()).or_default() += count;
            }
        }
    }

    /// Adds what the pools say of themselves and of losses.
    pub(crate) fn add_sources(&mut self, sources: &[Source<'_>]) {
        self.processes = sources.len() as u64;
        for source in sources {
            self.damaged_blocks += source.snapshot.damaged;
            self.clock_jumps += source.snapshot.clock_jumps();
            self.counter_clock |= source.reader.uses_counter();
            for facts in source.reader.threads() {
                self.count_dropped(&facts.dropped);
                self.overwritten += facts.overwritten;
            }
        }
    }

    pub(crate) fn set_records(&mut self, by_kind: &[u64; Kind::ALL.len()]) {
        self.records = Kind::ALL
            .iter()
            .zip(by_kind)
            .filter(|&(_, &count)| count > 0)
            .map(|(kind, &count)| (kind.letter(), count))
            .collect();
    }
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
            if dropped + facts.overwritten == 0 {
                continue;
            }
            let index = known.iter().position(|thread| {
                thread.process == process && thread.incarnation == facts.incarnation
            });
            match index.and_then(|index| threads.get_mut(index)) {
                Some(thread) => {
                    thread.dropped += dropped;
                    thread.overwritten += facts.overwritten;
                }
                None => threads.push(ThreadSummary {
                    pid: source.reader.pid(),
                    tid: facts.tid,
                    name: name_of(&facts.name, facts.tid),
                    records: 0,
                    overwritten: facts.overwritten,
                    dropped,
                }),
            }
        }
    }
    threads.retain(|thread| thread.records + thread.dropped + thread.overwritten > 0);
    threads
}
