//! The atomics of the recorder's core ([`crate::block_lease`], [`crate::lane`], [`crate::gate`],
//! [`crate::block_copy`]), and the anchor that it keeps. Under `cfg(loom)` the atomics are loom's.

#[cfg(not(loom))]
pub(crate) use crate::clock::Anchor;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::atomic::compiler_fence;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Stand-in for the type of that name in [`crate::clock`], without a clock.
#[cfg(loom)]
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    /// The counter's value.
    pub tick: u64,
    /// Boot time, ns.
    pub boot_ns: u64,
}
