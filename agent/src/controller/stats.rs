//! The health report: what the capture and the controller say, in one.

use super::report::headline;
use crate::capture;
use tracetee_protocol::{HealthReport, PROTOCOL_VERSION};

/// Returns the health report: the state of the running or last capture, and of the controller;
/// `None` before the first capture of a process in which the agent is not installed. Hooks libraries
/// that were loaded since the last look, so that the report lists them.
#[must_use]
pub fn stats() -> Option<HealthReport> {
    let control = super::report();
    capture::hook_later_libraries();
    let capture::Inspection { has_capture, recording, ended_early, health, summary } =
        capture::inspect();
    if control.is_none() && !has_capture {
        return None;
    }
    let mut headline = control.as_ref().and_then(|control| headline(control, recording));
    for ended in ended_early {
        headline = Some(headline.map_or(ended.clone(), |rest| format!("{ended}; {rest}")));
    }
    let protocol = PROTOCOL_VERSION;
    Some(HealthReport { protocol, headline, control, recording, health, summary })
}
