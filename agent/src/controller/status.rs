//! The state machine's part of the health report.

use super::budget_ledger::Now;
use super::state_machine::{State, StateMachine};
use tracetee_protocol::WindowReport;
use tracetee_protocol::remote_config::{Opens, Window};

/// The state's name, and its reason for people.
pub(crate) fn state(machine: &StateMachine) -> (&'static str, String) {
    match machine.state() {
        State::Off(reason) => ("off", reason.clone()),
        State::Armed(_) => ("armed", "the flight recorder runs".to_owned()),
        State::Fired(_, kept) => ("fired", kept.why.clone()),
        State::Open(kept) => ("open", kept.why.clone()),
    }
}

/// Reports the state of each window of the configuration, or the reason why it is idle.
pub(crate) fn windows(machine: &StateMachine, now: Now) -> Vec<WindowReport> {
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
        Opens::Schedule(_) => "had its capture in this period",
        Opens::Manual => "opens when it is asked for",
        Opens::Section(_) | Opens::Triggers(_) => "waits for the recorder",
    };
    refused.unwrap_or_else(|| waits().to_owned())
}
