//! A hook: a symbol and the functions that replace it.

use std::sync::atomic::AtomicUsize;

/// A replacement function, and the variable that holds the function it calls on.
///
/// A hook has several: a slot may have held another hooker's function, and each distinct
/// predecessor needs its own proxy. (A trampoline could carry the predecessor instead, but needs
/// memory that is both writable and executable.)
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
    /// Makes a proxy of the function `entry`.
    ///
    /// # Safety
    /// `entry` is a function with the signature of the symbol that it replaces; it passes
    /// calls on to the function whose address `previous` holds (0 until the first install).
    #[must_use]
    pub const unsafe fn new(entry: *const (), previous: &'static AtomicUsize) -> Self {
        Self { entry, previous }
    }
}

/// The type of the function that a proxy calls on, which may be left by the unwinding of a cancelled thread or of
/// the app's exception.
#[cfg(panic = "unwind")]
#[macro_export]
macro_rules! foreign_fn {
    (fn($($argument:ty),*) $(-> $result:ty)?) => {
        unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?
    };
}

/// The type of the original function that a proxy calls. If panics abort, the compiler would put a landing pad around the
/// call of a `C-unwind` function that ends the process, even when a cancelled thread unwinds. A call of a `C` function has
/// none, so unwinding passes the proxy's frame, in which no destructor waits.
#[cfg(panic = "abort")]
#[macro_export]
macro_rules! foreign_fn {
    (fn($($argument:ty),*) $(-> $result:ty)?) => {
        unsafe extern "C" fn($($argument),*) $(-> $result)?
    };
}

/// When to hook libraries that are loaded later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// When they are loaded. This hooks the loading functions.
    Watch,
    /// When [`crate::Registry::refresh`] is called.
    OnRefresh,
}

/// A symbol and the proxies that replace it. The first proxy calls the symbol's own definition,
/// each further one the function of one other hooker.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    /// The name of the symbol, without version.
    pub symbol: &'static str,
    /// The proxies, at least one.
    pub proxies: &'static [Proxy],
}

/// Decides by path which libraries are hooked; the path is as in [`crate::ModuleReport::path`].
pub type Filter = Box<dyn Fn(&str) -> bool + Send>;
