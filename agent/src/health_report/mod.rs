//! The health report, which `tracetee_health` and `tracetee doctor` show: the process (`process`), its capture, its
//! controller, and a first line with the most important trouble (`headline`).
//!
//! Made on whatever thread asks ([`crate::health`]); the process's part travels in recorder files, too.

mod headline;
mod process;

pub(crate) use process::{of_this_process, take_hooks, with_tags};

use headline::headline;
use tracetee_os::guard;
use tracetee_protocol::health::Health;
use tracetee_protocol::{ControlReport, HealthReport, PROTOCOL_VERSION};
use tracetee_text::Summary;

/// The capture's part of the health report.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// True if there is a capture, running or stopped.
    pub(crate) has_capture: bool,
    pub(crate) recording: bool,
    /// Reasons why recording has ended before the capture's stop.
    pub(crate) ended_early: Vec<String>,
    pub(crate) health: Health,
    pub(crate) summary: Summary,
}

/// Makes the report from its parts; `None` if there is neither a controller nor a capture.
pub(crate) fn assemble(
    control: Option<ControlReport>,
    capture: Inspection,
) -> Option<HealthReport> {
    let Inspection { has_capture, recording, ended_early, health, summary } = capture;
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

/// Returns the health report of an agent that a panic has switched off; `None` while it is in order. Needs no
/// guard: takes no lock, and reads nothing that the panic may have left half done.
#[must_use]
pub(crate) fn after_panic() -> Option<HealthReport> {
    let headline = Some(guard::reason()?.to_owned());
    let mut health = of_this_process();
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
