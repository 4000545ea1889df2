//! The report of a patching pass: one entry for each library and each slot.

use crate::elf::relocation::{SlotKind, Table};
use crate::error::Error;
use std::fmt;

/// The result for one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The slot holds our proxy now.
    Hooked,
    /// The slot holds its former value again.
    Restored,
    /// Another hooker changed the slot after us, so it was not touched. Has the slot's value.
    ChangedByOther(usize),
    /// The slot holds another hooker's function, and each proxy already has a predecessor.
    ChainFull,
    /// The slot holds null: its weak symbol is unresolved.
    Unresolved,
    /// The first call binds the slot, and its target is unknown: the global scope lacks the
    /// symbol, and none or several of the loaded libraries export it.
    NoDefinition,
    /// The slot is not an aligned word in a mapped segment.
    Unreadable,
    /// mprotect failed with this errno (0: the page is not mapped).
    Refused(i32),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hooked => "is hooked",
            Self::Restored => "is restored",
            Self::ChangedByOther(value) => {
                return write!(f, "was changed by another hooker, to {value:#x}");
            }
            Self::ChainFull => "has no proxy left that could call another hooker's function",
            Self::Unresolved => "is an unresolved weak symbol",
            Self::NoDefinition => "is bound by its first call, and has no or several definitions",
            Self::Unreadable => "is not an aligned word in a mapped segment",
            Self::Refused(errno) => return write!(f, "cannot be made writable, errno {errno}"),
        })
    }
}

/// One slot of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotReport {
    /// The symbol.
    pub symbol: &'static str,
    /// The relocation table that lists the slot.
    pub table: Table,
    /// PLT slot, GOT slot or function pointer.
    pub kind: SlotKind,
    /// The address of the slot.
    pub address: usize,
    /// The value of the slot before it was hooked.
    pub old: usize,
    /// The result.
    pub outcome: Outcome,
}

/// One library of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleReport {
    /// Path in the linker's list; empty for the main program on glibc.
    pub path: String,
    /// The library's slots for the hooked symbols.
    pub slots: Vec<SlotReport>,
    /// The reason why the library was skipped; `None` if it was not.
    pub skipped: Option<Skipped>,
}

/// The reason why a library was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// The filter refused the library.
    Filtered,
    /// The library contains the proxies.
    Own,
    /// The library has no dynamic section.
    NoDynamicSection,
    /// The library's ELF structures are malformed.
    Broken(Error),
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filtered => f.write_str("is left out"),
            Self::Own => f.write_str("is the agent"),
            Self::NoDynamicSection => f.write_str("has no dynamic section"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

/// The report of one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The libraries that this pass examined.
    pub modules: Vec<ModuleReport>,
    /// Number of mprotect calls.
    pub protect_calls: u32,
}

impl Report {
    /// Appends the report of a later pass.
    pub(crate) fn append(&mut self, mut later: Self) {
        self.modules.append(&mut later.modules);
        self.protect_calls += later.protect_calls;
    }

    /// Counts the slots with result `outcome`.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.slots().filter(|(_, slot)| slot.outcome == outcome).count()
    }

    /// Iterates over all slots, each with the path of its library.
    pub fn slots(&self) -> impl Iterator<Item = (&str, &SlotReport)> {
        self.modules
            .iter()
            .flat_map(|module| module.slots.iter().map(|slot| (module.path.as_str(), slot)))
    }
}
