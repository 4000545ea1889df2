//! The controller's start: by the configuration of the last run, and no slower than its files allow.
//!
//! The app's thread may wait for it, so it does first what decides whether something is recorded from
//! the app's start on.

use super::Controller;
use crate::capture::Stage;
use crate::controller::budget_ledger::Now;
use crate::controller::capture_writer::CaptureWriter;
use crate::controller::config_source::ConfigSource;
use crate::controller::install::Install;
use crate::controller::observer::Observer;
use crate::controller::on_device_capture::OnDeviceCapture;
use crate::controller::probation::Probation;
use crate::controller::startup::Startup;
use crate::controller::state::Input;
use crate::controller::state_dir::StateDir;
use crate::controller::state_machine::StateMachine;
use crate::controller::uploads::Uploads;
use crate::error::Error;
use crate::section;
use std::sync::Arc;
use tracetee_protocol::notes;
use tracetee_uploader::Spool;

impl Controller {
    /// Starts with the configuration of the last run. The app's thread waits in `startup` while it may
    /// be that something is recorded from the app's start on. Nothing before that waits for the disk
    /// to have written something.
    pub(crate) fn start(install: &Install, startup: &Arc<Startup>) -> Result<Self, Error> {
        let mut source = ConfigSource::new(install)?;
        let moved = match &install.move_from {
            Some(from) => StateDir::take_over(from, &install.directory),
            None => Ok(()),
        };
        let store = StateDir::open(&install.directory)?;
        let now = Now::read();
        let has_config = source.load(&store, now) | source.look(&store, now);
        if !source.records_at_start() || install.consent == Some(false) {
            startup.finish(Ok(()));
        }
        let spool = Spool::open(&store.spool())?;
        // The user's answer comes before anything else.
        match install.consent {
            Some(true) => spool.consent()?,
            Some(false) => {
                store.purge();
                spool.withdraw()?;
            }
            None => {}
        }
        let device = install.device(store.install_id(install.install_id.as_deref())?);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let ledger = store.ledger().for_boot(boot.trim(), std::process::id());
        let now = Now::read();
        let mut controller = Self {
            writer: CaptureWriter::new(spool, install.facts(&device), &device.install_id),
            device,
            store,
            source,
            source_seen_ms: now.boot_ms,
            machine: StateMachine::new(ledger),
            probation: Probation::default(),
            observer: Observer::default(),
            on_device: OnDeviceCapture::default(),
            uploads: None,
            uploads_failed: None,
            startup: Some(Arc::clone(startup)),
            late_start: None,
            has_recovered: false,
            trouble: None,
        };
        controller.note_trouble(moved);
        if has_config {
            controller.apply_config(now);
        } else {
            controller.step(now, Input::Tick);
        }
        controller.startup = None;
        startup.finish(Ok(()));
        controller.source.keep(&controller.store);
        controller.begin_uploads(install);
        Ok(controller)
    }

    /// Begins to send captures, where the app has given an address.
    fn begin_uploads(&mut self, install: &Install) {
        match Uploads::new(install, &self.device, &self.store.spool()) {
            Ok(uploads) => self.uploads = uploads,
            Err(error) => self.uploads_failed = Some(error.to_string()),
        }
        if let (Some(uploads), Some(_)) = (&self.uploads, &self.source.in_force) {
            uploads.allow(self.machine.policy(), self.source.digest());
        }
    }

    /// Notes the stage that the start is at, for whoever waits for it.
    pub(super) fn enter(&self, stage: Stage) {
        if let Some(startup) = &self.startup {
            startup.enter(stage);
        }
    }

    /// Notes, in the trace as well, that what was to begin with the app has begun late.
    pub(super) fn note_late_start(&mut self) {
        let late = self.startup.as_ref().and_then(|startup| startup.late());
        if let Some(late) = &late {
            section::note(&format!("{}{}", notes::PREFIX, late.reason));
        }
        self.late_start = late.or(self.late_start.take());
    }
}
