//! The worker's hands: starts a recorder for windows, writes what is kept of it, recovers what killed
//! processes have left.

use super::document::Window;
use super::ledger::Now;
use super::machine::{Input, Kept, State};
use super::overhead::Overhead;
use super::policy::Policy;
use super::report::CaptureReport;
use super::triggers::Triggers;
use super::worker::{Worker, now};
use crate::config::{Config, RecorderConfig};
use crate::error::Error;
use crate::recorder::follow::Follower;
use crate::recorder::layout::Mode;
use crate::text::cut::Span;
use crate::text::redact::Redactor;
use crate::text::{About, TextOptions};
use crate::{capture, clock, recover};
use std::path::PathBuf;
use std::sync::Arc;

impl Worker {
    /// Starts recording for these windows.
    pub(super) fn record(&mut self, windows: &[usize], flight: bool) -> Result<(), Error> {
        let policy = Arc::clone(&self.machine.policy);
        let all: Vec<_> = windows.iter().filter_map(|&index| policy.window(index)).collect();
        if policy.document.crash_loop.within_s > 0 && self.hooked_ms == 0 {
            self.starts.begin(&self.store)?;
        }
        if self.overhead.is_none() {
            self.overhead = Some(Overhead::new(capture::measure_cost()?));
        }
        let config = self.config(&all, flight)?;
        let redactor = config.text.rules()?.map(Redactor::new);
        capture::start_driven(&config)?;
        let now = now();
        if self.hooked_ms == 0 {
            self.hooked_ms = now.boot_ms.max(1);
        }
        self.tags_seen_ms = now.boot_ms;
        self.follower = Follower::default();
        self.overhead.iter_mut().for_each(Overhead::restart);
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
            text: self.text_options(&self.machine.policy, Some(first)),
            output,
            fast_path: any(|window| window.recorder.fast_path),
        })
    }

    /// How the text of a window is written that was recorded under `policy`. Its rules hold, and
    /// then those that are in force now, if they are others.
    fn text_options(&self, policy: &Policy, window: Option<&Window>) -> TextOptions {
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

    fn path_of(&self, kept: &Kept) -> PathBuf {
        let (id, priority) = kept.of().map_or(("window", 0), |known| (&known.id, known.priority));
        self.store.captures().join(format!("{id}-p{priority}-{:x}.ftrace.zst", kept.number))
    }

    /// Writes a capture. The machine learns its bytes.
    pub(super) fn keep(&mut self, kept: &Kept) -> Option<Input> {
        let path = self.path_of(kept);
        let options = self.text_options(&kept.policy, kept.of());
        let window = kept.of().map(|window| window.id.clone()).unwrap_or_default();
        let comments = [format!("tracetee: {}", self.about(kept, &window))];
        let now_ns = clock::boot_ns();
        let span = kept.span_ns.map(|(from_ns, to_ns)| Span { from_ns, to_ns: to_ns.min(now_ns) });
        let about = About { recovered: false, span, comments: &comments };
        let mut report =
            CaptureReport { window, why: kept.why.clone(), ..CaptureReport::default() };
        let written = capture::dump_driven(&path, &options, &about).and_then(|summary| {
            // A stream that broke off has left none.
            let found = path.metadata().map(|_| summary);
            let found =
                found.map_err(|source| Error::Io { what: "find", path: path.clone(), source });
            self.store.trim_captures(kept.policy.budget().bytes_kept);
            found.and_then(|summary| match path.exists() {
                true => Ok(summary),
                false => Err(Error::State("not kept: budget.bytes_kept has no room for it")),
            })
        });
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
            "config_seq": kept.policy.document.seq,
            "version_code": self.device.version_code,
            "api": self.device.api,
            "pid": std::process::id(),
            "agent": env!("CARGO_PKG_VERSION"),
            "tag_resets": self.tag_resets,
            "overhead_percent": self.overhead.as_ref().and_then(Overhead::percent),
        })
    }

    pub(super) fn discard(&mut self, number: u64) {
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
    pub(super) fn recover(&mut self, now: Now) {
        if self.machine.policy.off.is_some() {
            // Not wanted any more, and names in it are as they were.
            return recover::delete_abandoned(&self.store.pools());
        }
        self.store.remove_parts();
        let options = self.text_options(&self.machine.policy, None);
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
        self.store.trim_captures(self.machine.policy.budget().bytes_kept);
    }
}
