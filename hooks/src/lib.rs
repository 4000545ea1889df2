//! Hooks functions by the PLT and GOT slots of the libraries that import them.
//!
//! A call from one library to another goes through a slot in the caller's memory. [`Registry`]
//! finds each loaded library ([`loaded`]), reads its relocation tables ([`elf`]), finds every
//! slot of the wanted symbols, and writes a proxy's address there (`slots`, `patch`), with the
//! page's true protection ([`maps`]) given back. Libraries that come later are hooked when they
//! are loaded (`loader`). [`atrace`] finds the variables of
//! libcutils that switch Android's own tracing on.
//!
//! It takes no writable and executable memory, installs no signal handler, and changes no
//! library's code. What cannot be hooked is reported with its reason and left as it was.

pub mod atrace;
pub mod elf;
mod error;
mod hook;
pub mod loaded;
mod loader;
pub mod maps;
mod owner;
mod patch;
mod registry;
mod report;
mod slots;

pub use error::Error;
pub use hook::{Filter, Hook, Proxy};
pub use registry::{Later, Registry, ignore_later_libraries};
pub use report::{ModuleReport, Outcome, Report, Skipped, SlotReport};
