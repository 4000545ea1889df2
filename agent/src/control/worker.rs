//! Does what the state machine says, and tells it what happens: the agent's thread.
//!
//! Four times a second while something is recorded, once a second otherwise: looks at the
//! configuration's file, at what is new in the recorder (for triggers), at the tags, at what it all
//! costs. Nothing of it runs on the app's threads; what they ask for comes as a [`Command`].

use super::document::{Opens, Window};
use super::install::Install;
use super::ledger::Now;
use super::machine::{Action, Input, Kept, Machine, State};
use super::overhead::Overhead;
use super::policy::{Device, Policy};
use super::report::{CaptureReport, ConfigReport, OverheadReport, Report, WindowReport};
use super::source::Source;
use super::starts::Starts;
use super::store::Store;
use super::triggers::{Finding, Triggers};
use super::vitals;
use crate::config::{Config, RecorderConfig};
use crate::error::Error;
use crate::recorder::follow::Follower;
use crate::recorder::layout::Mode;
use crate::recorder::{thread, writer};
use crate::text::cut::Span;
use crate::text::redact::Redactor;
use crate::text::{About, TextOptions};
use crate::{capture, clock, drain, recover};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What somebody asks of the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// How often it looks while something is recorded, and while nothing is.
const RECORDING: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(1);
/// How often it looks at the configuration's file.
const SOURCE_MS: u64 = 1000;

/// All that the thread keeps.
#[derive(Debug)]
pub(crate) struct Worker {
    device: Device,
    store: Store,
    source: Source,
    machine: Machine,
    starts: Starts,
    /// Boot time at which the hooks were installed, ms.
    hooked_ms: u64,
    follower: Follower,
    triggers: Option<Triggers>,
    overhead: Option<Overhead>,
    /// Boot time of the last look at the tags, ms: they were ours then.
    tags_seen_ms: u64,
    source_seen_ms: u64,
    tag_resets: u64,
    captures: u64,
    captures_lost: u64,
    last_capture: Option<CaptureReport>,
    trouble: Option<String>,
    has_recovered: bool,
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
        let mut source = Source::new(install)?;
        let store = Store::open(&install.directory)?;
        let device = install.device(store.install_id(install.install_id.as_deref())?);
        let now = now();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let ledger = store.ledger().of(boot.trim(), std::process::id());
        let has_config = source.load(&store, now) | source.look(&store, now);
        let mut worker = Self {
            device,
            store,
            source,
            machine: Machine::new(ledger),
            starts: Starts::default(),
            hooked_ms: 0,
            follower: Follower::default(),
            triggers: None,
            overhead: None,
            tags_seen_ms: 0,
            source_seen_ms: now.boot_ms,
            tag_resets: 0,
            captures: 0,
            captures_lost: 0,
            last_capture: None,
            trouble: None,
            has_recovered: false,
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
            State::Off(_) => IDLE,
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
        if !matches!(self.machine.state, State::Off(_)) {
            self.look_at_tags(now);
            self.look_at_records(now);
            self.look_at_vitals(now);
            self.take_findings(now);
            self.look_at_overhead(now);
        }
        self.take(now, Input::Tick);
    }

    /// The process exits in order, or the agent is to go.
    pub(crate) fn exit(&mut self) {
        self.take(now(), Input::Exit);
        capture::release_driven(true);
        self.starts.survived(&self.store);
    }

    /// In a forked child: the file is the parent's, and so is its lock.
    pub(crate) fn forget(self) {
        let Self { starts, .. } = self;
        drop(starts);
    }

    fn apply_config(&mut self, now: Now) {
        let Some(in_force) = &self.source.in_force else { return };
        let document = in_force.document.clone();
        let (seq, crash_loop) = (document.seq, document.crash_loop.within_s);
        let mut policy = Policy::new(document, &self.device);
        if policy.off.is_none() && crash_loop > 0 {
            policy.off = Starts::refuse(&self.store, seq, self.device.version_code);
        }
        self.take(now, Input::Policy(Arc::new(policy)));
    }

    // ---- what is seen ----

    fn look_at_records(&mut self, now: Now) {
        let (follower, triggers) = (&mut self.follower, &mut self.triggers);
        if let Some(triggers) = triggers {
            triggers.period_ns = vitals::period_ns();
        }
        capture::look(|reader| {
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
        let our_ns = u64::try_from(drain::cpu_time().as_nanos()).unwrap_or(0) + drain::used_ns();
        if let Some(overhead) = &mut self.overhead {
            overhead.note(now.boot_ms, self.follower.records, our_ns);
        }
    }

    fn look_at_vitals(&mut self, now: Now) {
        let Some(triggers) = &mut self.triggers else { return };
        let now_ns = clock::boot_ns();
        triggers.look_at_main_thread(now_ns, vitals::silent_ns(now_ns));
        if triggers.memory_limit() > 0.0
            && let Some(percent) = vitals::memory_available_percent(now.boot_ms)
        {
            triggers.memory(percent, now_ns);
        }
    }

    fn look_at_tags(&mut self, now: Now) {
        for reset in capture::watch_tags() {
            self.tag_resets += 1;
            let ms = now.boot_ms.saturating_sub(self.tags_seen_ms);
            note_in_trace(&format!(
                "tracetee: the system set the tags to {:#x} within the last {ms} ms; sections \
                 since may be missing, they are forced again",
                reset.to
            ));
        }
        self.tags_seen_ms = now.boot_ms;
    }

    fn look_at_overhead(&mut self, now: Now) {
        let Some(percent) = self.overhead.as_ref().and_then(Overhead::percent) else { return };
        let limit = self.machine.policy.budget().cpu_percent;
        if percent > limit {
            let reason =
                format!("over budget: {percent:.2} % of a processor, {limit} % are allowed");
            note_in_trace(&format!("tracetee: {reason}; the window is closed"));
            self.take(now, Input::OverBudget(reason));
        }
    }

    fn take_findings(&mut self, now: Now) {
        let findings = self.triggers.as_mut().map(Triggers::take).unwrap_or_default();
        for finding in findings {
            let input = match finding {
                Finding::Fired { window, why, from_ns, to_ns } => {
                    note_in_trace(&format!("tracetee: {why}"));
                    Input::Fired { window, why, from_ns, to_ns }
                }
                Finding::Ended { window, at_ns } => Input::Ended { window, at_ns },
            };
            self.take(now, input);
        }
    }

    // ---- what is done ----

    /// Gives the machine what has happened and does what it says.
    fn take(&mut self, now: Now, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            // What may begin a capture is decided by what all processes have had, one at a time.
            let lock = self.machine.may_enter(now, &input).then(|| self.store.lock_ledger());
            if let Some(lock) = &lock {
                self.note_trouble(lock.as_ref().err().map(ToString::to_string));
                self.machine.ledger.merge(self.store.ledger());
            }
            for action in self.machine.step(now, input) {
                self.act(action, &mut inputs);
            }
        }
        if matches!(self.machine.state, State::Off(_)) {
            self.triggers = None;
            capture::release_driven(self.machine.policy.off.is_some());
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
                let stopped = capture::stop_driven();
                self.note_trouble(stopped.err().map(|error| error.to_string()));
            }
            Action::Keep(kept) => inputs.extend(self.keep(&kept)),
            Action::Discard(number) => self.discard(number),
            Action::Purge => self.store.purge(),
        }
    }

    fn record(&mut self, windows: &[usize], flight: bool) -> Result<(), Error> {
        let policy = Arc::clone(&self.machine.policy);
        let all: Vec<_> = windows.iter().filter_map(|&index| policy.window(index)).collect();
        if policy.document.crash_loop.within_s > 0 && self.hooked_ms == 0 {
            self.starts.begin(&self.store)?;
        }
        if self.overhead.is_none() {
            self.overhead = Some(Overhead::new(capture::measure_cost()?));
        }
        let config = self.config(&all, flight)?;
        capture::start_driven(&config)?;
        let now = now();
        if self.hooked_ms == 0 {
            self.hooked_ms = now.boot_ms.max(1);
        }
        self.tags_seen_ms = now.boot_ms;
        self.follower = Follower::default();
        self.overhead.iter_mut().for_each(Overhead::restart);
        let redactor = self.text_options(None).rules()?.map(Redactor::new);
        let main_tid = std::process::id().cast_signed();
        self.triggers = flight.then(|| Triggers::new(&policy, windows, main_tid, redactor));
        Ok(())
    }

    /// The recorder for windows, which share it where there are several.
    fn config(&self, windows: &[&Window], flight: bool) -> Result<Config, Error> {
        let document = &self.machine.policy.document;
        let first = windows.first().ok_or(Error::State("no window to record"))?;
        let any = |what: fn(&Window) -> bool| windows.iter().any(|window| what(window));
        let crash_proof = any(|window| window.recorder.crash_proof) && !document.redaction.strict;
        let mode = if flight { Mode::Ring } else { first.recorder.mode };
        let sizes = windows.iter().map(|window| window.recorder.capacity_kb);
        let output = match &self.machine.state {
            State::Open(kept) if mode == Mode::Endless => Some(self.path_of(kept)),
            _ => None,
        };
        Ok(Config {
            tags: windows.iter().flat_map(|window| window.tags.iter().cloned()).collect(),
            pass_on: first.pass_on,
            recorder: RecorderConfig {
                mode,
                capacity_kb: sizes.max().unwrap_or(4096),
                directory: crash_proof.then(|| self.store.pools()),
                ..RecorderConfig::default()
            },
            duration_ms: None,
            text: self.text_options(Some(first)),
            output,
            fast_path: any(|window| window.recorder.fast_path),
        })
    }

    /// How a window's text is written.
    fn text_options(&self, window: Option<&Window>) -> TextOptions {
        let key = hmac_sha256::HMAC::mac(b"redaction", self.device.install_id.as_bytes());
        let key = key.first_chunk().map_or(1, |bytes| u64::from_be_bytes(*bytes));
        TextOptions {
            min_slice_us: window.map(|window| window.min_slice_us).unwrap_or_default(),
            main_thread_only: window.is_some_and(|window| window.main_thread_only),
            redaction: self.machine.policy.document.redaction.rules.clone(),
            redaction_key: key.max(1),
            ..TextOptions::default()
        }
    }

    fn window_of(&self, kept: &Kept) -> Option<&Window> {
        self.machine.policy.document.windows.get(kept.window)
    }

    fn path_of(&self, kept: &Kept) -> PathBuf {
        let id = self.window_of(kept).map_or("window", |window| window.id.as_str());
        self.store.captures().join(format!("{id}-{:x}.ftrace.zst", kept.number))
    }

    /// Writes a capture. The machine learns its bytes.
    fn keep(&mut self, kept: &Kept) -> Option<Input> {
        let path = self.path_of(kept);
        let options = self.text_options(self.window_of(kept));
        let window = self.window_of(kept).map(|window| window.id.clone()).unwrap_or_default();
        let comments = [format!("tracetee: {}", self.about(kept, &window))];
        let now_ns = clock::boot_ns();
        let span = kept.span_ns.map(|(from_ns, to_ns)| Span { from_ns, to_ns: to_ns.min(now_ns) });
        let about = About { recovered: false, span, comments: &comments };
        let mut report =
            CaptureReport { window, why: kept.why.clone(), ..CaptureReport::default() };
        let written = capture::dump_driven(&path, &options, &about);
        let input = match written {
            Ok(summary) => {
                self.captures += 1;
                report.path = Some(path);
                let bytes = summary.file_bytes;
                report.summary = summary;
                Some(Input::Written { number: kept.number, bytes })
            }
            Err(error) => {
                self.captures_lost += 1;
                report.error = Some(error.to_string());
                None
            }
        };
        self.last_capture = Some(report);
        input
    }

    /// What stands in the capture's header.
    fn about(&self, kept: &Kept, window: &str) -> serde_json::Value {
        serde_json::json!({
            "window": window,
            "why": kept.why,
            "also": kept.also,
            "span_ns": kept.span_ns,
            "config_seq": self.machine.policy.document.seq,
            "version_code": self.device.version_code,
            "api": self.device.api,
            "pid": std::process::id(),
            "agent": env!("CARGO_PKG_VERSION"),
            "tag_resets": self.tag_resets,
            "overhead_percent": self.overhead.as_ref().and_then(Overhead::percent),
        })
    }

    fn discard(&mut self, number: u64) {
        let Some(report) = &mut self.last_capture else { return };
        let Some(path) = report.path.take() else { return };
        let suffix = format!("-{number:x}.ftrace.zst");
        if path.to_string_lossy().ends_with(&suffix) && std::fs::remove_file(&path).is_ok() {
            let limit = self.machine.policy.budget().bytes_per_day;
            report.error = Some(format!("not kept: over the {limit} bytes of a day"));
            self.captures -= 1;
            self.captures_lost += 1;
        }
    }

    /// What killed processes have left in crash-proof recorders.
    fn recover(&mut self, now: Now) {
        if self.machine.policy.off.is_some() {
            // Not wanted any more, and names in it are as they were.
            return recover::delete_abandoned(&self.store.pools());
        }
        let options = self.text_options(None);
        let captures = self.store.captures();
        for (path, summary) in recover::recover_here(&self.store.pools(), &captures, &options) {
            let bytes = summary.file_bytes;
            let _lock = self.store.lock_ledger();
            self.machine.ledger.merge(self.store.ledger());
            let (ledger, budget) = (&mut self.machine.ledger, self.machine.policy.budget());
            let may = ledger.refuses("recovered", 0, budget, now).is_none() && {
                let number = ledger.enter("recovered", now);
                ledger.fits(number, bytes, budget, now)
            };
            let mut report = CaptureReport {
                window: "recovered".to_owned(),
                why: "the process was killed".to_owned(),
                summary,
                ..CaptureReport::default()
            };
            if may {
                let saved = self.store.save_ledger(&self.machine.ledger);
                self.note_trouble(saved.err().map(|error| error.to_string()));
                self.captures += 1;
                report.path = Some(path);
            } else {
                let _ = std::fs::remove_file(&path);
                self.captures_lost += 1;
                report.error = Some("not kept: over the budget".to_owned());
            }
            self.last_capture = Some(report);
        }
    }

    fn note_trouble(&mut self, trouble: Option<String>) {
        if trouble.is_some() {
            self.trouble = trouble;
        }
    }

    // ---- what is said ----

    /// The report.
    pub(crate) fn report(&self) -> Report {
        let now = now();
        let machine = &self.machine;
        let (state, reason) = match &machine.state {
            State::Off(reason) => ("off", reason.clone()),
            State::Armed(_) => ("armed", "the flight recorder runs".to_owned()),
            State::Fired(_, kept) => ("fired", kept.why.clone()),
            State::Open(kept) => ("open", kept.why.clone()),
        };
        let config = self.source.in_force.as_ref().map(|in_force| ConfigReport {
            seq: in_force.document.seq,
            not_after: in_force.document.not_after,
            warnings: in_force.warnings.clone(),
        });
        Report {
            state: state.to_owned(),
            reason,
            config,
            config_refused: self.source.refused.clone(),
            windows: self.windows(now),
            last_refused: machine.refused.clone(),
            last_capture: self.last_capture.clone(),
            captures: self.captures,
            captures_lost: self.captures_lost,
            spent: machine.ledger.spent(now),
            overhead: OverheadReport {
                ns_per_record: self.overhead.as_ref().map_or(0.0, |known| known.ns_per_record),
                percent: self.overhead.as_ref().and_then(Overhead::percent),
            },
            tag_resets: self.tag_resets,
            trouble: self.trouble.clone(),
        }
    }

    fn windows(&self, now: Now) -> Vec<WindowReport> {
        let machine = &self.machine;
        let status = |index: usize, window: &Window, out: &Option<String>| {
            if let Some(reason) = machine.policy.off_at(now).or_else(|| out.clone()) {
                return reason;
            }
            let is_armed = match &machine.state {
                State::Armed(armed) | State::Fired(armed, _) => armed.contains(&index),
                _ => false,
            };
            match &machine.state {
                State::Open(kept) if kept.window == index => return "open".to_owned(),
                State::Fired(_, kept) if kept.window == index => {
                    return format!("fired: {}", kept.why);
                }
                _ if is_armed => return "armed".to_owned(),
                _ => {}
            }
            let budget = machine.policy.budget();
            let refused = machine.ledger.refuses(&window.id, window.cool_down_s, budget, now);
            refused.unwrap_or_else(|| {
                match window.opens {
                    Opens::AppStart => "opens when the app starts",
                    Opens::Schedule(_) => "had its capture in this period",
                    Opens::Manual => "opens when it is asked for",
                    Opens::Section(_) | Opens::Triggers(_) => "waits for the recorder",
                }
                .to_owned()
            })
        };
        let all = machine.policy.document.windows.iter().zip(&machine.policy.out).enumerate();
        all.map(|(index, (window, out))| WindowReport {
            id: window.id.clone(),
            status: status(index, window, out),
        })
        .collect()
    }
}

/// Puts an instant of ours into what is recorded, on the calling thread.
fn note_in_trace(text: &str) {
    if let Some(state) = thread::current() {
        let text: String = text.chars().take(512).collect();
        writer::record(state, format!("I|{}|{text}", std::process::id()).as_bytes());
    }
}
