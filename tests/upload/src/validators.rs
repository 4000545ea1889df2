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

/// Returns the two scripts of a GitHub action: `collector/packaging/NAME/action.yml`.
#[must_use]
pub fn scripts(name: &str) -> [String; 2] {
    let path = root().join("collector/packaging").join(name).join("action.yml");
    let action = std::fs::read_to_string(path).unwrap();
    let script = |after: &str| {
        after.lines().take_while(|line| line.starts_with("        ")).collect::<Vec<_>>().join("\n")
    };
    let found: Vec<String> = action.split("run: |\n").skip(1).map(script).collect();
    found.try_into().unwrap()
}
