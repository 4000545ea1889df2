//! One capture of this process: start, stop, write.
//!
//! `slot` holds the capture and its verbs; each verb gets its caller, the app or the controller
//! ([`Owner`]). `recording` is the capture itself: recorder, hooks, tags and streaming. `tag_watch`
//! is the thread that looks after a manual capture.
//!
//! Everything here runs under one lock, on whatever thread calls; none of it runs in a proxy. Start: recorder, symbols,
//! hooks, recording on, tags on. Stop: the same in reverse. The recorder of a stopped capture stays for dumps until the next
//! start. While the agent starts, the recorder is on first, for the app's own sections: hooks and tags are added, and the
//! configuration decides whether it is adopted or discarded.

mod hooked;
mod inspection;
mod memory;
mod recording;
mod slot;
pub(crate) mod tag_watch;

pub(crate) use memory::{prepare_threads, prepare_while_alone};
pub(crate) use slot::{
    begin_early, discard_early, dump, hand_over, hook_early, hook_later_libraries, inspect,
    is_open, look, measure_cost, owner, process_exits, release, reset_after_fork, start,
    start_lending, stop, watch_tags, write,
};

/// Runs the in-memory work of a capture's start on the thread that waits for the start, if there is one, else on its own
/// thread: the waiting thread may hold the dynamic linker's lock.
pub(crate) type Lend<'a> = &'a dyn Fn(&mut (dyn FnMut() + Send));

/// Owner of the process's captures: starts and stops them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The app, manually. Its hooks are removed with the capture, and a forked child continues with its own recorder file.
    Manual,
    /// The controller, by remote configuration. Hooks stay in place between its captures, and a forked child does not
    /// continue.
    Controller,
}
