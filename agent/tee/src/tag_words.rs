//! Shared state for the proxies during a capture: libcutils' variables, from which they see whether a system trace
//! wants records too.
//!
//! Plain atomics in one place, set under the capture's lock before recording opens, read on the
//! app's threads.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use tracetee_hooks::atrace::Atrace;
use tracetee_protocol::recording::PassOnSetting;

/// Maximum number of copies of libcutils (the system's, a vendor's, and some more).
const MAX_COPIES: usize = 4;

/// Rule that decides which records are passed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PassOn {
    /// While a system trace has its own tags.
    Auto = 0,
    /// Always.
    Always = 1,
    /// Never, not even then.
    Never = 2,
}

/// One copy's variables, and the value written to its tag word.
struct Copy {
    marker_fd: AtomicPtr<AtomicI32>,
    tags: AtomicPtr<AtomicU64>,
    before: AtomicU64,
    forced: AtomicU64,
}

/// Everything that a record's path reads, in one cache line if there is one copy.
#[repr(C, align(64))]
struct Words {
    pass_on: AtomicU8,
    /// Tags that a system trace had set when the capture started.
    system_tags: AtomicU64,
    /// The copies; those without are null.
    copies: [Copy; MAX_COPIES],
}

static WORDS: Words = Words {
    pass_on: AtomicU8::new(0),
    system_tags: AtomicU64::new(0),
    copies: [const {
        Copy {
            marker_fd: AtomicPtr::new(std::ptr::null_mut()),
            tags: AtomicPtr::new(std::ptr::null_mut()),
            before: AtomicU64::new(0),
            forced: AtomicU64::new(0),
        }
    }; MAX_COPIES],
};

/// Bits that do not indicate a trace: ALWAYS and NOT_READY.
pub const IDLE_TAGS: u64 = 1 | 1 << 63;

/// Makes `copies` known to the proxies.
pub fn set_copies(copies: &[Atrace]) {
    for (index, slot) in WORDS.copies.iter().enumerate() {
        let (marker_fd, tags) = match copies.get(index) {
            Some(copy) => (std::ptr::from_ref(copy.marker_fd), std::ptr::from_ref(copy.tags)),
            None => (std::ptr::null(), std::ptr::null()),
        };
        slot.forced.store(0, Ordering::Relaxed);
        slot.marker_fd.store(marker_fd.cast_mut(), Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire in `Copy::tags`: `forced` is of this word.
        slot.tags.store(tags.cast_mut(), Ordering::Release);
    }
}

/// Remembers the former value of copy `index` and the forced one.
pub fn set_forced(index: usize, before: u64, forced: u64) {
    if let Some(copy) = WORDS.copies.get(index) {
        copy.before.store(before, Ordering::Relaxed);
        copy.forced.store(forced, Ordering::Relaxed);
    }
}

/// Sets when records are passed on, and the tags of a system trace.
pub fn set_passing(mode: PassOn, system_tags: u64) {
    WORDS.system_tags.store(system_tags & !IDLE_TAGS, Ordering::Relaxed);
    WORDS.pass_on.store(mode as u8, Ordering::Relaxed);
}

/// A system trace has these tags, too.
pub fn add_system_tags(tags: u64) {
    WORDS.system_tags.fetch_or(tags & !IDLE_TAGS, Ordering::Relaxed);
}

/// The current tags of a system trace.
pub fn set_system_tags(system_tags: u64) {
    WORDS.system_tags.store(system_tags & !IDLE_TAGS, Ordering::Relaxed);
}

impl Copy {
    /// The copy's marker; `None` without a copy.
    #[inline]
    fn marker_fd(&self) -> Option<i32> {
        // ORDERING: Relaxed; the variable was there before the agent, and is never unloaded.
        let marker_fd = self.marker_fd.load(Ordering::Relaxed);
        // SAFETY: null, or a variable of a libcutils that is never unloaded.
        unsafe { marker_fd.as_ref() }.map(|marker_fd| marker_fd.load(Ordering::Relaxed))
    }

    /// The copy's tag word.
    #[inline]
    fn tags(&self) -> Option<&'static AtomicU64> {
        // ORDERING: Acquire, pairs with the Release in `set_copies`.
        let tags = self.tags.load(Ordering::Acquire);
        // SAFETY: null, or a variable of a libcutils that is never unloaded.
        unsafe { tags.as_ref() }
    }

    /// True if a system trace has replaced the forced tags by its own.
    #[inline]
    fn is_set_otherwise(&self) -> bool {
        self.tags().is_some_and(|tags| {
            let now = tags.load(Ordering::Relaxed);
            now != self.forced.load(Ordering::Relaxed) && now & !IDLE_TAGS != 0
        })
    }
}

/// True if `fd` is the marker of the first libcutils, or the −1 of one without a marker. Ask
/// [`is_other_libcutils_marker`] next.
#[inline]
pub(crate) fn is_libcutils_marker(fd: i32) -> bool {
    let [first, ..] = &WORDS.copies;
    first.marker_fd() == Some(fd)
}

/// True if `fd` is the marker of the first libcutils, and no system trace wants what goes there. `false` is not conclusive:
/// this makes no call, so it does not check further copies.
#[inline(always)]
pub(crate) fn is_spared_marker(fd: i32) -> bool {
    let [first, second, ..] = &WORDS.copies;
    let mode = WORDS.pass_on.load(Ordering::Relaxed);
    first.marker_fd() == Some(fd)
        && (mode == PassOn::Never as u8
            || mode == PassOn::Auto as u8
                && WORDS.system_tags.load(Ordering::Relaxed) == 0
                && !first.is_set_otherwise()
                && second.tags().is_none())
}

/// The same, of the further copies.
#[cold]
#[inline(never)]
pub(crate) fn is_other_libcutils_marker(fd: i32) -> bool {
    WORDS.copies.iter().any(|copy| copy.marker_fd() == Some(fd))
}

/// The marker that a libcutils has open.
pub fn marker_fd() -> Option<i32> {
    WORDS.copies.iter().filter_map(Copy::marker_fd).find(|&fd| fd >= 0)
}

/// True if a record for libcutils' marker is passed on to the kernel.
///
/// In mode `Auto`: when a system trace was on at the start, or has since replaced the forced tags by its own.
#[inline]
#[must_use]
pub fn passes_on() -> bool {
    let mode = WORDS.pass_on.load(Ordering::Relaxed);
    if mode == PassOn::Never as u8 {
        return false;
    }
    mode == PassOn::Always as u8
        || WORDS.system_tags.load(Ordering::Relaxed) != 0
        || is_set_otherwise()
}

/// True if a system trace has replaced forced tags by its own.
#[inline]
fn is_set_otherwise() -> bool {
    let [first, second, ..] = &WORDS.copies;
    first.is_set_otherwise() || second.tags().is_some() && is_set_otherwise_in_others()
}

#[cold]
#[inline(never)]
fn is_set_otherwise_in_others() -> bool {
    WORDS.copies.iter().any(Copy::is_set_otherwise)
}

/// Restores the words that still have the forced value. Uses only atomics, so it can run anywhere.
pub fn give_words_back() {
    for copy in &WORDS.copies {
        let (before, forced) =
            (copy.before.load(Ordering::Relaxed), copy.forced.load(Ordering::Relaxed));
        if forced != 0
            && let Some(tags) = copy.tags()
        {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_hooks::atrace::FoundBy;

    static TAGS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    static MARKERS: [AtomicI32; 3] = [AtomicI32::new(7), AtomicI32::new(-1), AtomicI32::new(9)];

    fn copy(index: usize) -> Atrace {
        Atrace {
            tags: &TAGS[index],
            marker_fd: &MARKERS[index],
            setup: None,
            get_enabled_tags: None,
            update_tags: None,
            found_by: FoundBy::MainProgram,
        }
    }

    fn is_marker(fd: i32) -> bool {
        is_libcutils_marker(fd) || is_other_libcutils_marker(fd)
    }

    #[test]
    fn each_copy_has_its_marker_and_its_tags_and_none_is_left_of_an_earlier_capture() {
        set_passing(PassOn::Auto, IDLE_TAGS);
        assert!(!is_marker(7) && !is_marker(-1) && !passes_on() && marker_fd().is_none());
        set_copies(&[copy(0), copy(1), copy(2)]);
        assert!(is_marker(7) && is_marker(-1) && is_marker(9) && !is_marker(8));
        assert_eq!(marker_fd(), Some(7));
        for (index, tags) in TAGS.iter().enumerate() {
            set_forced(index, 1, 0x1001);
            tags.store(0x1001, Ordering::Relaxed);
        }
        assert!(!passes_on(), "the forced tags are in place");
        for tags in &TAGS {
            tags.store(1, Ordering::Relaxed);
            assert!(!passes_on(), "the system has reset them");
            tags.store(0x81, Ordering::Relaxed);
            assert!(passes_on(), "a system trace has tags of its own");
            set_passing(PassOn::Never, 0);
            assert!(!passes_on());
            set_passing(PassOn::Auto, 0);
            tags.store(0x1001, Ordering::Relaxed);
        }
        add_system_tags(0x80);
        assert!(passes_on(), "a system trace was on before");
        give_words_back();
        assert!(TAGS.iter().all(|tags| tags.load(Ordering::Relaxed) == 1));
        set_system_tags(0);
        set_copies(&[copy(2)]);
        assert!(is_marker(9) && !is_marker(7) && !is_marker(-1));
        TAGS[0].store(0x81, Ordering::Relaxed);
        assert!(!passes_on(), "of a copy that is not known any more");
        set_copies(&[]);
        assert!(!is_marker(9) && marker_fd().is_none());
    }
}
