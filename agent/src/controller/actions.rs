//! Executes the state machine's actions: starts and stops recording, keeps and discards captures.

use super::Controller;
use crate::capture::{self, Owner};
use crate::controller::budget_ledger::Now;
use crate::controller::capture_writer::Observed;
use crate::controller::daily_ledger;
use crate::controller::process_signals;
use crate::controller::state::{Action, Input, Kept, State, Waited};
use crate::controller::triggers::Triggers;
use crate::error::Error;
use crate::section;
use std::sync::Arc;
use tracetee_protocol::notes;
use tracetee_text::redact::Redactor;

/// Takes the window and the id of each capture that begins, on the agent's thread.
#[cfg(feature = "jni")]
pub(crate) static ON_CAPTURE: std::sync::OnceLock<fn(&str, &str)> = std::sync::OnceLock::new();

impl Controller {
    /// Gives the state machine an input and executes its actions, and those that follow from them.
    pub(super) fn step(&mut self, now: Now, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            // The ledger of all processes decides whether a capture may begin, one at a time.
            let mut lock = self.machine.may_enter(now, &input).then(|| self.store.lock_ledger());
            if let Some(lock) = &lock {
                if let Err(error) = lock {
                    self.trouble = Some(error.to_string());
                }
                self.machine.merge_ledger(self.store.ledger());
                self.machine.set_ledger_stale(lock.is_err());
            }
            let actions = self.machine.step(now, input);
            let last_save = actions.iter().rposition(|action| *action == Action::Save);
            for (index, action) in actions.into_iter().enumerate() {
                if last_save.is_none_or(|last| index > last) {
                    // Other processes wait for the lock, and the following work is slow.
                    lock = None;
                }
                self.act(action, &mut inputs);
            }
        }
        self.settle(now);
    }

    fn act(&mut self, action: Action, inputs: &mut Vec<Input>) {
        match action {
            Action::Save => {
                let saved = self.store.save_ledger(self.machine.ledger());
                self.note_trouble(saved);
            }
            Action::Record { windows, flight } => {
                if let Err(error) = self.record(&windows, flight) {
                    inputs.push(Input::Failed(error.to_string()));
                }
            }
            Action::Stop => {
                let stopped = capture::stop(Owner::Controller);
                self.note_trouble(stopped);
            }
            Action::Keep(kept) => {
                let observed = Observed {
                    tag_resets: self.observer.tag_resets(),
                    overhead_percent: self.observer.overhead_percent(),
                };
                inputs.extend(self.writer.keep(&kept, self.machine.policy(), observed));
            }
            Action::Discard(number) => {
                self.writer.discard(number, self.machine.policy().budget().bytes_per_day);
            }
            Action::Purge => {
                self.store.purge();
                self.writer.spool.purge();
            }
        }
    }

    /// Starts recording for these windows.
    fn record(&mut self, windows: &[usize], flight: bool) -> Result<(), Error> {
        if self.on_device.is_running() {
            return Err(Error::State("a capture was requested on the device"));
        }
        let policy = Arc::clone(self.machine.policy());
        let all: Vec<_> = windows.iter().filter_map(|&index| policy.window(index)).collect();
        self.probation.begin(policy.document.crash_loop.within_s)?;
        self.observer.measure(self.probation.guard.cost())?;
        let streamed = match self.machine.state() {
            State::Open(kept) => Some(kept),
            _ => None,
        };
        let pools = self.store.pools();
        let config = self.writer.configure(&policy, &all, flight, streamed, pools)?;
        let redactor = tracetee_text::rules(&config.text)?.map(Redactor::new);
        // Before records are taken: this recording contains no sample requested by the previous one.
        process_signals::sample_stacks(policy.stacks(&all));
        capture::start_lending(Owner::Controller, &config, &|work| self.lend(work))?;
        if self.kept_at_start.is_none() {
            self.note_late_start();
        }
        if let State::Open(Kept { waited: Some(waited), .. }) = self.machine.state() {
            let Waited { ms, window } = waited;
            section::note(&format!("{}waited {ms} ms for window {window}", notes::PREFIX));
        }
        self.writer.note_begun();
        self.probation.note_hooked(Now::read());
        let main_tid = std::process::id().cast_signed();
        let windows = if flight { windows } else { &[] };
        let mut triggers = Triggers::new(&policy, windows, main_tid, redactor);
        triggers.frames = daily_ledger::wants_markers().then(Vec::new);
        self.observer.begin(triggers);
        Ok(())
    }

    /// Seals the written capture, and frees data that the state no longer needs.
    fn settle(&mut self, now: Now) {
        self.writer.seal();
        if self.writer.take_arrival()
            && let Some(uploads) = &self.uploads
        {
            uploads.wake();
        }
        if !matches!(self.machine.state(), State::Open(_)) {
            self.writer.drop_stream();
        }
        #[cfg(feature = "jni")]
        if let State::Fired(_, kept) | State::Open(kept) = self.machine.state()
            && let Some(call) = ON_CAPTURE.get()
        {
            self.writer.announce(kept, *call);
        }
        match self.machine.state() {
            State::Off(_) => {
                process_signals::sample_stacks(None);
                self.observer.triggers = Triggers::default();
                let is_forbidden = self.machine.policy().off_at(now).is_some();
                let was_early = capture::discard_early();
                capture::release(is_forbidden);
                if is_forbidden || was_early {
                    self.probation.note_unhooked();
                }
            }
            State::Armed(armed) => self.observer.triggers.keep(armed),
            State::Fired(..) | State::Open(_) => {}
        }
    }
}
