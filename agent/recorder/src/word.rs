//! The words of a block: how the lane that owns the block stores them, and how readers load them.
//!
//! A 32-bit processor has no plain 64-bit store, so a word is stored as two halves there; the committed
//! length, which is published after them, orders both.

#[cfg(not(any(loom, target_pointer_width = "64")))]
use crate::sync::AtomicU32;
use crate::sync::{AtomicU64, Ordering};

/// Stores a word so that a concurrent copy sees no undefined value. On 32-bit processors an atomic
/// store of 64 bits is a loop, and two halves do as well: a reader that copies them meanwhile
/// discards the copy.
#[inline]
pub(crate) fn store_word(word: &AtomicU64, value: u64) {
    // ORDERING: Relaxed; published by `commit`.
    #[cfg(any(loom, target_pointer_width = "64"))]
    word.store(value, Ordering::Relaxed);
    #[cfg(not(any(loom, target_pointer_width = "64")))]
    {
        #[allow(clippy::cast_possible_truncation, reason = "the low half")]
        let halves = [value as u32, (value >> 32) as u32];
        for (half, value) in halves_of(word).iter().zip(halves) {
            half.store(value, Ordering::Relaxed);
        }
    }
}

/// Loads what [`store_word`] stored.
#[inline]
pub(crate) fn load_word(word: &AtomicU64) -> u64 {
    // ORDERING: Relaxed; the reader's Acquire of the committed length comes before.
    #[cfg(any(loom, target_pointer_width = "64"))]
    return word.load(Ordering::Relaxed);
    #[cfg(not(any(loom, target_pointer_width = "64")))]
    {
        let [low, high] = halves_of(word);
        u64::from(low.load(Ordering::Relaxed)) | u64::from(high.load(Ordering::Relaxed)) << 32
    }
}

#[cfg(not(any(loom, target_pointer_width = "64")))]
fn halves_of(word: &AtomicU64) -> &[AtomicU32; 2] {
    // SAFETY: 8 bytes, 8-aligned; all accesses to a block's words go through the halves.
    unsafe { &*std::ptr::from_ref(word).cast::<[AtomicU32; 2]>() }
}
