//! Copies the contents of a block while its thread continues writing, or while another takes it over.
//!
//! The writer is not slowed and never waits. A copy is complete or discarded: the block's generation is compared before and
//! after.

use crate::block_lease::{Memory, RESETTING, generation_of, state_of};
use crate::sync::{Ordering, fence};
use crate::word::load_word;

/// Appends the committed words of block `index` to `words`, starting at the word that `from` returns for the lease word.
/// Gives the block's lease word from before the copy; `None`, with `words` as it was, when the block is empty, is being
/// taken over, or was taken over meanwhile.
pub(crate) fn copy<M: Memory>(
    memory: &M,
    index: u32,
    from: impl FnOnce(u32) -> u32,
    words: &mut Vec<u64>,
) -> Option<u32> {
    let header = memory.header(index);
    // ORDERING: Acquire, pairs with the Release in `Blocks::reset`: what follows is not older than
    // the generation.
    let before = header.lease.load(Ordering::Acquire);
    if before == 0 || state_of(before) == RESETTING {
        return None;
    }
    // ORDERING: Acquire, pairs with the Release in `Lane::commit`: the records are complete.
    let committed = header.committed.load(Ordering::Acquire).min(memory.words_per_block());
    let start = words.len();
    for at in from(before)..committed {
        // SAFETY: `at` is below `words_per_block`.
        let word = unsafe { memory.words(index).add(at as usize) };
        // SAFETY: a word of the block, which lives as long as `memory`.
        words.push(load_word(unsafe { &*word }));
    }
    // ORDERING: the fence pairs with the one in `Blocks::reset`: had a word been overwritten
    // before it was copied, the generation loaded now is the new one.
    fence(Ordering::Acquire);
    let after = header.lease.load(Ordering::Relaxed);
    if generation_of(before) != generation_of(after) {
        words.truncate(start);
        return None;
    }
    Some(before)
}
