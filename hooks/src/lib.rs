//! Hooks functions by the PLT and GOT slots of the libraries that import them.
//!
//! A call from one library to another goes through a slot in the caller's memory. [`Registry`] lists the loaded libraries
//! ([`loaded`]), reads their relocation tables ([`elf`]), finds every slot of the wanted symbols, and writes a proxy's
//! address into it (`slots`, `patch`). It then restores the page's original protection ([`maps`]). Libraries that are loaded
//! later are hooked when they are loaded (`loader`). [`atrace`] finds the variables of libcutils that enable Android's own
//! tracing.
//!
//! The crate maps no memory that is both writable and executable, installs no signal handler, and
//! changes no code. It reports each slot that it cannot hook, with the reason, and does not touch it.

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
pub use hook::{Filter, Hook, Later, Proxy};
pub use registry::{Registry, give_back_after_panic, ignore_later_libraries, left_after_panic};
pub use report::{ModuleReport, Outcome, Report, Skipped, SlotReport};
