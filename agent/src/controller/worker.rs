//! Does what the state machine says, and tells it what happens: the agent's thread.
//!
//! Four times a second while something is recorded, once a second otherwise: looks at the
//! configuration's file, at what is new in the recorder (for triggers), at the tags, at what it all
//! costs. Nothing of it runs on the app's threads; what they ask for comes as a [`Command`].

use super::budget_ledger::Now;
use super::capture_writer::Written;
use super::config_source::ConfigSource;
use super::crash_loop::CrashGuard;
use super::install::Install;
use super::on_device_capture::{Ask, Local};
use super::overhead::Overhead;
use super::policy::{Device, Policy};
use super::process_signals;
use super::state_dir::StateDir;
use super::state_machine::{Action, Input, State, StateMachine};
use super::triggers::{Finding, Triggers};
use super::uploads::Uploads;
use crate::capture::{self, Owner};
use crate::error::Error;
use crate::{section, streaming};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracetee_protocol::notes;
use tracetee_protocol::{CaptureMeta, CaptureReport, LostReport};
use tracetee_recorder::clock;
use tracetee_recorder::tail::Follower;
use tracetee_uploader::{NetState, Recording, Spool};

/// What somebody asks of the thread.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// A custom trigger, at that boot time in ns.
    Trigger(String, u64),
    /// Open and close a manual window.
    Open(String),
    Close(String),
    /// The system has told the app that memory is low.
    LowMemory,
    /// A configuration and its signature.
    Offer(Vec<u8>, Vec<u8>),
    /// The user consents, or does not any more.
    Consent(bool),
    /// What the network and the power are.
    Net(NetState),
    /// A capture for somebody at the device.
    Local(Ask),
}

/// How often it looks while something is recorded, and while nothing is.
const RECORDING: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(1);
/// How often it looks at the configuration's file.
const SOURCE_MS: u64 = 1000;

/// All that the thread keeps.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) device: Device,
    /// What goes with each capture.
    pub(super) facts: CaptureMeta,
    pub(super) store: StateDir,
    pub(super) spool: Spool,
    /// Where the capture goes that is being streamed.
    pub(super) streaming: Option<Recording>,
    /// The capture that is written and not decided on yet.
    pub(super) written: Option<Written>,
    pub(super) uploads: Option<Uploads>,
    pub(super) source: ConfigSource,
    pub(super) machine: StateMachine,
    pub(super) starts: CrashGuard,
    /// Boot time at which the hooks were installed, ms; 0 while they are not.
    pub(super) hooked_ms: u64,
    pub(super) follower: Follower,
    pub(super) triggers: Option<Triggers>,
    pub(super) overhead: Option<Overhead>,
    pub(super) source_seen_ms: u64,
    pub(super) tag_resets: u64,
    pub(super) captures: u64,
    pub(super) captures_lost: u64,
    /// The last of those, and how many there were then.
    pub(super) last_lost: Option<(u64, LostReport)>,
    pub(super) last_capture: Option<CaptureReport>,
    /// What was on the screen when recording began.
    pub(super) screen: Option<String>,
    pub(super) trouble: Option<String>,
    pub(super) has_recovered: bool,
    /// The capture that somebody at the device has asked for.
    pub(super) local: Option<Local>,
}

pub(crate) fn now() -> Now {
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let real_ms = u64::try_from(real.as_millis()).unwrap_or(u64::MAX);
    Now { boot_ms: clock::boot_ns() / 1_000_000, real_ms }
}

impl Worker {
    /// Starts with the configuration of the last run, on the calling thread: a window that opens
    /// with the app is open when this returns.
    pub(crate) fn new(install: &Install) -> Result<Self, Error> {
        let mut source = ConfigSource::new(install)?;
        let store = StateDir::open(&install.directory)?;
        let spool = Spool::open(&store.spool())?;
        // Before anything else: what the user wants.
        match install.consent {
            Some(true) => spool.consent()?,
            Some(false) => {
                store.purge();
                spool.withdraw()?;
            }
            None => {}
        }
        let device = install.device(store.install_id(install.install_id.as_deref())?);
        let uploads = Uploads::new(install, &device, &store.spool())?;
        let now = now();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let ledger = store.ledger().for_boot(boot.trim(), std::process::id());
        let has_config = source.load(&store, now) | source.look(&store, now);
        let mut worker = Self {
            facts: install.facts(&device),
            device,
            store,
            spool,
            streaming: None,
            written: None,
            uploads,
            source,
            machine: StateMachine::new(ledger),
            starts: CrashGuard::default(),
            hooked_ms: 0,
            follower: Follower::default(),
            triggers: None,
            overhead: None,
            source_seen_ms: now.boot_ms,
            tag_resets: 0,
            captures: 0,
            captures_lost: 0,
            last_lost: None,
            last_capture: None,
            screen: None,
            trouble: None,
            has_recovered: false,
            local: None,
        };
        if has_config {
            worker.apply_config(now);
        } else {
            worker.take(now, Input::Tick);
        }
        Ok(worker)
    }

    /// How long it may sleep.
    pub(crate) fn pause(&self) -> Duration {
        match &self.machine.state {
            State::Off(_) if self.local.is_none() => IDLE,
            State::Off(_) => RECORDING,
            State::Armed(_) => RECORDING,
            State::Fired(_, kept) | State::Open(kept) => {
                let left_ms = kept.until_boot_ms.saturating_sub(now().boot_ms);
                RECORDING.min(Duration::from_millis(left_ms.max(1)))
            }
        }
    }

    /// What was asked for.
    pub(crate) fn command(&mut self, command: Command) {
        let now = now();
        match command {
            Command::Trigger(name, at_ns) => {
                // What was recorded before it comes before it.
                self.look_at_records(now);
                if let Some(triggers) = &mut self.triggers {
                    triggers.custom(&name, at_ns);
                }
                self.take_findings(now);
            }
            Command::LowMemory => {
                if let Some(triggers) = &mut self.triggers {
                    triggers.memory(0.0, clock::boot_ns());
                }
                self.take_findings(now);
            }
            Command::Open(id) => self.take(now, Input::Open(id)),
            Command::Close(id) => self.take(now, Input::Close(id)),
            Command::Offer(bytes, signature) => {
                if self.source.offer(&bytes, &signature, &self.store, now) {
                    self.apply_config(now);
                }
            }
            Command::Local(ask) => self.local(&ask),
            Command::Consent(given) => self.consent(given, now),
            Command::Net(net) => {
                if let Some(uploads) = &self.uploads {
                    uploads.set_net(net);
                }
            }
        }
    }

    /// One look at everything.
    pub(crate) fn turn(&mut self) {
        let now = now();
        if !std::mem::replace(&mut self.has_recovered, true) {
            self.recover(now);
        }
        let lives_ms = now.boot_ms.saturating_sub(self.hooked_ms);
        let within_s = self.machine.policy.document.crash_loop.within_s;
        if self.starts.is_on_probation() && lives_ms >= within_s * 1000 {
            self.starts.survived(&self.store);
        }
        if now.boot_ms.saturating_sub(self.source_seen_ms) >= SOURCE_MS {
            self.source_seen_ms = now.boot_ms;
            if self.source.look(&self.store, now) {
                self.apply_config(now);
            }
        }
        self.look_at_local(now);
        if self.local.is_some() {
            self.tag_resets += capture::watch_tags();
        }
        if !matches!(self.machine.state, State::Off(_)) {
            if !capture::is_open() {
                // prctl(PR_SET_TSC), or the app's own doing.
                self.take(now, Input::Abort("the process has ended the recording".to_owned()));
            }
            self.tag_resets += capture::watch_tags();
            self.look_at_records(now);
            self.look_at_vitals(now);
            self.take_findings(now);
            self.look_at_overhead(now);
        }
        self.take(now, Input::Tick);
    }

    /// What is open goes with the user's consent, and nothing begins without it.
    fn consent(&mut self, given: bool, now: Now) {
        let noted = if given { self.spool.consent() } else { self.spool.withdraw() };
        if let Some(uploads) = self.uploads.as_ref().filter(|_| !given) {
            uploads.interrupt();
        }
        self.note_trouble(noted.err().map(|error| error.to_string()));
        self.apply_config(now);
        if !given {
            self.end_local();
            self.store.purge();
        }
    }

    /// The process exits in order, or the agent is to go.
    pub(crate) fn exit(&mut self) {
        self.end_local();
        self.take(now(), Input::Exit);
        self.uploads = None;
        capture::release(true);
        self.starts.survived(&self.store);
    }

    /// A turn failed by a fault of ours: recording ends, hooks and tags are given back.
    pub(crate) fn give_up(&mut self) {
        self.uploads = None;
        self.end_local();
        self.machine.give_up();
        let _ = capture::stop(Owner::Controller);
        capture::release(true);
        self.starts.survived(&self.store);
    }

    /// In a forked child: the file is the parent's, and so is its lock.
    pub(crate) fn forget(self) {
        let Self { uploads, spool, .. } = self;
        uploads.into_iter().for_each(Uploads::forget);
        spool.leave();
    }

    fn apply_config(&mut self, now: Now) {
        let Some(in_force) = &self.source.in_force else { return };
        let document = in_force.document.clone();
        let (seq, crash_loop) = (document.seq, document.crash_loop.within_s);
        let mut policy = Policy::new(document, &self.device);
        if policy.off.is_none() && crash_loop > 0 {
            policy.off = CrashGuard::refuse(&self.store, seq, self.device.version_code);
        }
        if self.spool.is_off() {
            policy.off = Some("the user does not consent".to_owned());
        }
        if let Some(uploads) = &self.uploads {
            uploads.allow(&policy, self.source.digest());
        }
        self.take(now, Input::Policy(Arc::new(policy)));
    }

    // ---- what is seen ----

    fn look_at_records(&mut self, now: Now) {
        let (follower, triggers) = (&mut self.follower, &mut self.triggers);
        if let Some(triggers) = triggers {
            triggers.period_ns = process_signals::period_ns();
        }
        let mut dropped = 0;
        capture::look(|reader| {
            dropped = reader.dropped();
            let wanted = triggers.as_ref().map(Triggers::wanted);
            follower.look(
                reader,
                |who| wanted.as_ref().is_some_and(|wanted| wanted.includes(who)),
                |who, sight| {
                    if let Some(triggers) = triggers.as_mut() {
                        triggers.see(who, sight);
                    }
                },
            );
        });
        let our_ns =
            u64::try_from(streaming::cpu_time().as_nanos()).unwrap_or(0) + streaming::used_ns();
        if let Some(overhead) = &mut self.overhead {
            overhead.note(now.boot_ms, self.follower.records, dropped, our_ns);
        }
    }

    fn look_at_vitals(&mut self, now: Now) {
        let Some(triggers) = &mut self.triggers else { return };
        let now_ns = clock::boot_ns();
        triggers.look_at_main_thread(now_ns, process_signals::silent_ns(now_ns));
        if triggers.memory_limit() > 0.0
            && let Some(percent) = process_signals::memory_available_percent(now.boot_ms)
        {
            triggers.memory(percent, now_ns);
        }
    }

    fn look_at_overhead(&mut self, now: Now) {
        let Some(percent) = self.overhead.as_ref().and_then(Overhead::percent) else { return };
        let limit = self.machine.policy.budget().cpu_percent;
        if percent > limit {
            let reason = format!(
                "{}: {percent:.2} % of a processor, {limit} % are allowed",
                notes::OVER_BUDGET
            );
            section::note(&format!("{}{reason}; the window is closed", notes::PREFIX));
            self.take(now, Input::Abort(reason));
        }
    }

    fn take_findings(&mut self, now: Now) {
        let findings = self.triggers.as_mut().map(Triggers::take).unwrap_or_default();
        for finding in findings {
            let input = match finding {
                Finding::Fired { window, why, from_ns, to_ns } => {
                    section::note(&format!("{}{why}", notes::PREFIX));
                    Input::Fired { window, why, from_ns, to_ns }
                }
                Finding::Ended { window, at_ns } => Input::Ended { window, at_ns },
            };
            self.take(now, input);
        }
    }

    // ---- what is done ----

    /// Gives the machine what has happened and does what it says.
    pub(super) fn take(&mut self, now: Now, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            // What may begin a capture is decided by what all processes have had, one at a time.
            let mut lock = self.machine.may_enter(now, &input).then(|| self.store.lock_ledger());
            if let Some(lock) = &lock {
                self.note_trouble(lock.as_ref().err().map(ToString::to_string));
                self.machine.ledger.merge(self.store.ledger());
                self.machine.is_ledger_stale = lock.is_err();
            }
            let actions = self.machine.step(now, input);
            let last_save = actions.iter().rposition(|action| *action == Action::Save);
            for (index, action) in actions.into_iter().enumerate() {
                if last_save.is_none_or(|last| index > last) {
                    // Recording and writing take their time, and the others wait.
                    lock = None;
                }
                self.act(action, &mut inputs);
            }
        }
        self.seal();
        self.note_lost();
        if !matches!(self.machine.state, State::Open(_))
            && let Some(unwanted) = self.streaming.take()
        {
            self.spool.drop_unwanted(unwanted);
        }
        if matches!(self.machine.state, State::Off(_)) {
            self.triggers = None;
            let forbidden = self.machine.policy.off_at(now).is_some();
            capture::release(forbidden);
            if forbidden && self.hooked_ms > 0 {
                self.hooked_ms = 0;
                self.starts.survived(&self.store);
            }
        } else if let (State::Armed(armed), Some(triggers)) =
            (&self.machine.state, &mut self.triggers)
        {
            triggers.keep(armed);
        }
    }

    fn act(&mut self, action: Action, inputs: &mut Vec<Input>) {
        match action {
            Action::Save => {
                let saved = self.store.save_ledger(&self.machine.ledger);
                self.note_trouble(saved.err().map(|error| error.to_string()));
            }
            Action::Record { windows, flight } => {
                if let Err(error) = self.record(&windows, flight) {
                    inputs.push(Input::Failed(error.to_string()));
                }
            }
            Action::Stop => {
                let stopped = capture::stop(Owner::Controller);
                self.note_trouble(stopped.err().map(|error| error.to_string()));
            }
            Action::Keep(kept) => inputs.extend(self.keep(&kept)),
            Action::Discard(number) => self.discard(number),
            Action::Purge => {
                self.store.purge();
                self.spool.purge();
            }
        }
    }

    /// Remembers why the last capture was lost: a later one may be kept.
    fn note_lost(&mut self) {
        let is_known = self.last_lost.as_ref().map_or(0, |(count, _)| *count) == self.captures_lost;
        if !is_known
            && let Some(CaptureReport { window, why, error: Some(reason), .. }) = &self.last_capture
        {
            let (window, why, reason) = (window.clone(), why.clone(), reason.clone());
            self.last_lost = Some((self.captures_lost, LostReport { window, why, reason }));
        }
    }

    pub(super) fn note_trouble(&mut self, trouble: Option<String>) {
        if trouble.is_some() {
            self.trouble = trouble;
        }
    }
}
