//! The state machine: decides what is recorded when, and which records are kept.
//!
//! Pure: each input comes with the time, and is answered with the actions to take ([`Action`]), which [`super::turn`]
//! executes. Every transition goes through [`StateMachine::step`], which ends by settling the state. So a change of the
//! configuration, a trigger, a refused budget and the end of a window need no rules about each other.
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
use super::state::{Action, Input, Kept, State, Waited};
use std::sync::Arc;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::remote_config::{Opens, Window};

/// The pause after a window that exceeded the budget of processor time, or could not be recorded, ms.
pub(crate) const PAUSE_MS: u64 = 600_000;

/// Decides what is recorded and kept. A copy makes the same decisions: see
/// [`StateMachine::refusal_of_request`].
#[derive(Debug, Clone)]
pub(crate) struct StateMachine {
    policy: Arc<Policy>,
    /// Shared with copies until it changes.
    ledger: Arc<Ledger>,
    state: State,
    /// No step was made yet: `app_start` windows are due.
    is_fresh: bool,
    /// Reason why this process no longer records.
    gone: Option<&'static str>,
    /// The manual window that was requested and is not open yet.
    asked: Option<Asked>,
    /// The boot time, ms, until which nothing is recorded, and why.
    paused: Option<(u64, String)>,
    /// The ledger may lack captures of other processes: no capture may begin.
    is_ledger_stale: bool,
    /// Reason why the last window that was due was not opened.
    refused: Option<String>,
}

/// A request for a manual window.
#[derive(Debug, Clone)]
struct Asked {
    id: String,
    /// Boot time of the request, ms.
    since_ms: u64,
    /// Id of the window that was being captured then.
    behind: Option<String>,
}

/// A plain window that is to be opened now, why, and how long its request has waited.
type Due = (usize, &'static str, Option<Waited>);

impl StateMachine {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            policy: Arc::new(Policy::none()),
            ledger: Arc::new(ledger),
            state: State::Off("the agent was just installed".to_owned()),
            is_fresh: true,
            gone: None,
            asked: None,
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

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Reason why the last window that was due was not opened.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Takes in the captures of other processes.
    pub(crate) fn merge_ledger(&mut self, other: Ledger) {
        Arc::make_mut(&mut self.ledger).merge(other);
    }

    /// Notes a request that was refused earlier.
    pub(crate) fn note_refused(&mut self, reason: String) {
        self.refused = Some(reason);
    }

    /// Returns why a request to open the manual window `id` at this time would record nothing, now or after
    /// the capture that runs. Other processes of the app may use up the budget until then.
    pub(crate) fn refusal_of_request(&self, id: &str, now: Now) -> Option<String> {
        let mut next = self.clone();
        next.refused = None;
        // This is checked again when the request is executed.
        next.is_ledger_stale = false;
        next.step(now, Input::Open(id.to_owned()));
        let is_asked = next.asked.as_ref().is_some_and(|asked| asked.id == id);
        if is_asked || next.has_open(id) {
            return None;
        }
        Some(next.refused.unwrap_or_else(|| format!("{id}: it does not open")))
    }

    /// Returns why closing the window `id` at this time ends no capture: its request still waits.
    pub(crate) fn refusal_of_close(&self, id: &str, now: Now) -> Option<String> {
        let mut next = self.clone();
        next.step(now, Input::Tick);
        let asked = next.asked.filter(|asked| asked.id == id)?;
        let behind = asked.behind?;
        let ms = now.boot_ms.saturating_sub(asked.since_ms);
        Some(format!("{id}: nothing was recorded, because it waited {ms} ms for window {behind}"))
    }

    /// True while the window with this id is recorded.
    fn has_open(&self, id: &str) -> bool {
        let State::Open(kept) = &self.state else { return false };
        kept.window().is_some_and(|window| window.id == id)
    }

    /// Notes whether the ledger may lack captures of other processes.
    pub(crate) const fn set_ledger_stale(&mut self, is_stale: bool) {
        self.is_ledger_stale = is_stale;
    }

    /// Enters a capture that a killed process has made, if the budget has room for it.
    pub(crate) fn admit(&mut self, window: &str, bytes: u64, now: Now) -> bool {
        let budget = self.policy.budget();
        self.ledger.refuses(window, 0, budget, now).is_none() && {
            let ledger = Arc::make_mut(&mut self.ledger);
            let number = ledger.enter(window, now);
            ledger.try_record_bytes(number, bytes, self.policy.budget(), now)
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
            Input::Open(id) => self.ask(now, id),
            Input::Close(id) => {
                self.asked.take_if(|asked| asked.id == id);
                if let State::Open(kept) = &mut self.state
                    && self.policy.window(kept.window).is_some_and(|window| window.id == id)
                {
                    kept.until_boot_ms = now.boot_ms;
                }
            }
            Input::Written { number, bytes } => {
                let ledger = Arc::make_mut(&mut self.ledger);
                let fits = ledger.try_record_bytes(number, bytes, self.policy.budget(), now);
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
                    || is_free && (self.asked.is_some() || self.policy.windows().any(is_due))
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

    /// Notes a request for a manual window, which opens when nothing else is captured. One request waits at a
    /// time; one that the ledger refuses does not wait.
    fn ask(&mut self, now: Now, id: String) {
        let Some(index) = self.manual(&id) else {
            let reason = self.policy.off_at(now).map(|reason| format!("{id}: {reason}"));
            self.refused = Some(reason.unwrap_or_else(|| no_manual_window(&id)));
            return;
        };
        if let Some(asked) = &self.asked {
            if asked.id != id {
                self.refused = Some(format!("{id}: window {} is waiting to open", asked.id));
            }
            return;
        }
        let mut behind = None;
        if let State::Fired(_, kept) | State::Open(kept) = &self.state
            && kept.until_boot_ms > now.boot_ms
        {
            if self.has_open(&id) {
                return;
            }
            behind = kept.window().map(|window| window.id.clone());
            if let Some(reason) = self.refusal_now(index, now) {
                self.refused = Some(reason);
                return;
            }
        }
        self.asked = Some(Asked { id, since_ms: now.boot_ms, behind });
    }

    /// Returns the index of the manual window with this id, if it takes part here.
    fn manual(&self, id: &str) -> Option<usize> {
        let is_manual = |index| {
            self.policy.window(index).is_some_and(|window| matches!(window.opens, Opens::Manual))
        };
        self.policy.by_id(id).filter(|&index| is_manual(index))
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
        let mut kept = self.enter(now, window, why, None, span_ns.1.div_ceil(1_000_000), actions);
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
        waited: Option<Waited>,
        until_boot_ms: u64,
        actions: &mut Vec<Action>,
    ) -> Kept {
        let policy = Arc::clone(&self.policy);
        let id = policy.window(window).map_or("", |window| window.id.as_str());
        actions.push(Action::Save);
        let number = Arc::make_mut(&mut self.ledger).enter(id, now);
        let (also, span_ns) = (Vec::new(), None);
        Kept { policy, window, number, why, also, waited, span_ns, until_boot_ms }
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
            if let Some(asked) = self.asked.take() {
                self.refused = Some(format!("{}: {reason}", asked.id));
            }
            self.disarm(actions);
            self.state = State::Off(reason);
            return;
        }
        if let Some(due) = self.due(now) {
            self.disarm(actions);
            self.open(now, due, actions);
            return;
        }
        self.arm(now, actions);
    }

    fn disarm(&mut self, actions: &mut Vec<Action>) {
        if matches!(self.state, State::Armed(_)) {
            actions.push(Action::Stop);
        }
    }

    /// Returns a plain window to open now: a requested one comes first.
    fn due(&mut self, now: Now) -> Option<Due> {
        if let Some(asked) = self.asked.take() {
            let refusal = match self.manual(&asked.id) {
                Some(index) => match self.refusal_now(index, now) {
                    None => {
                        let ms = now.boot_ms.saturating_sub(asked.since_ms);
                        let waited = asked.behind.map(|window| Waited { ms, window });
                        return Some((index, "asked for", waited));
                    }
                    Some(reason) => reason,
                },
                None => no_manual_window(&asked.id),
            };
            self.refused = Some(refusal);
        }
        for (index, window) in self.policy.windows() {
            let why = match &window.opens {
                Opens::AppStart if self.is_fresh => "app start",
                Opens::Schedule(_) if self.is_due(window, now) => "schedule",
                _ => continue,
            };
            match self.refusal_now(index, now) {
                None => return Some((index, why, None)),
                refused => self.refused = refused,
            }
        }
        None
    }

    fn open(&mut self, now: Now, (window, why, waited): Due, actions: &mut Vec<Action>) {
        let max_s = self.policy.window(window).map_or(Decimal::ZERO, |window| window.max_s);
        let until_boot_ms = now.boot_ms + max_s.of(1000);
        let kept = self.enter(now, window, why.to_owned(), waited, until_boot_ms, actions);
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

fn no_manual_window(id: &str) -> String {
    format!("{id}: no manual window of that id takes part here")
}

#[cfg(test)]
#[path = "state_machine_tests.rs"]
mod tests;
