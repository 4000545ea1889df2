//! The proxies that hooked libraries call: here a record enters the agent.
//!
//! [`write`](mod@write) recognises records in calls of `write`: [`tag_words`] knows libcutils' descriptor, `marker_fd` other
//! descriptors of a `trace_marker`. [`fast_path`] takes records from calls of libcutils' functions, and `thread_name` notes
//! new names of threads. [`packed`] records unformatted fields.
//!
//! The proxies run on the app's threads, in signal handlers and in places where no library may be called. The rule for
//! everything below: no allocation, no lock, no panic, errno as the caller expects it, and the caller gets the real
//! function's result.
//!
//! This crate has all of a record's path that is not compiled for size (`profile.agent`). The recorder's part of the path is
//! inlined here; rarely needed parts are separate functions.

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("the proxies run on Android and Linux");

mod chain;
pub mod fast_path;
mod hooks;
pub mod marker_fd;
pub mod packed;
pub mod tag_words;
pub mod thread_name;
pub mod write;

pub use hooks::hooks;
