//! The record of a thread's counters: the scheduler's effects on the thread since the previous reading.
//!
//! [`crate::writing`] stores one directly before the begin and before the end of each frame, as a note; old readers skip
//! it. The text shows it as counters.

use crate::layout::{Form, NOTE_COUNTERS, record_word};

/// Words of the record, its first word included.
pub(crate) const COUNTERS_WORDS: usize = 5;

/// Changes of a thread's counters since they were read before. What does not fit is the largest number that does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Time on a processor, ns.
    pub running_ns: u64,
    /// Time that the thread was ready to run without a processor, ns; `None` if the kernel does not report it.
    pub runnable_ns: Option<u64>,
    /// Page faults that waited for no disk.
    pub minor_faults: u32,
    /// Page faults that waited for a disk or for swap.
    pub major_faults: u16,
    /// Times that the thread gave its processor up to wait.
    pub waits: u32,
    /// Times that the scheduler took its processor away.
    pub preemptions: u32,
}

/// Bit that says that `runnable_ns` is known.
const HAS_RUNNABLE: u64 = 1 << 8;

impl Counters {
    /// The note, ready to be stored with a record's `delta`.
    pub(crate) fn to_words(self, delta: u64) -> [u64; COUNTERS_WORDS] {
        let head = u64::from(NOTE_COUNTERS)
            | if self.runnable_ns.is_some() { HAS_RUNNABLE } else { 0 }
            | u64::from(self.major_faults) << 16
            | u64::from(self.minor_faults) << 32;
        [
            record_word(delta, Form::Note, (COUNTERS_WORDS - 1) * 8),
            head,
            self.running_ns,
            self.runnable_ns.unwrap_or(0),
            u64::from(self.waits) | u64::from(self.preemptions) << 32,
        ]
    }

    /// Parses the bytes of a note; `None` if they are not counters.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let &[head, running, runnable, switches] = words else { return None };
        let head = u64::from_le_bytes(head);
        if !rest.is_empty() || head & 0xff != u64::from(NOTE_COUNTERS) {
            return None;
        }
        let low = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
        let switches = u64::from_le_bytes(switches);
        Some(Self {
            running_ns: u64::from_le_bytes(running),
            runnable_ns: (head & HAS_RUNNABLE != 0).then(|| u64::from_le_bytes(runnable)),
            minor_faults: low(head >> 32),
            major_faults: u16::try_from(head >> 16 & 0xffff).unwrap_or(0),
            waits: low(switches),
            preemptions: low(switches >> 32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counters_come_back_as_they_were_stored(
            (running_ns, runnable_ns) in any::<(u64, Option<u64>)>(),
            (minor_faults, major_faults, waits, preemptions) in any::<(u32, u16, u32, u32)>(),
        ) {
            let counters =
                Counters { running_ns, runnable_ns, minor_faults, major_faults, waits, preemptions };
            let words = counters.to_words(7);
            prop_assert_eq!(words[0], record_word(7, Form::Note, 32));
            let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(Counters::from_bytes(&bytes), Some(counters));
            prop_assert_eq!(Counters::from_bytes(&bytes[..31]), None);
        }

        #[test]
        fn other_notes_are_no_counters(mut bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(first) = bytes.first_mut().filter(|first| **first == NOTE_COUNTERS) {
                *first = 0;
            }
            prop_assert_eq!(Counters::from_bytes(&bytes), None);
        }
    }
}
