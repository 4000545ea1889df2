//! The controller's part of the health report.

use super::budget_ledger::Now;
use super::capture_writer::CaptureWriter;
use super::config_source::ConfigSource;
use super::control_socket;
use super::observer::Observer;
use super::process_signals;
use super::state::State;
use super::state_machine::StateMachine;
use super::uploads::{self, Uploads};
use crate::section;
use tracetee_protocol::remote_config::{Opens, Window};
use tracetee_protocol::{ConfigReport, ControlReport, LateStartReport, WindowReport};
use tracetee_uploader::UploadStatus;

/// The controller's parts that the report is about.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) machine: &'a StateMachine,
    pub(crate) source: &'a ConfigSource,
    pub(crate) observer: &'a Observer,
    pub(crate) writer: &'a CaptureWriter,
    pub(crate) uploads: Option<&'a Uploads>,
    pub(crate) uploads_failed: Option<&'a str>,
    pub(crate) late_start: Option<&'a LateStartReport>,
    pub(crate) trouble: Option<&'a str>,
}

/// Reports on the configuration, its windows and the captures.
pub(crate) fn report(parts: &Parts<'_>) -> ControlReport {
    let Parts { machine, source, observer, writer, late_start, trouble, .. } = *parts;
    let now = Now::read();
    let (state, reason) = self::state(machine);
    let account = writer.account();
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
        late_start: late_start.cloned(),
        upload: upload(parts),
        socket_refused: control_socket::refused(),
        other_screens: process_signals::other_screens(),
        trouble: trouble.map(ToOwned::to_owned),
    }
}

/// Reports the captures that wait in the spool, and the last pass.
fn upload(parts: &Parts<'_>) -> UploadStatus {
    let now = parts.writer.spool().status(uploads::time());
    let mut last = parts.uploads.map(Uploads::status).unwrap_or_default();
    last.trouble = last.trouble.or(parts.uploads_failed.map(ToOwned::to_owned));
    let UploadStatus { waiting, waiting_bytes, lost, consent, .. } = now;
    UploadStatus { waiting, waiting_bytes, lost, consent, ..last }
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
