//! The state of the running or last capture, for the health report.
//!
//! Made under the capture's lock, on the thread that asks for the report.

use super::hooked::Hooks;
use super::recording::Capture;
use super::slot::CLONED;
use crate::health_report::{self, Inspection};
use crate::tags::Tags;
use crate::{recover, section};
use tracetee_protocol::health::Health;
use tracetee_recorder::{clock, session};
use tracetee_tee::thread_name;
use tracetee_text::Summary;

impl Inspection {
    /// Inspects a capture, running or stopped.
    pub(super) fn with_capture(capture: &mut Capture) -> Self {
        let mut health = capture.health();
        health.recovered = recover::outcomes();
        let recording = section::is_recording();
        let is_clone = capture.is_running() && session::is_another_process();
        let reasons = [
            (clock::was_forbidden(), "prctl PR_SET_TSC forbade the clock"),
            (thread_name::is_strict(), "prctl PR_SET_SECCOMP, strict mode"),
            (is_clone, CLONED),
        ];
        let ended = reasons.into_iter().filter(|(has_ended, _)| *has_ended);
        let ended_early: Vec<_> =
            ended.map(|(_, reason)| format!("recording ended: {reason}")).collect();
        health.not_hooked.extend_from_slice(&ended_early);
        if capture.is_running() && !is_clone {
            capture.place_losses();
        }
        let summary = capture.summary();
        Self { has_capture: true, recording, ended_early, health, summary }
    }

    /// Inspects a process without a capture: the hooks that the controller keeps in place, and the
    /// report and tags of its last capture.
    pub(super) fn without_capture(
        hooks: Option<&Hooks>,
        ended: Option<&mut (Health, Tags)>,
    ) -> Self {
        let mut health = match ended {
            Some((health, tags)) => health_report::with_tags(health, tags),
            None => health_report::of_this_process(),
        };
        if let Some(hooks) = hooks {
            hooks.report_to(&mut health);
        }
        health.recovered = recover::outcomes();
        Self {
            has_capture: false,
            recording: false,
            ended_early: Vec::new(),
            health,
            summary: Summary::default(),
        }
    }
}
