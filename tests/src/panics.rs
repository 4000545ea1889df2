//! The agent's library as it is shipped, with the feature `planted-panics` and its symbols.

use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library's path. It is built once; it sends captures itself, without TLS.
#[must_use]
pub fn library_that_panics() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from)
            .join("agent-that-panics");
        let built = Command::new(env!("CARGO"))
            .current_dir(root())
            .args(["rustc", "--quiet", "--locked", "--package", "tracetee-agent", "--lib"])
            .args(["--crate-type", "cdylib", "--profile", "agent"])
            .args(["--config", "profile.agent.strip=false"])
            .args(["--features", "http,planted-panics", "--target-dir"])
            .arg(&target)
            .status();
        assert!(built.unwrap().success(), "building the agent failed");
        target.join("agent/libtracetee.so")
    })
}
