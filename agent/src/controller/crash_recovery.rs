//! Recovers captures of killed processes: crash-proof recorders become captures, and captures that
//! were half written go on as far as they are whole.
//!
//! The agent's thread does it once, after its first look.

use super::budget_ledger::Now;
use super::capture_writer::CaptureWriter;
use super::state_dir::StateDir;
use super::state_machine::StateMachine;
use super::uploads;
use crate::error::Error;
use crate::recover;
use tracetee_protocol::CaptureReport;
use tracetee_uploader::Waiting;

/// Stands for the window of a capture whose process was killed.
const RECOVERED: &str = "recovered";

/// Recovers what killed processes have left in crash-proof recorders, and half written in the spool.
/// Another process of the app may do it instead: one at a time has the lock, and does all of it.
pub(crate) fn recover(
    machine: &mut StateMachine,
    store: &StateDir,
    writer: &mut CaptureWriter,
    now: Now,
) -> Result<(), Error> {
    if machine.policy().off.is_some() {
        // Captures are not wanted any more, and names in the recorders are not redacted.
        recover::delete_abandoned(&store.pools());
        return Ok(());
    }
    let Some(recovery) = writer.spool().lock_recovery() else { return Ok(()) };
    let mut outcome = Ok(());
    let options = writer.text_options(machine.policy(), machine.policy(), None);
    let to = store.recovered();
    let quota = uploads::quota(&machine.policy().document);
    let mut summaries = Vec::new();
    for (path, summary) in recover::recover_here(&store.pools(), &to, &options) {
        let _lock = store.lock_ledger();
        machine.merge_ledger(store.ledger());
        if machine.admit(RECOVERED, summary.file_bytes, now) {
            outcome = outcome.and(store.save_ledger(machine.ledger()));
            summaries.push((path, summary));
        } else {
            let _ = std::fs::remove_file(&path);
            writer.spool().note_loss(RECOVERED, "budget", uploads::time());
            let report = CaptureReport { summary, ..report() };
            writer.note_lost(report, "not kept: over the budget".to_owned());
        }
    }
    // These, those of a recovery that was killed in its turn, then what was being streamed.
    let files = std::fs::read_dir(&to).into_iter().flatten().flatten().map(|file| file.path());
    for path in files.collect::<Vec<_>>() {
        if path.extension().unwrap_or_default() == "part" {
            let _ = std::fs::remove_file(path);
            continue;
        }
        let taken = writer.spool_mut().take_in(&path, RECOVERED, true, &quota, uploads::time());
        let known = summaries.iter().position(|(summarized, _)| *summarized == path);
        let summary = known.map(|index| summaries.swap_remove(index).1).unwrap_or_default();
        note(writer, CaptureReport { summary, ..report() }, taken);
    }
    for taken in writer.spool().recover(&recovery, &quota, uploads::time()) {
        note(writer, report(), taken);
    }
    outcome.and(writer.spool().trim(&quota, uploads::time()).map(drop).map_err(Error::from))
}

/// The report of a recovered capture.
fn report() -> CaptureReport {
    CaptureReport {
        window: RECOVERED.to_owned(),
        why: "the process was killed".to_owned(),
        ..CaptureReport::default()
    }
}

fn note(
    writer: &mut CaptureWriter,
    mut report: CaptureReport,
    taken: Result<Waiting, tracetee_uploader::Error>,
) {
    match taken {
        Ok(waiting) => {
            report.path = Some(waiting.path);
            writer.note_kept(report);
        }
        Err(error) => writer.note_lost(report, error.to_string()),
    }
}
