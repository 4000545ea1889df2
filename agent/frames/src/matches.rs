//! Finds what occurred before, as zstd's fastest strategy does: with one table of the last place of six bytes.

use crate::bits::low;

/// Literals, and the match after them: the number of literals, the distance and three (or, below, which of the
/// last distances it is), the length of the match.
pub(crate) type Sequence = [u32; 3];

const LOG: u32 = 14;
const PRIME: u64 = 227_718_039_650_203;
/// Number of bytes without a match after which the search takes longer steps.
const PATIENCE: usize = 128;
/// Bytes that are read at a place.
const READ_BYTES: usize = 8;

/// Remembers the places within one frame.
pub(crate) struct Finder {
    places: Vec<u32>,
    /// The last two distances.
    pub(crate) recent: [usize; 2],
}

fn word(text: &[u8], at: usize) -> u64 {
    text.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn half(text: &[u8], at: usize) -> u32 {
    text.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Counts the bytes from `at` on that are those from `before` on, within `text`.
fn equal(text: &[u8], mut at: usize, mut before: usize) -> usize {
    let start = at;
    while at + 8 <= text.len() {
        let difference = word(text, at) ^ word(text, before);
        if difference != 0 {
            return at - start + difference.trailing_zeros() as usize / 8;
        }
        at += 8;
        before += 8;
    }
    while at < text.len() && text.get(at) == text.get(before) {
        at += 1;
        before += 1;
    }
    at - start
}

impl Finder {
    pub(crate) fn new() -> Self {
        Self { places: vec![0; 1 << LOG], recent: [1, 4] }
    }

    /// Begins a new frame.
    pub(crate) fn forget(&mut self) {
        self.places.fill(0);
        self.recent = [1, 4];
    }

    /// Returns the place in the table of the bytes at `at`.
    fn slot(text: &[u8], at: usize) -> usize {
        let hash = (word(text, at) << 16).wrapping_mul(PRIME) >> (64 - LOG);
        low(hash) as usize
    }

    /// Stores a place, and returns the one that was there.
    fn store(&mut self, slot: usize, at: usize) -> usize {
        let place = &mut self.places[slot & ((1 << LOG) - 1)];
        std::mem::replace(place, low(at as u64)) as usize
    }

    /// Searches for a match from `at` on, in the order in which zstd does. Returns its place, its distance if
    /// that is another than the last one, and the place that the search had come to.
    fn search(&mut self, text: &[u8], at: usize) -> Option<(usize, Option<usize>, usize)> {
        let [last, _] = self.recent;
        let mut step = 2;
        let mut next_step = at + PATIENCE;
        let (mut at, mut next, mut third) = (at, at + 1, at + step);
        let mut slot = Self::slot(text, at);
        let mut next_slot = Self::slot(text, next);
        // Two places beside each other, then a step.
        let mut is_first = true;
        while third + READ_BYTES < text.len() {
            let before = self.store(slot, at);
            if is_first && last <= third && half(text, third) == half(text, third - last) {
                self.store(next_slot, next);
                let back = last < third && text[third - 1] == text[third - 1 - last];
                return Some((third - usize::from(back), None, at));
            }
            if before < at && half(text, before) == half(text, at) {
                if step <= 4 {
                    self.store(next_slot, next);
                }
                return Some((at, Some(at - before), at));
            }
            slot = next_slot;
            next_slot = Self::slot(text, third);
            (at, next) = (next, third);
            if is_first {
                third += 1;
            } else {
                third = at + step;
                if third >= next_step {
                    step += 1;
                    next_step += PATIENCE;
                }
            }
            is_first = !is_first;
        }
        None
    }

    /// Splits the bytes of `text` (a frame's, so far) from `start` on into `sequences` and `literals`; the bytes after
    /// the last sequence are literals too.
    pub(crate) fn split(
        &mut self,
        text: &[u8],
        start: usize,
        sequences: &mut Vec<Sequence>,
        literals: &mut Vec<u8>,
    ) {
        let mut anchor = start;
        while let Some((mut at, distance, noticed)) = self.search(text, anchor.max(1)) {
            let [last, _] = self.recent;
            let mut offset = 1;
            if let Some(distance) = distance {
                while at > anchor && at > distance && text[at - 1] == text[at - 1 - distance] {
                    at -= 1;
                }
                self.recent = [distance, last];
                offset = distance + 3;
            }
            let bytes = equal(text, at, at - self.recent[0]);
            literals.extend_from_slice(&text[anchor..at]);
            sequences.push([at - anchor, offset, bytes].map(|value| low(value as u64)));
            at += bytes;
            if at + READ_BYTES <= text.len() {
                for at in [noticed + 2, at - 2] {
                    self.store(Self::slot(text, at), at);
                }
            }
            // A match at the distance before the last, without literals: its code is 1.
            while let [last, other] = self.recent
                && at + READ_BYTES <= text.len()
                && other <= at
                && half(text, at) == half(text, at - other)
            {
                self.recent = [other, last];
                self.store(Self::slot(text, at), at);
                let bytes = equal(text, at, at - other);
                sequences.push([0, 1, low(bytes as u64)]);
                at += bytes;
            }
            anchor = at;
        }
        literals.extend_from_slice(&text[anchor..]);
    }
}
