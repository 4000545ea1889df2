//! The error type of this crate.
//!
//! No error ends the process: a malformed library becomes a skipped module with a reason, a
//! refused `mprotect` becomes a slot report with an errno.

/// An error, with its place or its errno.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An ELF structure reaches outside the loaded segments, or contradicts itself.
    #[error("malformed ELF image: {what} at {at:#x}")]
    Malformed {
        /// The structure, in the words of the ELF specification.
        what: &'static str,
        /// The virtual address (or file offset, for a header) of the read.
        at: u64,
    },
    /// An ELF file of a class, byte order or machine that no Android ABI uses.
    #[error("unsupported ELF image: {what} is {value:#x}")]
    Unsupported {
        /// The unsupported property.
        what: &'static str,
        /// The value of the property.
        value: u64,
    },
    /// No loaded library has the symbol.
    #[error("symbol {symbol} not found; searched {}", searched.join(", "))]
    SymbolNotFound {
        /// The names of the symbol that were tried.
        symbol: String,
        /// The places that were searched, in this order.
        searched: Vec<String>,
    },
    /// A system call failed.
    #[error("{call}: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The call and its purpose.
        call: &'static str,
        /// The errno of the call.
        errno: i32,
    },
}

/// Returns the errno of this thread's last failed libc call.
pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
