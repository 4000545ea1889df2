//! The proxies that hooked libraries call: the hot path begins here.
//!
//! `write` recognises records in calls of `write`, `fast_path` takes them where libcutils'
//! functions are called, `thread_name` notes the names that threads get. Nothing here may
//! allocate, lock, log or panic.

pub(crate) mod fast_path;
pub(crate) mod thread_name;
pub(crate) mod write;
