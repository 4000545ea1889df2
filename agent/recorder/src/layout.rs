//! The recorder's memory: one flat region without pointers, in a file; in the process its blocks are
//! mapped in pieces ([`crate::extents`]), of the file or of anonymous memory.
//!
//! ```text
//! 0        header (PoolHeader)
//! 4096     metadata, JSON text
//! 16384    threads (ThreadEntry, 64 bytes each)
//! 278528   block 0: BlockHeader (64 bytes), records …
//!          block 1 …
//! ```
//!
//! All of it is words of 8 bytes. A record is one word, `delta (48 bits) | form (3) | length (13)`,
//! then its bytes, padded. A block is a row of *segments*: each begins with a note that says whose
//! records follow ([`Segment`]) and holds an anchor, a value of the clock's counter with the boot
//! time of that moment; deltas count from the latest anchor. Because nothing in it is a pointer, a
//! file that outlived its process can be read by any other; because of that it is never trusted
//! either: see [`crate::reader`].

use crate::sync::{Anchor, AtomicU8, AtomicU32, AtomicU64, Ordering};
pub use tracetee_protocol::recording::Mode;

/// First bytes of a pool.
pub(crate) const MAGIC: [u8; 8] = *b"TTPOOL\0\x01";
/// Changes whenever this file's structures do.
pub(crate) const VERSION: u32 = 4;
/// Offset of the metadata.
pub(crate) const META_OFFSET: usize = 4096;
/// Offset of the thread entries.
pub(crate) const THREADS_OFFSET: usize = 16384;
/// Number of thread entries. Entry 0 is for all threads without their own.
pub(crate) const THREAD_ENTRIES: usize = 4096;
/// Offset of the blocks; a multiple of every page size up to 16 KiB.
pub(crate) const BLOCKS_OFFSET: usize = THREADS_OFFSET + THREAD_ENTRIES * size_of::<ThreadEntry>();
/// Maximum size of the metadata.
pub(crate) const META_BYTES: usize = THREADS_OFFSET - META_OFFSET;
/// Words before a block's first segment.
pub(crate) const BLOCK_HEADER_WORDS: usize = 8;
/// Size of a thread's name, NUL included (the kernel's TASK_COMM_LEN).
pub const NAME_BYTES: usize = 16;

#[cfg(not(loom))]
const _: () = assert!(BLOCKS_OFFSET.is_multiple_of(16384));

/// Reason why a record was not recorded; an index into [`ThreadEntry::dropped`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All blocks are leased or hold records that may not go.
    PoolFull = 0,
    /// The file could not grow: the disk or its quota is full, or the program closed the file.
    CannotGrow = 1,
    /// A signal handler interrupted a signal handler that interrupted the recorder.
    Nested = 2,
    /// More threads record at once than [`crate::thread::MAX_THREADS`].
    TooManyThreads = 3,
    /// The thread left the recorder in the middle: a signal handler that interrupted it jumped out,
    /// or ended the thread.
    Abandoned = 4,
}

impl Loss {
    /// All of them, by index.
    pub const ALL: [Self; 5] =
        [Self::PoolFull, Self::CannotGrow, Self::Nested, Self::TooManyThreads, Self::Abandoned];

    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PoolFull => "recorder_full",
            Self::CannotGrow => "file_cannot_grow",
            Self::Nested => "nested_signal_handlers",
            Self::TooManyThreads => "too_many_threads",
            Self::Abandoned => "left_by_signal_handlers",
        }
    }
}

/// The mode of a number in [`PoolHeader::mode`].
pub(crate) const fn mode_from_number(number: u32) -> Option<Mode> {
    Some(match number {
        0 => Mode::Startup,
        1 => Mode::Ring,
        2 => Mode::Endless,
        3 => Mode::Systrace,
        _ => return None,
    })
}

/// The start of a pool.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct PoolHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) block_bytes: u32,
    pub(crate) block_count: u32,
    pub(crate) pid: i32,
    pub(crate) mode: u32,
    /// Length of the metadata text.
    pub(crate) meta_bytes: AtomicU32,
    /// Boot and real time of the start, read together.
    pub(crate) start_boot_ns: u64,
    pub(crate) start_real_ns: u64,
    /// Boot time of the stop, 0 while recording (and forever after a kill).
    pub(crate) stop_boot_ns: AtomicU64,
    /// Two anchors of the counter clock, some milliseconds apart, taken before the first record with its times:
    /// counter, boot time, counter, boot time. All 0 when the counter is not used.
    pub(crate) anchors: [AtomicU64; 4],
    /// Number of requests for a block. It is the next block's index, in ring mode modulo the number of blocks.
    pub(crate) tickets: AtomicU64,
    /// Thread entries given out so far, entry 0 included.
    pub(crate) threads: AtomicU32,
    /// Endless mode: which half of the pairs below and of `drained` and `open` is in force.
    pub(crate) drain_round: AtomicU32,
    /// Endless mode: length of the trace that contains all drained records.
    pub(crate) streamed_bytes: [AtomicU64; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<PoolHeader>() <= META_OFFSET);

impl PoolHeader {
    /// The two anchors in their stored form.
    pub(crate) fn anchors(&self) -> [u64; 4] {
        // ORDERING: Relaxed; set before any reader needs them.
        self.anchors.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn set_anchors(&self, [first, second]: [Anchor; 2]) {
        let words = [first.tick, first.boot_ns, second.tick, second.boot_ns];
        // ORDERING: Relaxed; readers come later, under the capture's lock or after the process.
        self.anchors.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }
}

/// Entry of a thread: everything but its records.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct ThreadEntry {
    /// Number of the thread, counted from 1 in the process. Unlike thread ids, it is not reused.
    pub(crate) incarnation: AtomicU32,
    pub(crate) tid: AtomicU32,
    /// The last name known.
    pub(crate) name: [AtomicU8; NAME_BYTES],
    /// Records lost because their block went to another thread (ring mode).
    pub(crate) overwritten: AtomicU64,
    /// Records not recorded, by [`Loss`].
    pub(crate) dropped: [AtomicU32; Loss::ALL.len()],
    /// Endless mode: sections open at the end of the streamed part.
    pub(crate) open: [AtomicU32; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<ThreadEntry>() == 64);

/// The start of a block.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct BlockHeader {
    /// `generation << 3 | state`, see [`crate::block_lease`]. 0: never used.
    pub(crate) lease: AtomicU32,
    /// Words of complete records after this header.
    pub(crate) committed: AtomicU32,
    /// Lane that holds the block: `2 × number of the thread's state + lane`.
    pub(crate) owner: AtomicU32,
    /// The low bits of the ticket that it was leased by.
    pub(crate) ticket: AtomicU32,
    /// Number of segments.
    pub(crate) segments: AtomicU32,
    /// Entry of the first segment's thread.
    pub(crate) first_entry: AtomicU32,
    /// `generation << 32 | records` of the first segment, set when it ends.
    pub(crate) first_records: AtomicU64,
    /// Endless mode: the generation that `drained` is about, and words already streamed.
    pub(crate) drained_lease: [AtomicU32; 2],
    pub(crate) drained: [AtomicU32; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<BlockHeader>() == BLOCK_HEADER_WORDS * 8);

/// Encoding of a record's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Text, as written to the marker.
    Text = 0,
    /// The recorder's own: the first byte says what ([`NOTE_SEGMENT`] …).
    Note = 1,
    /// Fields that the fast path left unformatted, see [`crate::packed::Packed`].
    Packed = 2,
    /// Fields as [`Form::Packed`] has them, with details, see [`crate::rich::Rich`].
    Rich = 3,
}

/// A record's first word.
#[inline]
pub const fn record_word(delta: u64, form: Form, bytes: usize) -> u64 {
    (delta << 16) | ((form as u64) << 13) | (bytes as u64 & 0x1fff)
}

/// The parts of a record's first word: delta, form, length in bytes.
pub(crate) const fn split_word(word: u64) -> (u64, Option<Form>, usize) {
    let form = match (word >> 13) & 7 {
        0 => Some(Form::Text),
        1 => Some(Form::Note),
        2 => Some(Form::Packed),
        3 => Some(Form::Rich),
        _ => None,
    };
    #[allow(clippy::cast_possible_truncation, reason = "13 bits")]
    (word >> 16, form, (word & 0x1fff) as usize)
}

/// Words that `bytes` take with the record's first word.
#[inline]
pub(crate) const fn record_words(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}

/// First byte of a note: a [`Segment`] begins.
pub(crate) const NOTE_SEGMENT: u8 = 1;
/// A later anchor of the same segment: counter, boot time (in words 1 and 2 after the kind).
pub(crate) const NOTE_ANCHOR: u8 = 2;
/// The thread ended.
pub const NOTE_THREAD_END: u8 = 3;
/// Counters of the thread ([`crate::counters::Counters`]) at the record that follows.
pub const NOTE_COUNTERS: u8 = 40;

/// Owner of the records that follow, and the clock's anchor for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Number of the thread, never given twice in a process.
    pub incarnation: u32,
    /// Thread id.
    pub tid: i32,
    /// The thread's entry in the pool.
    pub(crate) entry: u32,
    /// Counts the thread's segments in this lane; a gap shows that records are missing between.
    pub sequence: u32,
    /// 0: the thread itself, 1: a signal handler that interrupted it in the recorder.
    pub lane: u8,
    /// The ticks are the hardware counter's; else ns of boot time.
    pub(crate) counter: bool,
    /// The clock's value that deltas count from, and the boot time then.
    pub(crate) tick: u64,
    pub(crate) boot_ns: u64,
    /// The thread's name, padded with zeros.
    pub name: [u8; NAME_BYTES],
}

/// Words of a segment's note, the record's first word included.
pub(crate) const SEGMENT_WORDS: usize = 8;
/// Words of an anchor.
pub(crate) const ANCHOR_WORDS: usize = 4;

impl Segment {
    /// The note, ready to be stored.
    pub(crate) fn to_words(self) -> [u64; SEGMENT_WORDS] {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.name;
        let head = u64::from(NOTE_SEGMENT)
            | u64::from(self.lane) << 8
            | u64::from(self.counter) << 16
            | u64::from(self.sequence) << 32;
        [
            record_word(0, Form::Note, (SEGMENT_WORDS - 1) * 8),
            head,
            self.tick,
            self.boot_ns,
            u64::from(self.incarnation) | u64::from(self.tid.cast_unsigned()) << 32,
            u64::from(self.entry),
            u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            u64::from_le_bytes(rest),
        ]
    }

    /// Parses the bytes of a note; `None` if they are not a segment.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = [0u64; SEGMENT_WORDS - 1];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().ok()?);
        }
        let [head, tick, boot_ns, who, entry, name_low, name_high] = words;
        if bytes.len() != size_of_val(&words) || bytes.first() != Some(&NOTE_SEGMENT) {
            return None;
        }
        let mut name = [0; NAME_BYTES];
        let chars = name_low.to_le_bytes().into_iter().chain(name_high.to_le_bytes());
        name.iter_mut().zip(chars).for_each(|(to, from)| *to = from);
        let low = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
        Some(Self {
            incarnation: low(who),
            tid: low(who >> 32).cast_signed(),
            entry: low(entry),
            sequence: low(head >> 32),
            lane: u8::try_from((head >> 8) & 0xff).unwrap_or(0),
            counter: (head >> 16) & 1 == 1,
            tick,
            boot_ns,
            name,
        })
    }
}

/// An anchor, ready to be stored.
pub(crate) const fn anchor_words(tick: u64, boot_ns: u64) -> [u64; ANCHOR_WORDS] {
    [record_word(0, Form::Note, (ANCHOR_WORDS - 1) * 8), NOTE_ANCHOR as u64, tick, boot_ns]
}

/// Parses the bytes of a note: counter and boot time.
pub(crate) fn anchor_from_bytes(bytes: &[u8]) -> Option<(u64, u64)> {
    let (kind, rest) = bytes.split_at_checked(8)?;
    let (tick, boot_ns) = rest.split_at_checked(8)?;
    (kind.first() == Some(&NOTE_ANCHOR)).then_some(())?;
    Some((u64::from_le_bytes(tick.try_into().ok()?), u64::from_le_bytes(boot_ns.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were_stored() {
        let segment = Segment {
            incarnation: 7,
            tid: -3,
            entry: 4095,
            sequence: u32::MAX,
            lane: 1,
            counter: true,
            tick: u64::MAX - 5,
            boot_ns: 1 << 60,
            name: *b"RenderThread\0\0\0\0",
        };
        let bytes = |words: &[u64]| {
            words.iter().skip(1).flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()
        };
        let words = segment.to_words();
        assert_eq!(split_word(words[0]), (0, Some(Form::Note), bytes(&words).len()));
        assert_eq!(Segment::from_bytes(&bytes(&words)), Some(segment));
        assert_eq!(anchor_from_bytes(&bytes(&anchor_words(5, 6))), Some((5, 6)));
        assert_eq!(Segment::from_bytes(&bytes(&anchor_words(5, 6))), None);
        assert_eq!(anchor_from_bytes(&bytes(&words)), None);
    }

    #[test]
    fn a_record_word_holds_its_parts() {
        let word = record_word((1 << 48) - 1, Form::Packed, 4096);
        assert_eq!(split_word(word), ((1 << 48) - 1, Some(Form::Packed), 4096));
        assert_eq!(
            [record_words(0), record_words(1), record_words(8), record_words(9)],
            [1, 2, 2, 3]
        );
    }

    #[test]
    fn the_number_of_a_mode_is_that_of_earlier_pools() {
        for (number, mode) in
            [(0, Mode::Startup), (1, Mode::Ring), (2, Mode::Endless), (3, Mode::Systrace)]
        {
            assert_eq!(mode as u32, number);
            assert_eq!(mode_from_number(number), Some(mode));
        }
        assert_eq!(mode_from_number(4), None);
    }
}
