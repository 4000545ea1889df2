//! The controller's part of the health report.

use super::Controller;
use super::budget_ledger::Now;
use super::control_socket;
use super::process_signals;
use super::state::State;
use super::state_machine::StateMachine;
use super::uploads::{self, Uploads};
use crate::section;
use tracetee_protocol::remote_config::{Opens, Window};
use tracetee_protocol::{ConfigReport, ControlReport, WindowReport};
use tracetee_uploader::UploadStatus;

impl Controller {
    /// Reports on the configuration, its windows and the captures.
    pub(crate) fn report(&self) -> ControlReport {
        let Self { machine, source, observer, writer, .. } = self;
        let now = Now::read();
        let (state, reason) = state(machine);
        let account = &writer.account;
        ControlReport {
            state: state.to_owned(),
            reason,
            config: source.in_force.as_ref().map(|in_force| ConfigReport {
                seq: in_force.document.seq,
                not_after: in_force.document.not_after,
                warnings: in_force.warnings.clone(),
            }),
            config_refused: source.refused.clone(),
            windows: windows(machine, now),
            coroutines: coroutines(machine, now),
            last_refused: machine.refused().map(ToOwned::to_owned),
            last_capture: account.last.clone(),
            captures: account.kept,
            captures_lost: account.lost,
            last_lost: account.last_lost.clone(),
            spent: machine.ledger().spent(now),
            overhead: observer.overhead_report(),
            tag_resets: observer.tag_resets(),
            late_start: self.late_start.clone(),
            upload: self.upload(),
            socket_refused: control_socket::refused(),
            other_screens: process_signals::other_screens(),
            trouble: self.trouble.clone(),
        }
    }

    /// Reports the captures that wait in the spool, and the last pass.
    fn upload(&self) -> UploadStatus {
        let now = self.writer.spool.status(uploads::time());
        let mut last = self.uploads.as_ref().map(Uploads::status).unwrap_or_default();
        last.trouble = last.trouble.or_else(|| self.uploads_failed.clone());
        let UploadStatus { waiting, waiting_bytes, lost, consent, .. } = now;
        UploadStatus { waiting, waiting_bytes, lost, consent, ..last }
    }
}

/// The state's name, and its human-readable reason.
fn state(machine: &StateMachine) -> (&'static str, String) {
    match machine.state() {
        State::Off(reason) => ("off", reason.clone()),
        State::Armed(_) => ("armed", "the flight recorder runs".to_owned()),
        State::Fired(_, kept) => ("fired", kept.why.clone()),
        State::Open(kept) => ("open", kept.why.clone()),
    }
}

/// Reports whether coroutines are traced, if the configuration requests it.
fn coroutines(machine: &StateMachine, now: Now) -> Option<String> {
    match machine.policy().coroutines_at(now) {
        Ok(false) => None,
        Ok(true) if section::traces_coroutines() => Some("on".to_owned()),
        Ok(true) => Some("from the app's next start on".to_owned()),
        Err(reason) => Some(reason),
    }
}

/// Reports the state of each window of the configuration, or the reason why it is idle.
fn windows(machine: &StateMachine, now: Now) -> Vec<WindowReport> {
    let policy = machine.policy();
    let all = policy.document.windows.iter().zip(&policy.out).enumerate();
    all.map(|(index, (window, out))| WindowReport {
        id: window.id.clone(),
        status: policy
            .off_at(now)
            .or_else(|| out.clone())
            .unwrap_or_else(|| status(machine, index, window, now)),
    })
    .collect()
}

fn status(machine: &StateMachine, index: usize, window: &Window, now: Now) -> String {
    match machine.state() {
        State::Open(kept) if kept.window == index => return "open".to_owned(),
        State::Fired(_, kept) if kept.window == index => return format!("fired: {}", kept.why),
        State::Armed(armed) | State::Fired(armed, _) if armed.contains(&index) => {
            return "armed".to_owned();
        }
        _ => {}
    }
    let budget = machine.policy().budget();
    let refused = machine.ledger().refuses(&window.id, window.cool_down_s, budget, now);
    let waits = || match window.opens {
        Opens::AppStart => "opens when the app starts",
        Opens::Schedule(_) => "already captured in this period",
        Opens::Manual => "opens when the app requests it",
        Opens::Section(_) | Opens::Triggers(_) => "waits for the recorder",
    };
    refused.unwrap_or_else(|| waits().to_owned())
}
