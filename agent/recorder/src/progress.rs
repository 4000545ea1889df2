//! Progress of a streamed trace: the words of each block that it contains.
//!
//! The streaming thread keeps one [`Progress`] for the words that it has taken and one for those that its file holds. The
//! latter is published in the pool ([`Pool::publish_streamed`]), where recovery finds it after a kill, and used to free
//! blocks ([`Pool::free_streamed`]).

use crate::block_lease::{CLOSED, Memory, PARTIAL, generation_of, state_of};
use crate::pool::Pool;
use crate::reader::PoolReader;
use std::sync::atomic::{AtomicU32, Ordering};

/// End of a record in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolPosition {
    pub(crate) block: u32,
    /// The block's lease word.
    pub(crate) lease: u32,
    /// The word after the record.
    pub(crate) next: u32,
}

/// Processed words by block, each with their lease word.
#[derive(Debug, Clone, Default)]
pub struct Progress(Vec<(u32, u32)>);

impl Progress {
    /// Nothing is done with.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self(vec![(0, 0); pool.blocks.memory.count() as usize])
    }

    /// Notes that everything up to these positions has been processed.
    pub fn note<'a>(&mut self, positions: impl IntoIterator<Item = &'a PoolPosition>) {
        for position in positions {
            let block = position.block as usize;
            // The number of blocks in a file increases.
            if self.0.len() <= block {
                self.0.resize(block + 1, (0, 0));
            }
            if let Some(entry) = self.0.get_mut(block) {
                *entry = (position.lease, position.next);
            }
        }
    }

    /// Processed words of a block; 0 if they belong to earlier content.
    #[must_use]
    pub fn words(&self, block: u32, lease: u32) -> u32 {
        match self.0.get(block as usize) {
            Some(&(held, words)) if generation_of(held) == generation_of(lease) => words,
            _ => 0,
        }
    }
}

impl Pool {
    /// True if a quarter of the pool waits to be freed.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        let memory = &self.blocks.memory;
        let waiting = (0..memory.count())
            // ORDERING: Relaxed; an estimate.
            .filter(|&index| state_of(memory.header(index).lease.load(Ordering::Relaxed)) == CLOSED)
            .count();
        waiting > memory.count() as usize / 4
    }

    /// Notes in the pool that the file's first `bytes` bytes hold `written`, and how many sections each thread has open
    /// there (by incarnation). `round` grows by one with each call: the new state is written next to the current one, and
    /// then replaces it.
    pub fn publish_streamed(
        &self,
        round: u32,
        written: &Progress,
        open: impl Fn(u32) -> u32,
        bytes: u64,
    ) {
        let half = round as usize & 1;
        // ORDERING: Relaxed up to the Release of the round: a kill leaves the old or the new state.
        let header = self.header();
        for (index, &(lease, words)) in (0u32..).zip(&written.0) {
            let block = self.blocks.memory.header(index);
            set(&block.drained_lease, half, lease);
            set(&block.drained, half, words);
        }
        let entries: Vec<_> = PoolReader::of(self).threads();
        for (index, facts) in (0u32..).zip(&entries).skip(1) {
            set(&self.blocks.memory.entry(index).open, half, open(facts.incarnation));
        }
        if let Some(length) = header.streamed_bytes.get(half) {
            length.store(bytes, Ordering::Relaxed);
        }
        header.drain_round.store(round, Ordering::Release);
    }

    /// Frees the blocks that have no writer and that the file contains completely.
    pub fn free_streamed(&self, written: &Progress) {
        let memory = &self.blocks.memory;
        for index in 0..memory.count() {
            let header = memory.header(index);
            // ORDERING: Acquire, pairs with the Release of `Blocks::close`: the length is final.
            let lease = header.lease.load(Ordering::Acquire);
            let committed = header.committed.load(Ordering::Acquire);
            if matches!(state_of(lease), CLOSED | PARTIAL)
                && written.words(index, lease) >= committed
            {
                self.blocks.free(index, lease);
            }
        }
    }
}

impl PoolReader<'_> {
    /// The length up to which a streamed trace holds what [`Pool::publish_streamed`] has noted.
    #[must_use]
    pub fn streamed_bytes(&self) -> u64 {
        let header = self.pool_header();
        // ORDERING: Relaxed; used after the process has ended.
        let half = header.drain_round.load(Ordering::Relaxed) as usize & 1;
        header.streamed_bytes.get(half).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }
}

fn set(pair: &[AtomicU32; 2], half: usize, value: u32) {
    if let Some(word) = pair.get(half) {
        word.store(value, Ordering::Relaxed);
    }
}
