//! The error type of this crate.
//!
//! No error ends the process: a malformed library becomes a skipped module with a reason, a
//! refused `mprotect` becomes a slot report with an errno.

use std::fmt;

/// An error, with its place or its errno.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An ELF structure reaches outside the loaded segments, or contradicts itself.
    Malformed {
        /// The structure, in the words of the ELF specification.
        what: &'static str,
        /// The virtual address (or file offset, for a header) where it was read.
        at: u64,
    },
    /// An ELF file of a class, byte order or machine that no Android ABI uses.
    Unsupported {
        /// The unsupported property.
        what: &'static str,
        /// The value of the property.
        value: u64,
    },
    /// No loaded library has the symbol.
    SymbolNotFound {
        /// The names of the symbol that were tried.
        symbol: String,
        /// The places that were searched, in this order.
        searched: Vec<String>,
    },
    /// A system call failed.
    System {
        /// The call and its purpose.
        call: &'static str,
        /// The errno of the call.
        errno: i32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { what, at } => write!(f, "malformed ELF image: {what} at {at:#x}"),
            Self::Unsupported { what, value } => {
                write!(f, "unsupported ELF image: {what} is {value:#x}")
            }
            Self::SymbolNotFound { symbol, searched } => {
                write!(f, "symbol {symbol} not found; searched {}", searched.join(", "))
            }
            Self::System { call, errno } => {
                write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for Error {}

/// Returns the errno of this thread's last failed libc call.
pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
