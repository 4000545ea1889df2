//! Keeps each thread's sections well formed: every end has a begin, every begin an end.
//!
//! An end at depth 0 (its begin was before the capture, or lost) is left out and counted. A section that is still open when
//! its thread ends, where records are missing, or when the capture ends, is closed there, and counted. An end carries its
//! begin's pid; otherwise Perfetto would move the thread to another process.

use tracetee_recorder::record::Record;

/// The open sections of each thread, by the thread's index.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    open: Vec<Vec<u32>>,
    /// Ends that had no begin.
    pub(crate) stray_ends: u64,
    /// Sections closed because their thread or the capture ended, or records were missing.
    pub(crate) closed_sections: u64,
}

/// Decision about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The record; an end with this pid.
    Write(u32),
    /// Nothing: an end without a begin.
    Stray,
}

impl Balance {
    fn of(&mut self, thread: usize) -> Option<&mut Vec<u32>> {
        if self.open.len() <= thread {
            self.open.resize_with(thread + 1, Vec::new);
        }
        self.open.get_mut(thread)
    }

    /// Sections that an earlier part of the trace has left open.
    pub(crate) fn reopen(&mut self, thread: usize, sections: u32, pid: u32) {
        // A damaged file may say anything; no program nests deeper than this.
        const MAX_DEPTH: u32 = 10_000;
        if let Some(open) = self.of(thread) {
            open.resize(sections.min(MAX_DEPTH) as usize, pid);
        }
    }

    /// Returns the number of open sections of `thread`.
    pub(crate) fn depth(&self, thread: usize) -> usize {
        self.open.get(thread).map_or(0, Vec::len)
    }

    pub(crate) fn apply(&mut self, thread: usize, record: &Record<'_>) -> Fate {
        let Some(open) = self.of(thread) else { return Fate::Write(0) };
        match *record {
            Record::Begin { pid, .. } => {
                open.push(pid);
                Fate::Write(pid)
            }
            Record::End { .. } => match open.pop() {
                Some(pid) => Fate::Write(pid),
                None => {
                    self.stray_ends += 1;
                    Fate::Stray
                }
            },
            _ => Fate::Write(0),
        }
    }

    /// Closes what `thread` has open: the pids for its ends, innermost first.
    pub(crate) fn close(&mut self, thread: usize) -> Vec<u32> {
        let mut pids = self.of(thread).map(std::mem::take).unwrap_or_default();
        self.closed_sections += pids.len() as u64;
        pids.reverse();
        pids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_sequence_comes_out_balanced_and_is_counted(ends: Vec<bool>, reopened in 0u32..5) {
            let mut repair = Balance::default();
            repair.reopen(0, reopened, 7);
            let (mut depth, mut strays) = (u64::from(reopened), 0u64);
            for &is_end in &ends {
                let record = if is_end {
                    Record::End { pid: None }
                } else {
                    Record::Begin { pid: 7, name: b"n" }
                };
                match (is_end, repair.apply(0, &record)) {
                    (false, fate) => {
                        prop_assert_eq!(fate, Fate::Write(7));
                        depth += 1;
                    }
                    (true, Fate::Write(pid)) => {
                        prop_assert_eq!(pid, 7);
                        depth -= 1;
                    }
                    (true, Fate::Stray) => {
                        prop_assert_eq!(depth, 0);
                        strays += 1;
                    }
                }
            }
            prop_assert_eq!(repair.stray_ends, strays);
            prop_assert_eq!(repair.close(0).len() as u64, depth);
            prop_assert_eq!(repair.closed_sections, depth);
            prop_assert!(repair.close(0).is_empty());
        }
    }
}
