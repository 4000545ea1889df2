//! The agent's library embedded in this program, installed where the dynamic linker of a traced program finds it. This
//! program itself does not load it.
//!
//! It is in the user's cache directory, if it has one, under the hash of its bytes, not in the session's
//! directory: a traced program may start others long after `tracetee run` has ended.

use crate::embedded;
use anyhow::{Context, Result, bail};
use rustix::process::geteuid;
use std::fs::DirBuilder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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

/// Installs a permanent copy of the library for LD_PRELOAD, and returns its path: in the user's cache, or, for a user
/// without a writable home, such as a service, in the user's own directory for temporary files.
pub(crate) fn install() -> Result<PathBuf> {
    let library = embedded::library()?;
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let name = format!("agent-{:016x}", hasher.finish());
    let in_cache =
        cache_directory().and_then(|directory| install_in(&directory.join(&name), &library));
    in_cache.or_else(|error| {
        let in_temporary = temporary_directory()
            .and_then(|directory| install_in(&directory.join(&name), &library));
        in_temporary.map_err(|other| {
            error.context(format!("{other:#}; it cannot be installed in the user's cache either"))
        })
    })
}

fn install_in(directory: &Path, library: &[u8]) -> Result<PathBuf> {
    let path = directory.join("libtracetee.so");
    // LD_PRELOAD separates its entries by colons and spaces and knows no escapes.
    if path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        bail!(
            "the path of the directory {} contains a space or a colon, which LD_PRELOAD does not allow; set XDG_CACHE_HOME to another \
             directory",
            directory.display()
        );
    }
    let create = |directory: &Path| {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))
    };
    if !std::fs::read(&path).is_ok_and(|bytes| bytes == library) {
        create(directory)?;
        replace_file(&path, library)?;
    }
    // glibc replaces `$LIB` with the name of its own libraries' directory. musl looks for a file of exactly that name and
    // continues without it: the library needs glibc, and its failure to load would end the program.
    for lib in [&*format!("lib/{}-linux-gnu", std::env::consts::ARCH), "lib64", "lib"] {
        let link = directory.join(lib).join("libtracetee.so");
        create(&directory.join(lib))?;
        match std::os::unix::fs::symlink(&path, &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot create {}", link.display()));
            }
            _ => {}
        }
    }
    Ok(directory.join("$LIB/libtracetee.so"))
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

/// Makes this user's directory for temporary files. No other user may have made it, because the library in it runs in the
/// user's programs.
fn temporary_directory() -> Result<PathBuf> {
    let user = geteuid().as_raw();
    let directory = std::env::temp_dir().join(format!("tracetee-{user}"));
    let path = directory.display();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot create {path}"));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(&directory)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        bail!("{path} is not a directory that only this user may enter");
    }
    Ok(directory)
}

/// Whole or not at all: another process may be loading it right now.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
