//! What killed processes have left: crash-proof recorders become captures, half written ones go on as
//! far as they are whole. The agent's thread does it once, behind its first look.

use super::budget_ledger::Now;
use super::uploads;
use super::worker::Worker;
use crate::recover;
use tracetee_protocol::CaptureReport;
use tracetee_uploader::Waiting;

/// What stands for the window of a capture whose process was killed.
const RECOVERED: &str = "recovered";

fn recovered_report() -> CaptureReport {
    CaptureReport {
        window: RECOVERED.to_owned(),
        why: "the process was killed".to_owned(),
        ..CaptureReport::default()
    }
}

impl Worker {
    /// What killed processes have left in crash-proof recorders, and half written in the spool.
    pub(super) fn recover(&mut self, now: Now) {
        if self.machine.policy.off.is_some() {
            // Not wanted any more, and names in it are as they were.
            return recover::delete_abandoned(&self.store.pools());
        }
        // Another process of the app is at it: it does all of it.
        let Some(recovery) = self.spool.lock_recovery() else { return };
        let options = self.text_options(&self.machine.policy, None);
        let to = self.store.recovered();
        let quota = uploads::quota(&self.machine.policy.document);
        for (path, summary) in recover::recover_here(&self.store.pools(), &to, &options) {
            let bytes = summary.file_bytes;
            let _lock = self.store.lock_ledger();
            self.machine.ledger.merge(self.store.ledger());
            let (ledger, budget) = (&mut self.machine.ledger, self.machine.policy.budget());
            let may = ledger.refuses(RECOVERED, 0, budget, now).is_none() && {
                let number = ledger.enter(RECOVERED, now);
                ledger.try_record_bytes(number, bytes, budget, now)
            };
            if may {
                let saved = self.store.save_ledger(&self.machine.ledger);
                self.note_trouble(saved.err().map(|error| error.to_string()));
            } else {
                let _ = std::fs::remove_file(&path);
                self.spool.note_loss(RECOVERED, "budget", uploads::time());
                self.captures_lost += 1;
            }
            let mut report = recovered_report();
            report.summary = summary;
            report.error = (!may).then(|| "not kept: over the budget".to_owned());
            self.last_capture = Some(report);
        }
        // Those, and what a process was killed with that had got so far before; then what streamed.
        let files = std::fs::read_dir(&to).into_iter().flatten().flatten().map(|file| file.path());
        for path in files.collect::<Vec<_>>() {
            if path.extension().unwrap_or_default() == "part" {
                let _ = std::fs::remove_file(path);
                continue;
            }
            let taken = self.spool.take_in(&path, RECOVERED, true, &quota, uploads::time());
            self.note_recovered(taken);
        }
        for taken in self.spool.recover(&recovery, &quota, uploads::time()) {
            self.note_recovered(taken);
        }
        let trimmed = self.spool.trim(&quota, uploads::time());
        self.note_trouble(trimmed.err().map(|error| error.to_string()));
    }

    fn note_recovered(&mut self, taken: Result<Waiting, tracetee_uploader::Error>) {
        let mut report = self.last_capture.take().filter(|report| report.window == RECOVERED);
        let report = report.get_or_insert_with(recovered_report);
        match taken {
            Ok(waiting) => {
                self.captures += 1;
                report.path = Some(waiting.path);
            }
            Err(error) => {
                self.captures_lost += 1;
                report.error = Some(error.to_string());
            }
        }
        self.last_capture = Some(report.clone());
    }
}
