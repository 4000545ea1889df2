//! Keeps the agent loaded on Android up to API 22. Called by the app's first call, and before the first hook goes in.
//!
//! The proxies, our threads and the destructors of thread states may run after a `dlclose`. The file says that it must not be
//! unloaded (`-z nodelete`, `build.rs`), which linkers up to API 22 ignore: there, references that are never released outlive
//! a program that closes its handle more often than it has opened it.

use std::sync::Once;

/// References that are taken. A program that closes its handle more often than this unloads the agent.
const REFERENCES: u32 = 1000;

/// Takes references to the library that are never released.
pub(crate) fn stay_loaded() {
    static ONCE: Once = Once::new();
    if !cfg!(target_os = "android") {
        return;
    }
    ONCE.call_once(|| {
        let own: *const libc::c_void = (&raw const ONCE).cast();
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: our address, and a Dl_info to fill in.
        if unsafe { libc::dladdr(own, info.as_mut_ptr()) } == 0 {
            return;
        }
        // SAFETY: all zeros is a valid Dl_info, and dladdr has filled it in.
        let name = unsafe { info.assume_init() }.dli_fname;
        if !name.is_null() {
            for _ in 0..REFERENCES {
                // SAFETY: a NUL-terminated name. The library is loaded: no code of it runs.
                unsafe { libc::dlopen(name, libc::RTLD_NOW) };
            }
        }
    });
}
