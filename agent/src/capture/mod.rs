//! One capture of this process: start, stop, write.
//!
//! `slot` holds the capture and its verbs; each verb says who calls it, the app or the controller
//! ([`Owner`]). `recording` is the capture itself: recorder, hooks, tags and streaming. `tag_watch`
//! is the thread that looks after a capture by hand.
//!
//! Everything here runs under one lock, on whatever thread calls; nothing of it runs in a proxy.
//! Start: recorder, symbols, hooks, recording on, tags on. Stop: the same in reverse. The recorder
//! of a stopped capture stays for dumps until the next start.

mod hooked;
mod inspection;
mod memory;
mod recording;
mod slot;
pub(crate) mod tag_watch;

pub(crate) use inspection::Inspection;
pub(crate) use memory::{prepare_threads, prepare_while_alone};
pub(crate) use slot::{
    dump, hand_over, hook_later_libraries, inspect, is_open, look, measure_cost, owner,
    process_exits, release, reset_after_fork, start, start_in_stages, stop, watch_tags, write,
};

/// The work that the start of a capture is at. Somebody may be waiting for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On files, as fast as the disk.
    Files,
    /// In memory.
    Memory,
}

/// Owner of the process's captures: starts and stops them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The app, by hand. Its hooks go with the capture, and a forked child goes on with a recorder
    /// file of its own.
    Manual,
    /// The controller, by remote configuration. Hooks stay in place between its captures, and a
    /// forked child does not go on.
    Controller,
}
