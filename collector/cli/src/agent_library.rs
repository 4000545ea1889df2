//! The agent's library that travels inside this program, put where the dynamic linker of a traced
//! program finds it. This program itself does not load it.
//!
//! It lies in the user's cache directory under the hash of its bytes, not in the session's
//! directory: a traced program may start others long after `tracetee run` has ended.

use crate::embedded;
use anyhow::{Context, Result, bail};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const HEADER: &[u8] = include_bytes!("../../../agent/include/tracetee.h");

/// Writes the library and its header to `directory`.
pub(crate) fn write_to(directory: &Path) -> Result<[PathBuf; 2]> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let files = [directory.join("libtracetee.so"), directory.join("tracetee.h")];
    for (path, bytes) in files.iter().zip([&*embedded::library()?, HEADER]) {
        replace_file(path, bytes)?;
    }
    Ok(files)
}

/// Puts a copy of the library where it stays, for LD_PRELOAD, and gives its path.
pub(crate) fn install() -> Result<PathBuf> {
    let library = embedded::library()?;
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let directory = cache_directory()?.join(format!("agent-{:016x}", hasher.finish()));
    let path = directory.join("libtracetee.so");
    // LD_PRELOAD separates its entries by colons and spaces and knows no escapes.
    if path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        bail!(
            "the path of the cache directory {} contains a space or a colon, which LD_PRELOAD does not allow; set \
             XDG_CACHE_HOME to another directory",
            directory.display()
        );
    }
    if std::fs::read(&path).is_ok_and(|bytes| bytes == *library) {
        return Ok(path);
    }
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    replace_file(&path, &library)?;
    Ok(path)
}

fn cache_directory() -> Result<PathBuf> {
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(cache).join("tracetee"));
    }
    match std::env::var_os("HOME").filter(|path| !path.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(".cache/tracetee")),
        None => bail!("no directory for the agent's library; set HOME or XDG_CACHE_HOME"),
    }
}

/// Whole or not at all: another process may be loading it right now.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
