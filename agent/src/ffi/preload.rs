//! `LD_PRELOAD`: starts a capture before `main` in a process whose environment has TRACETEE_CONFIG,
//! which names a JSON file or is a JSON object. With TRACETEE_INSTALL it installs the agent instead,
//! and the remote configuration decides what is captured.
//!
//! Runs in the library's constructor, which the dynamic linker calls on the main thread. After an error the program
//! continues; the reason goes to the recorder's directory, or to stderr if there is none.

use crate::api;
use crate::capture;
use crate::config;
use crate::controller::{self, Install};
use crate::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tracetee_os::guard;
use tracetee_recorder::session;
use tracetee_text::recover::FAILURE_EXTENSION;

/// The variable that names the configuration file, or holds the configuration itself.
pub const CONFIG_VARIABLE: &str = "TRACETEE_CONFIG";

/// The variable that names the file with the arguments of `tracetee_install`, or holds them.
pub const INSTALL_VARIABLE: &str = "TRACETEE_INSTALL";

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = library_loaded;

extern "C" fn library_loaded() {
    if [INSTALL_VARIABLE, CONFIG_VARIABLE].iter().all(|name| std::env::var_os(name).is_none()) {
        return;
    }
    let _ = guard::enter(|| {
        if let Some(value) = std::env::var_os(INSTALL_VARIABLE) {
            if let Err(error) = install(&value) {
                report(&error, None);
            }
            return;
        }
        let Some(value) = std::env::var_os(CONFIG_VARIABLE) else { return };
        let mut directory = None;
        if let Err(error) = start(&value, &mut directory) {
            report(&error, directory.as_deref());
        }
    });
}

fn start(value: &OsStr, directory: &mut Option<PathBuf>) -> Result<(), Error> {
    let config = config::read(&text_of(value)?)?;
    directory.clone_from(&config.recorder.directory);
    // `tracetee run` has ended and taken its directory with it; this process outlived it.
    if directory.as_ref().is_some_and(|directory| !directory.exists()) {
        return Ok(());
    }
    api::start(&config)?;
    // SAFETY: a function of the right type. Registered before the program's own handlers, it runs
    // after them. If it cannot be registered, thread names are those of their last block.
    unsafe { libc::atexit(process_exits) };
    Ok(())
}

fn install(value: &OsStr) -> Result<(), Error> {
    api::install(Install::from_json(&text_of(value)?)?)?;
    // SAFETY: as in `start`. Without memory for it, a capture that is open at the exit is lost.
    unsafe { libc::atexit(process_exits) };
    Ok(())
}

/// Returns the JSON that a variable holds, or that is in the file it names.
fn text_of(value: &OsStr) -> Result<String, Error> {
    if let Some(json) = value.to_str().filter(|text| text.starts_with('{')) {
        return Ok(json.to_owned());
    }
    std::fs::read_to_string(value).map_err(Error::io("read the configuration", value.as_ref()))
}

extern "C" fn process_exits() {
    // The capture belongs to the process that this one was cloned from, and so do the locks.
    if session::is_another_process() {
        return;
    }
    let _ = guard::run(|| {
        controller::process_exits();
        if let Err(error) = capture::process_exits() {
            report(&error, None);
        }
    });
}

#[allow(clippy::disallowed_methods, reason = "of a program that was preloaded into: no app")]
fn report(error: &Error, directory: Option<&Path>) {
    let program = std::env::current_exe().unwrap_or_default();
    let line = format!("tracetee: {}: {error}\n", program.display());
    if let Some(directory) = directory {
        // A sandboxed program may not be able to write there: its own output stays unchanged.
        let name = format!("{}.{FAILURE_EXTENSION}", std::process::id());
        let _ = tracetee_os::write(directory.join(name), &line);
        return;
    }
    // SAFETY: a plain syscall on a buffer of the length given; not through the hooked `write`.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, line.as_ptr(), line.len()) };
}
