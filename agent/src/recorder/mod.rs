//! The recorder: bounded memory that the app's threads write records into without meeting.
//!
//! A thread leases a block from the [`pool`] ([`blocks`] decides who may have which), writes
//! records into it with plain stores and publishes each with one Release store of the committed
//! length ([`lane`]; [`writer`] leads there), and takes the next when it is full. [`thread`] knows
//! the [`state`] of each. [`session`] opens and closes recording and knows, by the [`gate`], when
//! the last writer has left. [`reader`] reads a pool, in this process or from a file that outlived
//! one; [`follow`] sees what is new in a running one; a [`snapshot`] is a [`copy`] of all that is committed; [`times`] turns the counter's ticks into boot time; [`layout`]
//! is the memory they share.

pub(crate) mod blocks;
pub(crate) mod copy;
pub(crate) mod extents;
pub(crate) mod follow;
pub(crate) mod gate;
mod keys;
pub(crate) mod lane;
pub mod layout;
pub(crate) mod pool;
pub mod reader;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod sync;
pub mod thread;
pub(crate) mod times;
pub(crate) mod writer;

#[cfg(test)]
mod oracle;
