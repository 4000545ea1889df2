//! The agent's control socket: an abstract Unix socket per process, on which `tracetee doctor` and
//! `tracetee atrace` ask.
//!
//! A request is one line, the answer ends with the connection.

/// Start of the socket's abstract name; the process id follows.
pub const NAME_PREFIX: &str = "tracetee-";
/// Request for the health report.
pub const HEALTH: &str = "health";
/// Start of a request for a capture on the device; its JSON follows.
pub const ATRACE: &str = "atrace ";

/// Abstract name of the control socket of a process.
#[must_use]
pub fn name(pid: u32) -> String {
    format!("{NAME_PREFIX}{pid}")
}
