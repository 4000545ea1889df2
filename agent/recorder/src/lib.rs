//! The recorder: bounded memory into which the app's threads write records without contention.
//!
//! The journey of a record: [`record`] recognises it, [`writer`] puts it with the [`clock`]'s value
//! into the block that its thread has leased from the [`pool`] ([`block_lease`] decides which
//! thread may have which block), and [`lane`] publishes it with one Release store of the committed
//! length. [`thread`] knows the [`state`] of each thread. [`session`] opens and closes recording,
//! and knows by the [`gate`] when the last writer has left.
//!
//! [`reader`] reads a pool, in this process or from a file that outlived one: a [`snapshot`] copies
//! all that is committed, [`tail`] shows what was committed since its last check, [`clock_map`]
//! turns the counter's ticks into boot time. [`layout`] is the memory that both sides share.
//!
//! Rules of the hot path: what a writer reaches allocates nothing, takes no lock, logs nothing, never
//! panics, and leaves [`errno`] as the app expects it.
//!
//! Under `cfg(loom)` the crate is only its core, over loom's atomics, with a model for each pair of concurrent operations on
//! a block: `tests/loom/run`.
#![cfg_attr(loom, allow(dead_code, reason = "the models use a part of the core"))]

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("the recorder runs on Android and Linux");

pub mod block_copy;
pub(crate) mod block_lease;
pub mod gate;
pub mod lane;
pub mod layout;
pub mod sync;
mod word;

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod clock_map;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod details;
#[cfg(not(loom))]
pub mod errno;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
pub mod extents;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
pub mod packed;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod progress;
#[cfg(not(loom))]
pub mod readable;
#[cfg(not(loom))]
pub mod reader;
#[cfg(not(loom))]
pub mod record;
#[cfg(not(loom))]
pub mod rich;
#[cfg(not(loom))]
pub mod snapshot;
#[cfg(not(loom))]
pub mod stored;
#[cfg(not(loom))]
pub mod tail;
#[cfg(not(loom))]
mod writing;

#[cfg(test)]
#[cfg(loom)]
#[path = "models_tests.rs"]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
#[path = "oracle_tests.rs"]
mod oracle;

#[cfg(not(loom))]
pub use error::Error;
#[cfg(not(loom))]
pub use writing::{session, state, thread, writer};
