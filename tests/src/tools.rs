//! Tools that are not Rust's, which `tests/run` installs, and traces that nobody here made.

use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of a trace that a real phone made: one of the repository's own, or one that may not be
/// copied into it and is beside the checkout. Without it the test says so, and in CI fails.
#[must_use]
pub fn phone_trace(name: &str) -> Option<PathBuf> {
    let directories = [root().join("tests/traces"), root().join("../shared/traces")];
    let found =
        directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file());
    tool(found, &format!("the trace {name} (tests/traces/README.md)"))
}

/// A program that may be missing; then the test says so, and in CI fails.
#[must_use]
pub fn tool(path: Option<PathBuf>, name: &str) -> Option<PathBuf> {
    if path.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is missing");
        println!("skipped: {name} is missing");
    }
    path
}

/// The first of these programs on the PATH.
#[must_use]
pub fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found =
        names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    found.into_iter().find(|path| path.is_file())
}

/// Chromium, without a window.
#[must_use]
pub fn chromium() -> Option<PathBuf> {
    tool(on_path(&["chromium", "chromium-browser", "google-chrome"]), "chromium")
}

/// The browser Firefox.
#[must_use]
pub fn firefox() -> Option<PathBuf> {
    tool(on_path(&["firefox", "firefox-esr"]), "firefox")
}

/// The elements of a page, after its script has run, in a window of a phone's size. Files may look at files.
#[must_use]
pub fn rendered(chromium: &Path, address: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"])
        .args(["--enable-unsafe-swiftshader", "--allow-file-access-from-files"])
        .args(["--window-size=412,900", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(address)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
