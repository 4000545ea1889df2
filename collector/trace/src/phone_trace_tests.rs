//! Traces of real phones for this crate's tests.

use std::path::{Path, PathBuf};

/// The path of a trace that a real phone made: one of the repository's own, or one that may not be
/// copied into it and is beside the checkout. Without it the test says so, and in CI fails.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = [root.join("tests/traces"), root.join("../shared/traces")];
    let found = places.into_iter().map(|index| index.join(name)).find(|path| path.is_file());
    if found.is_none() {
        let missing = format!("the trace {name} is missing (tests/traces/README.md)");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        println!("skipped: {missing}");
    }
    found
}
