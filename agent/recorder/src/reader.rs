//! Reads a pool: the running one, or a file whose process has ended.
//!
//! Runs on the thread that dumps. It reads only committed records, and checks every length against the region, whatever the
//! file says: a damaged pool yields fewer records and a count, never a wild read. [`crate::snapshot`] reads the contents of
//! blocks.

use crate::Error;
use crate::block_lease::{Memory, RESETTING, generation_of, state_of};
use crate::errno;
use crate::extents::{Extents, FIRST_BYTES, LARGEST_PAGE, read_nothing_ahead};
use crate::layout::{
    BLOCK_HEADER_WORDS, BLOCKS_OFFSET, BlockHeader, Loss, MAGIC, META_BYTES, META_OFFSET, Mode,
    NAME_BYTES, PoolHeader, THREAD_ENTRIES, THREADS_OFFSET, ThreadEntry, VERSION, mode_from_number,
};
use crate::pool::Pool;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool file mapped for reading.
#[derive(Debug)]
pub struct PoolFile {
    base: *const PoolHeader,
    bytes: usize,
}

impl PoolFile {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be opened or mapped, [`Error::Pool`] when it is not a pool of
    /// this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |what, source| Error::Io { what, path: path.to_owned(), source };
        let file = tracetee_os::open(path).map_err(|error| io("open", error))?;
        let bytes = file.metadata().map_err(|error| io("inspect", error))?.len();
        let bytes = usize::try_from(bytes).unwrap_or(0);
        let reason = |reason: String| Error::Pool { path: path.to_owned(), reason };
        if bytes < BLOCKS_OFFSET {
            return Err(reason(format!("{bytes} bytes are too short for a header")));
        }
        // SAFETY: a new read-only mapping of the whole file. Shared, so that a live writer's
        // records are seen; readers use atomics for all that a writer may change.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::io("map", path));
        }
        let pool = Self { base: base.cast(), bytes };
        read_nothing_ahead(base, bytes.min(FIRST_BYTES));
        if !is_readable(base, THREADS_OFFSET + ENTRY_BYTES) {
            return Err(reason("has a header that cannot be read".into()));
        }
        pool.reader().validate().map_err(reason)?;
        Ok(pool)
    }

    /// A reader of it.
    #[must_use]
    pub const fn reader(&self) -> PoolReader<'_> {
        PoolReader {
            base: self.base,
            blocks: Region::File { bytes: self.bytes },
            lifetime: PhantomData,
        }
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`; readers borrow self.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.bytes) };
    }
}

/// A view of a pool's header, threads and blocks.
#[derive(Debug, Clone, Copy)]
pub struct PoolReader<'a> {
    base: *const PoolHeader,
    blocks: Region<'a>,
    lifetime: PhantomData<&'a ()>,
}

/// Memory of the blocks.
#[derive(Debug, Clone, Copy)]
enum Region<'a> {
    /// After the header, in a mapping of this many bytes.
    File { bytes: usize },
    /// The mappings of the running pool.
    Live(&'a Extents),
}

/// Facts about a thread, besides its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Number of the thread; 0 for all threads without their own entry.
    pub incarnation: u32,
    /// Thread id.
    pub tid: i32,
    /// Last name, padded with zeros.
    pub name: [u8; NAME_BYTES],
    /// Number of records that newer ones have overwritten.
    pub overwritten: u64,
    /// Records not recorded, by [`Loss`].
    pub dropped: [u64; Loss::ALL.len()],
    /// Sections open where the streamed trace ends.
    pub open: u32,
}

impl<'a> PoolReader<'a> {
    /// Reads the pool of this process.
    #[must_use]
    pub fn of(pool: &'a Pool) -> Self {
        let (base, extents) = pool.blocks.memory.region();
        Self { base, blocks: Region::Live(extents), lifetime: PhantomData }
    }

    fn validate(&self) -> Result<(), String> {
        let header = self.pool_header();
        if header.magic != MAGIC {
            return Err("is not a recorder file".into());
        }
        if header.version != VERSION {
            let found = header.version;
            return Err(format!("has version {found}, this program reads version {VERSION}"));
        }
        let block_bytes = header.block_bytes;
        if !block_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&block_bytes) {
            return Err(format!("claims blocks of {block_bytes} bytes"));
        }
        if mode_from_number(header.mode).is_none() {
            return Err(format!("claims mode {}", header.mode));
        }
        Ok(())
    }

    /// The header of the pool.
    pub(crate) fn pool_header(&self) -> &'a PoolHeader {
        // SAFETY: the region is at least BLOCKS_OFFSET bytes long and page-aligned; plain fields
        // are written before the pool is shared, the others are atomic.
        unsafe { &*self.base }
    }

    /// The process that recorded.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pool_header().pid
    }

    /// Returns the pool's behaviour when it is full.
    #[must_use]
    pub fn mode(&self) -> Mode {
        mode_from_number(self.pool_header().mode).unwrap_or_default()
    }

    /// Boot time at the start, ns.
    #[must_use]
    pub fn start_boot_ns(&self) -> u64 {
        self.pool_header().start_boot_ns
    }

    /// Real time at the start, ns since the epoch.
    #[must_use]
    pub fn start_real_ns(&self) -> u64 {
        self.pool_header().start_real_ns
    }

    /// Boot time at the stop; `None` while recording, and forever after a kill.
    #[must_use]
    pub fn stop_boot_ns(&self) -> Option<u64> {
        // ORDERING: Relaxed; a time publishes nothing.
        Some(self.pool_header().stop_boot_ns.load(Ordering::Relaxed)).filter(|&ns| ns != 0)
    }

    /// Records carry the processor's counter, not boot time.
    #[must_use]
    pub fn uses_counter(&self) -> bool {
        self.pool_header().anchors() != [0; 4]
    }

    /// The metadata, JSON text that the agent wrote at the start.
    #[must_use]
    pub fn meta(&self) -> String {
        // ORDERING: Acquire, pairs with the Release in Pool::set_meta.
        let len = self.pool_header().meta_bytes.load(Ordering::Acquire);
        let len = usize::try_from(len).unwrap_or(0).min(META_BYTES);
        // SAFETY: META_OFFSET + META_BYTES is within every valid region.
        let start = unsafe { self.base.cast::<u8>().add(META_OFFSET) };
        // SAFETY: as above.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start, len) }).into_owned()
    }

    /// Returns facts about each thread; the first entry represents threads without their own.
    pub fn threads(&self) -> Vec<ThreadFacts> {
        let header = self.pool_header();
        // ORDERING: Acquire, pairs with the Release in `Mapping::new_entry`: the entries have their space.
        let mut count = (header.threads.load(Ordering::Acquire) as usize).min(THREAD_ENTRIES);
        if !self.is_range_readable(THREADS_OFFSET, count * ENTRY_BYTES) {
            count = 1;
        }
        let round = (header.drain_round.load(Ordering::Relaxed) & 1) as usize;
        (0..count.max(1))
            .map(|index| {
                // SAFETY: every valid region has THREAD_ENTRIES entries there.
                let first = unsafe { self.base.cast::<u8>().add(THREADS_OFFSET) };
                #[allow(clippy::cast_ptr_alignment, reason = "entries are 64-byte aligned")]
                // SAFETY: as above.
                let entry = unsafe { first.cast::<ThreadEntry>().add(index) };
                // SAFETY: as above; all fields are atomic.
                let entry = unsafe { &*entry };
                // ORDERING: Acquire, pairs with the Release in `Mapping::new_entry`.
                let incarnation = entry.incarnation.load(Ordering::Acquire);
                let mut facts = ThreadFacts {
                    incarnation,
                    tid: entry.tid.load(Ordering::Relaxed).cast_signed(),
                    overwritten: entry.overwritten.load(Ordering::Relaxed),
                    ..ThreadFacts::default()
                };
                for (to, from) in facts.name.iter_mut().zip(&entry.name) {
                    *to = from.load(Ordering::Relaxed);
                }
                for (to, from) in facts.dropped.iter_mut().zip(&entry.dropped) {
                    *to = u64::from(from.load(Ordering::Relaxed));
                }
                facts.open = entry.open.get(round).map_or(0, |open| open.load(Ordering::Relaxed));
                facts
            })
            .collect()
    }

    /// Records not recorded so far, for whatever reason.
    pub fn dropped(&self) -> u64 {
        let count = |facts: &ThreadFacts| facts.dropped.iter().sum::<u64>();
        self.threads().iter().map(count).sum()
    }

    /// Returns the number of blocks that may hold records.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        let header = self.pool_header();
        let block_bytes = usize::try_from(header.block_bytes).unwrap_or(1);
        let fit = match self.blocks {
            Region::File { bytes } => {
                u32::try_from((bytes - BLOCKS_OFFSET) / block_bytes).unwrap_or(u32::MAX)
            }
            Region::Live(extents) => extents.mapped_blocks(),
        };
        // ORDERING: Acquire, pairs with the Release in `Blocks::lease`: the blocks have their space. Each is
        // published by its own lease word.
        let tickets = header.tickets.load(Ordering::Acquire);
        u32::try_from(tickets).unwrap_or(u32::MAX).min(header.block_count).min(fit)
    }

    /// True if a range of the file may be read.
    fn is_range_readable(&self, offset: usize, bytes: usize) -> bool {
        let before = offset % LARGEST_PAGE;
        matches!(self.blocks, Region::Live(_))
            || is_readable(
                self.base.wrapping_byte_add(offset - before).cast_mut().cast(),
                before + bytes,
            )
    }

    /// True if the header of block `index` may be read, and its words if there are more than `skip` says.
    pub(super) fn is_block_readable(&self, index: u32, skip: impl FnOnce() -> u32) -> bool {
        let block_bytes = self.pool_header().block_bytes as usize;
        let offset = BLOCKS_OFFSET + index as usize * block_bytes;
        if !self.is_range_readable(offset, BLOCK_HEADER_WORDS * 8) {
            return false;
        }
        let committed = Memory::header(self, index).committed.load(Ordering::Relaxed);
        let words = BLOCK_HEADER_WORDS + committed.min(self.words_per_block()) as usize;
        committed <= skip() || self.is_range_readable(offset, words * 8)
    }

    fn block(&self, index: u32) -> *const u8 {
        if let Region::Live(extents) = self.blocks {
            return extents.block(index);
        }
        let block_bytes = usize::try_from(self.pool_header().block_bytes).unwrap_or(0);
        let offset = BLOCKS_OFFSET + usize::try_from(index).unwrap_or(0) * block_bytes;
        // SAFETY: `blocks()` keeps the index within the region.
        unsafe { self.base.cast::<u8>().add(offset) }
    }

    /// The committed words of a block that will never be taken over.
    pub(super) fn committed(&self, index: u32) -> Option<&'a [u64]> {
        let header = Memory::header(self, index);
        // ORDERING: Acquire, both; as in `copy`.
        let lease = header.lease.load(Ordering::Acquire);
        if lease == 0 || state_of(lease) == RESETTING {
            return None;
        }
        let committed = header.committed.load(Ordering::Acquire).min(self.words_per_block());
        // SAFETY: committed words are inside the block and are not written again.
        Some(unsafe { std::slice::from_raw_parts(self.words(index).cast(), committed as usize) })
    }

    /// Returns the words of block `index`, with that lease word, that the streamed trace already contains.
    pub(super) fn drained(&self, index: u32, lease: u32) -> u32 {
        let half = (self.pool_header().drain_round.load(Ordering::Relaxed) & 1) as usize;
        let header = Memory::header(self, index);
        let (Some(held), Some(words)) = (header.drained_lease.get(half), header.drained.get(half))
        else {
            return 0;
        };
        if generation_of(held.load(Ordering::Relaxed)) == generation_of(lease) {
            words.load(Ordering::Relaxed)
        } else {
            0
        }
    }
}

/// Bytes of a thread's entry.
const ENTRY_BYTES: usize = size_of::<ThreadEntry>();

/// True if reading a range of a file's mapping, from a page's start on, raises no SIGBUS. It does if a damaged file has a
/// hole and a tmpfs has no space, or if the disk fails. Linux before 5.14 cannot tell.
fn is_readable(start: *mut libc::c_void, bytes: usize) -> bool {
    const MADV_POPULATE_READ: libc::c_int = 22;
    // SAFETY: pages of our mapping, which are only read.
    let status = unsafe { libc::madvise(start, bytes, MADV_POPULATE_READ) };
    status == 0 || errno::get() != libc::EFAULT
}

impl Memory for PoolReader<'_> {
    fn count(&self) -> u32 {
        self.blocks()
    }

    fn words_per_block(&self) -> u32 {
        self.pool_header().block_bytes / 8 - 8
    }

    fn header(&self, index: u32) -> &BlockHeader {
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let header = self.block(index).cast::<BlockHeader>();
        // SAFETY: inside the region; all fields are atomic.
        unsafe { &*header }
    }

    fn words(&self, index: u32) -> *const AtomicU64 {
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let words = self.block(index).cast::<AtomicU64>();
        // SAFETY: the header is smaller than a block.
        unsafe { words.add(BLOCK_HEADER_WORDS) }
    }

    fn tickets(&self) -> &AtomicU64 {
        &self.pool_header().tickets
    }

    fn back(&self, _: u32) -> bool {
        false
    }

    fn count_overwritten(&self, _: u32, _: u64) {}
}
