//! The worker's part of the health report.

use super::budget_ledger::Now;
use super::overhead::Overhead;
use super::state_machine::State;
use super::uploads::{self, Uploads};
use super::worker::{Worker, now};
use tracetee_protocol::remote_config::{Opens, Window};
use tracetee_protocol::{ConfigReport, ControlReport, OverheadReport, WindowReport};
use tracetee_uploader::UploadStatus;

impl Worker {
    /// The report.
    pub(crate) fn report(&self) -> ControlReport {
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
        ControlReport {
            state: state.to_owned(),
            reason,
            config,
            config_refused: self.source.refused.clone(),
            windows: self.windows(now),
            last_refused: machine.refused.clone(),
            last_capture: self.last_capture.clone(),
            captures: self.captures,
            captures_lost: self.captures_lost,
            last_lost: self.last_lost.as_ref().map(|(_, lost)| lost.clone()),
            spent: machine.ledger.spent(now),
            overhead: OverheadReport {
                ns_per_record: self.overhead.as_ref().map_or(0.0, |known| known.ns_per_record),
                percent: self.overhead.as_ref().and_then(Overhead::percent),
            },
            tag_resets: self.tag_resets,
            upload: self.upload_status(),
            socket_refused: super::control_socket::refused(),
            trouble: self.trouble.clone(),
        }
    }

    /// What lies there now, and what came of the last pass.
    fn upload_status(&self) -> UploadStatus {
        let now = self.spool.status(uploads::time());
        let last = self.uploads.as_ref().and_then(Uploads::status).unwrap_or_default();
        let UploadStatus { waiting, waiting_bytes, lost, consent, .. } = now;
        UploadStatus { waiting, waiting_bytes, lost, consent, ..last }
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
