//! The state machine: what is recorded when, and what is kept of it.
//!
//! Pure: each input comes with the time, and is answered with the actions to take ([`Action`]), which
//! [`super::turn`] carries out. Every transition goes through [`StateMachine::step`], which ends by
//! settling the state. So a change of the configuration, a trigger, a refused budget and the end of
//! a window need no rules about each other.
//!
//! ```text
//!            nothing may or need be recorded
//!   Off  <------------------------------------------+
//!    |  a window with triggers or sections          |
//!    +----> Armed -- something fired --> Fired -----+--> back to what is due
//!    |        ^                            | the seconds after it are over: kept
//!    |        +----------------------------+
//!    +----> Open  -- its time is over, or it is closed: stopped and kept
//!       a window is due: at the start, by schedule, by hand
//! ```

use super::budget_ledger::{Ledger, Now};
use super::policy::Policy;
use super::state::{Action, Input, Kept, State};
use std::sync::Arc;
use tracetee_protocol::Map;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::remote_config::{Opens, Window};

/// The pause after a window that exceeded the budget of processor time, or could not be recorded, ms.
pub(crate) const PAUSE_MS: u64 = 600_000;

/// Decides what is recorded and kept.
#[derive(Debug)]
pub(crate) struct StateMachine {
    policy: Arc<Policy>,
    ledger: Ledger,
    state: State,
    /// No step was made yet: `app_start` windows are due.
    is_fresh: bool,
    /// Reason why this process records nothing any more.
    gone: Option<&'static str>,
    /// Manual windows that were asked for.
    asked: Map<String, ()>,
    /// The boot time, ms, until which nothing is recorded, and why.
    paused: Option<(u64, String)>,
    /// The ledger may lack captures of other processes: no capture may begin.
    is_ledger_stale: bool,
    /// Reason why the last window that was due was not opened.
    refused: Option<String>,
}

impl StateMachine {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            policy: Arc::new(Policy::none()),
            ledger,
            state: State::Off("the agent was just installed".to_owned()),
            is_fresh: true,
            gone: None,
            asked: Map::new(),
            paused: None,
            is_ledger_stale: false,
            refused: None,
        }
    }

    /// The configuration in force, as it applies to this device.
    pub(crate) const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Reason why the last window that was due was not opened.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Takes in the captures of other processes.
    pub(crate) fn merge_ledger(&mut self, other: Ledger) {
        self.ledger.merge(other);
    }

    /// Notes whether the ledger may lack captures of other processes.
    pub(crate) const fn set_ledger_stale(&mut self, is_stale: bool) {
        self.is_ledger_stale = is_stale;
    }

    /// Enters a capture that a killed process has made, if the budget has room for it.
    pub(crate) fn admit(&mut self, window: &str, bytes: u64, now: Now) -> bool {
        let budget = self.policy.budget();
        self.ledger.refuses(window, 0, budget, now).is_none() && {
            let number = self.ledger.enter(window, now);
            self.ledger.try_record_bytes(number, bytes, budget, now)
        }
    }

    /// Takes an input and returns the actions that follow from it.
    pub(crate) fn step(&mut self, now: Now, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Tick => {}
            Input::Policy(policy) => {
                self.leave_old_policy(policy.off_at(now).is_none(), &mut actions);
                if policy.document.kill.on && policy.document.kill.purge {
                    actions.push(Action::Purge);
                }
                self.policy = policy;
                // The pause belonged to the old configuration.
                self.paused = None;
            }
            Input::Fired { window, why, from_ns, to_ns } => {
                self.fire(now, window, why, (from_ns, to_ns), &mut actions);
            }
            Input::Ended { window, at_ns } => {
                if let State::Fired(_, kept) = &mut self.state
                    && kept.window == window
                    && let Some((from_ns, to_ns)) = &mut kept.span_ns
                {
                    *to_ns = at_ns.clamp(*from_ns, *to_ns);
                    kept.until_boot_ms = to_ns.div_ceil(1_000_000);
                }
            }
            Input::Open(id) => self.ask(id),
            Input::Close(id) => {
                self.asked.remove(&id);
                if let State::Open(kept) = &mut self.state
                    && self.policy.window(kept.window).is_some_and(|window| window.id == id)
                {
                    kept.until_boot_ms = now.boot_ms;
                }
            }
            Input::Written { number, bytes } => {
                let fits =
                    self.ledger.try_record_bytes(number, bytes, &self.policy.document.budget, now);
                actions.push(if fits { Action::Save } else { Action::Discard(number) });
            }
            Input::Failed(reason) => {
                self.state = State::Off(reason.clone());
                self.paused = Some((now.boot_ms + PAUSE_MS, reason));
            }
            Input::Abort(reason) => {
                self.end_what_is_kept(now);
                self.paused = Some((now.boot_ms + PAUSE_MS, reason));
            }
            Input::Exit => {
                self.end_what_is_kept(now);
                self.gone = Some("the process exits");
            }
        }
        self.settle(now, &mut actions);
        self.is_fresh = false;
        actions
    }

    /// Returns true if `input` may start a capture, so that the shared ledger must be reloaded first.
    pub(crate) fn may_enter(&self, now: Now, input: &Input) -> bool {
        match input {
            Input::Fired { .. } | Input::Open(_) | Input::Policy(_) | Input::Written { .. } => true,
            Input::Tick => {
                let is_free = match &self.state {
                    State::Off(_) | State::Armed(_) => true,
                    State::Fired(_, kept) | State::Open(kept) => kept.until_boot_ms <= now.boot_ms,
                };
                let is_due = |(_, window): (usize, &Window)| self.is_due(window, now);
                self.is_fresh
                    || is_free && (!self.asked.is_empty() || self.policy.windows().any(is_due))
            }
            _ => false,
        }
    }

    /// Returns true if the window has had no capture in the present period of its schedule.
    fn is_due(&self, window: &Window, now: Now) -> bool {
        let Opens::Schedule(schedule) = &window.opens else { return false };
        let (every_s, offset_s) = (schedule.every_s, schedule.offset_s);
        !self.ledger.had_one_in_period(&window.id, every_s, offset_s, now)
    }

    fn ask(&mut self, id: String) {
        let is_manual =
            |index| self.policy.window(index).is_some_and(|window| window.opens == Opens::Manual);
        match self.policy.by_id(&id) {
            Some(index) if is_manual(index) => {
                self.asked.insert(id, ());
            }
            _ => self.refused = Some(format!("{id}: no manual window of that id takes part here")),
        }
    }

    /// Ends what runs under the old policy, because windows are known by their index in it. `keep`:
    /// the next policy allows recording.
    fn leave_old_policy(&mut self, keep: bool, actions: &mut Vec<Action>) {
        match std::mem::replace(&mut self.state, State::Off(String::new())) {
            State::Off(reason) => self.state = State::Off(reason),
            State::Armed(_) => actions.push(Action::Stop),
            State::Fired(_, kept) | State::Open(kept) => {
                actions.push(Action::Stop);
                actions.extend(keep.then_some(Action::Keep(kept)));
            }
        }
        self.asked.clear();
    }

    fn fire(
        &mut self,
        now: Now,
        window: usize,
        why: String,
        span_ns: (u64, u64),
        actions: &mut Vec<Action>,
    ) {
        let armed = match &mut self.state {
            State::Armed(armed) if armed.contains(&window) => std::mem::take(armed),
            State::Fired(_, kept) if kept.also.len() < 16 => return kept.also.push(why),
            _ => return,
        };
        // Another process may have used up the budget since the window was armed.
        if let Some(reason) = self.refusal_now(window, now) {
            self.refused = Some(reason);
            self.state = State::Armed(armed);
            return;
        }
        let mut kept = self.enter(now, window, why, span_ns.1.div_ceil(1_000_000), actions);
        kept.span_ns = Some(span_ns);
        self.state = State::Fired(armed, kept);
    }

    /// Ends the recording of the capture that is waited for.
    fn end_what_is_kept(&mut self, now: Now) {
        if let State::Fired(_, kept) | State::Open(kept) = &mut self.state {
            kept.until_boot_ms = kept.until_boot_ms.min(now.boot_ms);
        }
    }

    /// Enters a capture that begins now into the ledger. It covers the whole recorder.
    fn enter(
        &mut self,
        now: Now,
        window: usize,
        why: String,
        until_boot_ms: u64,
        actions: &mut Vec<Action>,
    ) -> Kept {
        let policy = Arc::clone(&self.policy);
        let id = policy.window(window).map_or("", |window| window.id.as_str());
        actions.push(Action::Save);
        let number = self.ledger.enter(id, now);
        Kept { policy, window, number, why, also: Vec::new(), span_ns: None, until_boot_ms }
    }

    /// Returns why the ledger refuses a capture of the window.
    fn refusal(&self, window: usize, now: Now) -> Option<String> {
        let window = self.policy.window(window)?;
        self.ledger
            .refuses(&window.id, window.cool_down_s, self.policy.budget(), now)
            .map(|reason| format!("{}: {reason}", window.id))
    }

    /// Returns why no capture of the window may begin at this moment.
    fn refusal_now(&self, window: usize, now: Now) -> Option<String> {
        let stale = || {
            let id = &self.policy.window(window)?.id;
            let reason = format!("{id}: another process of the app holds the ledger");
            self.is_ledger_stale.then_some(reason)
        };
        self.refusal(window, now).or_else(stale)
    }

    /// Returns why nothing may be recorded now; forgets a pause that is over.
    fn off_reason_expiring_pause(&mut self, now: Now) -> Option<String> {
        if let Some(reason) = self.gone {
            return Some(reason.to_owned());
        }
        if self.paused.as_ref().is_some_and(|(until_ms, _)| *until_ms <= now.boot_ms) {
            self.paused = None;
        }
        let paused = || self.paused.as_ref().map(|(_, reason)| reason.clone());
        self.policy.off_at(now).or_else(paused)
    }

    /// Moves to the state that follows from policy, ledger, requests and time.
    fn settle(&mut self, now: Now, actions: &mut Vec<Action>) {
        let off = self.off_reason_expiring_pause(now);
        // A recording that the policy forbids is not kept either.
        let forbidden = self.policy.off_at(now).is_some();
        match &mut self.state {
            State::Open(kept) if off.is_some() || kept.until_boot_ms <= now.boot_ms => {
                actions.push(Action::Stop);
                if !forbidden {
                    actions.push(Action::Keep(kept.clone()));
                }
                self.state = State::Off(String::new());
            }
            State::Fired(armed, kept) if off.is_some() || kept.until_boot_ms <= now.boot_ms => {
                let armed = std::mem::take(armed);
                if !forbidden {
                    actions.push(Action::Keep(kept.clone()));
                }
                self.state = State::Armed(armed);
            }
            _ => {}
        }
        if matches!(self.state, State::Open(_) | State::Fired(..)) {
            return;
        }
        if let Some(reason) = off {
            // A refused request is reported; the window does not open later.
            if let Some((id, ())) = self.asked.pop_last() {
                self.refused = Some(format!("{id}: {reason}"));
            }
            self.asked.clear();
            self.disarm(actions);
            self.state = State::Off(reason);
            return;
        }
        if let Some((window, why)) = self.due(now) {
            self.disarm(actions);
            self.open(now, window, why, actions);
            return;
        }
        self.arm(now, actions);
    }

    fn disarm(&mut self, actions: &mut Vec<Action>) {
        if matches!(self.state, State::Armed(_)) {
            actions.push(Action::Stop);
        }
    }

    /// Returns a plain window that is to be opened now, and why.
    fn due(&mut self, now: Now) -> Option<(usize, String)> {
        let mut refused = None;
        let mut due = None;
        for (index, window) in self.policy.windows() {
            let why = match &window.opens {
                Opens::AppStart if self.is_fresh => "app start",
                Opens::Schedule(_) if self.is_due(window, now) => "schedule",
                Opens::Manual if self.asked.contains_key(&window.id) => "asked for",
                _ => continue,
            };
            match self.refusal_now(index, now) {
                None => {
                    due = Some((index, why.to_owned()));
                    break;
                }
                Some(reason) => refused = Some(reason),
            }
        }
        self.asked.clear();
        if refused.is_some() {
            self.refused = refused;
        }
        due
    }

    fn open(&mut self, now: Now, window: usize, why: String, actions: &mut Vec<Action>) {
        let max_s = self.policy.window(window).map_or(Decimal::ZERO, |window| window.max_s);
        let kept = self.enter(now, window, why, now.boot_ms + max_s.of(1000), actions);
        self.state = State::Open(kept);
        actions.push(Action::Record { windows: vec![window], flight: false });
    }

    /// Runs the flight recorder for all windows that may have a capture.
    fn arm(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (mut armed, mut reason) = (Vec::new(), None);
        for (index, window) in self.policy.windows() {
            if window.is_flight() {
                match self.refusal(index, now) {
                    None => armed.push(index),
                    refused => reason = refused,
                }
            }
        }
        if let State::Armed(present) = &mut self.state
            && armed.iter().all(|window| present.contains(window))
            && !armed.is_empty()
        {
            // The recorder runs on and keeps its past.
            *present = armed;
            return;
        }
        self.disarm(actions);
        if armed.is_empty() {
            let none = || "no window is due or waiting".to_owned();
            self.state = State::Off(reason.unwrap_or_else(none));
            return;
        }
        actions.push(Action::Record { windows: armed.clone(), flight: true });
        self.state = State::Armed(armed);
    }
}

#[cfg(test)]
#[path = "state_machine_tests.rs"]
mod tests;
