//! Shared state for the proxies during a capture: libcutils' variables, from which they see whether a system trace
//! wants records too.
//!
//! Plain atomics in one place, set under the capture's lock before recording opens, read on the
//! app's threads.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use tracetee_hooks::atrace::Atrace;
use tracetee_protocol::recording::PassOnSetting;

/// Maximum number of copies of libcutils (the system's, a vendor's, and some more).
const MAX_COPIES: usize = 4;

/// Rule that decides which records go on to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PassOn {
    /// While a system trace has tags of its own.
    Auto = 0,
    /// Always.
    Always = 1,
    /// Never, not even then.
    Never = 2,
}

/// One copy's variables, and what was put into its tag word.
struct Copy {
    marker_fd: AtomicPtr<AtomicI32>,
    tags: AtomicPtr<AtomicU64>,
    before: AtomicU64,
    forced: AtomicU64,
}

static COPIES: [Copy; MAX_COPIES] = [const {
    Copy {
        marker_fd: AtomicPtr::new(std::ptr::null_mut()),
        tags: AtomicPtr::new(std::ptr::null_mut()),
        before: AtomicU64::new(0),
        forced: AtomicU64::new(0),
    }
}; MAX_COPIES];
static COPY_COUNT: AtomicUsize = AtomicUsize::new(0);
static PASS_ON: AtomicU8 = AtomicU8::new(0);
/// Tags that a system trace had set when the capture started.
static SYSTEM_TAGS: AtomicU64 = AtomicU64::new(0);

/// Bits that do not mean that somebody traces: ALWAYS and NOT_READY.
pub(crate) const IDLE_TAGS: u64 = 1 | 1 << 63;

/// Makes `copies` known to the proxies.
pub(crate) fn set_copies(copies: &[Atrace]) {
    // ORDERING: Relaxed; all of it is published by the count, or earlier by the session.
    for (slot, copy) in COPIES.iter().zip(copies) {
        slot.marker_fd.store(std::ptr::from_ref(copy.marker_fd).cast_mut(), Ordering::Relaxed);
        slot.tags.store(std::ptr::from_ref(copy.tags).cast_mut(), Ordering::Relaxed);
        slot.forced.store(0, Ordering::Relaxed);
    }
    COPY_COUNT.store(copies.len().min(MAX_COPIES), Ordering::Release);
}

/// Remembers what copy `index` held and what was forced on it.
pub(crate) fn set_forced(index: usize, before: u64, forced: u64) {
    if let Some(copy) = COPIES.get(index) {
        copy.before.store(before, Ordering::Relaxed);
        copy.forced.store(forced, Ordering::Relaxed);
    }
}

/// Sets when records are passed on, and the tags a system trace has of its own.
pub(crate) fn set_passing(mode: PassOn, system_tags: u64) {
    SYSTEM_TAGS.store(system_tags & !IDLE_TAGS, Ordering::Relaxed);
    PASS_ON.store(mode as u8, Ordering::Relaxed);
}

/// A system trace has these tags, too.
pub(crate) fn add_system_tags(tags: u64) {
    SYSTEM_TAGS.fetch_or(tags & !IDLE_TAGS, Ordering::Relaxed);
}

/// The tags that a system trace has of its own now.
pub(crate) fn set_system_tags(system_tags: u64) {
    SYSTEM_TAGS.store(system_tags & !IDLE_TAGS, Ordering::Relaxed);
}

fn copies() -> impl Iterator<Item = &'static Copy> {
    // ORDERING: Acquire, pairs with the Release in `set_copies`.
    COPIES.iter().take(COPY_COUNT.load(Ordering::Acquire))
}

/// True if `fd` is the marker of a libcutils, or the −1 of one without a marker.
#[inline]
pub(crate) fn is_libcutils_marker(fd: i32) -> bool {
    copies().any(|copy| {
        // SAFETY: a variable of a libcutils that is never unloaded.
        let marker_fd = unsafe { &*copy.marker_fd.load(Ordering::Relaxed) };
        marker_fd.load(Ordering::Relaxed) == fd
    })
}

/// The marker that a libcutils has open.
pub(crate) fn marker_fd() -> Option<i32> {
    copies()
        .map(|copy| {
            // SAFETY: a variable of a libcutils that is never unloaded.
            let marker_fd = unsafe { &*copy.marker_fd.load(Ordering::Relaxed) };
            marker_fd.load(Ordering::Relaxed)
        })
        .find(|&fd| fd >= 0)
}

/// True if a record for libcutils' marker is passed on to the kernel.
///
/// In mode `Auto`: when a system trace was on at the start, or has replaced the forced tags by
/// tags of its own since.
#[inline]
pub(crate) fn passes_on() -> bool {
    let mode = PASS_ON.load(Ordering::Relaxed);
    if mode == PassOn::Auto as u8 {
        return SYSTEM_TAGS.load(Ordering::Relaxed) != 0
            || copies().any(|copy| {
                let forced = copy.forced.load(Ordering::Relaxed);
                // SAFETY: a variable of a libcutils that is never unloaded.
                let now = unsafe { &*copy.tags.load(Ordering::Relaxed) }.load(Ordering::Relaxed);
                now != forced && now & !IDLE_TAGS != 0
            });
    }
    mode == PassOn::Always as u8
}

/// Puts back the words that still hold what was forced. Atomics only: runs anywhere.
pub(crate) fn give_words_back() {
    for copy in copies() {
        let (before, forced) =
            (copy.before.load(Ordering::Relaxed), copy.forced.load(Ordering::Relaxed));
        if forced != 0 {
            // SAFETY: a variable of a libcutils that is never unloaded.
            let tags = unsafe { &*copy.tags.load(Ordering::Relaxed) };
            let _ = tags.compare_exchange(forced, before, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl From<PassOnSetting> for PassOn {
    fn from(setting: PassOnSetting) -> Self {
        match setting {
            PassOnSetting::Auto => Self::Auto,
            PassOnSetting::Always => Self::Always,
            PassOnSetting::Never => Self::Never,
        }
    }
}
