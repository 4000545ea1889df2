//! Writes into GOT slots: the only code of the project that changes another library's memory.
//!
//! Called by [`crate::registry`] alone, under its lock and inside the `dl_iterate_phdr` callback.
//! A page gets PROT_WRITE *added* to what it has (other threads may be executing from it where
//! text and RELRO share a mapping) and exactly its former protection back.

use crate::error::last_errno;
use crate::maps::Maps;
use libc::{PROT_WRITE, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What came of writing one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The slot holds the new value.
    Done,
    /// It no longer held the expected value; it was left alone. Holds what it has now.
    Changed(usize),
    /// The page could not be made writable: errno of mprotect, or 0 when it is not mapped.
    Refused(c_int),
}

/// Reads the pointer in a slot.
///
/// # Safety
/// `slot` is the address of a pointer-aligned word in a segment that stays mapped.
pub(crate) unsafe fn load(slot: usize) -> usize {
    // SAFETY: the caller vouches for the address; the word is only ever accessed atomically by us
    // and by single aligned loads of the code that calls through it.
    let word = unsafe { AtomicUsize::from_ptr(slot as *mut usize) };
    // ORDERING: Relaxed; the value is compared, nothing is read through it.
    word.load(Ordering::Relaxed)
}

/// A run of pages opened for writing; closes when dropped.
pub(crate) struct Unlocked<'a> {
    maps: &'a Maps,
    page_bytes: usize,
    /// The page range that is open now, with the protection to give back.
    open: Option<(usize, usize, c_int)>,
    /// mprotect calls so far.
    protect_calls: u32,
}

impl<'a> Unlocked<'a> {
    pub(crate) fn new(maps: &'a Maps) -> Self {
        Self { maps, page_bytes: page_bytes(), open: None, protect_calls: 0 }
    }

    /// Replaces `expected` by `value` in `slot`.
    ///
    /// # Safety
    /// `slot` is the address of a pointer-aligned word in a segment that stays mapped, and `value`
    /// may be called as what the slot's library believes it to be.
    pub(crate) unsafe fn replace(&mut self, slot: usize, expected: usize, value: usize) -> Written {
        if let Err(errno) = self.open_page_of(slot) {
            return Written::Refused(errno);
        }
        // SAFETY: as the caller says; the page is writable now.
        let word = unsafe { AtomicUsize::from_ptr(slot as *mut usize) };
        // ORDERING: Release, pairs with the dependent load of a caller that jumps through the
        // slot: it sees the proxy's data (its chain's `previous`) as it was before. Relaxed on
        // failure: the value found is only reported.
        match word.compare_exchange(expected, value, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Written::Done,
            Err(now) => Written::Changed(now),
        }
    }

    /// Gives the last pages back; returns how many mprotect calls all of it took.
    pub(crate) fn finish(mut self) -> u32 {
        self.close();
        self.protect_calls
    }

    /// Makes the page of `slot` writable. Slots come sorted, so those of one page share a call.
    fn open_page_of(&mut self, slot: usize) -> Result<(), c_int> {
        let page = slot & !(self.page_bytes - 1);
        if self.open.is_some_and(|(start, end, _)| (start..end).contains(&page)) {
            return Ok(());
        }
        let mapping = self.maps.at(slot).ok_or(0)?;
        if mapping.protection & PROT_WRITE != 0 {
            return Ok(());
        }
        self.close();
        let (start, end) = (page, page + self.page_bytes);
        self.protect(start, end, mapping.protection | PROT_WRITE)?;
        self.open = Some((start, end, mapping.protection));
        Ok(())
    }

    fn close(&mut self) {
        if let Some((start, end, protection)) = self.open.take() {
            // A page that cannot be closed stays writable: nothing breaks, and nothing can be done.
            let _ = self.protect(start, end, protection);
        }
    }

    fn protect(&mut self, start: usize, end: usize, protection: c_int) -> Result<(), c_int> {
        self.protect_calls += 1;
        // SAFETY: whole pages of a mapped library; the protection only gains PROT_WRITE, or goes
        // back to what it was.
        let status = unsafe { libc::mprotect(start as *mut c_void, end - start, protection) };
        if status == 0 { Ok(()) } else { Err(last_errno()) }
    }
}

impl Drop for Unlocked<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

fn page_bytes() -> usize {
    // SAFETY: no arguments beyond a constant.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096).max(4096)
}
