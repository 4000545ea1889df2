//! Functions that the app calls, on any of its threads: most queue a command for the agent's thread, and return.

use super::agent_thread::{self, send};
use super::command::Command;
use super::on_device_capture::{Ask, PATIENCE};
use super::remote_config;
use crate::error::Error;
use crate::{capture, health_report, queue};
use std::path::PathBuf;
use tracetee_protocol::HealthReport;
use tracetee_protocol::control_socket::AtraceRequest;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::upload_status::PassReport;
use tracetee_recorder::clock;
use tracetee_uploader::{NetState, Pass, Transport};

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
    send(Command::Trigger(name.to_owned(), clock::boot_ns()))
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

/// Stores whether the user consents that captures are made and sent. Without consent, nothing is recorded or sent, and
/// waiting captures are deleted. The answer persists across restarts.
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

/// Sends the captures that may be sent, on the calling thread, with the app's own transport; it may take minutes.
/// `net`: the state of network and power. Returns the remaining captures, and when to call again.
///
/// # Errors
/// [`Error::State`] when the agent is not installed, or has no address for uploads.
pub fn upload(net: Option<NetState>, transport: &mut dyn Transport) -> Result<PassReport, Error> {
    let passer = agent_thread::passer();
    let passer = passer.ok_or(Error::State("it has not started, or has no upload address"))?;
    let (pass, status) = passer.pass(net, transport);
    let Pass { delivered, held, again, .. } = pass;
    let again_s = Decimal::ratio(u64::try_from(again.as_millis()).unwrap_or(u64::MAX), 1000);
    Ok(PassReport { delivered, held, again_s, status })
}

/// Returns the health report: the state of the running or last capture, and of the controller;
/// `None` before the first capture of a process in which the agent is not installed. Hooks libraries
/// that were loaded since the last check, so that the report lists them.
#[must_use]
pub fn health() -> Option<HealthReport> {
    if let Some(report) = health_report::after_panic() {
        return Some(report);
    }
    let control = agent_thread::report();
    capture::hook_later_libraries();
    health_report::assemble(control, capture::inspect())
}

/// Takes how earlier processes of the app ended: `{"exits": […]}`. Returns the ids of the captures that say so, an empty one
/// for an end without a capture. Waits for recovery.
#[cfg(feature = "jni")]
pub(crate) fn report_exits(json: &str) -> Result<Vec<String>, Error> {
    use tracetee_protocol::death::Exits;
    use tracetee_protocol::{json::Limits, record};
    let exits: Exits = record::parse(json.as_bytes(), Limits::DEFAULT)?;
    record::check(&exits)?;
    let (answer, answered) = queue::bounded(1);
    send(Command::Exits(exits.exits, answer))?;
    answered.recv_timeout(PATIENCE).map_err(|_| Error::State("the agent does not answer"))
}

/// Starts, dumps or stops a capture for a local user of the device. Returns the file with the text, if the request is for
/// text.
pub(crate) fn capture_on_device(request: AtraceRequest) -> Result<Option<PathBuf>, String> {
    let (answer, answered) = queue::bounded(1);
    send(Command::OnDevice(Ask { request, answer })).map_err(|error| error.to_string())?;
    match answered.recv_timeout(PATIENCE) {
        Ok(answer) => answer,
        Err(_) => Err("the agent does not answer".to_owned()),
    }
}
