//! The ways into the agent from outside Rust: C, JNI, `LD_PRELOAD` and the control socket.
//!
//! These modules translate arguments and errors and catch panics; they decide nothing.

pub mod c_api;
pub mod c_api_upload;
pub(crate) mod control_socket;
#[cfg(feature = "jni")]
pub mod jni;
pub mod preload;
