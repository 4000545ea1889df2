//! A capture for a local user of this device, over the [socket](super::control_socket): `tracetee atrace`.
//!
//! One at a time, in memory. It never runs together with a window: a flight recorder pauses for it, and it is refused while
//! a window is being kept. It obeys the kill switch, the user's consent and the rules of redaction, as every capture does.

use super::budget_ledger::Now;
use super::state_dir::StateDir;
use crate::capture::{self, Owner};
use crate::error::Error;
use crate::queue::Sender;
use std::path::PathBuf;
use std::time::Duration;
use tracetee_protocol::capture_config::{Config, RecorderConfig};
use tracetee_protocol::control_socket::{AtraceRequest, CaptureOptions};
use tracetee_recorder::layout::Mode;
use tracetee_text::{About, TextOptions};

/// Time limit of a dump.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and the destination of the answer: the file with the text, if the request is for text.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) request: AtraceRequest,
    pub(crate) answer: Sender<Result<Option<PathBuf>, String>>,
}

/// The capture, if there is one.
#[derive(Debug, Default)]
pub(crate) struct OnDeviceCapture {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    config: Config,
    /// Time at which it is discarded.
    until_boot_ms: Option<u64>,
    /// Dumps so far.
    dumps: u64,
}

impl OnDeviceCapture {
    pub(crate) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns true if no client collected the capture in time.
    pub(crate) fn is_over(&self, now: Now) -> bool {
        let until = self.running.as_ref().and_then(|running| running.until_boot_ms);
        until.is_some_and(|until| now.boot_ms >= until)
    }

    /// Starts the capture.
    pub(crate) fn start(
        &mut self,
        options: &CaptureOptions,
        text: TextOptions,
        now: Now,
    ) -> Result<(), Error> {
        let config = Config {
            tags: options.tags.clone(),
            recorder: RecorderConfig {
                mode: if options.circular { Mode::Ring } else { Mode::Startup },
                capacity_kb: options.buffer_kb,
                ..RecorderConfig::default()
            },
            duration_ms: options.duration_ms,
            text,
            ..Config::default()
        };
        capture::start(Owner::Controller, &config)?;
        let until_boot_ms = options.duration_ms.map(|ms| now.boot_ms.saturating_add(ms));
        self.running = Some(Running { config, until_boot_ms, dumps: 0 });
        Ok(())
    }

    /// Writes the records to a file. `goes_on`: the capture continues with an empty recorder; else it ends.
    pub(crate) fn dump(&mut self, store: &StateDir, goes_on: bool) -> Result<PathBuf, Error> {
        let Some(mut running) = self.running.take() else {
            return Err(Error::State("no capture was started; start one first"));
        };
        capture::stop(Owner::Controller)?;
        running.dumps += 1;
        let path = store.momentary(running.dumps);
        let written = capture::write(&path, &running.config.text, &About::default());
        capture::release(false);
        if goes_on && capture::start(Owner::Controller, &running.config).is_ok() {
            self.running = Some(running);
        }
        written.map(|_| path)
    }

    /// Ends the capture and discards its records.
    pub(crate) fn end(&mut self) {
        if self.running.take().is_some() {
            let _ = capture::stop(Owner::Controller);
            capture::release(false);
        }
    }
}
