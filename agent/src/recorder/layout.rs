//! The recorder's memory: one flat region without pointers, in anonymous memory or in a file.
//!
//! ```text
//! 0        header (PoolHeader)
//! 4096     metadata, JSON text
//! 16384    block 0: BlockHeader (64 bytes), records …
//!          block 1 …
//! ```
//!
//! A record is one u64 word, `delta_ns (48 bits) | length (16 bits)`, then its bytes, padded to 8.
//! The delta counts from the block's `base_ns`. Because nothing in it is a pointer, a file that
//! outlived its process can be read by any other; because of that it is never trusted either: see
//! [`super::reader`].

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// First bytes of a pool.
pub(crate) const MAGIC: [u8; 8] = *b"TTPOOL\0\x01";
/// Changes whenever this file's structures do.
pub(crate) const VERSION: u32 = 1;
/// Where the metadata starts.
pub(crate) const META_OFFSET: usize = 4096;
/// Where the blocks start; a multiple of every page size up to 16 KiB.
pub(crate) const BLOCKS_OFFSET: usize = 16384;
/// What the metadata may take.
pub(crate) const META_BYTES: usize = BLOCKS_OFFSET - META_OFFSET;
/// Bytes before a block's first record.
pub(crate) const BLOCK_HEADER_BYTES: usize = size_of::<BlockHeader>();
/// Bytes before a record's text.
pub(crate) const RECORD_HEADER_BYTES: usize = 8;
/// A leased block's `magic`.
pub(crate) const BLOCK_LEASED: u32 = 0x544b_4c42;
/// The largest time that fits a record's delta, 78 hours.
pub(crate) const MAX_DELTA_NS: u64 = (1 << 48) - 1;
/// What a thread's name takes at most, NUL included (the kernel's TASK_COMM_LEN).
pub(crate) const NAME_BYTES: usize = 16;

/// First byte of the recorder's own records, which no atrace record has. The thread ended; the
/// rest is its last name.
pub(crate) const NOTE_THREAD_END: u8 = 1;
/// A thread's name as seen by another one: u32 incarnation (little endian), then the name.
pub(crate) const NOTE_THREAD_NAME: u8 = 2;

/// Why a record was not recorded; an index into [`PoolHeader::dropped`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All blocks are leased.
    PoolFull = 0,
    /// The file could not grow: the disk is full, or its quota is.
    NoSpace = 1,
    /// A signal handler interrupted a signal handler that interrupted the recorder.
    Nested = 2,
    /// More threads record at once than [`super::thread::MAX_THREADS`].
    TooManyThreads = 3,
}

impl Loss {
    /// All of them, by index.
    pub const ALL: [Self; 4] = [Self::PoolFull, Self::NoSpace, Self::Nested, Self::TooManyThreads];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PoolFull => "recorder_full",
            Self::NoSpace => "no_space_on_disk",
            Self::Nested => "nested_signal_handlers",
            Self::TooManyThreads => "too_many_threads",
        }
    }
}

/// How many cache lines the loss counters are spread over.
pub(crate) const LOSS_LANES: usize = 16;

/// One cache line of loss counters.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct LossLane {
    pub(crate) by_reason: [AtomicU64; Loss::ALL.len()],
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
    /// Boot and real time of the start, read together.
    pub(crate) start_boot_ns: u64,
    pub(crate) start_real_ns: u64,
    /// Boot time of the stop, 0 while recording (and for ever after a kill).
    pub(crate) stop_boot_ns: AtomicU64,
    /// Length of the metadata text.
    pub(crate) meta_bytes: AtomicU32,
    /// Blocks leased so far; the next block's index.
    pub(crate) next_block: AtomicU32,
    pub(crate) dropped: [LossLane; LOSS_LANES],
}

const _: () = assert!(size_of::<PoolHeader>() <= META_OFFSET);

/// The start of a block. Written by the thread that leased it; `magic` last.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct BlockHeader {
    /// [`BLOCK_LEASED`] once the fields below are set.
    pub(crate) magic: AtomicU32,
    /// Bytes of complete records behind this header.
    pub(crate) committed_bytes: AtomicU32,
    /// Which thread of this pool, counted from 1: ids of ended threads are reused, this is not.
    pub(crate) incarnation: AtomicU32,
    pub(crate) tid: AtomicI32,
    /// Boot time that the records' deltas count from.
    pub(crate) base_ns: AtomicU64,
    /// 0: the thread itself, 1: a signal handler that interrupted it in the recorder.
    pub(crate) lane: AtomicU8,
    /// The thread's name when it leased the block.
    pub(crate) name: [AtomicU8; NAME_BYTES],
}

const _: () = assert!(size_of::<BlockHeader>() == 64);

/// `bytes` rounded up to the recorder's alignment.
#[inline]
pub(crate) const fn padded(bytes: usize) -> usize {
    (bytes + 7) & !7
}
