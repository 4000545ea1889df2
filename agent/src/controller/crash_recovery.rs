//! Recovers captures of killed processes: crash-proof recorders become captures, and half-written captures are sent up to
//! their last complete part.
//!
//! The agent's thread does it once, after its first check and after the app has reported how earlier processes ended. Their
//! captures then contain the end; an end without a recorder becomes a separate capture.

use super::budget_ledger::Now;
use super::capture_writer::CaptureWriter;
use super::deaths::{self, Recorder};
use super::start::boot_id;
use super::state_dir::StateDir;
use super::state_machine::StateMachine;
use super::uploads;
use crate::error::Error;
use crate::recover;
use std::os::unix::ffi::OsStrExt;
use tracetee_protocol::death::{self, Exit, Run};
use tracetee_protocol::{CaptureMeta, CaptureReport, notes};
use tracetee_text::abandoned::{Abandoned, abandoned_in};
use tracetee_text::{TextOptions, summarize, write_header};
use tracetee_uploader::{Quota, Waiting};

/// Stands for the window of a capture whose process was killed.
const RECOVERED: &str = "recovered";

/// Recovers the crash-proof recorders and half-written captures of killed processes. Returns for each end the id of its
/// capture; empty if there is none. Another process of the app may do it instead: the holder of the lock does all of it.
pub(crate) fn recover(
    machine: &mut StateMachine,
    store: &StateDir,
    writer: &mut CaptureWriter,
    exits: &[Exit],
    now: Now,
) -> (Vec<String>, Result<(), Error>) {
    let mut ids = vec![String::new(); exits.len()];
    if machine.policy().off.is_some() {
        // Captures are no longer wanted, and names in the recorders are not redacted.
        recover::delete_abandoned(&store.pools());
        return (ids, Ok(()));
    }
    let options = writer.text_options(machine.policy(), machine.policy(), None);
    let is_on = machine.policy().document.deaths.on && machine.policy().off_at(now).is_none();
    let mut exits = if is_on { exits.to_vec() } else { Vec::new() };
    exits.iter_mut().for_each(|exit| deaths::redact(exit, &options));
    let mut outcome =
        recover_recorders(machine, store, writer, &options, &mut exits, &mut ids, now);
    for (exit, id) in exits.iter().zip(&mut ids).filter(|(exit, id)| exit.alone && id.is_empty()) {
        match report_alone(machine, store, writer, exit, now) {
            Ok(found) => *id = found.unwrap_or_default(),
            Err(error) => outcome = Err(error),
        }
    }
    (ids, outcome)
}

fn recover_recorders(
    machine: &mut StateMachine,
    store: &StateDir,
    writer: &mut CaptureWriter,
    options: &TextOptions,
    exits: &mut [Exit],
    ids: &mut [String],
    now: Now,
) -> Result<(), Error> {
    let Some(recovery) = writer.spool.lock_recovery() else { return Ok(()) };
    let mut outcome = Ok(());
    let to = store.recovered();
    let quota = uploads::quota(&machine.policy().document);
    let mut summaries = Vec::new();
    for (file, Recorder { about, exit, .. }) in with_ends(store, options, exits, now) {
        let comment = format!("{}{}", notes::PREFIX, about.to_json());
        let comments = if about.is_empty() { &[][..] } else { &[comment] };
        let Some((path, summary)) = recover::recover_one(&file, &to, options, comments) else {
            continue;
        };
        let _lock = store.lock_ledger();
        machine.merge_ledger(store.ledger());
        if machine.admit(RECOVERED, summary.file_bytes, now) {
            outcome = outcome.and(store.save_ledger(machine.ledger()));
            summaries.push((path, summary, exit));
        } else {
            let _ = std::fs::remove_file(&path);
            writer.spool.note_loss(RECOVERED, "budget", uploads::time());
            let report = CaptureReport { summary, ..report() };
            writer.note_lost(report, "not kept: over the budget".to_owned());
        }
    }
    // These files, then files of a recovery that was itself killed, then interrupted streams.
    let files = std::fs::read_dir(&to).into_iter().flatten().flatten().map(|file| file.path());
    for path in files.collect::<Vec<_>>() {
        if path.extension().unwrap_or_default() == "part" {
            let _ = std::fs::remove_file(path);
            continue;
        }
        let taken = writer.spool.take_in(&path, RECOVERED, true, &quota, uploads::time());
        let known = summaries.iter().position(|(summarized, ..)| *summarized == path);
        let known = known.map(|index| summaries.swap_remove(index));
        let (summary, exit) = known.map(|(_, summary, exit)| (summary, exit)).unwrap_or_default();
        note_id(ids, exit, &taken);
        note(writer, CaptureReport { summary, ..report() }, taken);
    }
    for taken in writer.spool.recover(&recovery, &quota, uploads::time()) {
        // A continued stream has its capture's id in its name.
        let is_its = |waiting: &Waiting, path: &std::path::Path| {
            let (path, id) = (path.as_os_str().as_bytes(), waiting.id());
            path.windows(id.len()).any(|part| part == id.as_bytes())
        };
        let known = taken.as_ref().ok().and_then(|waiting| {
            summaries.iter().find(|(path, ..)| is_its(waiting, path)).and_then(|known| known.2)
        });
        note_id(ids, known, &taken);
        note(writer, report(), taken);
    }
    outcome.and(writer.spool.trim(&quota, uploads::time()).map(drop).map_err(Error::from))
}

/// The abandoned recorder files, each with the known facts about its process and its end.
fn with_ends(
    store: &StateDir,
    options: &TextOptions,
    exits: &mut [Exit],
    now: Now,
) -> Vec<(Abandoned, Recorder)> {
    let files = abandoned_in(&store.pools());
    let known = files.iter().map(|file| recorder(file, options, !exits.is_empty()));
    let mut recorders: Vec<_> = known.map(Option::unwrap_or_default).collect();
    let joined = deaths::join(exits, &recorders, &boot_id(), now);
    for (index, (exit, found)) in exits.iter_mut().zip(joined).enumerate() {
        let Some((recorder, by)) = found else { continue };
        by.clone_into(&mut exit.death.joined_by);
        if let Some(recorder) = recorders.get_mut(recorder) {
            recorder.about.why = Some(why(exit));
            recorder.about.death = Some(exit.death.clone());
            recorder.exit = Some(index);
        }
    }
    files.into_iter().zip(recorders).collect()
}

/// The process of a recorder file; the time of its last record only if it `is_timed`: that reads all of it.
fn recorder(file: &Abandoned, options: &TextOptions, is_timed: bool) -> Option<Recorder> {
    file.read(|reader| {
        let run = Run::of_recorder(&reader.meta())?;
        let mut about = CaptureMeta::from_json(run.about.as_str().as_bytes())?;
        about.pid = u32::try_from(reader.pid()).ok();
        let lasted_ns = if is_timed { summarize(&[*reader], options).duration_ns } else { 0 };
        let last_ms = reader.start_real_ns().saturating_add(lasted_ns) / 1_000_000;
        Some(Recorder { run, about, last_ms, exit: None })
    })?
}

/// Keeps a capture without records that says how a process ended. Returns its id; `None` if the budget has no room.
fn report_alone(
    machine: &mut StateMachine,
    store: &StateDir,
    writer: &mut CaptureWriter,
    exit: &Exit,
    now: Now,
) -> Result<Option<String>, Error> {
    if writer.spool.is_off() {
        return Ok(None);
    }
    let facts = writer.facts.clone();
    let recording = writer.spool.begin(death::WINDOW, 0, uploads::time())?;
    let mut about = CaptureMeta {
        id: Some(recording.id()),
        window: Some(death::WINDOW.to_owned()),
        why: Some(why(exit)),
        pid: u32::try_from(exit.death.pid).ok(),
        config_seq: Some(machine.policy().document.seq),
        death: Some(exit.death.clone()),
        ..facts
    };
    about.process = Some(exit.death.process.clone());
    if about.version_code != Some(exit.version_code) {
        // Written by another version, whose name is unknown.
        about.version_code = Some(exit.version_code).filter(|code| *code != 0);
        about.version_name = None;
    }
    let pid = i32::try_from(exit.death.pid).unwrap_or(0);
    let at = (now.boot_ms * 1_000_000, now.real_ms * 1_000_000);
    let comment = format!("{}{}", notes::PREFIX, about.to_json());
    let written = write_header(recording.path(), pid, at, &[comment]);
    let bytes = match written {
        Ok(bytes) => bytes,
        Err(error) => {
            writer.spool.abandon(recording, "not_written");
            return Err(error.into());
        }
    };
    let lock = store.lock_ledger();
    machine.merge_ledger(store.ledger());
    if !machine.admit(death::WINDOW, bytes, now) {
        writer.spool.abandon(recording, "budget");
        return Ok(None);
    }
    store.save_ledger(machine.ledger())?;
    drop(lock);
    let quota: Quota = uploads::quota(&machine.policy().document);
    let taken = writer.spool.seal(recording, &quota, uploads::time());
    let id = taken.as_ref().map(Waiting::id).ok();
    note(writer, CaptureReport { window: death::WINDOW.to_owned(), ..report() }, taken);
    Ok(id)
}

fn why(exit: &Exit) -> String {
    format!("the process ended: {}", exit.death.reason)
}

/// The report of a recovered capture.
fn report() -> CaptureReport {
    CaptureReport {
        window: RECOVERED.to_owned(),
        why: "the process was killed".to_owned(),
        ..CaptureReport::default()
    }
}

fn note_id(
    ids: &mut [String],
    exit: Option<usize>,
    taken: &Result<Waiting, tracetee_uploader::Error>,
) {
    if let (Some(id), Ok(waiting)) = (exit.and_then(|exit| ids.get_mut(exit)), taken) {
        *id = waiting.id();
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test, which starts itself")]
mod tests {
    use super::*;
    use crate::controller::policy::{Device, Policy};
    use crate::controller::state::Input;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use tracetee_protocol::capture_config::{Config, RecorderConfig};
    use tracetee_protocol::record::RawJson;
    use tracetee_protocol::{Death, remote_config};
    use tracetee_uploader::Spool;

    const RUN: &str = "00000000000000ab";
    const POOLS: &str = "TRACETEE_TEST_POOLS";

    /// Records into a crash-proof recorder, and is killed.
    fn live_and_die(pools: &Path) {
        let now = Now::read();
        let about = r#"{"process":"com.example","version_name":"1.0","version_code":1}"#;
        recover::set_run(Run {
            id: RUN.to_owned(),
            boot: boot_id(),
            start_boot_ms: now.boot_ms,
            start_real_ms: now.real_ms,
            about: RawJson::parse(about).unwrap(),
        });
        let directory = Some(pools.to_owned());
        let recorder = RecorderConfig { directory, ..RecorderConfig::default() };
        crate::start(&Config { recorder, ..Config::default() }).unwrap();
        crate::section::begin_section("kept");
        // SAFETY: a signal to this process.
        unsafe { libc::raise(libc::SIGKILL) };
    }

    /// A directory of the agent, and the text of each capture in its spool.
    struct Fixture {
        directory: tempfile::TempDir,
        machine: StateMachine,
        store: StateDir,
        writer: CaptureWriter,
    }

    impl Fixture {
        fn new(document: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store = StateDir::open(directory.path()).unwrap();
            let spool = Spool::open(&store.spool()).unwrap();
            let version = (Some("2.0".to_owned()), Some(2));
            let facts = CaptureMeta {
                app: Some("com.example".to_owned()),
                version_name: version.0,
                version_code: version.1,
                ..CaptureMeta::default()
            };
            let writer = CaptureWriter::new(spool, facts, "id");
            let mut machine = StateMachine::new(store.ledger());
            let document = remote_config::parse(document.as_bytes()).unwrap().document;
            let policy = Policy::new(document, &Device::default());
            machine.step(Now::read(), Input::Policy(Arc::new(policy)));
            Self { directory, machine, store, writer }
        }

        fn leave_recorder(&self) -> u64 {
            let own = "controller::crash_recovery::tests::the_end_of_a_process_is_in_its_capture";
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", own])
                .env(POOLS, self.store.pools())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            assert!(!child.wait().unwrap().success());
            child.id().into()
        }

        fn recover(&mut self, exits: &[Exit]) -> Vec<String> {
            let (machine, store, writer) = (&mut self.machine, &self.store, &mut self.writer);
            let (ids, outcome) = recover(machine, store, writer, exits, Now::read());
            outcome.unwrap();
            ids
        }

        /// The text and the metadata in the header of the capture of that id.
        fn capture(&self, id: &str) -> (String, CaptureMeta) {
            let ready = self.directory.path().join("spool/ready");
            let mut files = std::fs::read_dir(ready).unwrap().flatten().map(|file| file.path());
            let path = files.find(|path| path.to_string_lossy().contains(id)).unwrap();
            let text = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
            let text = String::from_utf8(text).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(notes::COMMENT)).unwrap();
            let meta = CaptureMeta::from_json(line.as_bytes()).unwrap();
            (text, meta)
        }
    }

    fn exit(pid: u64, run: &str, alone: bool) -> Exit {
        let death = Death {
            pid,
            reason: "anr".to_owned(),
            description: "no answer to bob@example.com".to_owned(),
            screen: "Order 12345678".to_owned(),
            process: "com.example".to_owned(),
            at_ms: Now::read().real_ms,
            ..Death::default()
        };
        Exit { death, run: run.to_owned(), version_code: 1, alone }
    }

    const DOCUMENT: &str = r#"{"schema": 1, "seq": 5}"#;

    #[test]
    fn the_end_of_a_process_is_in_its_capture() {
        if let Some(pools) = std::env::var_os(POOLS) {
            return live_and_die(Path::new(&pools));
        }
        for (run, by) in [(RUN, "summary"), ("", "start")] {
            let mut fixture = Fixture::new(DOCUMENT);
            let pid = fixture.leave_recorder();
            let ids = fixture.recover(&[exit(pid + 1, run, true), exit(pid, run, false)]);
            let (text, meta) = fixture.capture(&ids[1]);
            assert!(text.contains(&format!("B|{pid}|kept")), "{text}");
            assert_eq!(
                (meta.pid.map(u64::from), meta.version_name.as_deref()),
                (Some(pid), Some("1.0"))
            );
            let death = meta.death.unwrap();
            assert_eq!((&*death.joined_by, &*death.reason), (by, "anr"));
            assert_eq!(death.description, "no answer to <email>");
            assert_eq!(death.screen, "Order <digits>");
            // Another process of that name and run has none.
            let (text, meta) = fixture.capture(&ids[0]);
            assert!(!text.contains("kept") && text.starts_with(notes::FIRST_LINE), "{text}");
            assert_eq!((meta.window.as_deref(), meta.version_code), (Some(death::WINDOW), Some(1)));
            assert_eq!((meta.app.as_deref(), meta.version_name), (Some("com.example"), None));
            assert_eq!(meta.death.unwrap().joined_by, "");
        }
    }

    #[test]
    fn an_end_is_not_reported_against_the_configuration_the_user_or_the_budget() {
        let kept = |document: &str, consent: bool| {
            let mut fixture = Fixture::new(document);
            if !consent {
                fixture.writer.spool.withdraw().unwrap();
            }
            let ends: Vec<_> = (1..=3).map(|pid| exit(pid, RUN, pid < 3)).collect();
            fixture.recover(&ends).iter().filter(|id| !id.is_empty()).count()
        };
        assert_eq!(kept(DOCUMENT, true), 2, "an orderly end is not reported");
        assert_eq!(kept(DOCUMENT, false), 0);
        assert_eq!(kept(r#"{"schema": 1, "seq": 5, "deaths": {"on": false}}"#, true), 0);
        assert_eq!(kept(r#"{"schema": 1, "seq": 5, "kill": {"on": true}}"#, true), 0);
        assert_eq!(kept(r#"{"schema": 1, "seq": 5, "not_after": 5}"#, true), 0);
        let budget =
            r#"{"schema": 1, "seq": 5, "budget": {"captures_per_day": 1, "captures_per_hour": 1}}"#;
        assert_eq!(kept(budget, true), 1);
    }
}
