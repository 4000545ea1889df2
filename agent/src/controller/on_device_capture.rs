//! A capture that somebody at this device asks for, over the [socket](super::control_socket): `tracetee atrace`.
//!
//! One at a time, in memory, beside no window: a flight recorder pauses for it, a window that is being kept
//! goes first. What is switched off, or what the user does not consent to, is not recorded for anybody; the
//! rules of redaction hold.

use super::budget_ledger::Now;
use super::state_machine::{Input, State};
use super::worker::{Worker, now};
use crate::capture::{self, Owner};
use crate::error::Error;
use crossbeam_channel::Sender;
use std::path::PathBuf;
use std::time::Duration;
use tracetee_protocol::capture_config::{Config, RecorderConfig};
use tracetee_protocol::control_socket::{AtraceRequest, CaptureOptions};
use tracetee_recorder::layout::Mode;
use tracetee_text::About;

/// How long a dump may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and where the answer goes: the file with the text, if it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) request: AtraceRequest,
    pub(crate) answer: Sender<Result<Option<PathBuf>, String>>,
}

/// What is being captured.
#[derive(Debug)]
pub(crate) struct Local {
    config: Config,
    /// When it is given up.
    until_boot_ms: Option<u64>,
    number: u64,
}

impl Worker {
    /// Does what is asked.
    pub(super) fn local(&mut self, ask: &Ask) {
        let answer = match &ask.request {
            AtraceRequest::Start(options) => self.start_local(options).map(|()| None),
            AtraceRequest::Dump => self.dump_local(true).map(Some),
            AtraceRequest::Stop => self.dump_local(false).map(Some),
        };
        // Who asked may have gone.
        let _ = ask.answer.try_send(answer.map_err(|error| error.to_string()));
    }

    fn start_local(&mut self, options: &CaptureOptions) -> Result<(), Error> {
        if self.local.is_some() {
            return Err(Error::State("a capture that was asked for is running; stop it first"));
        }
        let now = now();
        self.may_be_asked(now)?;
        match self.machine.state {
            State::Off(_) => {}
            State::Armed(_) => {
                let reason = "a capture was asked for at the device".to_owned();
                self.take(now, Input::Abort(reason));
            }
            State::Fired(..) | State::Open(_) => {
                return Err(Error::State("a window of its configuration is being captured"));
            }
        }
        let config = Config {
            tags: options.tags.clone(),
            recorder: RecorderConfig {
                mode: if options.circular { Mode::Ring } else { Mode::Startup },
                capacity_kb: options.buffer_kb,
                ..RecorderConfig::default()
            },
            duration_ms: options.duration_ms,
            text: self.text_options(&self.machine.policy, None),
            ..Config::default()
        };
        capture::start(Owner::Controller, &config)?;
        let until_boot_ms = options.duration_ms.map(|ms| now.boot_ms.saturating_add(ms));
        self.local = Some(Local { config, until_boot_ms, number: 0 });
        Ok(())
    }

    fn dump_local(&mut self, goes_on: bool) -> Result<PathBuf, Error> {
        let Some(mut local) = self.local.take() else {
            return Err(Error::State("no capture was asked for; start one first"));
        };
        capture::stop(Owner::Controller)?;
        local.number += 1;
        let path = self.store.momentary(local.number);
        let written = capture::write(&path, &local.config.text, &About::default());
        capture::release(false);
        if goes_on && capture::start(Owner::Controller, &local.config).is_ok() {
            self.local = Some(local);
        }
        written.map(|_| path)
    }

    /// Ends it, and what it recorded goes, when nobody has come for it in its time, or when it may not be any
    /// more. Otherwise no window would ever be recorded again.
    pub(super) fn look_at_local(&mut self, now: Now) {
        let is_late = |local: &Local| local.until_boot_ms.is_some_and(|until| now.boot_ms >= until);
        let is_over = self.local.as_ref().is_some_and(is_late);
        if self.local.is_some() && (is_over || self.may_be_asked(now).is_err()) {
            self.end_local();
        }
    }

    pub(super) fn end_local(&mut self) {
        if self.local.take().is_some() {
            let _ = capture::stop(Owner::Controller);
            capture::release(false);
        }
    }

    fn may_be_asked(&self, now: Now) -> Result<(), Error> {
        if self.spool.is_off() {
            return Err(Error::State("the user does not consent to captures"));
        }
        if self.source.in_force.is_some() && self.machine.policy.off_at(now).is_some() {
            return Err(Error::State("its configuration has switched it off"));
        }
        Ok(())
    }
}
