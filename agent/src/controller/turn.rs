//! The controller's turns: executes the decisions of the state machine, and reports events to it.
//!
//! Runs on the agent's thread, four times a second while something is recorded, once a second otherwise, twice while the
//! ledger counts a visible app. A turn looks at the configuration's file, at the new records (for triggers), at the tags and
//! at the overhead. None of it runs on the app's threads, whose requests come as [`Command`]s. `start` makes the controller;
//! `actions` executes the actions of the state machine.

use super::Controller;
use super::budget_ledger::Now;
use super::command::Command;
use super::crash_recovery;
use super::daily_ledger::{self, DailyLedger};
use super::on_device_capture::Ask;
use super::policy::Policy;
use super::start_file::AtStart;
use super::state::{Input, State};
use super::state_machine::StateMachine;
use super::triggers::Finding;
use super::uploads::{Passer, Uploads};
use crate::capture;
use crate::error::Error;
use crate::section;
use std::sync::Arc;
use std::time::Duration;
use tracetee_protocol::control_socket::{AtraceRequest, CaptureOptions};
use tracetee_protocol::death::Exit;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::notes;
use tracetee_protocol::remote_config::{Opens, Window};
use tracetee_recorder::clock;

/// The pause between turns while something is recorded, and while nothing is.
const RECORDING: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(1);
/// The pause between checks of the configuration's file, ms.
const SOURCE_MS: u64 = 1000;
/// Recorder files, one of this process among them, up to which recovery waits for the report of ends.
const MOST_RECORDERS: usize = 4;

impl Controller {
    /// Returns the time that the thread may sleep until the next turn.
    pub(crate) fn pause(&self) -> Duration {
        match self.machine.state() {
            State::Off(_) if !self.on_device.is_running() => {
                if daily_ledger::is_busy() {
                    IDLE / 2
                } else {
                    IDLE
                }
            }
            State::Off(_) | State::Armed(_) => RECORDING,
            State::Fired(_, kept) | State::Open(kept) => {
                let left_ms = kept.until_boot_ms.saturating_sub(Now::read().boot_ms);
                RECORDING.min(Duration::from_millis(left_ms.max(1)))
            }
        }
    }

    /// Carries out a request of the app.
    pub(crate) fn command(&mut self, command: Command) {
        let now = Now::read();
        match command {
            Command::Trigger(name, at_ns) => {
                // Earlier records first, because their triggers precede this one.
                self.observer.look_at_records(now);
                self.observer.triggers.custom(&name, at_ns);
                self.take_findings(now);
            }
            Command::LowMemory => {
                self.observer.triggers.memory(Decimal::ZERO, clock::boot_ns());
                self.take_findings(now);
            }
            Command::Open(id) => self.step(now, Input::Open(id)),
            Command::NotOpened(reason) => self.machine.note_refused(reason),
            Command::Close(id) => self.step(now, Input::Close(id)),
            Command::Offer(bytes, signature) => {
                if self.source.offer(&bytes, &signature, &self.store, now) {
                    self.source.keep(&self.store);
                    self.apply_config(now);
                    self.keep_at_start();
                }
            }
            Command::Asks(asks) => {
                self.source.take_asks(&asks, &self.store, now);
                self.apply_asks(now);
            }
            Command::OnDevice(ask) => self.answer(&ask, now),
            #[cfg(feature = "jni")]
            Command::Exits(exits, answer) => {
                for exit in &exits {
                    daily_ledger::count_exit(&exit.death.reason, exit.death.visible);
                }
                // From here on, the app no longer waits.
                answer.send(self.recover(&exits, now));
            }
            Command::Consent(given) => self.consent(given, now),
            Command::Net(net) => {
                if let Some(uploads) = &self.uploads {
                    uploads.set_net(net);
                }
            }
        }
    }

    /// Checks everything once.
    pub(crate) fn turn(&mut self) {
        let now = Now::read();
        if !self.has_recovered && !self.awaits_exits(now) {
            self.recover(&[], now);
        }
        let within_s = self.machine.policy().document.crash_loop.within_s;
        self.probation.look(within_s, now);
        if now.boot_ms.saturating_sub(self.source_seen_ms) >= SOURCE_MS {
            self.source_seen_ms = now.boot_ms;
            if self.source.look(&self.store, now) {
                self.source.keep(&self.store);
                self.apply_config(now);
                self.keep_at_start();
            }
            self.apply_asks(now);
        }
        if self.on_device.is_running()
            && (self.on_device.is_over(now) || self.may_capture_on_device(now).is_err())
        {
            // Otherwise no window would ever be recorded again.
            self.on_device.end();
        }
        if self.on_device.is_running() {
            self.observer.look_at_tags();
        }
        if !matches!(self.machine.state(), State::Off(_)) {
            if !capture::is_open() {
                // prctl(PR_SET_TSC), for example.
                self.step(now, Input::Abort("the process has ended the recording".to_owned()));
            }
            self.observer.look_at_tags();
            self.observer.look_at_records(now);
            if let Some(frames) = &mut self.observer.triggers.frames {
                daily_ledger::count_markers(&std::mem::take(frames));
            }
            self.observer.look_at_process(now);
            self.take_findings(now);
            self.check_overhead(now);
        }
        self.step(now, Input::Tick);
        self.count(now, false);
        let synced = self.store.sync_ledger();
        self.note_trouble(synced);
    }

    /// Writes the ledger, if it is time or `is_last`.
    fn count(&mut self, now: Now, is_last: bool) {
        let (policy, spool) = (self.machine.policy(), &self.writer.spool);
        let counted = self.ledger.turn(policy, spool, now, self.observer.used_ns(), is_last);
        self.note_trouble(counted);
    }

    /// True while the app's report on the ends of earlier processes may still arrive. A process that finds many recorders
    /// does not wait: the last ones did not live for long.
    fn awaits_exits(&mut self, now: Now) -> bool {
        let awaits = self.exits_until_ms.is_some_and(|until| now.boot_ms < until)
            && self.machine.policy().off.is_none();
        let found = || std::fs::read_dir(self.store.pools()).map_or(0, Iterator::count);
        awaits && found() <= MOST_RECORDERS
    }

    /// Recovers what killed processes have left. Returns the ids of the captures that have these ends, by their order.
    fn recover(&mut self, exits: &[Exit], now: Now) -> Vec<String> {
        let (machine, store, writer) = (&mut self.machine, &self.store, &mut self.writer);
        let (ids, recovered) = crash_recovery::recover(machine, store, writer, exits, now);
        self.note_trouble(recovered);
        if !std::mem::replace(&mut self.has_recovered, true) {
            self.store.sweep();
        }
        ids
    }

    /// Ends in order: the process exits, or the agent is uninstalled.
    pub(crate) fn exit(&mut self) {
        self.on_device.end();
        self.step(Now::read(), Input::Exit);
        self.count(Now::read(), true);
        self.uploads = None;
        capture::release(true);
        self.probation.guard.survived();
        let synced = self.store.sync_ledger();
        self.note_trouble(synced);
    }

    /// In a forked child: forgets the parent's threads, files and locks.
    pub(crate) fn forget(self) {
        let Self { uploads, writer, .. } = self;
        uploads.into_iter().for_each(Uploads::forget);
        writer.forget();
    }

    /// Returns what decides on requests for windows: the state machine, and why it may not decide now.
    pub(crate) fn outlook(&self) -> (StateMachine, Option<&'static str>) {
        let blocked = self.on_device.is_running();
        (self.machine.clone(), blocked.then_some("a capture was requested on the device"))
    }

    /// Returns the passer that the app's thread needs for an upload; `None` if nothing is sent.
    pub(crate) fn passer(&self) -> Option<Passer> {
        self.uploads.as_ref().map(Uploads::passer)
    }

    // ---- configuration and consent ----

    pub(super) fn apply_config(&mut self, now: Now) {
        let Some(document) = self.source.document(&self.device, now) else { return };
        let (seq, crash_loop) = (document.seq, document.crash_loop.within_s);
        let mut policy = Policy::new(document, &self.device);
        if policy.off.is_none() && crash_loop > 0 {
            policy.off = self.probation.guard.refuse(seq, self.device.version_code);
        }
        if self.writer.spool.is_off() {
            policy.off = Some("the user does not consent".to_owned());
        }
        // A recording that begins with this policy may have frames to count.
        DailyLedger::allow(&policy, now);
        if let Some(uploads) = &self.uploads {
            uploads.allow(&policy, self.source.digest());
        }
        self.step(now, Input::Policy(Arc::new(policy)));
    }

    /// Activates the windows that the collector requests now, in place of its earlier requests.
    fn apply_asks(&mut self, now: Now) {
        let Some(document) = self.source.document(&self.device, now) else { return };
        let known = |window: &Window| (window.id.clone(), window.matches.version_code);
        let [asked, present] = [&document, &self.machine.policy().document]
            .map(|document| document.windows.iter().map(known).collect::<Vec<_>>());
        if asked != present {
            self.apply_config(now);
            self.keep_at_start();
        }
    }

    /// Stores the recording with which the next start may begin before it has read the configuration: that of the windows
    /// that then open or are armed, if it needs only memory.
    pub(super) fn keep_at_start(&mut self) {
        let policy = Arc::clone(self.machine.policy());
        let first = policy.windows().find(|(_, window)| matches!(window.opens, Opens::AppStart));
        let flight = first.is_none();
        let windows: Vec<_> = match first {
            Some((_, window)) => vec![window],
            None => {
                policy.windows().map(|(_, window)| window).filter(|one| one.is_flight()).collect()
            }
        };
        let within_s = policy.document.crash_loop.within_s;
        let at_start = if policy.off.is_none() && !windows.is_empty() {
            let config = self.writer.configure(&policy, &windows, flight, None, self.store.pools());
            config.ok().and_then(|config| AtStart::new(&config, within_s))
        } else {
            None
        };
        let cost = self.observer.cost().filter(|_| self.probation.guard.cost().is_none());
        if at_start != self.kept_at_start || cost.is_some() {
            self.probation.guard.keep(at_start.clone(), cost);
            self.kept_at_start = at_start;
        }
    }

    /// Records the user's consent. If it is withdrawn, ends the open capture and deletes waiting ones.
    fn consent(&mut self, given: bool, now: Now) {
        let spool = &self.writer.spool;
        let noted = if given { spool.consent() } else { spool.withdraw() };
        if let Some(uploads) = self.uploads.as_ref().filter(|_| !given) {
            uploads.interrupt();
        }
        self.note_trouble(noted);
        self.apply_config(now);
        self.keep_at_start();
        if !given {
            self.on_device.end();
            self.store.purge();
        }
    }

    // ---- captures for a local user of the device ----

    fn answer(&mut self, ask: &Ask, now: Now) {
        let answer = match &ask.request {
            AtraceRequest::Start(options) => self.start_on_device(options, now).map(|()| None),
            AtraceRequest::Dump => self.on_device.dump(&self.store, true).map(Some),
            AtraceRequest::Stop => self.on_device.dump(&self.store, false).map(Some),
        };
        // The client may have hung up.
        ask.answer.send(answer.map_err(|error| error.to_string()));
    }

    fn start_on_device(&mut self, options: &CaptureOptions, now: Now) -> Result<(), Error> {
        if self.on_device.is_running() {
            return Err(Error::State("an on-device capture is running; stop it first"));
        }
        self.may_capture_on_device(now)?;
        match self.machine.state() {
            State::Off(_) => {}
            State::Armed(_) => {
                let reason = "a capture was requested on the device".to_owned();
                self.step(now, Input::Abort(reason));
            }
            State::Fired(..) | State::Open(_) => {
                return Err(Error::State("a window of its configuration is being captured"));
            }
        }
        let policy = self.machine.policy();
        let text = self.writer.text_options(policy, policy, None);
        self.on_device.start(options, text, now)
    }

    fn may_capture_on_device(&self, now: Now) -> Result<(), Error> {
        if self.writer.spool.is_off() {
            return Err(Error::State("the user does not consent to captures"));
        }
        if self.source.in_force.is_some() && self.machine.policy().off_at(now).is_some() {
            return Err(Error::State("its configuration has switched it off"));
        }
        Ok(())
    }

    /// Records that the process stood still between two boot times, and subtracts that time from the triggers' measurements.
    pub(crate) fn note_still(&mut self, from_ns: u64, to_ns: u64) {
        let ms = to_ns.saturating_sub(from_ns) / 1_000_000;
        section::note(&format!("{}{}{ms} ms", notes::PREFIX, notes::STOOD_STILL));
        self.observer.triggers.still = (from_ns, to_ns);
        self.ledger.note_still(to_ns.saturating_sub(from_ns));
    }

    // ---- findings of the observer ----

    fn take_findings(&mut self, now: Now) {
        for finding in self.observer.triggers.take() {
            let input = match finding {
                Finding::Fired { window, why, from_ns, to_ns } => {
                    section::note(&format!("{}{why}", notes::PREFIX));
                    Input::Fired { window, why, from_ns, to_ns }
                }
                Finding::Ended { window, at_ns } => Input::Ended { window, at_ns },
            };
            self.step(now, input);
        }
    }

    fn check_overhead(&mut self, now: Now) {
        let Some(percent) = self.observer.overhead_percent() else { return };
        let limit = self.machine.policy().budget().cpu_percent;
        if percent > limit {
            let reason =
                format!("over budget: {percent:.2} % of a processor, {limit} % are allowed");
            section::note(&format!("{}{reason}; the window is closed", notes::PREFIX));
            self.step(now, Input::Abort(reason));
        }
    }

    pub(super) fn note_trouble<E: std::fmt::Display>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            self.trouble = Some(error.to_string());
        }
    }
}
