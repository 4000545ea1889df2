//! Where captures are kept, and the tables made of them.
//!
//! [`directory`] keeps each capture once, `objects` does on an object store; [`analyser`] makes rows of what comes,
//! beside what serves, and `attempts` knows what was interrupted; [`upkeep`] makes the tables anew, deletes by
//! age, by size and by device.

pub(crate) mod analyser;
mod attempts;
pub(crate) mod directory;
#[cfg(feature = "parquet")]
pub(crate) mod objects;
pub(crate) mod upkeep;

use std::path::{Path, PathBuf};

/// The tables of a store.
pub(crate) fn tables_of(store: &Path) -> PathBuf {
    store.join("tables.sqlite")
}

/// Has all files that this process makes from now on be its user's alone: captures are of people.
pub(crate) fn make_private() {
    // SAFETY: sets a number of this process.
    unsafe { libc::umask(0o077) };
}
