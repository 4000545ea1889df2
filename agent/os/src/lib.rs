//! Functions that std lacks on Android, or offers in a way that a library in a foreign process cannot use.
//!
//! The agent, its hooks and the uploader call this crate instead of the functions that the workspace's `clippy.toml`
//! forbids; each entry there has its reason. [`guard`] keeps their panics from the app. Nothing here panics or logs, nothing
//! but [`spawn()`] allocates, and every call may be made on any thread.

mod descriptor;
mod file;
pub mod guard;
mod limit;
mod lock;
mod own_thread;
mod owned;
mod signal;
mod signal_mask;
mod spawn;
mod thread;

pub use descriptor::above_standard;
pub use file::{create, create_directory, open, open_with, write};
pub use limit::file_size_limit;
pub use lock::{try_lock, try_lock_bytes, unlock_bytes};
pub use own_thread::without_signals;
pub use owned::Owned;
pub use signal::{block_write_signals, without_write_signals, without_write_signals_unguarded};
pub use spawn::{OwnThread, spawn, spawn_here};
pub use thread::thread_id;
