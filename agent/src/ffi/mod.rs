//! The ways into the agent from outside Rust: C, JNI and `LD_PRELOAD`.
//!
//! These modules translate arguments and errors, and enter a guard ([`tracetee_os::guard`]); they decide nothing.

pub mod c_api;
pub mod c_api_events;
pub mod c_api_sections;
pub mod c_api_upload;
#[cfg(feature = "jni")]
pub mod jni;
pub mod preload;
