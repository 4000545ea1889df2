//! Reads a pool: the running one, or a file whose process is gone.
//!
//! Runs on the thread that dumps. Only what a writer has committed is looked at, and every length
//! is checked against the region, whatever the file says: a damaged pool yields fewer records and
//! a count, never a wild read.

use super::layout::{
    BLOCK_HEADER_BYTES, BLOCK_LEASED, BLOCKS_OFFSET, BlockHeader, Loss, MAGIC, META_BYTES,
    META_OFFSET, NAME_BYTES, PoolHeader, RECORD_HEADER_BYTES, VERSION, padded,
};
use super::pool::Pool;
use crate::error::Error;
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;

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
    /// [`Error::Io`] when it cannot be opened or mapped, [`Error::Pool`] when it is no pool of
    /// this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |what, source| Error::Io { what, path: path.to_owned(), source };
        let file = File::open(path).map_err(|error| io("open", error))?;
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
        pool.reader().validate().map_err(reason)?;
        Ok(pool)
    }

    /// A reader of it.
    #[must_use]
    pub const fn reader(&self) -> PoolReader<'_> {
        PoolReader { base: self.base, bytes: self.bytes, lifetime: PhantomData }
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`; readers borrow self.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.bytes) };
    }
}

/// A view of a pool's header and blocks.
#[derive(Debug, Clone, Copy)]
pub struct PoolReader<'a> {
    base: *const PoolHeader,
    bytes: usize,
    lifetime: PhantomData<&'a ()>,
}

/// The committed part of a block.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Which thread of the process, counted from 1.
    pub incarnation: u32,
    /// Its id.
    pub tid: i32,
    /// 0, or 1 for a signal handler that interrupted the recorder.
    pub lane: u8,
    /// Its name when it leased the block, without padding.
    pub name: [u8; NAME_BYTES],
    base_ns: u64,
    records: &'a [u8],
}

impl<'a> PoolReader<'a> {
    pub(crate) fn of(pool: &'a Pool) -> Self {
        let (base, bytes) = pool.region();
        Self { base, bytes, lifetime: PhantomData }
    }

    fn validate(&self) -> Result<(), String> {
        let header = self.header();
        if header.magic != MAGIC {
            return Err("is no recorder file".into());
        }
        if header.version != VERSION {
            let found = header.version;
            return Err(format!("has version {found}, this program reads version {VERSION}"));
        }
        let block_bytes = header.block_bytes;
        if !block_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&block_bytes) {
            return Err(format!("claims blocks of {block_bytes} bytes"));
        }
        Ok(())
    }

    fn header(&self) -> &'a PoolHeader {
        // SAFETY: the region is at least BLOCKS_OFFSET bytes long and page-aligned; plain fields
        // are written before the pool is shared, the others are atomic.
        unsafe { &*self.base }
    }

    /// The process that recorded.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.header().pid
    }

    /// Boot time at the start, ns.
    #[must_use]
    pub fn start_boot_ns(&self) -> u64 {
        self.header().start_boot_ns
    }

    /// Real time at the start, ns since the epoch.
    #[must_use]
    pub fn start_real_ns(&self) -> u64 {
        self.header().start_real_ns
    }

    /// Boot time at the stop; `None` while recording, and for ever after a kill.
    #[must_use]
    pub fn stop_boot_ns(&self) -> Option<u64> {
        // ORDERING: Relaxed; a time publishes nothing.
        Some(self.header().stop_boot_ns.load(Ordering::Relaxed)).filter(|&ns| ns != 0)
    }

    /// The metadata, JSON text that the agent wrote at the start.
    #[must_use]
    pub fn meta(&self) -> String {
        // ORDERING: Acquire, pairs with the Release in Pool::set_meta.
        let len = self.header().meta_bytes.load(Ordering::Acquire);
        let len = usize::try_from(len).unwrap_or(0).min(META_BYTES);
        // SAFETY: META_OFFSET + META_BYTES is within every valid region.
        let start = unsafe { self.base.cast::<u8>().add(META_OFFSET) };
        // SAFETY: as above.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start, len) }).into_owned()
    }

    /// Records that were not recorded, by [`Loss`].
    #[must_use]
    pub fn dropped(&self) -> [u64; Loss::ALL.len()] {
        let mut sum = [0u64; Loss::ALL.len()];
        for lane in &self.header().dropped {
            for (total, counter) in sum.iter_mut().zip(&lane.by_reason) {
                // ORDERING: Relaxed; counts.
                *total = total.saturating_add(counter.load(Ordering::Relaxed));
            }
        }
        sum
    }

    /// How many blocks may hold records.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        let header = self.header();
        let fit = (self.bytes - BLOCKS_OFFSET) / usize::try_from(header.block_bytes).unwrap_or(1);
        let fit = u32::try_from(fit).unwrap_or(u32::MAX);
        // ORDERING: Relaxed; each block is published by its own magic.
        header.next_block.load(Ordering::Relaxed).min(header.block_count).min(fit)
    }

    /// Bytes of the blocks that are in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.header().block_bytes)
    }

    /// Block `index`; `None` when it was never leased.
    #[must_use]
    pub fn block(&self, index: u32) -> Option<Block<'a>> {
        if index >= self.blocks() {
            return None;
        }
        let block_bytes = usize::try_from(self.header().block_bytes).ok()?;
        let offset = BLOCKS_OFFSET + usize::try_from(index).ok()? * block_bytes;
        // SAFETY: `blocks()` keeps the index within the region.
        let start = unsafe { self.base.cast::<u8>().add(offset) };
        // SAFETY: blocks are aligned to their power-of-two size of 4 KiB and more.
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let header = unsafe { &*start.cast::<BlockHeader>() };
        // ORDERING: Acquire, pairs with the Release in Pool::lease: the fields below are set.
        if header.magic.load(Ordering::Acquire) != BLOCK_LEASED {
            return None;
        }
        // ORDERING: Acquire, pairs with the Release in writer::put: the records are complete.
        let committed = header.committed_bytes.load(Ordering::Acquire);
        let committed = usize::try_from(committed).ok()?.min(block_bytes - BLOCK_HEADER_BYTES);
        // SAFETY: within the block.
        let records = unsafe { start.add(BLOCK_HEADER_BYTES) };
        // SAFETY: committed bytes are inside the block and are not written again.
        let records = unsafe { std::slice::from_raw_parts(records, committed) };
        let mut name = [0u8; NAME_BYTES];
        for (to, from) in name.iter_mut().zip(&header.name) {
            *to = from.load(Ordering::Relaxed);
        }
        Some(Block {
            incarnation: header.incarnation.load(Ordering::Relaxed),
            tid: header.tid.load(Ordering::Relaxed),
            lane: header.lane.load(Ordering::Relaxed),
            name,
            base_ns: header.base_ns.load(Ordering::Relaxed),
            records,
        })
    }
}

impl<'a> Block<'a> {
    /// The record at byte `offset`: its boot time, its bytes, and the offset of the next.
    #[must_use]
    pub fn record_at(&self, offset: usize) -> Option<(u64, &'a [u8], usize)> {
        let rest = self.records.get(offset..)?;
        let word = u64::from_le_bytes(rest.get(..RECORD_HEADER_BYTES)?.try_into().ok()?);
        let len = usize::try_from(word & 0xffff).ok()?;
        let text = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + len)?;
        let time_ns = self.base_ns.saturating_add(word >> 16);
        Some((time_ns, text, offset + RECORD_HEADER_BYTES + padded(len)))
    }

    /// Its records in order.
    pub fn records(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let block = *self;
        let mut offset = 0;
        std::iter::from_fn(move || {
            let (time_ns, text, next) = block.record_at(offset)?;
            offset = next;
            Some((time_ns, text))
        })
    }
}
