//! What a patching pass did: library by library, slot by slot.

use crate::elf::relocation::{SlotKind, Table};
use crate::error::Error;

/// What was done with one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Ours now.
    Hooked,
    /// Given back.
    Restored,
    /// Not ours any more: somebody changed it after us. Left alone; holds its value.
    ChangedByOther(usize),
    /// It names another hooker's function and all proxies have a predecessor already.
    ChainFull,
    /// It holds null: an unresolved weak symbol.
    Unresolved,
    /// It is bound by its first call, and where that would lead is not known: the global scope
    /// lacks the symbol, and not exactly one loaded library exports it.
    NoDefinition,
    /// It is not an aligned word of a mapped segment.
    Unreadable,
    /// mprotect refused with this errno (0: the page is not mapped).
    Refused(i32),
}

/// One slot of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotReport {
    /// The symbol.
    pub symbol: &'static str,
    /// The relocation table that names the slot.
    pub table: Table,
    /// PLT slot, GOT slot or function pointer.
    pub kind: SlotKind,
    /// Its address.
    pub address: usize,
    /// What it held before us.
    pub old: usize,
    /// What was done.
    pub outcome: Outcome,
}

/// One library of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleReport {
    /// Path as the linker has it; empty for the main program on glibc.
    pub path: String,
    /// Its slots for the hooked symbols.
    pub slots: Vec<SlotReport>,
    /// Why it was not looked at, if so.
    pub skipped: Option<Skipped>,
}

/// Why a library was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// The filter said no.
    Filtered,
    /// It is the library that holds the proxies.
    Own,
    /// It has no dynamic section.
    NoDynamicSection,
    /// Its structures are broken.
    Broken(Error),
}

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The libraries that were looked at in this pass.
    pub modules: Vec<ModuleReport>,
    /// Calls of mprotect.
    pub protect_calls: u32,
}

impl Report {
    /// Adds a later pass.
    pub(crate) fn append(&mut self, mut later: Self) {
        self.modules.append(&mut later.modules);
        self.protect_calls += later.protect_calls;
    }

    /// How many slots came to `outcome`.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.slots().filter(|(_, slot)| slot.outcome == outcome).count()
    }

    /// Every slot with the path of its library.
    pub fn slots(&self) -> impl Iterator<Item = (&str, &SlotReport)> {
        self.modules
            .iter()
            .flat_map(|module| module.slots.iter().map(|slot| (module.path.as_str(), slot)))
    }
}
