//! The worker's hands: starts a recorder for windows, writes what is kept of it into the spool.

use super::overhead::Overhead;
use super::policy::Policy;
use super::process_signals;
use super::state_machine::{Input, Kept, State};
use super::triggers::Triggers;
use super::uploads;
use super::worker::{Worker, now};
use crate::capture::{self, Owner};
use crate::error::Error;
use std::sync::Arc;
use tracetee_protocol::capture_config::{Config, RecorderConfig};
use tracetee_protocol::notes;
use tracetee_protocol::remote_config::Window;
use tracetee_protocol::{CaptureMeta, CaptureReport};
use tracetee_recorder::clock;
use tracetee_recorder::layout::Mode;
use tracetee_recorder::tail::Follower;
use tracetee_text::redact::Redactor;
use tracetee_text::time_window::Span;
use tracetee_text::{About, Summary, TextOptions};
use tracetee_uploader::{Quota, Recording};

impl Worker {
    /// Starts recording for these windows.
    pub(super) fn record(&mut self, windows: &[usize], flight: bool) -> Result<(), Error> {
        if self.local.is_some() {
            return Err(Error::State("a capture was asked for at the device"));
        }
        let policy = Arc::clone(&self.machine.policy);
        let all: Vec<_> = windows.iter().filter_map(|&index| policy.window(index)).collect();
        if policy.document.crash_loop.within_s > 0 && self.hooked_ms == 0 {
            self.starts.begin(&self.store)?;
        }
        if self.overhead.is_none() {
            self.overhead = Some(Overhead::new(capture::measure_cost()?));
        }
        let config = self.config(&all, flight)?;
        let redactor = tracetee_text::rules(&config.text)?.map(Redactor::new);
        capture::start(Owner::Controller, &config)?;
        self.screen = process_signals::screen_at(u64::MAX);
        let now = now();
        if self.hooked_ms == 0 {
            self.hooked_ms = now.boot_ms.max(1);
        }
        self.follower = Follower::default();
        self.overhead.iter_mut().for_each(Overhead::restart);
        let main_tid = std::process::id().cast_signed();
        self.triggers = flight.then(|| Triggers::new(&policy, windows, main_tid, redactor));
        Ok(())
    }

    /// The recorder for windows, which share it where there are several.
    fn config(&mut self, windows: &[&Window], flight: bool) -> Result<Config, Error> {
        let document = &self.machine.policy.document;
        let first = windows.first().ok_or(Error::State("no window to record"))?;
        let any = |what: fn(&Window) -> bool| windows.iter().any(|window| what(window));
        let crash_proof = any(|window| window.recorder.crash_proof) && !document.redaction.strict;
        let mode = if flight { Mode::Ring } else { first.recorder.mode };
        let sizes = windows.iter().map(|window| window.recorder.capacity_kb);
        let text = self.text_options(&self.machine.policy, Some(first));
        let streamed = match &self.machine.state {
            State::Open(kept) if mode == Mode::Endless => Some(kept.clone()),
            _ => None,
        };
        if let Some(kept) = streamed {
            self.streaming = Some(self.begin(&kept)?);
        }
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
            text,
            output: self.streaming.as_ref().map(|recording| recording.path().to_owned()),
            fast_path: any(|window| window.recorder.fast_path),
        })
    }

    /// How the text of a window is written that was recorded under `policy`. Its rules hold, and
    /// then those that are in force now, if they are others.
    pub(super) fn text_options(&self, policy: &Policy, window: Option<&Window>) -> TextOptions {
        let present = &self.machine.policy.document.redaction.rules;
        let mut redaction = policy.document.redaction.rules.clone();
        if redaction != *present {
            redaction.extend_from_slice(present);
        }
        let key = hmac_sha256::HMAC::mac(b"redaction", self.device.install_id.as_bytes());
        let key = key.first_chunk().map_or(1, |bytes| u64::from_be_bytes(*bytes));
        TextOptions {
            min_slice_us: window.map(|window| window.min_slice_us).unwrap_or_default(),
            main_thread_only: window.is_some_and(|window| window.main_thread_only),
            redaction,
            redaction_key: key.max(1),
            ..TextOptions::default()
        }
    }

    /// Writes a capture. The machine learns its bytes; what it says of them decides.
    pub(super) fn keep(&mut self, kept: &Kept) -> Option<Input> {
        let window = kept.window().map(|window| window.id.clone()).unwrap_or_default();
        let mut report =
            CaptureReport { window, why: kept.why.clone(), ..CaptureReport::default() };
        match self.write(kept, &report.window) {
            Ok((recording, summary)) => {
                // There is one at a time; an earlier one was not thrown out.
                self.seal();
                let bytes = summary.file_bytes;
                report.summary = summary;
                let quota = uploads::quota(&kept.policy.document);
                self.written = Some(Written { recording, report, quota, number: kept.number });
                Some(Input::Written { number: kept.number, bytes })
            }
            Err(error) => {
                self.captures_lost += 1;
                report.error = Some(error.to_string());
                self.last_capture = Some(report);
                None
            }
        }
    }

    fn write(&mut self, kept: &Kept, window: &str) -> Result<(Recording, Summary), Error> {
        let recording = match self.streaming.take() {
            Some(recording) => recording,
            None => self.begin(kept)?,
        };
        let options = self.text_options(&kept.policy, kept.window());
        let comments =
            [format!("{}{}", notes::PREFIX, self.about(kept, window, &recording.id()).to_json())];
        let now_ns = clock::boot_ns();
        let span = kept.span_ns.map(|(from_ns, to_ns)| Span { from_ns, to_ns: to_ns.min(now_ns) });
        let about = About { recovered: false, span, comments: &comments };
        let path = recording.path().to_owned();
        let written = capture::write(&path, &options, &about).and_then(|summary| {
            // A stream that broke off has left none.
            let found = path.metadata().map(|_| summary);
            found.map_err(|source| Error::Io { what: "find", path, source })
        });
        match written {
            Ok(summary) => Ok((recording, summary)),
            Err(error) => {
                let reason = match error {
                    Error::Text(tracetee_text::Error::Frame { .. }) => "broken_frame",
                    _ => "not_written",
                };
                self.spool.abandon(recording, reason);
                Err(error)
            }
        }
    }

    fn begin(&mut self, kept: &Kept) -> Result<Recording, Error> {
        let (id, priority) =
            kept.window().map_or(("window", 0), |known| (&known.id, known.priority));
        let begun = self.spool.begin(id, priority, uploads::time());
        Ok(begun.inspect_err(|_| self.spool.note_loss(id, "not_written", uploads::time()))?)
    }

    /// What was written goes into the spool, unless the machine has thrown it out.
    pub(super) fn seal(&mut self) {
        let Some(Written { recording, mut report, quota, .. }) = self.written.take() else {
            return;
        };
        match self.spool.seal(recording, &quota, uploads::time()) {
            Ok(waiting) => {
                self.captures += 1;
                report.path = Some(waiting.path);
                if let Some(uploads) = &self.uploads {
                    uploads.wake();
                }
            }
            Err(error) => {
                self.captures_lost += 1;
                report.error = Some(error.to_string());
            }
        }
        self.last_capture = Some(report);
    }

    /// The metadata in the capture's header.
    fn about(&self, kept: &Kept, window: &str, id: &str) -> CaptureMeta {
        let screen = match kept.span_ns {
            Some((from_ns, _)) => process_signals::screen_at(from_ns),
            None => self.screen.clone(),
        };
        // As the text has it, where it is an instant.
        let text = self.text_options(&kept.policy, kept.window());
        let screen = screen.and_then(|screen| {
            let written =
                tracetee_text::redacted(&text, &format!("screen:{screen}")).ok().flatten()?;
            Some(written.strip_prefix("screen:").unwrap_or(&written).to_owned())
        });
        let mut about = CaptureMeta {
            id: Some(id.to_owned()),
            window: Some(window.to_owned()),
            why: Some(kept.why.clone()),
            also: Some(kept.also.clone()),
            opens: kept.window().map(|window| window.opens.as_str().to_owned()),
            span_ns: kept.span_ns,
            config_seq: Some(kept.policy.document.seq),
            pid: Some(std::process::id()),
            tag_resets: Some(self.tag_resets),
            overhead_percent: self.overhead.as_ref().and_then(Overhead::percent),
            refresh_hz: process_signals::refresh_hz(),
            screen,
            ..CaptureMeta::default()
        };
        // As it is now: by the time that it is sent the app may be another version.
        about.merge(self.facts.clone());
        about
    }

    pub(super) fn discard(&mut self, number: u64) {
        let Some(mut written) = self.written.take_if(|written| written.number == number) else {
            return;
        };
        self.spool.abandon(written.recording, "bytes_per_day");
        let limit = self.machine.policy.budget().bytes_per_day;
        written.report.error = Some(format!("not kept: over the {limit} bytes of a day"));
        self.captures_lost += 1;
        self.last_capture = Some(written.report);
    }
}

/// A capture that is written, before it is decided whether it is kept.
#[derive(Debug)]
pub(super) struct Written {
    recording: Recording,
    report: CaptureReport,
    quota: Quota,
    number: u64,
}
