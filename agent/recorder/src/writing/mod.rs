//! The writers' side of the recorder: a session, the threads that record in it, and each record's way
//! into its thread's block.
//!
//! The parts know each other: a session that closes looks at all threads, and a thread that records
//! looks at the session.

mod frame_counters;
mod key_slot;
mod keys;
pub mod session;
pub mod state;
pub mod thread;
pub mod writer;
