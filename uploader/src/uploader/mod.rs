//! A pass: sends the waiting captures, as far as policy and server allow.
//!
//! Order: check whether anything may be sent, recover the captures of a killed sender, apply quotas, respect
//! the back-off, fetch the configuration (a new one ends the pass, because it decides about the rest), send
//! parts of the ledger, then captures, one by one, send the loss report. The first failure ends the pass. Nothing sleeps; the caller
//! calls again after [`Pass::again`]. Runs on a background thread, never on an important thread of the app.

mod config_fetch;
mod ledger_upload;
mod loss_upload;
mod verdict;

pub use config_fetch::Config;

use crate::error::Error;
use crate::id::random;
use crate::network::{NetState, Network};
use crate::policy::{self, MAX_TRIES, Outcome, POLL, Rules, Spent};
use crate::quota::Quota;
use crate::request::{self, Endpoint};
use crate::spool::{Spool, Waiting};
use crate::spool_name::CaptureName;
use crate::state::State;
use crate::timestamp::Now;
use crate::transport::Transport;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::upload_status::{LastUpload, UploadStatus};
use verdict::{Verdict, judge};

/// Delay after a pass that had nothing to do.
const IDLE: Duration = Duration::from_secs(60);

/// Conditions of a pass.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Network and power of the device.
    pub net: NetState,
    /// Rules of the remote configuration.
    pub rules: Rules,
    /// Limits of the spool.
    pub quota: Quota,
    /// True if the kill switch is on, or no configuration was ever in force. The pass then only fetches
    /// the configuration.
    pub killed: bool,
    /// Interval between requests for the configuration; `None` to make none.
    pub poll: Option<Duration>,
    /// SHA-256 of the configuration in force. The pass sends the last ETag only if it belongs to this configuration.
    pub config_digest: Option<[u8; 32]>,
    /// True if a user is waiting: the pass skips the uploader's own back-off, but honours Retry-After.
    pub urgent: bool,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            net: NetState::default(),
            rules: Rules::default(),
            quota: Quota::default(),
            killed: false,
            poll: Some(POLL),
            config_digest: None,
            urgent: false,
        }
    }
}

/// The result of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pass {
    /// Ids of the captures that the server has now.
    pub delivered: Vec<String>,
    /// A configuration other than the one in force.
    pub config: Option<Config>,
    /// Value of [`http::ASKS`](tracetee_protocol::http::ASKS), empty if there is none; `None` if the server was not asked.
    pub asks: Option<String>,
    /// Reason why the pass ended early; `None` if nothing is left to send.
    pub held: Option<String>,
    /// Time until the next pass makes sense.
    pub again: Duration,
}

/// Sends the captures of a spool.
#[derive(Debug)]
pub struct Uploader {
    pub(crate) spool: Spool,
    pub(crate) state: State,
    pub(crate) endpoint: Endpoint,
    /// Properties of the device, for the metadata of each capture.
    device: CaptureMeta,
    last: Option<LastUpload>,
    held: Option<String>,
    delivered: u64,
    trouble: Option<String>,
}

/// Reason why a pass ends.
pub(crate) struct StopReason(pub(crate) String);

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Context of a pass.
pub(crate) struct PassContext<'a> {
    pub(crate) transport: &'a mut dyn Transport,
    pub(crate) conditions: &'a Conditions,
    pub(crate) clock: &'a dyn Fn() -> Now,
    pub(crate) stop: &'a AtomicBool,
}

impl Uploader {
    /// Makes an uploader from a spool to an endpoint. `device`: properties of the device, for the metadata of
    /// each capture and for loss reports.
    #[must_use]
    pub fn new(spool: Spool, endpoint: Endpoint, device: CaptureMeta) -> Self {
        let state = State::new(spool.root().join("state"));
        let (last, held, trouble) = (None, None, None);
        Self { spool, state, endpoint, device, last, held, delivered: 0, trouble }
    }

    /// Sends what may be sent now. Reads `clock` whenever the time matters; any thread may set `stop` at any
    /// time.
    pub fn pass(
        &mut self,
        transport: &mut dyn Transport,
        conditions: &Conditions,
        clock: &dyn Fn() -> Now,
        stop: &AtomicBool,
    ) -> Pass {
        let mut pass = Pass { again: IDLE, ..Pass::default() };
        let mut context = PassContext { transport, conditions, clock, stop };
        self.trouble = None;
        let gone = tracetee_os::without_write_signals(|| self.run_pass(&mut context, &mut pass));
        if let Err(StopReason(reason)) = gone {
            pass.held = Some(reason);
        }
        let wait_ms = self.state.wait().left_ms(clock());
        pass.again = pass.again.max(Duration::from_millis(wait_ms));
        self.held.clone_from(&pass.held);
        pass
    }

    /// Reports waiting and lost captures, and the last upload.
    #[must_use]
    pub fn status(&self, now: Now) -> UploadStatus {
        let wait = self.state.wait();
        let spent = self.state.spent(now);
        UploadStatus {
            url: self.endpoint.url().to_owned(),
            delivered: self.delivered,
            held: self.held.clone(),
            failures: wait.failures,
            wait_s: wait.left_ms(now).div_ceil(1000),
            bytes_in_day: spent.unmetered,
            metered_bytes_in_day: spent.metered,
            last: self.last.clone(),
            trouble: self.trouble.clone(),
            ..self.spool.status(now)
        }
    }

    fn run_pass(
        &mut self,
        context: &mut PassContext<'_>,
        pass: &mut Pass,
    ) -> Result<(), StopReason> {
        if self.spool.is_off() {
            return Err(StopReason("the user does not consent".to_owned()));
        }
        // It may have been deleted.
        let reopened = Spool::open(self.spool.root());
        self.note_trouble(reopened.err());
        let Some(_sender) = self.spool.lock_sender()? else {
            return Err(StopReason("another process of the app is sending".to_owned()));
        };
        self.take_back()?;
        let now = (context.clock)();
        let trimmed = self.spool.trim(&context.conditions.quota, now);
        self.note_trouble(trimmed.err());

        let wait = self.state.wait();
        let left_ms = wait.left_ms(now);
        if left_ms > 0 && (wait.demanded || !context.conditions.urgent) {
            let (failures, left_s) = (wait.failures, left_ms.div_ceil(1000));
            return Err(StopReason(format!("waiting {left_s} s after {failures} failures")));
        }
        self.fetch_config(context, pass)?;
        if context.conditions.killed {
            return Err(StopReason("the configuration allows nothing".to_owned()));
        }
        self.send_parts(context)?;
        let mut done = Vec::new();
        // Captures that arrive meanwhile are sent too; failed captures are not retried.
        while let Some(next) = self.next(context, &mut done)? {
            if self.send(next, context)? {
                pass.delivered.extend(done.last().cloned());
            }
        }
        self.report_losses(context)
    }

    /// Moves back the captures that a killed sender was sending. The server may have them.
    fn take_back(&self) -> Result<(), StopReason> {
        for sending in self.spool.sending() {
            let name = CaptureName {
                tries: sending.name.tries + 1,
                unconfirmed: true,
                ..sending.name.clone()
            };
            self.back(&sending, name)?;
        }
        Ok(())
    }

    /// Returns the next capture that is due and may be sent.
    fn next(
        &mut self,
        context: &PassContext<'_>,
        done: &mut Vec<String>,
    ) -> Result<Option<Waiting>, StopReason> {
        let now = (context.clock)();
        let conditions = context.conditions;
        for waiting in self.spool.waiting(now) {
            let id = waiting.id();
            if done.contains(&id) {
                continue;
            }
            // ORDERING: Relaxed; a wish, nothing is published with it.
            if context.stop.load(Ordering::Relaxed) || self.spool.is_off() {
                return Err(StopReason("a stop was requested".to_owned()));
            }
            let spent = self.state.spent(now);
            if let Some(why) =
                policy::refuses(&conditions.rules, &conditions.net, spent, waiting.bytes)
            {
                return Err(StopReason(why));
            }
            done.push(id);
            if Spool::is_intact(&waiting) {
                return Ok(Some(waiting));
            }
            self.spool.lose(&waiting, "damaged")?;
        }
        Ok(None)
    }

    /// Sends a capture. Returns true if the server has it.
    fn send(
        &mut self,
        waiting: Waiting,
        context: &mut PassContext<'_>,
    ) -> Result<bool, StopReason> {
        let now = (context.clock)();
        let bytes = waiting.bytes;
        let metered = context.conditions.net.network == Network::Metered;
        let spent = if metered {
            Spent { metered: bytes, unmetered: 0 }
        } else {
            Spent { unmetered: bytes, metered: 0 }
        };
        self.state.spend(spent, now)?;
        let sending = self.spool.take_out(&waiting)?;
        let meta = request::meta(&sending.name, &sending.path, &self.device);
        let request = self.endpoint.capture(&sending, &meta, context.stop);
        let answer = context.transport.send(&request);
        let now = (context.clock)();
        let (said, outcome) = judge(answer);
        self.last = Some(LastUpload {
            id: sending.id(),
            window: sending.name.label.clone(),
            bytes,
            at_ms: now.real_ms,
            outcome: said,
        });
        let broken_off = context.stop.load(Ordering::Relaxed);
        match outcome {
            Verdict::Answer(Outcome::Delivered) => {
                // If it is not deleted, it is sent again, and the server knows it.
                fs::remove_file(&sending.path).map_err(Error::io("delete", &sending.path))?;
                self.state.clear_wait();
                self.delivered += 1;
                Ok(true)
            }
            Verdict::Answer(Outcome::Discard(reason)) => {
                // The server works: it gave a definite answer.
                self.state.clear_wait();
                self.spool.lose(&sending, &reason)?;
                Ok(false)
            }
            Verdict::Answer(Outcome::Retry { counts, after, why }) => {
                let name = sending.name.clone();
                let tries = name.tries + u32::from(counts);
                let name = CaptureName { tries, unconfirmed: name.unconfirmed || counts, ..name };
                self.back(&sending, name)?;
                Err(self.failed(after, why, now))
            }
            Verdict::Unreachable(why) => {
                self.back(&sending, sending.name.clone())?;
                Err(self.failed(None, why, now))
            }
            Verdict::Broken(_) if broken_off => {
                let name = CaptureName { unconfirmed: true, ..sending.name.clone() };
                self.back(&sending, name)?;
                Err(StopReason("a stop was requested".to_owned()))
            }
            Verdict::Broken(why) => {
                let tries = sending.name.tries + 1;
                let name = CaptureName { tries, unconfirmed: true, ..sending.name.clone() };
                self.back(&sending, name)?;
                Err(self.failed(None, why, now))
            }
        }
    }

    /// Returns a capture to the waiting ones, or gives it up.
    fn back(&self, sending: &Waiting, name: CaptureName) -> Result<(), StopReason> {
        let given_up = name.tries >= MAX_TRIES;
        // Deleted meanwhile, by a purge or another program.
        if !sending.path.exists() {
            return Ok(());
        }
        if self.spool.is_off() {
            let _ = fs::remove_file(&sending.path);
            return Ok(());
        }
        let back = self.spool.put_back(sending, name)?;
        if given_up {
            self.spool.lose(&back, "tries")?;
        }
        Ok(())
    }

    /// Counts one more failure in a row.
    pub(crate) fn failed(&mut self, after: Option<Duration>, why: String, now: Now) -> StopReason {
        let failures = self.state.wait().failures.saturating_add(1);
        let wait = policy::wait(failures, after, random());
        self.state.set_wait(failures, wait, after.is_some(), now);
        StopReason(why)
    }

    fn note_trouble(&mut self, error: Option<Error>) {
        if let Some(error) = error {
            self.trouble = Some(error.to_string());
        }
    }
}
