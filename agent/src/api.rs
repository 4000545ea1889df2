//! The functions of the crate, called by Rust programs and by the foreign interfaces of `ffi`.
//!
//! They are above the controller and the capture, so that forks are watched before either begins.

use crate::capture::{self, Owner};
use crate::controller::{self, Install};
use crate::error::Error;
use crate::{after_panic, fork};
use std::path::Path;
use tracetee_os::guard;
use tracetee_protocol::capture_config::Config;
use tracetee_text::Summary;

/// Starts a manual capture.
///
/// # Errors
/// [`Error::Config`] for a field outside its limits, [`Error::State`] when a capture is running or
/// the agent is installed, [`Error::Io`] when the recorder gets no memory or file, [`Error::Hooks`]
/// when nothing can be hooked. Nothing is recorded then.
pub fn start(config: &Config) -> Result<(), Error> {
    prepare()?;
    capture::start(Owner::Manual, config)
}

/// Watches forks and panics. Fails after a panic.
fn prepare() -> Result<(), Error> {
    after_panic::watch();
    fork::watch();
    guard::reason().map_or(Ok(()), |reason| Err(Error::State(reason)))
}

/// Stops the running capture: restores the tags, waits for the writers, and unhooks.
///
/// # Errors
/// [`Error::State`] when no capture is running or the configuration started it, [`Error::Io`] when a
/// streamed trace could not be completed.
pub fn stop() -> Result<(), Error> {
    capture::stop(Owner::Manual)
}

/// Writes the records of the running or last capture as ftrace text to `path`, compressed when it
/// ends in `.zst`. This takes a while: do not call it on an app's main thread.
///
/// # Errors
/// [`Error::State`] when there was no capture, [`Error::Io`] when the file cannot be written.
pub fn dump(path: impl AsRef<Path>) -> Result<Summary, Error> {
    capture::dump(path.as_ref())
}

/// Installs the agent: from now on the remote configuration opens and closes captures. It begins with
/// the configuration of the last run.
///
/// The agent's thread reads and writes all files. This thread waits for it only if the configuration of the last run may
/// record something from the app's start on, at most `start_wait_ms` for files, and installs the hooks meanwhile. Hooks that
/// are installed later are reported as `late_start`. Your own sections are recorded from the return of this call on; those
/// that the configuration forbids are discarded.
///
/// # Errors
/// [`Error::State`] when the agent is installed already or a capture is running, [`Error::Config`] for a wrong field,
/// [`Error::Io`] when no thread can be started, or when this thread learns during its wait that the directory cannot be
/// used. Later errors are in the health report.
pub fn install(install: Install) -> Result<(), Error> {
    prepare()?;
    install.validate()?;
    controller::install(install)
}
