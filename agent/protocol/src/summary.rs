//! The summary of a written trace: its contents and its losses.

use crate::record;
use std::collections::BTreeMap;

record! {
    /// Counts of a trace. Records = lines written + those left out by a named rule.
    #[derive(Eq)]
    pub struct Summary {
        /// Records in the pools, by kind letter.
        pub records: BTreeMap<char, u64> = BTreeMap::new(),
        /// Records not recorded, by reason.
        pub dropped: BTreeMap<String, u64> = BTreeMap::new(),
        /// Records lost because newer ones took their place (recorder mode `ring`).
        pub overwritten: u64 = 0,
        /// Ends without a begin, left out.
        pub stray_ends: u64 = 0,
        /// Sections closed because their thread or the capture ended, or records were missing.
        pub closed_sections: u64 = 0,
        /// Places where a thread's records are missing in the middle.
        pub gaps: u64 = 0,
        /// Record-shaped writes whose fields do not match their kind, which are omitted.
        pub malformed: u64 = 0,
        /// Records of sections shorter than `min_slice_us`, left out.
        pub too_short: u64 = 0,
        /// Records of other threads than the main one, left out by `main_thread_only`.
        pub other_threads: u64 = 0,
        /// Complete events whose begin was given after their end (swapped), or with a time of 0 (replaced by the other time).
        pub reversed: u64 = 0; omit(is_zero),
        /// Complete events that do not nest in their thread's sections, written as asynchronous ones.
        pub not_nested: u64 = 0; omit(is_zero),
        /// Records whose names the redaction has changed.
        pub redacted: u64 = 0,
        /// Number of records that the redaction omitted.
        pub redacted_out: u64 = 0,
        /// Blocks of a damaged recorder file whose rest was not readable.
        pub damaged_blocks: u64 = 0,
        /// Times when the clock's counter stood still or jumped (a suspend): records near them may be
        /// up to 250 ms of running time off.
        pub clock_jumps: u64 = 0,
        /// The records' time was taken from the processor's counter.
        pub counter_clock: bool = false,
        /// A process ended without stopping its capture; the trace has the records that it left.
        pub recovered: bool = false,
        /// Readings of threads' counters at the begin and the end of frames (`frame_counters`).
        pub frame_counters: u64 = 0; omit(is_zero),
        /// Processes.
        pub processes: u64 = 0,
        /// Threads that recorded or lost records.
        pub threads: Vec<ThreadSummary> = Vec::new(),
        /// From the first pool's start to the last record or stop, ns.
        pub duration_ns: u64 = 0,
        /// Boot time at which the first pool started, ns.
        pub start_boot_ns: u64 = 0,
        /// Lines with records, or with ends that the agent added.
        pub lines: u64 = 0,
        /// Bytes of text.
        pub text_bytes: u64 = 0,
        /// Bytes of the file.
        pub file_bytes: u64 = 0,
    }

    /// One thread of a summary.
    #[derive(Eq)]
    pub struct ThreadSummary {
        /// Process id.
        pub pid: i32 = 0,
        /// Thread id; 0 for all threads after the 4095th together.
        pub tid: i32 = 0,
        /// Last known name of the thread.
        pub name: String = String::new(),
        /// Records of the thread.
        pub records: u64 = 0,
        /// Number of the thread's records that newer ones have replaced.
        pub overwritten: u64 = 0; omit(is_zero),
        /// Number of the thread's records that were not recorded, for any reason.
        pub dropped: u64 = 0; omit(is_zero),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature of `omit`")]
pub(crate) const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Summary {
    /// Number of records of all kinds.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.records.values().sum()
    }

    /// Number of records that were not recorded, for whatever reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.values().sum()
    }
}
