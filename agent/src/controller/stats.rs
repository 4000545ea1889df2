//! The health report: what the capture and the controller say, in one.

use super::report::headline;
use crate::{capture, health};
use tracetee_os::guard;
use tracetee_protocol::{HealthReport, PROTOCOL_VERSION};
use tracetee_text::Summary;

/// Returns the health report of an agent that a panic has switched off; `None` while it is in order. Needs no
/// guard: takes no lock, and reads nothing that the panic may have left half done.
#[must_use]
pub(crate) fn report_after_panic() -> Option<HealthReport> {
    let headline = Some(guard::reason()?.to_owned());
    let mut health = health::of_this_process();
    match tracetee_hooks::left_after_panic() {
        Some(0) => {}
        Some(left) => {
            health.hooked_slots = u64::try_from(left).unwrap_or(u64::MAX);
            health.not_hooked.push(format!("{left} slots cannot be restored; they pass calls on"));
        }
        None => health.not_hooked.push("the slots have not been restored yet".to_owned()),
    }
    Some(HealthReport {
        protocol: PROTOCOL_VERSION,
        headline,
        control: None,
        recording: false,
        health,
        summary: Summary::default(),
    })
}

/// Returns the health report: the state of the running or last capture, and of the controller;
/// `None` before the first capture of a process in which the agent is not installed. Hooks libraries
/// that were loaded since the last look, so that the report lists them.
#[must_use]
pub fn stats() -> Option<HealthReport> {
    if let Some(report) = report_after_panic() {
        return Some(report);
    }
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
