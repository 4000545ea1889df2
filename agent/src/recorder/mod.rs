//! The recorder: bounded memory that the app's threads write records into without meeting.
//!
//! A thread leases a block from the [`pool`] ([`thread`] knows which it holds), writes records
//! into it with plain stores and publishes each with one Release store of the committed length
//! ([`writer`]), and takes the next block when it is full. [`session`] opens and closes recording
//! and knows when the last writer has left. [`reader`] reads what is committed, in this process or
//! from a file that outlived one; [`layout`] is the memory they share.

pub mod layout;
pub(crate) mod pool;
pub mod reader;
pub(crate) mod session;
pub mod thread;
pub(crate) mod writer;
