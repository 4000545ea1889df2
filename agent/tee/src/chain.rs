//! The proxies of one symbol: one for the real function, the others each for one foreign hooker's.

/// Number of proxies of a symbol.
pub(crate) const CHAIN: usize = 4;

/// Declares the proxies of one symbol.
macro_rules! proxies {
    ($function:ident, $previous:ident, $($index:literal)*) => {
        [$(
            // SAFETY: the function has the symbol's signature and passes on to `previous`.
            unsafe { Proxy::new($function::<$index> as *const (), &$previous[$index]) },
        )*]
    };
}

pub(crate) use proxies;
