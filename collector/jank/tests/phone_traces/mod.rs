//! Traces of real phones, which lie beside the checkout (`../shared`): they may not be copied into the repository.

use std::path::{Path, PathBuf};

/// Returns the path of a file in `shared`. Without it the test says that it is skipped; CI must have those in `traces`.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if path.is_file() {
        return Some(path);
    }
    let is_needed = name.starts_with("traces/") && std::env::var_os("CI").is_some();
    assert!(!is_needed, "{name} is missing (tests/traces/README.md)");
    println!("skipped: {name} is missing (tests/traces/README.md)");
    None
}
