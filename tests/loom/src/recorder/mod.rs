//! The agent's source files, with loom's atomics where they have std's.

#[path = "../../../../agent/src/recorder/blocks.rs"]
pub(crate) mod blocks;
#[path = "../../../../agent/src/recorder/copy.rs"]
pub(crate) mod copy;
#[path = "../../../../agent/src/recorder/gate.rs"]
pub(crate) mod gate;
#[path = "../../../../agent/src/recorder/lane.rs"]
pub(crate) mod lane;
#[path = "../../../../agent/src/recorder/layout.rs"]
pub(crate) mod layout;

/// What the core takes from outside.
pub(crate) mod sync {
    pub(crate) use loom::sync::atomic::{
        AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::sync::atomic::compiler_fence;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Anchor {
        pub(crate) tick: u64,
        pub(crate) boot_ns: u64,
    }
}
