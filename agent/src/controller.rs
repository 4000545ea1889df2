//! Decides what is captured, when, and how much, by remote configuration and by events in the app.
//!
//! The journey: the app calls [`install()`], and waits in `start_wait` for a moment. `config_source` admits configurations,
//! which `remote_config` reads and checks; `policy` applies one to this device. The `state_machine` decides what is recorded
//! and what is kept, by the `budget_ledger` of past captures. The controller (`turn`), on the `agent_thread`, executes its
//! decisions with these parts: the `observer` looks for the events of `triggers`, the `capture_writer` writes captures,
//! `probation` guards against crash loops, `on_device_capture` serves `tracetee atrace`, the `daily_ledger` counts.
//! `state_dir` is the directory that outlives the process. [`health`](health()) reports on all of it.
//!
//! Functions that an app calls on its threads (`requests`) queue a command for the agent's thread, and return.

mod actions;
mod agent_thread;
mod budget_ledger;
mod capture_writer;
mod command;
mod config_source;
mod control_report;
pub(crate) mod control_socket;
mod crash_guard;
mod crash_recovery;
pub(crate) mod daily_ledger;
mod deaths;
mod glob;
mod install;
mod observer;
mod on_device_capture;
mod outlook;
mod overhead;
mod policy;
mod probation;
pub(crate) mod process_signals;
mod remote_config;
mod requests;
mod start;
mod start_file;
mod start_wait;
mod state;
mod state_dir;
mod state_machine;
mod trigger_pattern;
mod triggers;
mod turn;
mod uploads;
#[cfg(feature = "http")]
mod uploads_thread;
mod wait;

#[cfg(feature = "jni")]
pub(crate) use actions::ON_CAPTURE;
pub use agent_thread::{close_window, open_window, uninstall};
pub(crate) use agent_thread::{install, is_installed, process_exits, reset_after_fork};
pub use install::{Install, TransportChoice, UploadTo};
pub(crate) use requests::capture_on_device;
#[cfg(feature = "jni")]
pub(crate) use requests::report_exits;
pub use requests::{
    check_config, health, low_memory, offer_config, set_consent, set_network, trigger, upload,
};

use crate::error::Error;
use capture_writer::CaptureWriter;
use config_source::ConfigSource;
use daily_ledger::DailyLedger;
use observer::Observer;
use on_device_capture::OnDeviceCapture;
use policy::Device;
use probation::Probation;
use start_file::AtStart;
use start_wait::StartWait;
use state_dir::StateDir;
use state_machine::StateMachine;
use std::sync::Arc;
use tracetee_protocol::LateStartReport;
use uploads::Uploads;

const NOT_INSTALLED: Error = Error::State("it is not installed");

/// Decides, with its parts, what is captured in this process.
#[derive(Debug)]
pub(crate) struct Controller {
    device: Device,
    store: StateDir,
    source: ConfigSource,
    /// Boot time of the last check of the configuration's file, ms.
    source_seen_ms: u64,
    machine: StateMachine,
    probation: Probation,
    observer: Observer,
    writer: CaptureWriter,
    ledger: DailyLedger,
    on_device: OnDeviceCapture,
    uploads: Option<Uploads>,
    /// Reason why nothing is sent although the app has given an address.
    uploads_failed: Option<String>,
    /// The agent's start, until it has made its first decision.
    start_wait: Option<Arc<StartWait>>,
    late_start: Option<LateStartReport>,
    /// The recording with which the next start begins, in its stored form.
    kept_at_start: Option<AtStart>,
    has_recovered: bool,
    /// Boot time up to which recovery waits for the app's report of how earlier processes ended, ms.
    exits_until_ms: Option<u64>,
    /// The last thing that went wrong in the agent's directory.
    trouble: Option<String>,
}
