//! Answers for the app's threads: whether a requested window will open.
//!
//! After each turn the agent's thread stores a copy of the state machine here, which makes the same decisions as the machine
//! itself. Nothing here touches a file or waits for the agent's thread. Protected by the lock of [`super::agent_thread`].

use super::budget_ledger::Now;
use super::state_machine::StateMachine;

/// Forecast of the agent's next decisions.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    view: View,
    /// Commands that were sent, and those that the view takes into account.
    sent: u64,
    taken: u64,
}

#[derive(Debug, Default)]
enum View {
    /// The agent reads its files.
    #[default]
    Starting,
    /// The start has failed, for this reason.
    Failed(String),
    /// The state machine, and why nothing can be recorded for it now.
    Running(Box<StateMachine>, Option<&'static str>),
}

impl Outlook {
    /// Counts a command that was queued.
    pub(super) const fn note_sent(&mut self) {
        self.sent += 1;
    }

    /// Takes the state after `taken` commands since the start.
    pub(super) fn show(
        &mut self,
        (machine, blocked): (StateMachine, Option<&'static str>),
        taken: u64,
    ) {
        self.view = View::Running(Box::new(machine), blocked);
        self.taken = taken;
    }

    /// Marks that no more state will follow.
    pub(super) fn fail(&mut self, reason: &str) {
        self.view = View::Failed(reason.to_owned());
    }

    /// True if all commands that were sent have had their effect, so that an answer holds.
    pub(super) const fn is_current(&self) -> bool {
        match self.view {
            View::Starting => false,
            View::Failed(_) => true,
            View::Running(..) => self.taken == self.sent,
        }
    }

    /// Returns why nothing would be recorded if the window were requested now.
    pub(super) fn refusal_of_open(&self, id: &str, now: Now) -> Option<String> {
        let why = match &self.view {
            View::Starting => "the agent still reads its files; ask again".to_owned(),
            View::Failed(reason) => reason.clone(),
            View::Running(..) if !self.is_current() => {
                "the agent is busy with earlier calls; ask again".to_owned()
            }
            View::Running(_, Some(blocked)) => (*blocked).to_owned(),
            View::Running(machine, None) => return machine.refusal_of_request(id, now),
        };
        Some(format!("{id}: {why}"))
    }

    /// Returns why closing the window now ends no capture, although it was requested.
    pub(super) fn refusal_of_close(&self, id: &str, now: Now) -> Option<String> {
        match &self.view {
            View::Running(machine, _) if self.is_current() => machine.refusal_of_close(id, now),
            _ => None,
        }
    }
}
