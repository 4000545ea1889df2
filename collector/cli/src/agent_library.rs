//! The agent's library that travels inside this program: put where the dynamic linker finds it,
//! and loaded here for reading what recorders left behind.
//!
//! It lies in the user's cache directory under the hash of its bytes, not in the session's
//! directory: a traced program may start others long after `tracetee run` has ended.

use crate::embedded;
use anyhow::{Context, Result, bail};
use dlopen2::raw::Library;
use serde::Serialize;
use std::ffi::{CString, c_char, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tracetee_protocol::health::Recovered;

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

/// The path of a copy of the library that stays where it is.
fn installed() -> Result<PathBuf> {
    let library = embedded::library()?;
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
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
    pub(crate) precision: crate::args::Precision,
}

type Recover =
    unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
type CheckConfig = unsafe extern "C" fn(*const c_char) -> c_int;
type LastError = unsafe extern "C" fn(*mut c_char, usize) -> c_int;

/// The agent's library, loaded into this process, where it does nothing by itself.
pub(crate) struct Agent {
    path: PathBuf,
    recover: Recover,
    check_config: CheckConfig,
    last_error: LastError,
    _handle: Library,
}

impl Agent {
    /// Loads the library that this program carries.
    pub(crate) fn load() -> Result<Self> {
        let path = installed()?;
        let handle =
            Library::open(&path).with_context(|| format!("cannot load {}", path.display()))?;
        Ok(Self {
            // SAFETY: the library is ours; tracetee.h declares the function with this type.
            recover: unsafe { handle.symbol("tracetee_recover") }?,
            // SAFETY: as above.
            check_config: unsafe { handle.symbol("tracetee_check_config") }?,
            // SAFETY: as above.
            last_error: unsafe { handle.symbol("tracetee_last_error") }?,
            path,
            _handle: handle,
        })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a configuration as the agent will.
    pub(crate) fn check_config(&self, json: &str) -> Result<()> {
        let json = CString::new(json)?;
        // SAFETY: a C string.
        match unsafe { (self.check_config)(json.as_ptr()) } {
            0 => Ok(()),
            _ => bail!("{}", self.last_error()),
        }
    }

    /// Writes one trace of all recorder files in `directory`.
    pub(crate) fn recover(
        &self,
        directory: &Path,
        options: TextOptions,
        output: &Path,
    ) -> Result<Recovered> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let (directory, output) = (text(directory)?, text(output)?);
        let options = CString::new(serde_json::to_string(&options)?)?;
        // A summary names every thread; that of ten thousand threads fits.
        let mut buffer = vec![0u8; 4 << 20];
        // SAFETY: three C strings, and a buffer of the length given.
        let len = unsafe {
            (self.recover)(
                directory.as_ptr(),
                options.as_ptr(),
                output.as_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
            )
        };
        let Ok(len) = usize::try_from(len) else { bail!("{}", self.last_error()) };
        let json = buffer.get(..len).context("the agent's summary is too long")?;
        Ok(Recovered::from_json(json)?)
    }

    fn last_error(&self) -> String {
        let mut buffer = [0u8; 4096];
        // SAFETY: a buffer of the length given.
        let len = unsafe { (self.last_error)(buffer.as_mut_ptr().cast(), buffer.len()) };
        let text = usize::try_from(len).ok().and_then(|len| buffer.get(..len));
        String::from_utf8_lossy(text.unwrap_or(&buffer)).into_owned()
    }
}
