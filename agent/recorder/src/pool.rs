//! The pool: the blocks that are leased from one region, and the region's header.
//!
//! Created by the thread that starts a capture; leased from by the app's threads.

use crate::Error;
use crate::block_lease::Blocks;
use crate::clock::Anchor;
use crate::layout::{Loss, META_BYTES, PoolHeader};
use crate::mapping::Mapping;
use std::path::Path;
use std::sync::atomic::Ordering;

pub use crate::mapping::Shape;

/// A pool and its blocks.
#[derive(Debug)]
pub struct Pool {
    pub(crate) blocks: Blocks<Mapping>,
}

impl Pool {
    /// A pool of `shape`.
    pub fn create(shape: &Shape<'_>) -> Result<Self, Error> {
        Ok(Self { blocks: Blocks::new(Mapping::new(shape)?, shape.mode) })
    }

    /// Returns the pool's header.
    pub(crate) fn header(&self) -> &PoolHeader {
        self.blocks.memory.pool_header()
    }

    /// A second owner of the same mapping, for when the first must never unmap it.
    pub fn alias(&self) -> Self {
        Self { blocks: Blocks::new(self.blocks.memory.alias(), self.blocks.mode()) }
    }

    /// Closes the file, whose lock then belongs to other holders of the file; the mapping stays.
    pub fn close_file(&mut self) {
        self.blocks.memory.close_file();
    }

    /// The file that it is in.
    pub fn path(&self) -> Option<&Path> {
        self.blocks.memory.path()
    }

    /// Notes boot time `now_ns` as the end of the recording, unless it has ended before.
    pub fn note_stop(&self, now_ns: u64) {
        let stop = &self.header().stop_boot_ns;
        // ORDERING: Relaxed, both; a time for readers, under the capture's lock.
        if stop.load(Ordering::Relaxed) == 0 {
            stop.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Notes the anchors by which the counter was measured, if none are noted. Called before the clock's choice is in
    /// force; records until then carry boot time.
    pub fn set_anchors(&self, anchors: [Anchor; 2]) {
        self.header().set_anchors(anchors);
    }

    /// Replaces the metadata text, truncated to [`META_BYTES`].
    pub fn set_meta(&self, text: &str) {
        let bytes = text.as_bytes();
        let len = bytes.len().min(META_BYTES);
        let header = self.header();
        // ORDERING: Relaxed and Release: a reader of the length with Acquire sees the text that
        // belongs to it, or length 0 while it changes.
        header.meta_bytes.store(0, Ordering::Relaxed);
        let meta = self.blocks.memory.meta();
        // SAFETY: META_BYTES follow there, and no reader looks while the length is 0.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), meta, len) };
        header.meta_bytes.store(u32::try_from(len).unwrap_or(0), Ordering::Release);
    }

    /// Counts a record that was not recorded, for the thread with that entry.
    #[cold]
    pub(crate) fn count_loss(&self, loss: Loss, entry: u32) {
        self.count_losses(loss, entry, 1);
    }

    /// Counts several such records.
    pub(crate) fn count_losses(&self, loss: Loss, entry: u32, records: u32) {
        if let Some(counter) = self.blocks.memory.entry(entry).dropped.get(loss as usize) {
            // ORDERING: Relaxed; a count publishes nothing.
            counter.fetch_add(records, Ordering::Relaxed);
        }
    }
}
