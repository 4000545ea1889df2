//! The word in which the C library keeps the calling thread's value of our pthread key: a record reads it without
//! a call of `pthread_getspecific`, which takes 20 instructions.
//!
//! glibc (`struct pthread`) and bionic (`bionic_tls`, from API 29 on) store for each key the key's sequence number, followed
//! by the value. [`find`] looks for both, once, by setting two values through `pthread_setspecific`. [`value`] then does
//! what `pthread_getspecific` does: a value under another sequence number is that of a former key. Setting the value, and
//! the destructor at a thread's end, remain with the library. Where the word is not found (another processor or library,
//! bionic up to API 28, a key beyond glibc's first 32), `value` is null, and the caller asks `pthread_getspecific`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The key's sequence number; 0 while its slot is not known: no key in use has it.
static SEQUENCE: AtomicUsize = AtomicUsize::new(0);
/// Distance of the sequence number from where [`base`] points.
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Size of the memory that is searched for the value, from [`base`] on: glibc's `struct pthread` has 2304 bytes, of which
/// the first keys' values end at 1296. bionic's `bionic_tls` begins with 130 keys, 2080 bytes.
const SEARCHED_BYTES: usize = 2080;

/// True if [`base`] can be read.
const IS_KNOWN: bool = !cfg!(miri)
    && cfg!(any(
        all(target_arch = "x86_64", any(target_env = "gnu", target_os = "android")),
        all(target_arch = "aarch64", target_os = "android")
    ));

/// The address of the structure with the values, from the thread pointer's slot. On glibc that is the thread pointer
/// itself; bionic has slot 9, or −1 on ARM, for it (`TLS_SLOT_BIONIC_TLS`). Before API 29 anything may be there.
#[inline(always)]
fn base() -> usize {
    let base: usize;
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    // SAFETY: reads the word that the processor's ABI has at the thread pointer.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) base, options(nostack, readonly, preserves_flags));
    }
    #[cfg(all(target_arch = "x86_64", target_os = "android"))]
    // SAFETY: a slot, or the memory after fewer slots in the same structure.
    unsafe {
        std::arch::asm!("mov {}, fs:[72]", out(reg) base, options(nostack, readonly, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", target_os = "android"))]
    // SAFETY: a slot, or the memory before the slots in the same structure.
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "ldur {0}, [{0}, #-8]",
            out(reg) base,
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(not(any(
        all(target_arch = "x86_64", any(target_env = "gnu", target_os = "android")),
        all(target_arch = "aarch64", target_os = "android")
    )))]
    {
        base = 0;
    }
    base
}

/// The calling thread's value; null if it has none, or if its location is unknown.
#[inline(always)]
pub(super) fn value() -> *const c_void {
    if !IS_KNOWN {
        return std::ptr::null();
    }
    // ORDERING: Relaxed, both; a record sees them with its session, which follows `find`.
    let sequence = SEQUENCE.load(Ordering::Relaxed);
    // On bionic, nothing may be read there until the sequence number is known. On glibc the slot of offset 0 begins with the
    // thread pointer, which is not a sequence number.
    if cfg!(target_os = "android") && sequence == 0 {
        return std::ptr::null();
    }
    let address = base() + OFFSET.load(Ordering::Relaxed);
    let slot = std::ptr::with_exposed_provenance::<[usize; 2]>(address);
    // SAFETY: `find` has seen this slot; the thread's own memory, and each thread has the structure while it runs code
    // of the program.
    let [found, value] = unsafe { slot.read_volatile() };
    if found == sequence { std::ptr::with_exposed_provenance(value) } else { std::ptr::null() }
}

/// Looks for the slot of `key`, which was just made. Leaves the calling thread's value null.
pub(super) fn find(key: libc::pthread_key_t) {
    if !IS_KNOWN || !is_searchable() {
        return;
    }
    // Two addresses that no other thread-specific value has.
    static VALUES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    let found = VALUES.each_ref().map(|value| {
        // SAFETY: a valid key.
        let status = unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(value).cast()) };
        if status == 0 { slot_with(std::ptr::from_ref(value).expose_provenance()) } else { None }
    });
    // SAFETY: as above.
    let status = unsafe { libc::pthread_setspecific(key, std::ptr::null()) };
    if let [Some(first), Some(second)] = found
        && first == second
        && status == 0
    {
        let (offset, sequence) = first;
        OFFSET.store(offset, Ordering::Relaxed);
        // ORDERING: Release, for the offset; see `value`.
        SEQUENCE.store(sequence, Ordering::Release);
    }
}

/// After `pthread_setspecific` with `state`: gives up the slot, for all threads, if it does not contain `state`.
pub(super) fn check(state: *const c_void) {
    if !std::ptr::eq(value(), state) {
        // ORDERING: Relaxed; see `value`.
        SEQUENCE.store(0, Ordering::Relaxed);
    }
}

/// True if the kernel can read what [`slot_with`] looks at. A page at a time.
fn is_searchable() -> bool {
    let base = base();
    base != 0
        && base.is_multiple_of(align_of::<usize>())
        && crate::readable::is_readable(base, SEARCHED_BYTES)
}

/// Distance from [`base`], and sequence number, of the only slot with that value.
fn slot_with(value: usize) -> Option<(usize, usize)> {
    const WORD: usize = size_of::<usize>();
    let base = base();
    let word = |offset: usize| {
        let word = std::ptr::with_exposed_provenance::<usize>(base + offset);
        // SAFETY: `is_searchable` has checked it.
        unsafe { word.read_volatile() }
    };
    let mut slots = (WORD..SEARCHED_BYTES).step_by(WORD).filter(|&offset| word(offset) == value);
    let offset = slots.next()? - WORD;
    let sequence = word(offset);
    (slots.next().is_none() && sequence != 0).then_some((offset, sequence))
}
