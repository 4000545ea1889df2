//! Writes captures into the spool, and keeps track of them.
//!
//! The state machine decides: a capture is written first, then sealed or discarded depending on its bytes in the ledger.
//! Runs on the agent's thread.

use super::policy::Policy;
use super::process_signals;
use super::state::{Input, Kept};
use super::uploads;
use crate::capture;
use crate::error::Error;
use std::path::PathBuf;
use tracetee_protocol::capture_config::{Config, RecorderConfig};
use tracetee_protocol::json::Decimal;
use tracetee_protocol::notes;
use tracetee_protocol::remote_config::Window;
use tracetee_protocol::{CaptureMeta, CaptureReport, LostReport};
use tracetee_recorder::clock;
use tracetee_recorder::layout::Mode;
use tracetee_text::time_window::Span;
use tracetee_text::{About, Summary, TextOptions};
use tracetee_uploader::{Quota, Recording, Spool};

/// Writes captures, one at a time.
#[derive(Debug)]
pub(crate) struct CaptureWriter {
    pub(super) spool: Spool,
    /// Metadata of every capture.
    pub(super) facts: CaptureMeta,
    /// Key of the hashes that replace redacted names.
    pub(super) redaction_key: u64,
    /// The screen that was shown when recording began.
    screen: Option<String>,
    /// Receives the capture that is being streamed.
    streaming: Option<Recording>,
    /// The number of the capture that was announced last, and the recording that will receive it.
    #[cfg(feature = "jni")]
    announced: (u64, Option<Recording>),
    /// The capture that is written and not yet sealed or discarded.
    written: Option<Written>,
    pub(super) account: Account,
    /// A capture was sealed since [`CaptureWriter::take_arrival`].
    has_arrived: bool,
}

/// The captures of this process.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) kept: u64,
    pub(crate) lost: u64,
    pub(crate) last: Option<CaptureReport>,
    pub(crate) last_lost: Option<LostReport>,
}

/// A capture that is written, before it is decided whether it is kept.
#[derive(Debug)]
struct Written {
    recording: Recording,
    report: CaptureReport,
    quota: Quota,
    number: u64,
}

/// Facts about the recording, for the capture's header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    pub(crate) tag_resets: u64,
    pub(crate) overhead_percent: Option<Decimal>,
}

impl CaptureWriter {
    pub(crate) fn new(spool: Spool, facts: CaptureMeta, install_id: &str) -> Self {
        let key = hmac_sha256::HMAC::mac(b"redaction", install_id.as_bytes());
        let key = key.first_chunk().map_or(1, |bytes| u64::from_be_bytes(*bytes));
        Self {
            spool,
            facts,
            redaction_key: key.max(1),
            screen: None,
            streaming: None,
            #[cfg(feature = "jni")]
            announced: (0, None),
            written: None,
            account: Account::default(),
            has_arrived: false,
        }
    }

    /// In a forked child: leaves the spool to the parent.
    pub(crate) fn forget(self) {
        self.spool.leave();
    }

    // ---- recording ----

    /// Configures the recorder that `windows` share. `streamed`: the capture of a window that is
    /// open, which goes to the spool while it is recorded if the window's mode is endless.
    pub(crate) fn configure(
        &mut self,
        policy: &Policy,
        windows: &[&Window],
        flight: bool,
        streamed: Option<&Kept>,
        pools: PathBuf,
    ) -> Result<Config, Error> {
        let first = windows.first().ok_or(Error::State("no window to record"))?;
        let any = |what: fn(&Window) -> bool| windows.iter().any(|window| what(window));
        let is_strict = policy.document.redaction.strict;
        let crash_proof = any(|window| window.recorder.crash_proof) && !is_strict;
        let mode = if flight { Mode::Ring } else { first.recorder.mode };
        let sizes = windows.iter().map(|window| window.recorder.capacity_kb);
        let text = self.text_options(policy, policy, Some(first));
        if let Some(kept) = streamed.filter(|_| mode == Mode::Endless) {
            self.streaming = Some(self.begin(kept)?);
        }
        Ok(Config {
            tags: windows.iter().flat_map(|window| window.tags.iter().cloned()).collect(),
            pass_on: first.pass_on,
            recorder: RecorderConfig {
                mode,
                capacity_kb: sizes.max().unwrap_or(4096),
                directory: crash_proof.then_some(pools),
                ..RecorderConfig::default()
            },
            duration_ms: None,
            text,
            output: self.streaming.as_ref().map(|recording| recording.path().to_owned()),
            fast_path: any(|window| window.recorder.fast_path),
            frame_counters: any(|window| window.frame_counters),
        })
    }

    /// Notes that recording has begun.
    pub(crate) fn note_begun(&mut self) {
        self.screen = process_signals::screen_at(u64::MAX);
    }

    /// The text options of a window recorded under `policy`. Its rules of redaction apply, then
    /// those of the `present` policy where they differ.
    pub(crate) fn text_options(
        &self,
        present: &Policy,
        policy: &Policy,
        window: Option<&Window>,
    ) -> TextOptions {
        let present = &present.document.redaction.rules;
        let mut redaction = policy.document.redaction.rules.clone();
        if redaction != *present {
            redaction.extend_from_slice(present);
        }
        TextOptions {
            min_slice_us: window.map(|window| window.min_slice_us).unwrap_or_default(),
            main_thread_only: window.is_some_and(|window| window.main_thread_only),
            redaction,
            redaction_key: self.redaction_key,
            ..TextOptions::default()
        }
    }

    // ---- captures ----

    /// Writes a capture. Returns its bytes for the state machine, which then decides about it.
    pub(crate) fn keep(
        &mut self,
        kept: &Kept,
        present: &Policy,
        observed: Observed,
    ) -> Option<Input> {
        let window = kept.window().map(|window| window.id.clone()).unwrap_or_default();
        let mut report =
            CaptureReport { window, why: kept.why.clone(), ..CaptureReport::default() };
        let options = self.text_options(present, &kept.policy, kept.window());
        match self.write(kept, &report.window, &options, observed) {
            Ok((recording, summary)) => {
                // The earlier capture was not discarded.
                self.seal();
                let bytes = summary.file_bytes;
                report.summary = summary;
                let quota = uploads::quota(&kept.policy.document);
                self.written = Some(Written { recording, report, quota, number: kept.number });
                Some(Input::Written { number: kept.number, bytes })
            }
            Err(error) => {
                self.note_lost(report, error.to_string());
                None
            }
        }
    }

    fn write(
        &mut self,
        kept: &Kept,
        window: &str,
        options: &TextOptions,
        observed: Observed,
    ) -> Result<(Recording, Summary), Error> {
        let begun = self.streaming.take();
        #[cfg(feature = "jni")]
        let begun = begun.or(self.announced.1.take_if(|_| self.announced.0 == kept.number));
        let recording = match begun {
            Some(recording) => recording,
            None => self.begin(kept)?,
        };
        let about = self.about(kept, window, &recording.id(), options, observed);
        let comments = [format!("{}{}", notes::PREFIX, about.to_json())];
        let now_ns = clock::boot_ns();
        let span = kept.span_ns.map(|(from_ns, to_ns)| Span { from_ns, to_ns: to_ns.min(now_ns) });
        let about = About { recovered: false, span, comments: &comments };
        let path = recording.path().to_owned();
        let written = capture::write(&path, options, &about).and_then(|summary| {
            // A stream that broke off has left no file.
            let found = path.metadata().map(|_| summary);
            found.map_err(|source| Error::Io { what: "find", path, source })
        });
        match written {
            Ok(summary) => Ok((recording, summary)),
            Err(error) => {
                self.spool.abandon(recording, "not_written");
                Err(error)
            }
        }
    }

    /// Passes the window and the id of a capture that has begun to `call`, once.
    #[cfg(feature = "jni")]
    pub(crate) fn announce(&mut self, kept: &Kept, call: fn(&str, &str)) {
        let Some(window) = kept.window().filter(|_| self.announced.0 != kept.number) else {
            return;
        };
        let begun = match &self.streaming {
            Some(_) => None,
            None => self.spool.begin(&window.id, window.priority, uploads::time()).ok(),
        };
        if let Some(recording) = self.streaming.as_ref().or(begun.as_ref()) {
            call(&window.id, &recording.id());
        }
        self.announced = (kept.number, begun);
    }

    fn begin(&mut self, kept: &Kept) -> Result<Recording, Error> {
        let (id, priority) =
            kept.window().map_or(("window", 0), |known| (&known.id, known.priority));
        let begun = self.spool.begin(id, priority, uploads::time());
        if begun.is_err() {
            self.spool.note_loss(id, "not_written", uploads::time());
        }
        Ok(begun?)
    }

    /// The metadata in the capture's header.
    fn about(
        &self,
        kept: &Kept,
        window: &str,
        id: &str,
        options: &TextOptions,
        observed: Observed,
    ) -> CaptureMeta {
        let screen = match kept.span_ns {
            Some((from_ns, _)) => process_signals::screen_at(from_ns),
            None => self.screen.clone(),
        };
        let screen = screen.and_then(|screen| process_signals::redacted_screen(options, &screen));
        let mut about = CaptureMeta {
            id: Some(id.to_owned()),
            window: Some(window.to_owned()),
            why: Some(kept.why.clone()),
            also: Some(kept.also.clone()),
            waited_ms: kept.waited.as_ref().map(|waited| waited.ms),
            waited_for: kept.waited.as_ref().map(|waited| waited.window.clone()),
            opens: kept.window().map(|window| window.opens.as_str().to_owned()),
            span_ns: kept.span_ns,
            config_seq: Some(kept.policy.document.seq),
            pid: Some(std::process::id()),
            tag_resets: Some(observed.tag_resets),
            overhead_percent: observed.overhead_percent,
            refresh_hz: process_signals::refresh_hz(),
            screen,
            app_packages: Some(kept.policy.document.app_packages.clone())
                .filter(|packages| !packages.is_empty()),
            ..CaptureMeta::default()
        };
        // The app's current version: a later version may send the capture.
        about.merge(self.facts.clone());
        about
    }

    /// Moves the written capture, which the state machine has not discarded, to the waiting captures.
    pub(crate) fn seal(&mut self) {
        let Some(Written { recording, mut report, quota, .. }) = self.written.take() else {
            return;
        };
        match self.spool.seal(recording, &quota, uploads::time()) {
            Ok(waiting) => {
                report.path = Some(waiting.path);
                self.has_arrived = true;
                self.note_kept(report);
            }
            Err(error) => self.note_lost(report, error.to_string()),
        }
    }

    /// Deletes the written capture, which exceeds the bytes of a day.
    pub(crate) fn discard(&mut self, number: u64, limit_bytes: u64) {
        let Some(written) = self.written.take_if(|written| written.number == number) else {
            return;
        };
        self.spool.abandon(written.recording, "bytes_per_day");
        let reason = format!("not kept: over the {limit_bytes} bytes of a day");
        self.note_lost(written.report, reason);
    }

    /// Deletes the streamed trace: its window is no longer open, and it was not kept.
    pub(crate) fn drop_stream(&mut self) {
        if let Some(unwanted) = self.streaming.take() {
            self.spool.drop_unwanted(unwanted);
        }
    }

    /// Returns true if a capture was sealed since the last call.
    pub(crate) fn take_arrival(&mut self) -> bool {
        std::mem::take(&mut self.has_arrived)
    }

    // ---- account ----

    /// Counts a capture that is in the spool.
    pub(crate) fn note_kept(&mut self, report: CaptureReport) {
        self.account.kept += 1;
        self.account.last = Some(report);
    }

    /// Counts a capture that was lost.
    pub(crate) fn note_lost(&mut self, mut report: CaptureReport, reason: String) {
        self.account.lost += 1;
        let (window, why) = (report.window.clone(), report.why.clone());
        self.account.last_lost = Some(LostReport { window, why, reason: reason.clone() });
        report.error = Some(reason);
        self.account.last = Some(report);
    }
}
