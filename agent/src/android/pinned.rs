//! Keeps the agent loaded where the linker does not. Called once, before the first hook goes in.
//!
//! The proxies may be called after a `dlclose`, so the file says that it must not be unloaded
//! (DF_1_NODELETE). Android's linker ignores that up to API 22.

use std::sync::Once;

/// Takes a reference to the library that is never given back.
pub(crate) fn stay_loaded() {
    const OBEYS_NODELETE: u32 = 23;
    static ONCE: Once = Once::new();
    if crate::android::properties::api_level().is_none_or(|level| level >= OBEYS_NODELETE) {
        return;
    }
    ONCE.call_once(|| {
        let own: *const libc::c_void = (&raw const ONCE).cast();
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: an address, and a place for what is known of it.
        if unsafe { libc::dladdr(own, info.as_mut_ptr()) } == 0 {
            return;
        }
        // SAFETY: all zeros is a value of it, and dladdr has written over that.
        let name = unsafe { info.assume_init() }.dli_fname;
        if !name.is_null() {
            // SAFETY: a NUL-terminated name. The library is loaded: no code of it runs.
            unsafe { libc::dlopen(name, libc::RTLD_NOW) };
        }
    });
}
