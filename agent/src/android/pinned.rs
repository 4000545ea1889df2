//! Keeps the agent loaded where the linker does not. Called once, before the first hook goes in.
//!
//! The proxies may be called after a `dlclose`, so the file says that it must not be unloaded
//! (DF_1_NODELETE). Old linkers of Android ignore that.

use super::quirks::LINKER_IGNORES_NODELETE;
use std::sync::Once;

/// Takes a reference to the library that is never released.
pub(crate) fn stay_loaded() {
    static ONCE: Once = Once::new();
    if !LINKER_IGNORES_NODELETE.applies() {
        return;
    }
    ONCE.call_once(|| {
        let own: *const libc::c_void = (&raw const ONCE).cast();
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: an address of ours, and a Dl_info to fill in.
        if unsafe { libc::dladdr(own, info.as_mut_ptr()) } == 0 {
            return;
        }
        // SAFETY: all zeros is a valid Dl_info, and dladdr has filled it in.
        let name = unsafe { info.assume_init() }.dli_fname;
        if !name.is_null() {
            // SAFETY: a NUL-terminated name. The library is loaded: no code of it runs.
            unsafe { libc::dlopen(name, libc::RTLD_NOW) };
        }
    });
}
