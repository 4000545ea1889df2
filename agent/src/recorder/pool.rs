//! The pool: the region that blocks are leased from, and who may free it.
//!
//! Created by the thread that starts a capture; leased from by the app's threads. Blocks are
//! handed out in order by one atomic counter. A pool in a file backs each block with disk space
//! before it is touched, because a store to an unbacked page of a full disk would kill the app
//! with SIGBUS; without space the record is dropped and counted.

use super::layout::{
    BLOCK_HEADER_BYTES, BLOCK_LEASED, BLOCKS_OFFSET, BlockHeader, LOSS_LANES, Loss, MAGIC,
    META_BYTES, META_OFFSET, NAME_BYTES, PoolHeader, VERSION,
};
use crate::clock;
use crate::error::Error;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A mapped pool. Unmapped when dropped, which only its creator may do once no writer is left.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The header, with everything else behind it.
    base: *mut PoolHeader,
    mapped_bytes: usize,
    block_bytes: usize,
    block_count: u32,
    /// Behind the mapping, when it outlives the process.
    file: Option<File>,
    unmap: bool,
}

// SAFETY: the region is shared memory on purpose; every field that two threads touch is atomic.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of `capacity_bytes` in memory, or in a new file at `path`.
    ///
    /// Pages are not touched, and a file stays sparse, until a block is leased.
    pub(crate) fn create(
        capacity_bytes: u64,
        block_bytes: u32,
        path: Option<&Path>,
    ) -> Result<Self, Error> {
        let block_count = u32::try_from(capacity_bytes / u64::from(block_bytes))
            .unwrap_or(u32::MAX)
            .clamp(1, u32::MAX / 2);
        let block_bytes = usize::try_from(block_bytes).unwrap_or(usize::MAX);
        let mapped_bytes = usize::try_from(block_count)
            .ok()
            .and_then(|count| count.checked_mul(block_bytes)?.checked_add(BLOCKS_OFFSET))
            .ok_or(Error::Config {
                field: "recorder.capacity_kb",
                reason: "larger than the address space".into(),
            })?;
        let file = path.map(|path| create_file(path, mapped_bytes)).transpose()?;
        let base = map(mapped_bytes, file.as_ref())?;
        let mut pool = Self { base, mapped_bytes, block_bytes, block_count, file, unmap: true };
        if !pool.back(0, BLOCKS_OFFSET) {
            let path = path.unwrap_or(Path::new("(memory)")).to_owned();
            return Err(Error::io("reserve space for the recorder", path));
        }
        pool.write_header();
        Ok(pool)
    }

    fn write_header(&mut self) {
        // SAFETY: the header lies at the start of the mapping, which is larger; it is page-aligned
        // and nobody else has this pool yet.
        let header = unsafe { &mut *self.base };
        header.magic = MAGIC;
        header.version = VERSION;
        header.block_bytes = u32::try_from(self.block_bytes).unwrap_or(0);
        header.block_count = self.block_count;
        header.pid = std::process::id().cast_signed();
        header.start_boot_ns = clock::boot_ns();
        header.start_real_ns = clock::real_ns();
    }

    pub(crate) fn header(&self) -> &PoolHeader {
        // SAFETY: written by `write_header`; lives as long as the mapping; later changes go
        // through its atomics only.
        unsafe { &*self.base }
    }

    /// All of it, for [`super::reader::PoolReader`].
    pub(crate) const fn region(&self) -> (*const PoolHeader, usize) {
        (self.base, self.mapped_bytes)
    }

    /// A second owner of the same mapping, for when the first must never unmap it.
    pub(crate) const fn alias(&self) -> Self {
        let Self { base, mapped_bytes, block_bytes, block_count, .. } = *self;
        Self { base, mapped_bytes, block_bytes, block_count, file: None, unmap: false }
    }

    /// Bytes of records that fit one block, behind its header.
    pub(crate) const fn block_capacity(&self) -> usize {
        self.block_bytes - BLOCK_HEADER_BYTES
    }

    /// Replaces the metadata text; what is over [`META_BYTES`] is cut.
    pub(crate) fn set_meta(&self, text: &str) {
        let bytes = text.as_bytes();
        let len = bytes.len().min(META_BYTES);
        let header = self.header();
        // ORDERING: Relaxed and Release: a reader of the length with Acquire sees the text that
        // belongs to it, or length 0 while it changes.
        header.meta_bytes.store(0, Ordering::Relaxed);
        // SAFETY: META_OFFSET is inside the mapping.
        let meta = unsafe { self.base.cast::<u8>().add(META_OFFSET) };
        // SAFETY: META_BYTES follow there, and no reader looks while the length is 0.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), meta, len) };
        header.meta_bytes.store(u32::try_from(len).unwrap_or(0), Ordering::Release);
    }

    /// Takes the next block; its header is still empty.
    ///
    /// Runs on the app's threads, once in several hundred records. No lock, no allocation.
    pub(crate) fn take_block(&self) -> Result<*mut u8, Loss> {
        let header = self.header();
        // ORDERING: Relaxed; the counter hands out indices, and a block's content is published by
        // its own magic. The check keeps a full pool's counter from running over.
        if header.next_block.load(Ordering::Relaxed) >= self.block_count {
            return Err(Loss::PoolFull);
        }
        let index = header.next_block.fetch_add(1, Ordering::Relaxed);
        if index >= self.block_count {
            return Err(Loss::PoolFull);
        }
        let offset = BLOCKS_OFFSET + usize::try_from(index).unwrap_or(0) * self.block_bytes;
        if !self.back(offset, self.block_bytes) {
            return Err(Loss::NoSpace);
        }
        // SAFETY: the index is below the count, so the block lies inside the mapping.
        Ok(unsafe { self.base.cast::<u8>().add(offset) })
    }

    /// Fills a taken block's header and publishes the block. Returns its base time.
    pub(crate) fn publish_block(block: *mut u8, owner: &Owner<'_>) -> u64 {
        // SAFETY: blocks are 64-byte aligned (page-aligned base, power-of-two sizes); all fields
        // are atomic and zero-initialised, and the caller alone has taken the block.
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let header = unsafe { &*block.cast::<BlockHeader>() };
        let base_ns = clock::boot_ns();
        // ORDERING: Relaxed, published by the Release store of magic, which pairs with the Acquire
        // in PoolReader::block.
        header.incarnation.store(owner.incarnation, Ordering::Relaxed);
        header.tid.store(owner.tid, Ordering::Relaxed);
        header.lane.store(owner.lane, Ordering::Relaxed);
        header.base_ns.store(base_ns, Ordering::Relaxed);
        for (to, &from) in header.name.iter().zip(owner.name) {
            to.store(from, Ordering::Relaxed);
        }
        header.magic.store(BLOCK_LEASED, Ordering::Release);
        base_ns
    }

    /// Counts a record that was not recorded.
    #[cold]
    pub(crate) fn count_loss(&self, loss: Loss, lane: usize) {
        if let Some(lane) = self.header().dropped.get(lane % LOSS_LANES)
            && let Some(counter) = lane.by_reason.get(loss as usize)
        {
            // ORDERING: Relaxed; a count publishes nothing.
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reserves disk space for a range of the file. True for memory.
    fn back(&self, offset: usize, len: usize) -> bool {
        let Some(file) = &self.file else { return true };
        reserve(file, offset, len)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.unmap {
            return;
        }
        // SAFETY: the mapping was made by `create` and nobody uses it any more: the creator drops
        // a pool only after the writers have left (session::close) or never.
        unsafe { libc::munmap(self.base.cast(), self.mapped_bytes) };
    }
}

/// Who leases a block.
pub(crate) struct Owner<'a> {
    pub(crate) incarnation: u32,
    pub(crate) tid: i32,
    pub(crate) lane: u8,
    pub(crate) name: &'a [u8; NAME_BYTES],
}

fn create_file(path: &Path, bytes: usize) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| Error::Io { what: "create", path: path.to_owned(), source })?;
    file.set_len(bytes as u64).map_err(|source| Error::Io {
        what: "size",
        path: path.to_owned(),
        source,
    })?;
    Ok(file)
}

fn map(bytes: usize, file: Option<&File>) -> Result<*mut PoolHeader, Error> {
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED | libc::MAP_NORESERVE, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(Error::io("map the recorder's memory", "(mmap)"));
    }
    Ok(base.cast())
}

/// Backs a range of `file` with disk space; where the filesystem cannot reserve, by writing zeros.
fn reserve(file: &File, offset: usize, len: usize) -> bool {
    let errno = crate::errno::Saved::now();
    let fd = file.as_raw_fd();
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return false };
    // SAFETY: plain syscall on an open descriptor.
    let mut done = unsafe { libc::fallocate64(fd, 0, offset, len) } == 0;
    if !done && matches!(crate::errno::get(), libc::EOPNOTSUPP | libc::ENOSYS) {
        static ZEROS: [u8; 4096] = [0; 4096];
        done = true;
        let mut at = 0;
        while done && at < len {
            let chunk = usize::try_from(len - at).unwrap_or(0).min(ZEROS.len());
            // SAFETY: the buffer holds `chunk` bytes; the range is new, nothing is overwritten.
            let put = unsafe { libc::pwrite64(fd, ZEROS.as_ptr().cast(), chunk, offset + at) };
            done = put > 0;
            at += i64::try_from(put).unwrap_or(0);
        }
    }
    errno.restore();
    done
}
