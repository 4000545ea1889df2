//! Writes into GOT slots: the only code of the project that changes another library's memory.
//!
//! Called only by [`crate::registry`], under its lock and inside the `dl_iterate_phdr` callback.
//! It adds PROT_WRITE to a page's protection (other threads may execute from the page if text and
//! RELRO share a mapping), and restores exactly the former protection afterwards.

use crate::error::last_errno;
use crate::maps::Maps;
use libc::{PROT_WRITE, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use tracetee_os::guard;

/// Result of a write to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The slot holds the new value.
    Done,
    /// The slot did not have the expected value and was not changed. Has its current value.
    Changed(usize),
    /// The page could not be made writable: errno of mprotect, or 0 if it is not mapped.
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
    // ORDERING: Relaxed; the value is only compared, not dereferenced.
    word.load(Ordering::Relaxed)
}

/// Calls `body`, which may replace slots, and restores the protection of the pages that it has opened, also
/// after a panic. Returns its result and the number of mprotect calls.
pub(crate) fn unlocking<T>(maps: &Maps, body: impl FnOnce(&mut Unlocked<'_>) -> T) -> (T, u32) {
    let page_bytes = page_bytes();
    let mut unlocked = Unlocked { maps, page_bytes, open: None, protect_calls: 0 };
    let done = guard::catch(|| body(&mut unlocked));
    unlocked.close();
    let done = done.unwrap_or_else(|caught| caught.resume());
    (done, unlocked.protect_calls)
}

/// A run of pages that is writable until [`unlocking`] returns.
pub(crate) struct Unlocked<'a> {
    maps: &'a Maps,
    page_bytes: usize,
    /// The page range that is writable now, with the protection to restore.
    open: Option<(usize, usize, c_int)>,
    /// Number of mprotect calls so far.
    protect_calls: u32,
}

impl Unlocked<'_> {
    /// Replaces `expected` by `value` in `slot`.
    ///
    /// # Safety
    /// `slot` is the address of a pointer-aligned word in a segment that stays mapped, and `value` has the function type
    /// that the slot's library expects.
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

    /// Makes the page of `slot` writable. Slots are sorted, so those of one page share a call.
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
            // A page that cannot be made read-only again stays writable, which is harmless.
            let _ = self.protect(start, end, protection);
        }
    }

    fn protect(&mut self, start: usize, end: usize, protection: c_int) -> Result<(), c_int> {
        self.protect_calls += 1;
        // SAFETY: whole pages of a mapped library; the protection only gains PROT_WRITE, or returns to its former value.
        let status = unsafe { libc::mprotect(start as *mut c_void, end - start, protection) };
        if status == 0 { Ok(()) } else { Err(last_errno()) }
    }
}

fn page_bytes() -> usize {
    // SAFETY: no arguments beyond a constant.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096).max(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_EXEC, PROT_READ};

    fn protection_of(address: usize) -> c_int {
        Maps::read().unwrap().at(address).unwrap().protection
    }

    #[test]
    fn a_page_has_write_permission_added_while_it_is_open_and_its_own_protection_afterwards() {
        let bytes = page_bytes();
        for own in [PROT_READ, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE] {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS;
            // SAFETY: new memory that no other code uses.
            let page = unsafe { libc::mmap(std::ptr::null_mut(), bytes, own, flags, -1, 0) };
            assert_ne!(page, MAP_FAILED);
            let slot = page as usize + 8;
            let maps = Maps::read().unwrap();
            let ((), protect_calls) = unlocking(&maps, |unlocked| {
                // SAFETY: an aligned word of our page, which holds 0 and is never called.
                assert_eq!(unsafe { unlocked.replace(slot, 0, 7) }, Written::Done);
                assert_eq!(protection_of(slot), own | PROT_WRITE);
            });
            assert_eq!(protect_calls, if own & PROT_WRITE == 0 { 2 } else { 0 });
            assert_eq!(protection_of(slot), own);
            let left = guard::catch(|| {
                unlocking(&maps, |unlocked| {
                    // SAFETY: as above.
                    unsafe { unlocked.replace(slot, 7, 7) };
                    panic!("planted");
                })
            });
            assert!(left.is_err());
            assert_eq!(protection_of(slot), own, "after a panic");
            // SAFETY: as above.
            assert_eq!(unsafe { load(slot) }, 7);
            // SAFETY: our page, no longer used.
            unsafe { libc::munmap(page, bytes) };
        }
    }
}
