//! A lane: the position at which a thread, or a signal handler on it, writes next. Appends records.
//!
//! All fields except `session` belong to the thread alone. A record is stored word by word (Relaxed:
//! a reader may be copying a block while it is taken over, and discards such a copy) and then
//! published by one Release store of the block's committed length.

use crate::block_lease::{Blocks, Lease, Memory};
use crate::layout::{BlockHeader, Form, Segment, record_word};
use crate::sync::Anchor;
use crate::sync::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use crate::word::store_word;
use std::cell::Cell;

/// One lane. The fields that a record touches come first, in 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lane {
    /// The session that the block belongs to: 0 when another thread wants the block to be given up.
    pub(crate) session: AtomicU32,
    /// Records in the present segment; [`UNKNOWN`] when its thread was stopped while it counted.
    records: Cell<u32>,
    /// Base of deltas, in ticks.
    base_tick: Cell<u64>,
    /// The largest delta before the clock has to be read again.
    max_delta: Cell<u64>,
    cursor: Cell<*const AtomicU64>,
    end: Cell<*const AtomicU64>,
    first: Cell<*const AtomicU64>,
    header: Cell<*const BlockHeader>,
    /// Ticks are the hardware counter's.
    counter: Cell<bool>,
    /// Number of blocks since the thread's name was read; [`OLD_NAME`] after a later anchor.
    name_age: Cell<u8>,
    /// Number of the lane's entry among the threads whose counters are read, 0 for none. Such a lane's `max_delta` is 0,
    /// so that it accepts no record by itself.
    watch: Cell<u8>,
    /// The session that the block was leased in; 0 for none. Set after `lease`, which it vouches for.
    leased_in: Cell<u32>,
    base_boot_ns: Cell<u64>,
    sequence: Cell<u32>,
    lease: Cell<Lease>,
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(Lane, counter) < 64);

/// Number of blocks after which a thread's name is read again. Blocks that fill up one after the other share a name,
/// because reading it is a system call.
const OLD_NAME: u8 = 16;
/// Time since the last anchor after which it is read again.
const OLD_NAME_NS: u64 = 250_000_000;

/// A number of records that has to be counted.
const UNKNOWN: u32 = u32::MAX;

impl Lane {
    /// A lane that holds no block: all zeros, as in the table of threads.
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            session: AtomicU32::new(0),
            leased_in: Cell::new(0),
            cursor: Cell::new(std::ptr::null()),
            end: Cell::new(std::ptr::null()),
            first: Cell::new(std::ptr::null()),
            header: Cell::new(std::ptr::null()),
            base_tick: Cell::new(0),
            base_boot_ns: Cell::new(0),
            max_delta: Cell::new(0),
            counter: Cell::new(false),
            name_age: Cell::new(0),
            watch: Cell::new(0),
            records: Cell::new(0),
            sequence: Cell::new(0),
            lease: Cell::new(Lease { index: 0, word: 0, used: 0 }),
        }
    }

    /// Starts over for another thread. A block left by the former thread is released with the next lease ([`Lane::end`]);
    /// `is_whole`: that thread was outside the recorder when it ended.
    pub(crate) fn hand_on(&self, is_whole: bool) {
        // ORDERING: Relaxed; the lane belongs only to its new thread.
        self.session.store(0, Ordering::Relaxed);
        self.sequence.set(0);
        self.watch.set(0);
        if !is_whole {
            self.records.set(UNKNOWN);
        }
    }

    /// Leaves a block in the middle of a record, or of anything else, that its thread never
    /// finishes: the fields may be torn. Only committed records count.
    pub(crate) fn abandon<M: Memory>(&self, blocks: &Blocks<M>, session: u32) {
        self.records.set(UNKNOWN);
        self.leave_gap();
        self.end(blocks, session, false);
    }

    /// True if ticks come from the hardware counter.
    #[inline]
    pub(crate) const fn counts_by_counter(&self) -> bool {
        self.counter.get()
    }

    /// True if a record of `words` words at `tick` can be appended now.
    #[inline]
    pub(crate) fn takes(&self, session: u32, words: usize, tick: u64) -> bool {
        // ORDERING: Relaxed; a thread that sets it to 0 then checks, after a barrier, whether this thread is inside the
        // recorder (Gate), and if so does not touch the block.
        self.session.load(Ordering::Relaxed) == session
            && self.has_room(words)
            && tick.wrapping_sub(self.base_tick.get()) <= self.max_delta.get()
    }

    #[inline]
    pub(crate) fn has_room(&self, words: usize) -> bool {
        let room = (self.end.get() as usize).wrapping_sub(self.cursor.get() as usize);
        words * size_of::<AtomicU64>() <= room
    }

    /// True if the lane holds a block of `session` that has not been revoked, with room for `words`.
    pub(crate) fn holds(&self, session: u32, words: usize) -> bool {
        self.session.load(Ordering::Relaxed) == session && self.has_room(words)
    }

    /// Ticks since the last anchor, for a record's word.
    #[inline]
    pub(crate) const fn delta(&self, tick: u64) -> u64 {
        tick.wrapping_sub(self.base_tick.get())
    }

    /// Appends a record: its first word, the words of `head`, then `len` bytes from `bytes`.
    ///
    /// # Safety
    /// `bytes` points to `len` readable bytes, and the lane has room for all (see `takes`).
    #[inline]
    pub(crate) unsafe fn append(&self, word: u64, head: &[u64], bytes: *const u8, len: usize) {
        // SAFETY: as the caller promises.
        let mut cursor = unsafe { self.push(self.cursor.get(), word) };
        // Without a loop if the caller's number of words is known: it is 0, 1 or 2.
        let mut rest = head;
        if let [first, after @ ..] = rest {
            // SAFETY: as the caller promises.
            cursor = unsafe { self.push(cursor, *first) };
            rest = after;
        }
        for &part in rest {
            // SAFETY: as the caller promises.
            cursor = unsafe { self.push(cursor, part) };
        }
        // SAFETY: as the caller promises.
        let cursor = unsafe { self.push_bytes(cursor, bytes, len) };
        self.records.set(self.records.get() + 1);
        self.commit(cursor);
    }

    /// Appends a record as [`Lane::append`] does, if that takes no more than its stores. `false`: nothing was stored;
    /// `takes` knows whether there is room, because a few words at the block's end are left out here.
    ///
    /// # Safety
    /// `bytes` points to `len` readable bytes.
    #[inline(always)]
    pub(crate) unsafe fn append_usual(
        &self,
        session: u32,
        tick: u64,
        form: Form,
        head: &[u64],
        bytes: *const u8,
        len: usize,
    ) -> bool {
        let len_with_head = head.len() * size_of::<AtomicU64>() + len;
        let (cursor, delta) = (self.cursor.get() as usize, self.delta(tick));
        // ORDERING: Relaxed; as in `takes`. The first word and the last one's padding are 15 bytes at most.
        if self.session.load(Ordering::Relaxed) != session
            || cursor.wrapping_add(len_with_head + 15) > self.end.get() as usize
            || delta > self.max_delta.get()
        {
            return false;
        }
        // SAFETY: as the caller promises; there is room, as just seen.
        unsafe { self.append(record_word(delta, form, len_with_head), head, bytes, len) };
        true
    }

    /// Half a record, as left by a thread that is stopped in the middle: `words` words of it follow the committed words, and
    /// the cursor may be past them or not.
    ///
    /// # Safety
    /// The lane has room for them.
    #[cfg(any(test, loom))]
    pub(crate) unsafe fn append_half(&self, words: usize, moves: bool) {
        let mut cursor = self.cursor.get();
        for _ in 0..words {
            // SAFETY: as the caller promises.
            cursor = unsafe { self.push(cursor, u64::MAX) };
        }
        if moves {
            self.cursor.set(cursor);
            self.records.set(self.records.get() + 1);
        }
    }

    /// Appends a note, including its words. `false` when there is no room.
    pub(crate) fn append_note(&self, words: &[u64]) -> bool {
        if !self.has_room(words.len()) {
            return false;
        }
        let mut cursor = self.cursor.get();
        for &word in words {
            // SAFETY: there is room for all of them.
            cursor = unsafe { self.push(cursor, word) };
        }
        self.commit(cursor);
        true
    }

    /// Deltas count from here on.
    pub(crate) fn set_anchor(&self, anchor: Anchor, max_delta: u64) {
        self.base_tick.set(anchor.tick);
        self.base_boot_ns.set(anchor.boot_ns);
        self.max_delta.set(max_delta);
    }

    /// The number of the lane's watch, 0 for none.
    pub(crate) const fn watch(&self) -> u8 {
        self.watch.get()
    }

    pub(crate) fn set_watch(&self, number: u8) {
        self.watch.set(number);
    }

    /// The largest delta before the clock has to be read again.
    pub(crate) const fn max_delta(&self) -> u64 {
        self.max_delta.get()
    }

    pub(crate) fn set_max_delta(&self, max_delta: u64) {
        self.max_delta.set(max_delta);
    }

    /// True if the thread's name was read some blocks ago, and nothing has asked for it since: the block is full, but
    /// was not revoked.
    pub(crate) fn knows_name(&self, session: u32, now: Anchor) -> bool {
        // ORDERING: Relaxed; see `takes`.
        self.session.load(Ordering::Relaxed) == session
            && self.name_age.get() < OLD_NAME
            && now.boot_ns.wrapping_sub(self.base_boot_ns.get()) < OLD_NAME_NS
    }

    /// Has the name read with the next block.
    pub(crate) fn name_is_old(&self) {
        self.name_age.set(OLD_NAME);
    }

    /// Counts a block that has begun with the name of the previous one, or with a name that was read.
    pub(crate) fn name_ages(&self, is_known: bool) {
        self.name_age.set(if is_known { self.name_age.get() + 1 } else { 0 });
    }

    /// Continues in a leased block, with a new segment.
    pub(crate) fn begin<M: Memory>(
        &self,
        blocks: &Blocks<M>,
        lease: Lease,
        session: u32,
        segment: Segment,
        max_delta: u64,
    ) {
        self.lease.set(lease);
        // A signal handler that leaves this thread's frames for good finds the lease whole.
        compiler_fence(Ordering::SeqCst);
        self.leased_in.set(session);
        compiler_fence(Ordering::SeqCst);
        let first = blocks.memory.words(lease.index);
        self.first.set(first);
        // SAFETY: `used` and the words of a block are within it.
        self.cursor.set(unsafe { first.add(lease.used as usize) });
        // SAFETY: as above.
        self.end.set(unsafe { first.add(blocks.memory.words_per_block() as usize) });
        self.header.set(std::ptr::from_ref(blocks.memory.header(lease.index)));
        self.counter.set(segment.counter);
        self.records.set(0);
        self.set_anchor(Anchor { tick: segment.tick, boot_ns: segment.boot_ns }, max_delta);
        self.sequence.set(segment.sequence);
        blocks.segment_begins(lease, segment.entry);
        self.append_note(&segment.to_words());
        compiler_fence(Ordering::SeqCst);
        // ORDERING: Relaxed; the thread is inside the recorder all this time.
        self.session.store(session, Ordering::Relaxed);
    }

    /// Releases the block, if one is held in `session`: permanently if it is full, else for another thread.
    pub(crate) fn end<M: Memory>(&self, blocks: &Blocks<M>, session: u32, is_full: bool) {
        if self.leased_in.replace(0) != session {
            return;
        }
        compiler_fence(Ordering::SeqCst);
        self.session.store(0, Ordering::Relaxed);
        let lease = self.lease.get();
        if self.records.get() != UNKNOWN {
            blocks.segment_ends(lease, self.records.get());
        }
        if is_full { blocks.close(lease) } else { blocks.give_back(lease) }
    }

    /// The block held; only while `holds`.
    pub(crate) const fn lease(&self) -> Lease {
        self.lease.get()
    }

    /// The last anchor of the counter in a block of `session`.
    pub(crate) fn last_anchor(&self, session: u32) -> Option<Anchor> {
        let anchor = Anchor { tick: self.base_tick.get(), boot_ns: self.base_boot_ns.get() };
        (self.leased_in.get() == session && self.counter.get()).then_some(anchor)
    }

    /// The number of the lane's next segment; one is left out where records were lost.
    pub(crate) const fn next_sequence(&self) -> u32 {
        self.sequence.get().wrapping_add(1)
    }

    /// A record was lost: the gap shows in the segments' numbers.
    pub(crate) fn leave_gap(&self) {
        self.sequence.set(self.next_sequence());
    }

    /// # Safety
    /// `at` is a word of the block that this lane holds.
    #[inline]
    unsafe fn push(&self, at: *const AtomicU64, word: u64) -> *const AtomicU64 {
        // SAFETY: as the caller promises.
        store_word(unsafe { &*at }, word);
        // SAFETY: at most one past the block.
        unsafe { at.add(1) }
    }

    /// Stores a word from `from`; returns the following positions on both sides.
    ///
    /// # Safety
    /// `from` points to 8 readable bytes, `at` to room for them.
    #[inline(always)]
    unsafe fn push_one(
        &self,
        at: *const AtomicU64,
        from: *const u8,
    ) -> (*const AtomicU64, *const u8) {
        // SAFETY: as the caller promises.
        let word = unsafe { whole_word(from) };
        // SAFETY: as the caller promises.
        let at = unsafe { self.push(at, word) };
        // SAFETY: one past the readable bytes at most.
        (at, unsafe { from.add(size_of::<AtomicU64>()) })
    }

    /// The same for two words.
    ///
    /// # Safety
    /// As [`Lane::push_one`], for 16 bytes.
    #[inline(always)]
    unsafe fn push_two(
        &self,
        at: *const AtomicU64,
        from: *const u8,
    ) -> (*const AtomicU64, *const u8) {
        // SAFETY: as the caller promises.
        let (at, from) = unsafe { self.push_one(at, from) };
        // SAFETY: as the caller promises.
        unsafe { self.push_one(at, from) }
    }

    /// # Safety
    /// `bytes` points to `len` readable bytes, `at` to room for them, rounded up to words.
    #[inline]
    unsafe fn push_bytes(
        &self,
        mut at: *const AtomicU64,
        bytes: *const u8,
        len: usize,
    ) -> *const AtomicU64 {
        let (mut from, mut rest) = (bytes, len);
        // Most records have less than 64 bytes: a loop copies the rest of longer ones, then each bit of the length copies a
        // word.
        while rest >= 32 {
            // SAFETY: 16 of the `rest` bytes at `from`, and room for them, as the caller promises.
            (at, from) = unsafe { self.push_two(at, from) };
            // SAFETY: the next 16.
            (at, from) = unsafe { self.push_two(at, from) };
            rest -= 32;
        }
        if rest & 16 != 0 {
            // SAFETY: 16 of the `rest` bytes at `from`; as above.
            (at, from) = unsafe { self.push_two(at, from) };
        }
        if rest & 8 != 0 {
            // SAFETY: 8 of the bytes that are left; as above.
            (at, _) = unsafe { self.push_one(at, from) };
        }
        rest &= 7;
        if rest == 0 {
            return at;
        }
        let word = if len >= 8 {
            // The last 8 bytes, without those that are stored already.
            // SAFETY: `len` is over 8.
            let last = unsafe { bytes.add(len - 8) };
            // SAFETY: the last 8 of `len` bytes.
            let word = unsafe { whole_word(last) };
            word >> (64 - 8 * rest)
        } else {
            // SAFETY: `len` readable bytes, as the caller promises.
            unsafe { short_word(bytes, rest) }
        };
        // SAFETY: as the caller promises.
        unsafe { self.push(at, word) }
    }

    #[inline]
    fn commit(&self, next: *const AtomicU64) {
        let committed = (next as usize).wrapping_sub(self.first.get() as usize);
        self.cursor.set(next);
        // SAFETY: the header of the leased block, valid while this thread is inside the recorder.
        let header = unsafe { &*self.header.get() };
        // ORDERING: Release, pairs with the Acquire in `block_copy::copy`: publishes the record.
        #[allow(clippy::cast_possible_truncation, reason = "a block is far smaller than 4 GiB")]
        header.committed.store((committed / size_of::<AtomicU64>()) as u32, Ordering::Release);
    }
}

/// 8 bytes as a word of the processor.
///
/// # Safety
/// `bytes` points to 8 readable bytes.
#[inline]
unsafe fn whole_word(bytes: *const u8) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { bytes.cast::<u64>().read_unaligned() }
}

/// `len` bytes, 1 to 7, as a little-endian word.
///
/// # Safety
/// `bytes` points to `len` readable bytes.
#[inline]
unsafe fn short_word(bytes: *const u8, len: usize) -> u64 {
    if len >= 4 {
        // Both ends, which overlap: an end of a section is `E|` and the process's id.
        // SAFETY: the first 4 bytes, as the caller promises.
        let low = unsafe { bytes.cast::<u32>().read_unaligned() };
        // SAFETY: there are at least 4 bytes before the end.
        let last = unsafe { bytes.add(len - 4) };
        // SAFETY: the last 4 bytes.
        let high = unsafe { last.cast::<u32>().read_unaligned() };
        return u64::from(low) | u64::from(high) << (8 * (len - 4));
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    let mut word = 0;
    for &byte in bytes.iter().rev() {
        word = word << 8 | u64::from(byte);
    }
    word
}
