//! The mark that the agent has panicked: set once, never cleared, with the reason for the health report.

use crate::own_thread::without_signals;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};

const WHOLE: u8 = 0;
/// The reason is being written.
const BREAKING: u8 = 1;
const BROKEN: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(WHOLE);

/// The agent's actions when it is switched off.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// Ends the recording, in the panic hook of the thread that panicked: atomics only.
    pub at_once: fn(),
    /// Restores the remaining state, on a new thread. Takes no lock that the panicked thread may hold.
    pub afterwards: fn(),
}

static ENDING: OnceLock<Ending> = OnceLock::new();

/// Sets what happens when the agent is switched off. The first call decides.
pub fn end_with(ending: Ending) {
    let _ = ENDING.set(ending);
}

/// True if the agent has panicked, and is off for the rest of the process.
#[inline]
#[must_use]
pub fn is_broken() -> bool {
    // ORDERING: Relaxed; readers of the reason check again.
    STATE.load(Ordering::Relaxed) != WHOLE
}

/// True if the caller has to undo the change of the app's state that it has just made (a hooked slot, forced tags): the
/// agent is off, and the state may have been restored before the change. A call that had begun on another thread continues
/// after a panic. If false, the restoring thread sees the change.
#[must_use]
pub fn must_undo() -> bool {
    // ORDERING: SeqCst, pairs with the fence in `mark`: either that thread and those that it starts see the caller's
    // stores, or the caller sees the mark.
    fence(Ordering::SeqCst);
    is_broken()
}

/// The panic that has switched the agent off: its location and its message, cut to 240 bytes.
#[must_use]
pub fn reason() -> Option<&'static str> {
    // ORDERING: Acquire, pairs with the Release in `mark`: the reason is complete.
    match STATE.load(Ordering::Acquire) {
        WHOLE => None,
        BROKEN => {
            // SAFETY: written by one thread before the mark was set, and never again.
            Some(unsafe { &*REASON.0.get() }.text())
        }
        _ => Some(SWITCHED_OFF),
    }
}

const SWITCHED_OFF: &str = "the agent switched itself off after an internal error";
const MAX_REASON_BYTES: usize = 240;

struct Reason {
    bytes: [u8; MAX_REASON_BYTES],
    len: usize,
}

impl Reason {
    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or(SWITCHED_OFF)
    }
}

impl Write for Reason {
    /// Keeps as much as there is room for.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let kept = text.floor_char_boundary(room.len());
        room.iter_mut().zip(text.as_bytes().iter().take(kept)).for_each(|(to, byte)| *to = *byte);
        self.len += kept;
        Ok(())
    }
}

struct Shared(UnsafeCell<Reason>);

// SAFETY: `mark` lets one thread write, before any reads.
unsafe impl Sync for Shared {}

static REASON: Shared = Shared(UnsafeCell::new(Reason { bytes: [0; MAX_REASON_BYTES], len: 0 }));

/// Switches the agent off. Does not allocate, and has no effect the second time.
pub(super) fn mark(what: fmt::Arguments<'_>) {
    // ORDERING: Relaxed; the reason is published below.
    let first =
        STATE.compare_exchange(WHOLE, BREAKING, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if !first {
        return;
    }
    // ORDERING: SeqCst, pairs with the fence in `must_undo`.
    fence(Ordering::SeqCst);
    if let Some(ending) = ENDING.get() {
        (ending.at_once)();
    }
    // SAFETY: only this thread has changed the state, and nobody reads it before the next change.
    let reason = unsafe { &mut *REASON.0.get() };
    let _ = write!(reason, "{SWITCHED_OFF}: {what}");
    // ORDERING: Release, pairs with the Acquire in `reason`.
    STATE.store(BROKEN, Ordering::Release);
}

/// Starts the thread that restores the remaining state, once. Uses the system call, because std may panic on a thread that
/// has panicked. Without a thread the hooks stay, and pass everything on.
pub(super) fn end() {
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed; a flag that publishes nothing.
    if !is_broken() || ENDING.get().is_none() || HAS_ENDED.swap(true, Ordering::Relaxed) {
        return;
    }
    without_signals(|| {
        // SAFETY: an all-zero pthread_t is a valid value, which the call below replaces.
        let mut thread: libc::pthread_t = unsafe { std::mem::zeroed() };
        let (attributes, data) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: a place for the thread, and a start of the right type.
        let status = unsafe { libc::pthread_create(&raw mut thread, attributes, give_back, data) };
        if status == 0 {
            // SAFETY: started above and not shared.
            unsafe { libc::pthread_detach(thread) };
        }
    });
}

extern "C" fn give_back(_: *mut c_void) -> *mut c_void {
    if let Some(ending) = ENDING.get() {
        // A second panic, on this thread: the remaining state is left unchanged.
        let _ = super::catch(ending.afterwards);
    }
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        let mut reason = Reason { bytes: [0; MAX_REASON_BYTES], len: 0 };
        for _ in 0..100 {
            reason.write_str("ab\u{20ac}").unwrap();
        }
        assert_eq!(reason.len, MAX_REASON_BYTES);
        assert!(reason.text().ends_with("ab\u{20ac}"));
        reason.write_str("more").unwrap();
        assert_eq!(reason.len, MAX_REASON_BYTES);
        let mut reason = Reason { bytes: [0; MAX_REASON_BYTES], len: MAX_REASON_BYTES - 2 };
        reason.write_str("\u{20ac}x").unwrap();
        assert_eq!(reason.len, MAX_REASON_BYTES - 2, "what has no room is left out");
    }
}
