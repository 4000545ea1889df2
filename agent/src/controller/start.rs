//! The controller's start: with the configuration of the last run, as fast as its files allow.
//!
//! First the hooks are installed according to the crash-loop guard's file of the last start: nothing else tells so early
//! whether they may be. Then the configuration is read, which decides whether the recording is adopted or discarded. The
//! app's thread may wait for it, so the steps that decide about recording from the app's start on come first.

use super::Controller;
use crate::capture::{self, Owner};
use crate::controller::budget_ledger::Now;
use crate::controller::capture_writer::CaptureWriter;
use crate::controller::config_source::ConfigSource;
use crate::controller::daily_ledger::DailyLedger;
use crate::controller::install::Install;
use crate::controller::observer::Observer;
use crate::controller::on_device_capture::OnDeviceCapture;
use crate::controller::probation::Probation;
use crate::controller::start_file::AtStart;
use crate::controller::start_wait::StartWait;
use crate::controller::state::Input;
use crate::controller::state_dir::StateDir;
use crate::controller::state_machine::StateMachine;
use crate::controller::uploads::Uploads;
use crate::error::Error;
use crate::{recover, section};
use std::sync::Arc;
use tracetee_protocol::death::Run;
use tracetee_protocol::record::RawJson;
use tracetee_protocol::{LateStartReport, notes};
use tracetee_uploader::Spool;

/// Time that recovery waits for the report of how earlier processes ended.
const EXITS_MS: u64 = 10_000;

/// Returns the id of the device's boot; empty if it cannot be read.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

impl Controller {
    /// Starts with the configuration of the last run. The app's thread waits in `start_wait` while a recording from the
    /// app's start is possible. No step before that waits for a write to the disk.
    pub(crate) fn start(install: &Install, start_wait: &Arc<StartWait>) -> Result<Self, Error> {
        let mut probation = Some(Probation::new(&install.directory));
        let started = Self::start_by(install, start_wait, &mut probation);
        if started.is_err() {
            // A capture may have begun before it failed.
            let _ = capture::stop(Owner::Controller);
            capture::release(true);
            if let Some(probation) = &mut probation {
                probation.guard.survived();
            }
        }
        started
    }

    fn start_by(
        install: &Install,
        start_wait: &Arc<StartWait>,
        probation: &mut Option<Probation>,
    ) -> Result<Self, Error> {
        let mut source = ConfigSource::new(install)?;
        let hooked = match probation {
            Some(probation) if install.consent != Some(false) => {
                hook_at_start(install, start_wait, probation)
            }
            _ => Ok(None),
        };
        let store = StateDir::open(&install.directory)?;
        let now = Now::read();
        let has_config = source.load(&store, now) | source.look(&store, now);
        if !source.counts_at_start() || install.consent == Some(false) {
            start_wait.finish(Ok(()));
        }
        let spool = Spool::open(&store.spool())?;
        // The user's answer has precedence.
        match install.consent {
            Some(true) => spool.consent()?,
            Some(false) => {
                store.purge();
                spool.withdraw()?;
            }
            None => {}
        }
        let device = install.device(store.install_id(install.install_id.as_deref())?);
        let boot = boot_id();
        let ledger = store.ledger().for_boot(&boot, std::process::id());
        let now = Now::read();
        let probation = probation.take();
        let facts = install.facts(&device);
        let run = Run {
            id: install.run.clone().unwrap_or_default(),
            boot,
            start_boot_ms: now.boot_ms,
            start_real_ms: now.real_ms,
            about: RawJson::parse(&facts.to_json()).unwrap_or_default(),
        };
        recover::set_run(run);
        let writer = CaptureWriter::new(spool, facts, &device.install_id);
        let segment = install.segment.clone();
        let mut controller = Self {
            ledger: DailyLedger::new(device.version_code, segment, writer.redaction_key),
            writer,
            device,
            store,
            source,
            source_seen_ms: now.boot_ms,
            machine: StateMachine::new(ledger),
            probation: probation.unwrap_or_else(|| Probation::new(&install.directory)),
            observer: Observer::default(),
            on_device: OnDeviceCapture::default(),
            uploads: None,
            uploads_failed: None,
            start_wait: Some(Arc::clone(start_wait)),
            late_start: None,
            kept_at_start: None,
            has_recovered: false,
            exits_until_ms: install.run.as_ref().map(|_| now.boot_ms + EXITS_MS),
            trouble: None,
        };
        match hooked {
            Ok(None) => {}
            Ok(Some((at_start, late))) => {
                (controller.kept_at_start, controller.late_start) = (Some(at_start), late);
            }
            Err(error) => controller.note_trouble(Err(error)),
        }
        if has_config {
            controller.apply_config(now);
        } else {
            controller.step(now, Input::Tick);
        }
        section::trace_coroutines(controller.machine.policy().coroutines_at(now) == Ok(true));
        controller.start_wait = None;
        start_wait.finish(Ok(()));
        controller.source.keep(&controller.store);
        controller.keep_at_start();
        controller.begin_uploads(install);
        Ok(controller)
    }

    /// Begins to send captures, if the app has given an address.
    fn begin_uploads(&mut self, install: &Install) {
        match Uploads::new(install, &self.device, &self.store.spool()) {
            Ok(uploads) => self.uploads = uploads,
            Err(error) => self.uploads_failed = Some(error.to_string()),
        }
        if let (Some(uploads), Some(_)) = (&self.uploads, &self.source.in_force) {
            uploads.allow(self.machine.policy(), self.source.digest());
        }
    }

    /// Has work in memory done on the thread that waits for the start, if one does.
    pub(super) fn lend(&self, work: &mut (dyn FnMut() + Send)) {
        match &self.start_wait {
            Some(start_wait) => start_wait.lend(work),
            None => work(),
        }
    }

    /// Notes, also in the trace, that a recording from the app's start began late.
    pub(super) fn note_late_start(&mut self) {
        let late = self.start_wait.as_ref().and_then(|start_wait| start_wait.late());
        if let Some(late) = &late {
            section::note(&format!("{}{}", notes::PREFIX, late.reason));
        }
        self.late_start = late.or(self.late_start.take());
    }
}

/// Adds hooks and tags to the recording that `tracetee_install` has begun, if the last start stored a recording for this
/// one. Returns that recording, and a report if hooks and tags came late.
fn hook_at_start(
    install: &Install,
    start_wait: &StartWait,
    probation: &mut Probation,
) -> Result<Option<(AtStart, Option<LateStartReport>)>, Error> {
    let Some(at_start) = probation.guard.begin_at_start(install.version_code)? else {
        return Ok(None);
    };
    if let Err(error) = capture::hook_early(&at_start.config(), &|work| start_wait.lend(work)) {
        capture::discard_early();
        probation.guard.survived();
        return Err(error);
    }
    probation.note_hooked(Now::read());
    let late = start_wait.late();
    if let Some(late) = &late {
        section::note(&format!("{}{}", notes::PREFIX, late.reason));
    }
    Ok(Some((at_start, late)))
}
