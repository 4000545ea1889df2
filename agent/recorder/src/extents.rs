//! Maps a pool's blocks in pieces, each when its first block is leased.
//!
//! A mapping of a startup recorder's whole capacity (4 GiB by `tracetee run`) would count against RLIMIT_AS, and a program
//! that lowers it later could map nothing more. A mapped piece stays in place until the pool is unmapped, so writers and
//! readers keep plain pointers into it. Growing takes no lock: it runs on the app's threads, in signal handlers too.

use crate::errno;
use crate::layout::Loss;
use std::fs::File;
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of a piece, at least one block.
const EXTENT_BYTES: usize = 4 << 20;

/// The pieces.
#[derive(Debug)]
pub(crate) struct Extents {
    /// The start of each, null before it is mapped. A later one is mapped after all earlier ones.
    starts: Box<[AtomicPtr<u8>]>,
    blocks_each: NonZeroU32,
    block_bytes: usize,
    block_count: u32,
    /// Offset of the first block in the file.
    file_offset: usize,
}

impl Extents {
    /// Makes extents of `block_count` blocks; maps them as one piece if `at_once`.
    pub(crate) fn new(
        block_count: u32,
        block_bytes: usize,
        file_offset: usize,
        at_once: bool,
    ) -> Self {
        let each = u32::try_from(EXTENT_BYTES / block_bytes).unwrap_or(1).max(1);
        let blocks_each = if at_once { block_count } else { each.min(block_count) };
        let blocks_each = NonZeroU32::new(blocks_each).unwrap_or(NonZeroU32::MIN);
        let count = block_count.div_ceil(blocks_each.get());
        let starts = (0..count).map(|_| AtomicPtr::default()).collect();
        Self { starts, blocks_each, block_bytes, block_count, file_offset }
    }

    /// The start of a block that exists according to [`Extents::reach`].
    pub(crate) fn block(&self, index: u32) -> *mut u8 {
        let start = self.starts.get((index / self.blocks_each) as usize);
        // ORDERING: Acquire, pairs with the Release of `map_extent`: the mapping is there.
        let start = start.map_or(std::ptr::null_mut(), |start| start.load(Ordering::Acquire));
        debug_assert!(!start.is_null(), "block {index} is not mapped");
        start.wrapping_add((index % self.blocks_each) as usize * self.block_bytes)
    }

    /// Returns the number of mapped blocks: all below that index.
    pub(crate) fn mapped_blocks(&self) -> u32 {
        // ORDERING: Acquire; as in `block`.
        let is_mapped = |start: &&AtomicPtr<u8>| !start.load(Ordering::Acquire).is_null();
        let mapped = self.starts.iter().take_while(is_mapped).count();
        u32::try_from(mapped)
            .unwrap_or(0)
            .saturating_mul(self.blocks_each.get())
            .min(self.block_count)
    }

    /// Returns the offset of a block in the file.
    pub(crate) fn offset_of(&self, index: u32) -> usize {
        self.file_offset + index as usize * self.block_bytes
    }

    /// Maps the block, if it is not, and makes the file that `file` gives as large as that needs. Fails when the
    /// process may have no more memory, the file not be larger, or `file` fails with an errno. errno is kept.
    pub(crate) fn reach<'a>(
        &self,
        index: u32,
        file: impl FnOnce() -> Result<Option<&'a File>, i32>,
    ) -> Result<(), Loss> {
        let extent = index / self.blocks_each;
        // ORDERING: Acquire; as in `block`.
        let start = self.starts.get(extent as usize).map(|start| start.load(Ordering::Acquire));
        if start.is_some_and(|start| !start.is_null()) {
            return Ok(());
        }
        let saved = errno::Saved::now();
        let done =
            file().and_then(|file| (0..=extent).try_for_each(|at| self.map_extent(at, file)));
        saved.restore();
        done.map_err(|errno| match errno {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Loss::CannotGrow,
            _ => Loss::PoolFull,
        })
    }

    /// Maps the first piece. Fails with an errno.
    pub(crate) fn begin(&self, file: Option<&File>) -> Result<(), i32> {
        self.map_extent(0, file)
    }

    /// Returns the file's size with one mapped piece, and with all.
    pub(crate) fn ends(&self) -> [usize; 2] {
        [self.offset_of(0) + self.bytes_of(0), self.offset_of(self.block_count)]
    }

    fn map_extent(&self, extent: u32, file: Option<&File>) -> Result<(), i32> {
        let Some(start) = self.starts.get(extent as usize) else { return Err(libc::EINVAL) };
        // ORDERING: Acquire; as in `block`.
        if !start.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let offset = self.offset_of(extent * self.blocks_each.get());
        let bytes = self.bytes_of(extent);
        if let Some(file) = file {
            extend(file, offset + bytes)?;
        }
        let mapped = map(bytes, file, offset)?;
        // ORDERING: Release, pairs with the Acquire of `block`. Failure: another thread was
        // quicker, and its mapping is used.
        let exchanged = start.compare_exchange(
            std::ptr::null_mut(),
            mapped,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if exchanged.is_err() {
            unmap(mapped, bytes);
        }
        Ok(())
    }

    fn bytes_of(&self, extent: u32) -> usize {
        let first = extent * self.blocks_each.get();
        self.blocks_each.get().min(self.block_count - first) as usize * self.block_bytes
    }

    /// Unmaps all pieces. They must no longer be used.
    pub(crate) fn unmap_all(&self) {
        for (extent, start) in (0u32..).zip(&self.starts) {
            // ORDERING: Relaxed; the caller is the last user.
            let start = start.swap(std::ptr::null_mut(), Ordering::Relaxed);
            if !start.is_null() {
                unmap(start, self.bytes_of(extent));
            }
        }
    }
}

/// Makes the file at least `bytes` long, never shorter, and changes nothing in it, whichever thread
/// extends it meanwhile. Fails with an errno.
pub(crate) fn extend(file: &File, bytes: usize) -> Result<(), i32> {
    // SAFETY: an all-zero stat64 is a valid value of a plain C structure.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and a place to write to.
    if unsafe { libc::fstat64(file.as_raw_fd(), &raw mut stat) } != 0 {
        return Err(errno::get());
    }
    let has = u64::try_from(stat.st_size).unwrap_or(0);
    if has >= bytes as u64 {
        return Ok(());
    }
    if bytes as u64 > tracetee_os::file_size_limit() {
        return Err(libc::EFBIG);
    }
    let last = libc::off64_t::try_from(bytes - 1).map_err(|_| libc::EFBIG)?;
    // The limit may have been lowered this moment.
    tracetee_os::without_write_signals_unguarded(|| {
        // SAFETY: plain system call on an open descriptor.
        match unsafe { libc::fallocate64(file.as_raw_fd(), 0, last, 1) } {
            0 => Ok(()),
            _ => Err(errno::get()),
        }
    })
}

/// Multiple of every page size: a page of which a part has no space must not be written to either.
pub(crate) const LARGEST_PAGE: usize = 16 << 10;
/// Number of attempts while signals interrupt the call.
const MAX_ATTEMPTS: u32 = 16;

/// Reserves disk space for all pages of a range; their contents and the file's size stay unchanged. Fails with an errno.
pub(crate) fn reserve(file: &File, offset: usize, bytes: usize) -> Result<(), i32> {
    let start = offset / LARGEST_PAGE * LARGEST_PAGE;
    let bytes = (offset + bytes).next_multiple_of(LARGEST_PAGE) - start;
    let start = libc::off64_t::try_from(start).map_err(|_| libc::EFBIG)?;
    let bytes = libc::off64_t::try_from(bytes).map_err(|_| libc::EFBIG)?;
    for _ in 0..MAX_ATTEMPTS {
        const KEEP_SIZE: libc::c_int = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: plain system call on an open descriptor.
        if unsafe { libc::fallocate64(file.as_raw_fd(), KEEP_SIZE, start, bytes) } == 0 {
            return Ok(());
        }
        if errno::get() != libc::EINTR {
            break;
        }
    }
    Err(errno::get())
}

/// Maps `bytes` of `file` from `offset` on, or of memory. Fails with an errno.
pub(crate) fn map(bytes: usize, file: Option<&File>, offset: usize) -> Result<*mut u8, i32> {
    let (flags, fd, offset) = match file {
        Some(file) => (libc::MAP_SHARED | libc::MAP_NORESERVE, file.as_raw_fd(), offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
    };
    let offset = libc::off_t::try_from(offset).map_err(|_| libc::EOVERFLOW)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, offset) };
    if base == libc::MAP_FAILED {
        return Err(errno::get());
    }
    if file.is_some() {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        read_nothing_ahead(base, bytes.min(FIRST_BYTES.saturating_sub(start)));
    }
    Ok(base.cast())
}

/// The first part of a recorder's file, in which a page fault brings in one page.
pub(super) const FIRST_BYTES: usize = 1 << 20;

/// Has a page fault in that part bring in one page. The kernel would read ahead, as far as the device says (8 MB on some):
/// pages of zeros, because the file is sparse, which would cost a short process more than all its other work. A process that
/// records more benefits from reading ahead, so the rest stays unchanged.
pub(super) fn read_nothing_ahead(base: *mut libc::c_void, bytes: usize) {
    // SAFETY: a mapping of ours; only the way in which its pages are loaded changes. If the call is refused, they are loaded
    // as before.
    unsafe { libc::madvise(base, bytes, libc::MADV_RANDOM) };
}

/// Gives a mapping back.
pub(crate) fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: a mapping of `map` of that size, which is no longer used.
    unsafe { libc::munmap(start.cast(), bytes) };
}
