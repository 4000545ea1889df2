//! Watches for loaded libraries: hooks the functions that load them.
//!
//! The difficulty is that dynamic linkers consider the caller. glibc's `dlopen` searches the RPATHs of the caller and of its
//! loaders, bionic's uses the caller's namespace: a proxy that makes the call from its own address would change the result,
//! and break the app.
//!
//! - Android 8 and later: libdl's `dlopen` passes its caller as an argument of `__loader_dlopen`.
//!   Those slots are hooked, and the argument is passed through.
//! - Android up to 6: there are no namespaces; `dlopen` itself is hooked.
//! - Android 7: neither works. Later libraries are found at the next [`crate::Registry::refresh`],
//!   which the agent calls when a window opens and at regular intervals.
//! - glibc, where the proxies are written in assembly (x86-64, AArch64): if the name is a path without `$`, the caller does
//!   not matter, and the proxy makes the call. Otherwise it jumps to the original, which keeps the caller; the hook on
//!   `dlsym` then finds the library, because an app needs `dlsym` to reach its code, or the next `dlopen` does.
//!
//! All of this runs on the app's threads, inside calls that load libraries. It may allocate and take
//! locks there, but must not wait for our own lock (see [`crate::Registry`]).

use crate::hook::Hook;
use std::sync::OnceLock;
#[cfg(any(target_os = "android", target_arch = "x86_64", target_arch = "aarch64"))]
use tracetee_os::guard;

#[cfg(target_os = "android")]
mod android;
#[cfg(target_os = "android")]
use android as system;
#[cfg(all(not(target_os = "android"), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod glibc;
#[cfg(all(not(target_os = "android"), any(target_arch = "x86_64", target_arch = "aarch64")))]
use glibc as system;

/// The registry's function that looks for new libraries.
static ON_CHANGE: OnceLock<fn()> = OnceLock::new();

/// Makes the hooks call `call` after each load and unload, on the thread that loads.
pub(crate) fn on_change(call: fn()) {
    // The same function each time.
    let _ = ON_CHANGE.set(call);
}

/// Tells the registry that libraries were loaded or unloaded. Never unwinds into the app.
#[cfg(any(target_os = "android", target_arch = "x86_64", target_arch = "aarch64"))]
fn changed() {
    if let Some(&call) = ON_CHANGE.get() {
        let _ = guard::run(call);
    }
}

/// The hooks for this system.
pub(crate) fn hooks() -> &'static [Hook] {
    system::hooks()
}

#[cfg(all(not(target_os = "android"), not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod system {
    use crate::hook::Hook;

    /// No assembly for this machine: later libraries are found at the next refresh.
    pub(super) const fn hooks() -> &'static [Hook] {
        &[]
    }
}
