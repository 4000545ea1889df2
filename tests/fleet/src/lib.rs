//! What the fleet's trials share: tools that are not Rust's, which `tests/run` installs.

use std::path::{Path, PathBuf};
use tracetee_tests::{cache, root};

/// Traces of real phones, where there are any.
#[must_use]
pub fn traces() -> Option<PathBuf> {
    let traces = root().join("../shared/traces");
    if traces.exists() {
        return Some(traces);
    }
    println!("skipped: no traces");
    None
}

/// A program that may be missing; then the test says so, and in CI fails.
#[must_use]
pub fn tool(path: Option<PathBuf>, what: &str) -> Option<PathBuf> {
    if path.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{what} is missing");
        println!("skipped: {what} is missing, tests/run installs it");
    }
    path
}

/// The first of these programs on the PATH.
#[must_use]
pub fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = names.iter().flat_map(|name| directories.iter().map(move |of| of.join(name)));
    found.into_iter().find(|path| path.is_file())
}

/// Chromium, without a window.
#[must_use]
pub fn chromium() -> Option<PathBuf> {
    tool(on_path(&["chromium", "chromium-browser", "google-chrome"]), "chromium")
}

/// The Python that has duckdb and pyspark, and the directory of the jars that Spark needs for S3.
#[must_use]
pub fn engines() -> Option<(PathBuf, PathBuf)> {
    let engines = cache("engines");
    let python = engines.join("venv/bin/python");
    let is_there = |path: &Path| path.exists().then(|| path.to_owned());
    let python = tool(is_there(&python), "a Python with duckdb and pyspark")?;
    let jars = tool(is_there(&engines.join("jars")), "hadoop-aws")?;
    Some((python, jars))
}
