//! Keeps each thread's sections well formed: every end has its begin, every begin its end.
//!
//! An end at depth 0 (its begin was before the capture, or lost) is left out and counted. What is
//! still open when its thread ends, or the capture, is closed then, and counted. An end carries
//! its begin's pid, or Perfetto would move the thread to another process.

use crate::record::Record;

/// The open sections of each thread, by the thread's index.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    open: Vec<Vec<u32>>,
    /// Ends that had no begin.
    pub(crate) stray_ends: u64,
    /// Sections closed because their thread or the capture ended.
    pub(crate) closed_sections: u64,
}

/// What is to be written for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The record; an end with this pid.
    Write(u32),
    /// Nothing: an end without a begin.
    Stray,
}

impl Repair {
    pub(crate) fn new(threads: usize) -> Self {
        Self { open: vec![Vec::new(); threads], ..Self::default() }
    }

    pub(crate) fn apply(&mut self, thread: usize, record: &Record<'_>) -> Fate {
        let Some(open) = self.open.get_mut(thread) else { return Fate::Write(0) };
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
        let mut pids = self.open.get_mut(thread).map(std::mem::take).unwrap_or_default();
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
        fn any_sequence_comes_out_balanced_and_is_counted(ends: Vec<bool>) {
            let mut repair = Repair::new(1);
            let (mut depth, mut strays) = (0u64, 0u64);
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
