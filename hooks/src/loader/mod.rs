//! Notices that libraries are loaded: hooks on the functions that load them.
//!
//! The difficulty is that dynamic linkers look at who calls. glibc's `dlopen` searches the
//! caller's RUNPATH, bionic's takes the caller's namespace: a proxy that calls on in its own name
//! would change what is found, and break the app.
//!
//! - Android 8 and later: libdl's `dlopen` passes its caller on as an argument of `__loader_dlopen`.
//!   Those slots are hooked, the argument is passed through.
//! - Android up to 6: there are no namespaces; `dlopen` itself is hooked.
//! - Android 7: neither holds. Later libraries are found at the next [`crate::Registry::refresh`],
//!   which the agent calls at each window's opening and on its looks.
//! - glibc, where the proxies are written in assembly (x86-64, AArch64): when the caller's library
//!   has no RPATH or RUNPATH, or the name has a slash, the caller does not matter, and the proxy
//!   calls on. Else it jumps on, leaving the caller in place; then the library is found by the
//!   hook on `dlsym`, without which its code can hardly be reached.
//!
//! All of this runs on the app's threads, inside calls that load libraries: locks and memory are
//! in order there, waiting for our own lock is not (see [`crate::registry`]).

use crate::hook::Hook;

#[cfg(target_os = "android")]
mod android;
#[cfg(target_os = "android")]
use android as system;
#[cfg(all(not(target_os = "android"), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod glibc;
#[cfg(all(not(target_os = "android"), any(target_arch = "x86_64", target_arch = "aarch64")))]
use glibc as system;

/// The hooks that fit this system.
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
