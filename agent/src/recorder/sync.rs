//! The atomics of the recorder's core ([`super::blocks`], [`super::lane`], [`super::gate`],
//! [`super::copy`]), and what else they take from outside. `tests/loom` builds the same files over
//! loom's atomics.

pub(crate) use crate::clock::Anchor;
pub(crate) use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
