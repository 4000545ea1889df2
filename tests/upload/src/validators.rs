//! Programs in Python that judge our documents, which `tests/upload/validators/install` has put into the cache.

use std::path::PathBuf;
use std::process::Command;
use tracetee_tests::{cache, root, skip};

/// A program of the virtual environment; `None`, with the reason printed, if it is not there.
#[must_use]
pub fn validator(name: &str) -> Option<Command> {
    let program: PathBuf = cache("validators").join("venv/bin").join(name);
    if program.exists() {
        return Some(Command::new(program));
    }
    skip(&format!("{} is missing; run tests/upload/validators/install", program.display()));
    None
}

/// A script beside the installer, with its interpreter.
#[must_use]
pub fn script(name: &str) -> Option<Command> {
    let mut python = validator("python")?;
    python
        .arg(root().join("tests/upload/validators").join(name))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}
