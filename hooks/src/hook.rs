//! What is hooked: a symbol and the functions that stand in for it.

use std::sync::atomic::AtomicUsize;

/// One replacement function, and where it finds the function to pass on to.
///
/// A hook brings several: a slot may have held another hooker's function, and each distinct
/// predecessor needs a proxy of its own to be called back (there is no trampoline that could
/// carry it, as those take writable and executable memory).
#[derive(Debug)]
pub struct Proxy {
    pub(crate) entry: *const (),
    pub(crate) previous: &'static AtomicUsize,
}

// SAFETY: `entry` is the address of a function; it is never read through.
unsafe impl Sync for Proxy {}
// SAFETY: as above.
unsafe impl Send for Proxy {}

impl Proxy {
    /// # Safety
    /// `entry` is a function with the signature of the symbol that it will stand in for; it passes
    /// calls on to the function whose address `previous` holds (0 until the first install).
    #[must_use]
    pub const unsafe fn new(entry: *const (), previous: &'static AtomicUsize) -> Self {
        Self { entry, previous }
    }
}

/// A symbol and the proxies that replace it. The first proxy passes on to the symbol's own
/// definition, each further one to one foreign hooker's function.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    /// The symbol's name, without version.
    pub symbol: &'static str,
    /// At least one proxy.
    pub proxies: &'static [Proxy],
}

/// Decides by path which libraries are hooked; the path is as in [`crate::ModuleReport::path`].
pub type Filter = Box<dyn Fn(&str) -> bool + Send>;
