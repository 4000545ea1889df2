//! Decides what is captured, when, and how much, by remote configuration and by events in the app.
//!
//! The journey: the app calls [`install()`], and waits in `startup` for a moment. `config_source` admits configurations, which
//! `remote_config` reads and checks; `policy` applies one to this device. The `state_machine` decides
//! what is recorded and what is kept, by the `budget_ledger` of past captures. The controller
//! (`turn`), on the `agent_thread`, carries that out with its parts: the `observer` looks for what
//! `triggers` wait for, the `capture_writer` writes what is kept, `probation` guards against crash
//! loops, `on_device_capture` serves `tracetee atrace`. `state_dir` is the directory that outlives
//! the process. [`stats`](stats()) reports on all of it.
//!
//! Functions that an app calls on its own threads queue a [`Command`] for the agent's thread, and
//! return.

mod agent_thread;
mod budget_ledger;
mod capture_writer;
mod command;
mod config_source;
pub(crate) mod control_socket;
mod crash_loop;
mod crash_recovery;
mod glob;
mod install;
mod observer;
mod on_device_capture;
mod outlook;
mod overhead;
mod policy;
mod probation;
pub(crate) mod process_signals;
mod remote_config;
mod report;
mod startup;
mod state;
mod state_dir;
mod state_machine;
mod stats;
mod status;
mod trigger_pattern;
mod triggers;
mod turn;
mod uploads;
#[cfg(feature = "http")]
mod uploads_thread;

pub(crate) use agent_thread::{install, is_installed, process_exits, reset_after_fork};
pub use agent_thread::{report, uninstall};
pub use install::{Install, TransportChoice, UploadTo};
pub(crate) use stats::report_after_panic;
pub use stats::stats;

use crate::error::Error;
use agent_thread::send;
use command::Command;
use on_device_capture::{Ask, PATIENCE};
use std::path::PathBuf;
use tracetee_protocol::control_socket::AtraceRequest;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::upload_status::PassReport;
use tracetee_uploader::{NetState, Pass, Transport};

const NOT_INSTALLED: Error = Error::State("it is not installed");

/// Checks a remote configuration as the agent does before it uses one, and returns the warnings.
///
/// # Errors
/// The field that is wrong, and the reason.
pub fn check_config(bytes: &[u8]) -> Result<Vec<String>, tracetee_protocol::json::Error> {
    remote_config::parse(bytes).map(|parsed| parsed.warnings)
}

/// Fires the custom triggers of that name.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn trigger(name: &str) -> Result<(), Error> {
    send(Command::Trigger(name.to_owned(), process_signals::now_ns()))
}

/// Opens the manual window with that id, now or when the capture that runs has ended. Waits at most 100 ms, and
/// only if the agent is still busy with its start or an earlier call.
///
/// # Errors
/// [`Error::State`] when the agent is not installed, [`Error::Refused`] if nothing will be recorded.
pub fn open_window(id: &str) -> Result<(), Error> {
    agent_thread::open_window(id)
}

/// Closes the manual window with that id; its capture is kept.
///
/// # Errors
/// [`Error::State`] when the agent is not installed, [`Error::Refused`] if the window was still waiting to open.
pub fn close_window(id: &str) -> Result<(), Error> {
    agent_thread::close_window(id)
}

/// Reports that the system is low on memory.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn low_memory() -> Result<(), Error> {
    send(Command::LowMemory)
}

/// Offers a configuration with its detached signature. The health report says why it was refused.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn offer_config(bytes: &[u8], signature: &[u8]) -> Result<(), Error> {
    send(Command::Offer(bytes.to_owned(), signature.to_owned()))
}

/// Records the user's consent to captures being made and sent. When it is withdrawn, nothing is
/// recorded or sent, and what waits is deleted. The answer holds over restarts.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn set_consent(given: bool) -> Result<(), Error> {
    send(Command::Consent(given))
}

/// Sets the state of the device's network and power.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn set_network(net: NetState) -> Result<(), Error> {
    send(Command::Net(net))
}

/// Sends what may be sent, on the calling thread, with the app's own transport; it may take minutes.
/// `net`: the state of network and power. Returns what is left, and when to call again.
///
/// # Errors
/// [`Error::State`] when the agent is not installed, or has no address to send to.
pub fn upload(net: Option<NetState>, transport: &mut dyn Transport) -> Result<PassReport, Error> {
    let passer = agent_thread::passer();
    let passer =
        passer.ok_or(Error::State("it has not started, or has no address to upload to"))?;
    let (pass, status) = passer.pass(net, transport);
    let Pass { delivered, held, again, .. } = pass;
    let again_s = Decimal::ratio(u64::try_from(again.as_millis()).unwrap_or(u64::MAX), 1000);
    Ok(PassReport { delivered, held, again_s, status })
}

/// Starts, dumps or stops a capture for somebody at the device. Returns the file with the text, where
/// the request is for text.
pub(crate) fn capture_on_device(request: AtraceRequest) -> Result<Option<PathBuf>, String> {
    let (answer, answered) = crossbeam_channel::bounded(1);
    send(Command::OnDevice(Ask { request, answer })).map_err(|error| error.to_string())?;
    match answered.recv_timeout(PATIENCE) {
        Ok(answer) => answer,
        Err(_) => Err("the agent does not answer".to_owned()),
    }
}
