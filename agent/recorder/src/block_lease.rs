//! Decides which thread may write into which block: lease, close, return, take over.
//!
//! A block's `lease` word holds `generation << 3 | state` and is the only thing that two threads
//! decide anything by:
//!
//! ```text
//!            ticket                    full
//! FREE ──▶ RESETTING ──▶ LEASED ───────────────▶ CLOSED ──▶ RESETTING … (ring: the oldest goes)
//!  ▲                      │  ▲                      │
//!  │       thread ends    ▼  │ the next thread      │
//!  └─────────────────── PARTIAL ◀── appends         │
//!            endless: streamed and freed ◀──────────┘
//! ```
//!
//! The generation grows whenever a block's content goes, so a reader that saw the same generation
//! before and after copying has copied one content ([`crate::block_copy`]). Blocks are handed out by
//! tickets, in order; PARTIAL and freed ones are found by a bitmap first. Runs on the app's
//! threads, once in several hundred records: no lock, no allocation, bounded.

use crate::layout::{BlockHeader, Form, Loss, Mode, NOTE_SEGMENT, SEGMENT_WORDS, split_word};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::num::NonZeroU64;

const STATE_BITS: u32 = 3;
/// It contains nothing that must be kept.
pub(crate) const FREE: u32 = 0;
/// A lane writes into it.
pub(crate) const LEASED: u32 = 1;
/// State of a block whose thread has ended; another thread may continue in it.
pub(crate) const PARTIAL: u32 = 2;
/// Full.
pub(crate) const CLOSED: u32 = 3;
/// Changes hands; its content is not valid.
pub(crate) const RESETTING: u32 = 4;

/// Free space that makes the block of an ended thread worth keeping for another thread.
const MIN_REUSED_WORDS: u32 = 56;
const _: () = assert!(MIN_REUSED_WORDS as usize > SEGMENT_WORDS + 2);

/// The state in a lease word.
pub(crate) const fn state_of(lease: u32) -> u32 {
    lease & ((1 << STATE_BITS) - 1)
}

/// The generation in a lease word.
pub(crate) const fn generation_of(lease: u32) -> u32 {
    lease >> STATE_BITS
}

const fn lease_word(generation: u32, state: u32) -> u32 {
    generation << STATE_BITS | state
}

/// The memory of the blocks, and the operations that its owner provides.
pub(crate) trait Memory {
    /// The number of blocks.
    fn count(&self) -> u32;
    /// Words of a block, its header left out.
    fn words_per_block(&self) -> u32;
    /// Block `index`'s header; `index` is below the count.
    fn header(&self, index: u32) -> &BlockHeader;
    /// The first of its words.
    fn words(&self, index: u32) -> *const AtomicU64;
    /// The counter that hands out blocks.
    fn tickets(&self) -> &AtomicU64;
    /// Maps a block and reserves its space before its first use. Several threads may do so at once.
    fn reach(&self, _index: u32) -> Result<(), Loss> {
        Ok(())
    }
    /// Prepares an unused block for writing.
    fn back(&self, index: u32) -> bool;
    /// Counts records of the thread with that entry as overwritten.
    fn count_overwritten(&self, entry: u32, records: u64);
}

/// A leased block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// The block.
    pub(crate) index: u32,
    /// The block's lease word.
    pub(crate) word: u32,
    /// Words that a former holder has committed.
    pub(crate) used: u32,
}

/// The blocks of a pool.
#[derive(Debug)]
pub(crate) struct Blocks<M> {
    /// The memory that they are in.
    pub(crate) memory: M,
    mode: Mode,
    /// A bit for each block that can be had out of order: PARTIAL, or freed by the drain.
    available: Box<[AtomicU32]>,
    /// About how many bits are set.
    available_count: AtomicU32,
}

impl<M: Memory> Blocks<M> {
    pub(crate) fn new(memory: M, mode: Mode) -> Self {
        let bitmap = (0..memory.count().div_ceil(32)).map(|_| AtomicU32::new(0)).collect();
        Self { memory, mode, available: bitmap, available_count: AtomicU32::new(0) }
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Takes a block with room for `need` words for lane `owner`.
    ///
    /// `kick` is asked, in ring mode, when most blocks are held by idle threads: it makes the lane
    /// give up the block it holds and says whether it is outside the recorder (so that it cannot
    /// be writing into it).
    pub(crate) fn lease(
        &self,
        owner: u32,
        need: u32,
        mut kick: impl FnMut(u32) -> bool,
    ) -> Result<Lease, Loss> {
        if let Some(lease) = self.lease_available(owner, need) {
            return Ok(lease);
        }
        let (count, tickets) = (self.memory.count(), self.memory.tickets());
        let whole = NonZeroU64::new(u64::from(count)).ok_or(Loss::PoolFull)?;
        let mut skipped = 0;
        for _ in 0..count.saturating_mul(2) {
            // ORDERING: Relaxed, both; tickets hand out indices, a block's content is published by
            // its own lease word.
            let ticket = match self.mode {
                Mode::Ring => tickets.fetch_add(1, Ordering::Relaxed),
                _ => tickets.load(Ordering::Relaxed),
            };
            #[allow(clippy::cast_possible_truncation, reason = "below the count")]
            let index = (ticket % whole) as u32;
            if self.mode != Mode::Ring {
                if ticket >= u64::from(count) {
                    return Err(Loss::PoolFull);
                }
                // A page without space must not even be read, and readers read no block before its ticket is drawn. While
                // the disk is full, the counter stays.
                self.memory.reach(index)?;
                // ORDERING: Release, pairs with the Acquire in `PoolReader::blocks`: the block has its space.
                let (drawn, other) = (Ordering::Release, Ordering::Relaxed);
                if tickets.compare_exchange(ticket, ticket + 1, drawn, other).is_err() {
                    continue;
                }
            }
            let header = self.memory.header(index);
            // ORDERING: Acquire, pairs with the Release of the thread that leased the block: its word and the ticket of the
            // lease become visible together.
            let word = header.lease.load(Ordering::Acquire);
            // This thread was stopped after it took its ticket, and the ring has gone round since: the block may be one of
            // the newest. Other modes lease each block once, even if other threads have drawn tickets meanwhile.
            if self.mode == Mode::Ring
                && tickets.load(Ordering::Relaxed) > ticket + u64::from(count)
            {
                continue;
            }
            match state_of(word) {
                RESETTING => continue,
                // Idle threads keep their blocks until they hold half of the pool.
                LEASED => {
                    skipped += 1;
                    if skipped <= count / 2 || !kick(header.owner.load(Ordering::Relaxed)) {
                        continue;
                    }
                }
                _ => {}
            }
            if word == 0 && !self.memory.back(index) {
                return Err(Loss::CannotGrow);
            }
            if let Some(lease) = self.reset(index, word, owner, ticket) {
                return Ok(lease);
            }
        }
        Err(Loss::PoolFull)
    }

    /// Takes a block out of order, if one is marked.
    fn lease_available(&self, owner: u32, need: u32) -> Option<Lease> {
        // ORDERING: Relaxed; a hint.
        if self.available_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        for (word_index, word) in (0u32..).zip(&self.available) {
            // ORDERING: Relaxed, all; a bit is a hint where to look, the lease word decides.
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                bits &= !bit;
                if word.fetch_and(!bit, Ordering::Relaxed) & bit == 0 {
                    continue;
                }
                self.available_count.fetch_sub(1, Ordering::Relaxed);
                let index = word_index * 32 + bit.trailing_zeros();
                if let Some(lease) = self.take_marked(index, owner, need) {
                    return Some(lease);
                }
            }
        }
        None
    }

    fn take_marked(&self, index: u32, owner: u32, need: u32) -> Option<Lease> {
        let header = self.memory.header(index);
        let word = header.lease.load(Ordering::Relaxed);
        match state_of(word) {
            FREE => self.reset(index, word, owner, u64::from(index)),
            PARTIAL if !self.is_stale(header) => {
                let leased = lease_word(generation_of(word), LEASED);
                // ORDERING: Acquire, pairs with the Release in `give_back`: the former holder's
                // words are complete before ours follow.
                header
                    .lease
                    .compare_exchange(word, leased, Ordering::Acquire, Ordering::Relaxed)
                    .ok()?;
                header.owner.store(owner, Ordering::Relaxed);
                let used = header.committed.load(Ordering::Relaxed);
                let lease = Lease { index, word: leased, used };
                if self.memory.words_per_block().saturating_sub(used) < need {
                    self.close(lease);
                    return None;
                }
                Some(lease)
            }
            _ => None,
        }
    }

    /// True if a held block will be overwritten soon although its thread still writes to it.
    pub(crate) fn is_old(&self, lease: Lease) -> bool {
        self.is_stale(self.memory.header(lease.index))
    }

    /// True if a block of a ring will be overwritten soon and takes no new records.
    fn is_stale(&self, header: &BlockHeader) -> bool {
        // ORDERING: Relaxed, both; an estimate.
        #[allow(clippy::cast_possible_truncation, reason = "the low bits are compared")]
        let now = self.memory.tickets().load(Ordering::Relaxed) as u32;
        let age = now.wrapping_sub(header.ticket.load(Ordering::Relaxed));
        self.mode == Mode::Ring && age > self.memory.count() / 4
    }

    /// Makes a block ours whose lease word was `word`, and empties it.
    fn reset(&self, index: u32, word: u32, owner: u32, ticket: u64) -> Option<Lease> {
        let header = self.memory.header(index);
        let generation = generation_of(word).wrapping_add(1) & (u32::MAX >> STATE_BITS);
        // ORDERING: Acquire, pairs with the Release of `close` and `give_back` (and, for a block
        // that is taken over, of Gate::leave, which `kick` has seen): the records that are counted
        // below are complete. Failure: another thread was quicker.
        header
            .lease
            .compare_exchange(
                word,
                lease_word(generation, RESETTING),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()?;
        if state_of(word) != FREE {
            self.count_overwritten(index, header, generation_of(word));
        }
        // ORDERING: the fence pairs with the one in `block_copy::copy`: a reader that has seen any store
        // below sees the new lease word when it looks again.
        fence(Ordering::Release);
        header.committed.store(0, Ordering::Relaxed);
        header.segments.store(0, Ordering::Relaxed);
        header.owner.store(owner, Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, reason = "the low bits suffice")]
        header.ticket.store(ticket as u32, Ordering::Relaxed);
        let leased = lease_word(generation, LEASED);
        // ORDERING: Release, pairs with the Acquire in `block_copy::copy`: the block is seen empty.
        header.lease.store(leased, Ordering::Release);
        Some(Lease { index, word: leased, used: 0 })
    }

    /// Counts a segment that begins in a leased block.
    pub(crate) fn segment_begins(&self, lease: Lease, entry: u32) {
        let header = self.memory.header(lease.index);
        // ORDERING: Relaxed; only the holder writes, the next one sees it through the lease word.
        let segments = header.segments.load(Ordering::Relaxed);
        if segments == 0 {
            header.first_entry.store(entry, Ordering::Relaxed);
        }
        header.segments.store(segments + 1, Ordering::Relaxed);
    }

    /// Notes the number of records in the ending segment. The block may have been taken over from us: the generation
    /// identifies the number's owner.
    pub(crate) fn segment_ends(&self, lease: Lease, records: u32) {
        let header = self.memory.header(lease.index);
        // ORDERING: Relaxed, both; see `segment_begins`. A number of another generation is ignored: the records are then
        // counted one by one.
        if header.segments.load(Ordering::Relaxed) == 1 {
            let number = u64::from(generation_of(lease.word)) << 32 | u64::from(records);
            header.first_records.store(number, Ordering::Relaxed);
        }
    }

    /// The block accepts no more records.
    pub(crate) fn close(&self, lease: Lease) {
        self.hand_over(lease, CLOSED);
    }

    /// The block's holder ends; another thread may continue in it.
    pub(crate) fn give_back(&self, lease: Lease) {
        let used = self.memory.header(lease.index).committed.load(Ordering::Relaxed);
        if self.memory.words_per_block().saturating_sub(used) < MIN_REUSED_WORDS {
            self.close(lease);
        } else if self.hand_over(lease, PARTIAL) {
            self.mark(lease.index);
        }
    }

    /// `false` when the block was taken over meanwhile.
    fn hand_over(&self, lease: Lease, state: u32) -> bool {
        let header = self.memory.header(lease.index);
        let word = lease_word(generation_of(lease.word), state);
        // ORDERING: Release, pairs with the Acquire of the thread that takes it: our records are complete.
        header
            .lease
            .compare_exchange(lease.word, word, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Endless mode: frees a block that was closed or released with lease word `word` and whose
    /// records are all streamed.
    pub(crate) fn free(&self, index: u32, word: u32) {
        let header = self.memory.header(index);
        let free = lease_word(generation_of(word), FREE);
        // ORDERING: Relaxed; the drain has copied its contents, and nobody writes into it.
        if matches!(state_of(word), CLOSED | PARTIAL)
            && header
                .lease
                .compare_exchange(word, free, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.mark(index);
        }
    }

    fn mark(&self, index: u32) {
        let bit = 1 << (index % 32);
        if let Some(word) = usize::try_from(index / 32).ok().and_then(|at| self.available.get(at))
            && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.available_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the records of a block that is about to be emptied, by thread.
    fn count_overwritten(&self, index: u32, header: &BlockHeader, generation: u32) {
        // ORDERING: all Relaxed; the Acquire in `reset` precedes this.
        let first = header.first_entry.load(Ordering::Relaxed);
        let records = header.first_records.load(Ordering::Relaxed);
        if header.segments.load(Ordering::Relaxed) == 1 && records >> 32 == u64::from(generation) {
            self.memory.count_overwritten(first, records & u64::from(u32::MAX));
            return;
        }
        let committed = header.committed.load(Ordering::Relaxed);
        let end = committed.min(self.memory.words_per_block());
        let word_at = |at: u32| {
            // SAFETY: below `words_per_block`.
            let word = unsafe { self.memory.words(index).add(at as usize) };
            // SAFETY: a word of the block, which stays mapped as long as `self.memory`.
            crate::word::load_word(unsafe { &*word })
        };
        let (mut at, mut entry, mut records) = (0, 0, 0);
        while at < end {
            let (_, form, bytes) = split_word(word_at(at));
            if form != Some(Form::Note) {
                records += 1;
            } else if at + 5 < end && word_at(at + 1) & 0xff == u64::from(NOTE_SEGMENT) {
                self.memory.count_overwritten(entry, records);
                #[allow(clippy::cast_possible_truncation, reason = "an entry's index")]
                let next = word_at(at + 5) as u32;
                (entry, records) = (next, 0);
            }
            #[allow(clippy::cast_possible_truncation, reason = "8191 bytes at most")]
            let words = 1 + bytes.div_ceil(8) as u32;
            at += words;
        }
        self.memory.count_overwritten(entry, records);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "block_lease_tests.rs"]
mod tests;
