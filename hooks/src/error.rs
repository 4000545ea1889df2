//! The one error type of this crate, and the reasons for which a module or a slot is left alone.
//!
//! Nothing here ends a process: a malformed library becomes a skipped module with a reason, a
//! refused `mprotect` a slot report with an errno.

use std::fmt;

/// What went wrong, with the place or the errno in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An ELF structure reaches outside the loaded segments, or contradicts itself.
    Malformed {
        /// Which structure, in the words of the ELF specification.
        what: &'static str,
        /// The virtual address (or file offset, for a header) where it was read.
        at: u64,
    },
    /// An ELF file of a class, byte order or machine that no Android ABI uses.
    Unsupported {
        /// Which property.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A symbol was found nowhere.
    SymbolNotFound {
        /// The names that were tried.
        symbol: String,
        /// Where they were looked for, in that order.
        searched: Vec<String>,
    },
    /// A system call failed.
    System {
        /// The call and what it was for.
        call: &'static str,
        /// Its errno.
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

/// The errno that the last failed libc call of this thread left.
pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
