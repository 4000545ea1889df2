//! The agent's library that travels inside this program: put where the dynamic linker finds it,
//! and loaded here for reading what recorders left behind.
//!
//! It lies in the user's cache directory under the hash of its bytes, not in the session's
//! directory: a traced program may start others long after `tracetee run` has ended.

use crate::recovered::Recovered;
use anyhow::{Context, Result, bail};
use dlopen2::raw::Library;
use serde::Serialize;
use std::ffi::{CString, c_char, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtracetee.so"));
const HEADER: &[u8] = include_bytes!("../../agent/include/tracetee.h");

/// Writes the library and its header to `directory`.
pub(crate) fn write_to(directory: &Path) -> Result<[PathBuf; 2]> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let files = [directory.join("libtracetee.so"), directory.join("tracetee.h")];
    for (path, bytes) in files.iter().zip([LIBRARY, HEADER]) {
        replace_file(path, bytes)?;
    }
    Ok(files)
}

/// The path of a copy of the library that stays where it is.
pub(crate) fn installed() -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    LIBRARY.hash(&mut hasher);
    let directory = cache_directory()?.join(format!("agent-{:016x}", hasher.finish()));
    let path = directory.join("libtracetee.so");
    // LD_PRELOAD separates its entries by colons and spaces and knows no escapes.
    if path.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        bail!(
            "the cache directory {} has a space or a colon in its path, which LD_PRELOAD cannot \
             express; set XDG_CACHE_HOME to another",
            directory.display()
        );
    }
    if std::fs::read(&path).is_ok_and(|bytes| bytes == LIBRARY) {
        return Ok(path);
    }
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    replace_file(&path, LIBRARY)?;
    Ok(path)
}

fn cache_directory() -> Result<PathBuf> {
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(cache).join("tracetee"));
    }
    match std::env::var_os("HOME").filter(|path| !path.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(".cache/tracetee")),
        None => bail!("neither XDG_CACHE_HOME nor HOME is set: nowhere to put the agent's library"),
    }
}

/// Whole or not at all: another process may be loading it right now.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// How the agent writes text; see its `TextOptions`.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct TextOptions {
    pub(crate) catapult_only: bool,
    pub(crate) precision: crate::cli::Precision,
}

type Recover =
    unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
type LastError = unsafe extern "C" fn(*mut c_char, usize) -> c_int;

/// Has the agent's library write one trace of all recorder files in `directory`.
pub(crate) fn recover(
    library: &Path,
    directory: &Path,
    options: TextOptions,
    output: &Path,
) -> Result<Recovered> {
    let handle =
        Library::open(library).with_context(|| format!("cannot load {}", library.display()))?;
    // SAFETY: the library is ours; tracetee.h declares the function with this type.
    let recover: Recover = unsafe { handle.symbol("tracetee_recover") }?;
    // SAFETY: as above.
    let last_error: LastError = unsafe { handle.symbol("tracetee_last_error") }?;

    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (directory, output) = (text(directory)?, text(output)?);
    let options = CString::new(serde_json::to_string(&options)?)?;
    // A summary names every thread; a trace of ten thousand of them fits.
    let mut buffer = vec![0u8; 4 << 20];
    // SAFETY: three C strings, and a buffer of the length given.
    let len = unsafe {
        recover(
            directory.as_ptr(),
            options.as_ptr(),
            output.as_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    if let Ok(len) = usize::try_from(len) {
        let json = buffer.get(..len).context("the agent's summary is too long")?;
        return Ok(serde_json::from_slice(json)?);
    }
    // SAFETY: a buffer of the length given.
    let len = unsafe { last_error(buffer.as_mut_ptr().cast(), buffer.len()) };
    let reason = usize::try_from(len).ok().and_then(|len| buffer.get(..len)).unwrap_or_default();
    bail!("{}", String::from_utf8_lossy(reason))
}
