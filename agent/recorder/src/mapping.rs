//! The pool's memory: private to the process, or in a file.
//!
//! A pool in a file reserves disk space for each page before it is touched: a store to a page without space,
//! on tmpfs even a load, would kill the app with SIGBUS. Without space the record is dropped and counted.

use crate::Error;
use crate::block_lease::Memory;
use crate::clock::{self, Anchor};
use crate::extents::{self, Extents};
use crate::layout::{
    BLOCK_HEADER_WORDS, BLOCKS_OFFSET, BlockHeader, Loss, MAGIC, META_OFFSET, Mode, NAME_BYTES,
    PoolHeader, THREAD_ENTRIES, THREADS_OFFSET, ThreadEntry, VERSION,
};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracetee_os::Owned;

/// The mapped region. Unmapped when dropped, which only its creator may do once no writer is left.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The header, the metadata and the thread entries.
    base: *mut PoolHeader,
    /// The blocks.
    extents: Arc<Extents>,
    block_bytes: usize,
    block_count: u32,
    /// Behind the mapping, when it outlives the process; locked (flock) as long as we live.
    file: Option<Owned<File>>,
    path: Option<PathBuf>,
    /// True if thread entries and blocks get their disk space when they are first used.
    reserves: bool,
    /// True if blocks are filled with zeros for that: the file system cannot reserve space.
    writes_zeros: bool,
    unmap: bool,
}

// SAFETY: the region is shared memory on purpose; every field that two threads touch is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The measures of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// Bytes of all blocks together.
    pub capacity_bytes: u64,
    /// Bytes of a block, a power of two.
    pub block_bytes: u32,
    /// Behaviour when all blocks are in use.
    pub mode: Mode,
    /// File of the pool; `None` for memory.
    pub path: Option<&'a Path>,
    /// The anchors that the counter was measured by, when it is used.
    pub anchors: Option<[Anchor; 2]>,
}

impl Mapping {
    /// Makes the memory of a pool, with its header.
    pub(crate) fn new(shape: &Shape<'_>) -> Result<Self, Error> {
        let mut mapping = Self::create(shape)?;
        mapping.write_header(shape);
        Ok(mapping)
    }

    /// A second owner of the same region, which never unmaps it.
    pub(crate) fn alias(&self) -> Self {
        Self {
            base: self.base,
            extents: Arc::clone(&self.extents),
            block_bytes: self.block_bytes,
            block_count: self.block_count,
            file: None,
            path: self.path.clone(),
            reserves: false,
            writes_zeros: false,
            unmap: false,
        }
    }

    /// Closes the file, whose lock then belongs to other holders of the file; the region stays.
    pub(crate) fn close_file(&mut self) {
        self.file = None;
        self.reserves = false;
        self.writes_zeros = false;
    }

    /// The file; an errno if the program has closed its descriptor, which may refer to another file now.
    fn file(&self) -> Result<Option<&File>, i32> {
        match &self.file {
            None => Ok(None),
            Some(file) => file.if_open().map(Some).ok_or(libc::EBADF),
        }
    }

    /// Calls `back` with the file; true without one, false if the program has closed it. errno is kept.
    fn with_file(&self, back: impl FnOnce(&File) -> bool) -> bool {
        let errno = crate::errno::Saved::now();
        let done = self.file().is_ok_and(|file| file.is_none_or(back));
        errno.restore();
        done
    }

    /// Reserves disk space for the pages of a range. errno is kept.
    fn reserve(&self, offset: usize, bytes: usize) -> bool {
        self.with_file(|file| extents::reserve(file, offset, bytes).is_ok())
    }

    /// Has the kernel map a block's pages in one go; otherwise each would cost a page fault. Before
    /// Linux 5.14 it refuses, and they do. False if touching one would raise SIGBUS. errno is kept.
    fn populate(&self, index: u32) -> bool {
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        let errno = crate::errno::Saved::now();
        let start = self.block(index).cast();
        // SAFETY: pages of our own mapping; their content stays.
        let status = unsafe { libc::madvise(start, self.block_bytes, MADV_POPULATE_WRITE) };
        let done = status == 0 || crate::errno::get() != libc::EFAULT;
        errno.restore();
        done
    }

    /// The file that it is in.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The place of the metadata text, of [`crate::layout::META_BYTES`].
    pub(crate) fn meta(&self) -> *mut u8 {
        self.at(META_OFFSET)
    }

    /// Blocks are mapped and pages touched when a block is leased, unless the mode reuses its blocks:
    /// those are few, and are mapped and backed at once.
    fn create(shape: &Shape<'_>) -> Result<Self, Error> {
        let block_bytes = usize::try_from(shape.block_bytes).unwrap_or(usize::MAX);
        let reuses = shape.mode != Mode::Startup;
        let limit = if shape.path.is_some() { tracetee_os::file_size_limit() } else { u64::MAX };
        let block_count = block_count(shape, limit)?;
        let is_addressable = usize::try_from(block_count)
            .ok()
            .and_then(|count| count.checked_mul(block_bytes)?.checked_add(BLOCKS_OFFSET));
        if is_addressable.is_none() {
            return Err(Error::Capacity);
        }
        let extents = Extents::new(block_count, block_bytes, BLOCKS_OFFSET, reuses);
        let file = shape.path.map(create_file).transpose()?;
        let failed = |what, errno| {
            // Ensures that nobody treats it as a recorder's file.
            let _ = shape.path.map(std::fs::remove_file);
            let path = shape.path.unwrap_or(Path::new("(mmap)")).to_owned();
            Error::Io { what, path, source: std::io::Error::from_raw_os_error(errno) }
        };
        if let Some(file) = &file {
            size(file, &extents, reuses).map_err(|errno| failed("size", errno))?;
        }
        let base = extents::map(BLOCKS_OFFSET, file.as_ref(), 0);
        let base = base.map_err(|errno| failed("map the recorder's memory", errno))?;
        #[allow(clippy::cast_ptr_alignment, reason = "a mapping begins with a page")]
        let base = base.cast::<PoolHeader>();
        let mut mapping = Self {
            base,
            extents: Arc::new(extents),
            block_bytes,
            block_count,
            file: file.map(Owned::new),
            path: shape.path.map(Path::to_owned),
            reserves: shape.path.is_some() && !reuses,
            writes_zeros: false,
            unmap: true,
        };
        let begun = mapping.file().and_then(|file| mapping.extents.begin(file));
        begun.map_err(|errno| failed("map the recorder's memory", errno))?;
        let open = mapping.file().map_err(|errno| failed("reserve space for", errno))?;
        let Some(file) = open else { return Ok(mapping) };
        // Only memory that can be reserved repeatedly without harm is reserved later.
        let [_, all] = mapping.extents.ends();
        let reserved = if reuses { all } else { THREADS_OFFSET + 1 };
        match extents::reserve(file, 0, reserved) {
            Ok(()) => return Ok(mapping),
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => {}
            Err(errno) => return Err(failed("reserve space for", errno)),
        }
        if !write_zeros(file, 0, reserved.max(BLOCKS_OFFSET)) {
            return Err(failed("reserve space for", libc::ENOSPC));
        }
        mapping.reserves = false;
        mapping.writes_zeros = !reuses;
        Ok(mapping)
    }

    fn write_header(&mut self, shape: &Shape<'_>) {
        // SAFETY: the header is at the start of the mapping, which is larger; it is page-aligned and this pool is not shared
        // yet.
        let header = unsafe { &mut *self.base };
        header.version = VERSION;
        header.block_bytes = u32::try_from(self.block_bytes).unwrap_or(0);
        header.block_count = self.block_count;
        header.mode = shape.mode as u32;
        header.pid = std::process::id().cast_signed();
        header.start_boot_ns = clock::boot_ns();
        header.start_real_ns = clock::real_ns();
        header.threads = 1.into();
        if let Some(anchors) = shape.anchors {
            header.set_anchors(anchors);
        }
        // Written last: a file without it belongs to a process that was killed before it recorded anything.
        header.magic = MAGIC;
    }

    pub(crate) fn pool_header(&self) -> &PoolHeader {
        // SAFETY: written by `write_header`; lives as long as the mapping; later changes go
        // through its atomics only.
        unsafe { &*self.base }
    }

    /// All of it, for [`crate::reader::PoolReader`].
    pub(crate) fn region(&self) -> (*const PoolHeader, &Extents) {
        (self.base, &self.extents)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: callers give offsets below BLOCKS_OFFSET.
        unsafe { self.base.cast::<u8>().add(offset) }
    }

    fn block(&self, index: u32) -> *mut u8 {
        self.extents.block(index)
    }
}

impl Memory for Mapping {
    fn count(&self) -> u32 {
        self.block_count
    }

    fn words_per_block(&self) -> u32 {
        u32::try_from(self.block_bytes / 8 - BLOCK_HEADER_WORDS).unwrap_or(0)
    }

    fn header(&self, index: u32) -> &BlockHeader {
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let header = self.block(index).cast::<BlockHeader>();
        // SAFETY: inside the mapping; all fields are atomic and zero-initialised.
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

    fn reach(&self, index: u32) -> Result<(), Loss> {
        self.extents.reach(index, || self.file())?;
        let is_reserved = !self.reserves
            || self.reserve(self.extents.offset_of(index), self.block_bytes)
                && self.populate(index);
        if is_reserved { Ok(()) } else { Err(Loss::CannotGrow) }
    }

    fn back(&self, index: u32) -> bool {
        let offset = self.extents.offset_of(index);
        self.reserves
            || (!self.writes_zeros
                || self.with_file(|file| write_zeros(file, offset, self.block_bytes)))
                && self.populate(index)
    }

    fn count_overwritten(&self, entry: u32, records: u64) {
        if records > 0 {
            // ORDERING: Relaxed; a count does not publish other data.
            self.entry(entry).overwritten.fetch_add(records, Ordering::Relaxed);
        }
    }
}

impl Mapping {
    /// The thread entry `index`, or the first if it is too large.
    pub(crate) fn entry(&self, index: u32) -> &ThreadEntry {
        let index = usize::try_from(index).ok().filter(|&index| index < THREAD_ENTRIES);
        let offset = THREADS_OFFSET + index.unwrap_or(0) * size_of::<ThreadEntry>();
        #[allow(clippy::cast_ptr_alignment, reason = "entries are 64-byte aligned")]
        let entry = self.at(offset).cast::<ThreadEntry>();
        // SAFETY: inside the mapping; all fields are atomic and zero-initialised.
        unsafe { &*entry }
    }

    /// Gives a thread its own entry while there are any.
    pub(crate) fn new_entry(&self, incarnation: u32, tid: i32) -> u32 {
        let threads = &self.pool_header().threads;
        // If another thread is faster, it takes an entry; this happens only a few times.
        let index = loop {
            let index = threads.load(Ordering::Relaxed);
            let offset = THREADS_OFFSET + index as usize * size_of::<ThreadEntry>();
            if index as usize >= THREAD_ENTRIES || self.reserves && !self.reserve(offset, 1) {
                return 0;
            }
            // ORDERING: Release, pairs with the Acquire in `PoolReader::threads`: the entry has its space.
            let (taken, other) = (Ordering::Release, Ordering::Relaxed);
            if threads.compare_exchange_weak(index, index + 1, taken, other).is_ok() {
                break index;
            }
        };
        let entry = self.entry(index);
        entry.tid.store(tid.cast_unsigned(), Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire in `PoolReader::threads`.
        entry.incarnation.store(incarnation, Ordering::Release);
        index
    }

    /// The name that was noted for a thread with its own entry.
    pub(crate) fn name_of(&self, entry: u32) -> Option<[u8; NAME_BYTES]> {
        // ORDERING: Relaxed; written by the thread itself, or as the kernel has it.
        let name = &self.entry(entry).name;
        (entry != 0).then(|| name.each_ref().map(|byte| byte.load(Ordering::Relaxed)))
    }

    /// Notes a thread's name.
    pub(crate) fn name_entry(&self, entry: u32, name: &[u8; NAME_BYTES]) {
        if entry == 0 {
            return;
        }
        for (to, &from) in self.entry(entry).name.iter().zip(name) {
            to.store(from, Ordering::Relaxed);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.unmap {
            return;
        }
        // The mapping was made by `create` and is no longer used: the creator drops a pool only
        // after the writers have left (session::close) or never.
        extents::unmap(self.base.cast(), BLOCKS_OFFSET);
        self.extents.unmap_all();
    }
}

/// Returns the number of blocks of a pool with this shape; fewer if its file may have `limit` bytes at most.
fn block_count(shape: &Shape<'_>, limit: u64) -> Result<u32, Error> {
    let wanted = (shape.capacity_bytes / u64::from(shape.block_bytes)).max(1);
    let fit = limit.saturating_sub(BLOCKS_OFFSET as u64) / u64::from(shape.block_bytes);
    let least = if shape.mode == Mode::Startup { 1 } else { wanted.min(LEAST_REUSED) };
    if fit < least {
        let source = std::io::ErrorKind::FileTooLarge.into();
        let path = shape.path.unwrap_or(Path::new("")).to_owned();
        let what = "fit a recorder into the limit on file size (ulimit -f) at";
        return Err(Error::Io { what, path, source });
    }
    Ok(u32::try_from(wanted.min(fit)).unwrap_or(u32::MAX).min(u32::MAX / 2))
}

/// Sets the size of the file: that of all its blocks, or only of the first, if the file system can extend it later.
fn size(file: &File, extents: &Extents, at_once: bool) -> Result<(), i32> {
    let [first, all] = extents.ends();
    if !at_once {
        match extents::extend(file, first) {
            Err(libc::EOPNOTSUPP | libc::ENOSYS) => {}
            result => return result,
        }
    }
    let sized = tracetee_os::without_write_signals(|| file.set_len(all as u64));
    sized.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

fn create_file(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = tracetee_os::open_with(&options, path).map_err(|source| Error::Io {
        what: "create",
        path: path.to_owned(),
        source,
    })?;
    // Shows that its process is alive, even if the process id was reused. A file system without locks is not an error:
    // recovery then checks only the process id.
    let _ = tracetee_os::try_lock(&file);
    Ok(file)
}

/// Blocks that a mode needs that reuses them, as `config` checks.
const LEAST_REUSED: u64 = 4;

/// Writes zeros to an unused range of `file`, which a file system that cannot reserve space then has. Keeps errno.
fn write_zeros(file: &File, offset: usize, len: usize) -> bool {
    // Atomic, so that it is zeroed memory and no 4 KiB of the library.
    static ZEROS: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
    let errno = crate::errno::Saved::now();
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return false };
    let (mut done, mut at) = (true, 0);
    while done && at < len {
        let chunk = usize::try_from(len - at).unwrap_or(0).min(size_of_val(&ZEROS));
        let written = tracetee_os::without_write_signals_unguarded(|| {
            // SAFETY: the buffer holds `chunk` bytes; the range is new, nothing is overwritten.
            unsafe { libc::pwrite64(file.as_raw_fd(), ZEROS.as_ptr().cast(), chunk, offset + at) }
        });
        done = written > 0;
        at += i64::try_from(written).unwrap_or(0);
    }
    errno.restore();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "maps files")]
    fn a_file_grows_by_4_mib_when_a_block_beyond_it_is_leased() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recorder");
        let shape = Shape {
            capacity_bytes: 64 << 20,
            block_bytes: 65_536,
            mode: Mode::Startup,
            path: Some(&path),
            anchors: None,
        };
        let pool = Mapping::create(&shape).unwrap();
        let mib = || (path.metadata().unwrap().len() - BLOCKS_OFFSET as u64) >> 20;
        let sizes = [0, 63, 64, 200].map(|index| pool.reach(index).map(|()| mib()).ok());
        assert_eq!(sizes, [Some(4), Some(4), Some(8), Some(16)]);
    }

    #[test]
    fn a_file_that_may_have_3_blocks_serves_a_startup_recorder_and_no_ring() {
        let blocks = |mode, limit: usize| {
            let shape = Shape {
                capacity_bytes: 64 * 8192,
                block_bytes: 8192,
                mode,
                path: None,
                anchors: None,
            };
            block_count(&shape, (BLOCKS_OFFSET + limit * 8192) as u64).ok()
        };
        assert_eq!([3, 4, 100].map(|limit| blocks(Mode::Ring, limit)), [None, Some(4), Some(64)]);
        assert_eq!([0, 1].map(|limit| blocks(Mode::Startup, limit)), [None, Some(1)]);
    }
}
