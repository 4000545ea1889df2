//! What is captured, when, and how much: by remote configuration and by what happens in the app.
//!
//! The journey: the app calls [`install()`]. A `config_source` takes configurations in, which
//! `remote_config` reads and checks; `policy` is what one comes to on this device. The state
//! `machine` decides, by the `budget_ledger` of what captures have cost, what is recorded and what is
//! kept; the `worker` does it, and looks for what `triggers` wait for. The [`ControlReport`] says what it
//! came to. `state_dir` is the directory that outlives the process, `crash_loop` keeps the agent off
//! after crashes.
//!
//! Functions that an app calls on its own threads leave a note for the agent's thread, and return.

mod budget_ledger;
mod capture_writer;
mod config_source;
pub(crate) mod control_socket;
mod crash_loop;
mod crash_recovery;
mod glob;
mod install;
mod on_device_capture;
mod overhead;
mod policy;
pub(crate) mod process_signals;
mod remote_config;
mod report;
mod state_dir;
mod state_machine;
mod stats;
mod status;
mod triggers;
mod uploads;
#[cfg(feature = "http")]
mod uploads_thread;
mod worker;

pub use install::{Install, TransportChoice, UploadTo};
pub use stats::stats;

use crate::capture::{self, Owner};
use crate::error::Error;
use crate::own_threads::{self, Own};
use crate::streaming::lower_priority;
use control_socket::Socket;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_protocol::ControlReport;
use tracetee_protocol::upload_status::PassReport;
use tracetee_uploader::{NetState, Pass, Transport};
use worker::{Command, Worker};

/// Below the app's threads, but not so far that the recorder has gone round before it looks.
const NICE: i32 = 10;
/// Commands that may wait: an app that asks faster than that asks for the same.
const MAX_COMMANDS: usize = 64;

static WORKER: Mutex<Option<Worker>> = Mutex::new(None);
static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

/// The agent's thread.
struct Thread {
    commands: Sender<Command>,
    handle: JoinHandle<()>,
    /// Open as long as the thread is.
    _socket: Option<Socket>,
}

/// Commands that found no room.
static LOST_COMMANDS: AtomicU64 = AtomicU64::new(0);

/// Starts with the configuration of the last run, and goes on by what comes. A window that opens
/// with the app is open when this returns.
///
/// # Errors
/// [`Error::State`] when it was called before, or a capture runs; [`Error::Config`] for a wrong
/// field; [`Error::Io`] when the directory cannot be used or no thread can be had.
pub fn install(install: &Install) -> Result<(), Error> {
    let mut thread = lock(&THREAD);
    if thread.is_some() {
        return Err(Error::State("it is installed already"));
    }
    capture::prepare_threads()?;
    capture::hand_over(Owner::Controller)?;
    let start = || {
        let worker = Worker::new(install)?;
        *lock(&WORKER) = Some(worker);
        let (commands, receiver) = crossbeam_channel::bounded(MAX_COMMANDS);
        if let Some(uploads) = lock(&WORKER).as_ref().and_then(|worker| worker.uploads.as_ref()) {
            uploads.connect(Some(commands.clone()));
        }
        let handle = std::thread::Builder::new()
            .name("tracetee".to_owned())
            .spawn(move || run(&receiver))
            .map_err(|source| Error::Io {
                what: "start the agent's thread for",
                path: install.directory.clone(),
                source,
            })?;
        Ok(Thread { commands, handle, _socket: Socket::open() })
    };
    // On the app's thread, and it makes files.
    let start = || tracetee_os::without_write_signals(start);
    let failed = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(Ok(started)) => {
            *thread = Some(started);
            return Ok(());
        }
        Ok(Err(error)) => error,
        Err(_) => Error::State("the agent failed by a fault of its own"),
    };
    match lock(&WORKER).take() {
        Some(mut worker) => worker.exit(),
        None => {
            // What was begun before it failed.
            let _ = capture::stop(Owner::Controller);
            capture::release(true);
        }
    }
    let _ = capture::hand_over(Owner::Manual);
    Err(failed)
}

/// Checks a remote configuration as the agent does before it uses one, and returns the warnings.
///
/// # Errors
/// The field that is wrong, and the reason.
pub fn check_config(bytes: &[u8]) -> Result<Vec<String>, tracetee_protocol::json::Error> {
    remote_config::parse(bytes).map(|parsed| parsed.warnings)
}

/// Ends it: what is open is kept, hooks and tags are given back, the thread ends.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn uninstall() -> Result<(), Error> {
    if !is_installed() {
        return Err(Error::State("it is not installed"));
    }
    let Some(thread) = lock(&THREAD).take() else {
        return Err(Error::State("it is not installed"));
    };
    if let Some(uploads) = lock(&WORKER).as_ref().and_then(|worker| worker.uploads.as_ref()) {
        uploads.connect(None);
    }
    drop(thread.commands);
    // The end of the channel is its end; a fault of its own has ended it already.
    let _ = thread.handle.join();
    if let Some(mut worker) = lock(&WORKER).take() {
        worker.exit();
    }
    capture::hand_over(Owner::Manual)
}

/// The process exits in order: what is open is kept.
pub(crate) fn process_exits() {
    if is_installed()
        && let Some(worker) = lock(&WORKER).as_mut()
    {
        worker.exit();
    }
}

/// Fires the custom triggers of that name.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn trigger(name: &str) -> Result<(), Error> {
    send(Command::Trigger(name.to_owned(), process_signals::now_ns()))
}

/// Opens the manual window of that id; the report says if it was not.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn open_window(id: &str) -> Result<(), Error> {
    send(Command::Open(id.to_owned()))
}

/// Closes the manual window of that id.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn close_window(id: &str) -> Result<(), Error> {
    send(Command::Close(id.to_owned()))
}

/// The system has told the app that memory is low.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn low_memory() -> Result<(), Error> {
    send(Command::LowMemory)
}

/// Offers a configuration with its detached signature; the report says what became of it.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn offer_config(bytes: &[u8], signature: &[u8]) -> Result<(), Error> {
    send(Command::Offer(bytes.to_owned(), signature.to_owned()))
}

/// The user consents to captures being made and sent, or does not any more: then nothing is
/// recorded or sent, and what waits is deleted. It holds over restarts.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn set_consent(given: bool) -> Result<(), Error> {
    send(Command::Consent(given))
}

/// What the device's network and power are now.
///
/// # Errors
/// [`Error::State`] when it is not installed.
pub fn set_network(net: NetState) -> Result<(), Error> {
    send(Command::Net(net))
}

/// Sends what may be sent, on the calling thread, with the app's own transport; it may take
/// minutes. `net`: the device's network and power. Gives what is left, and when to come again.
///
/// # Errors
/// [`Error::State`] when it is not installed, or has no address to send to.
pub fn upload(net: Option<NetState>, transport: &mut dyn Transport) -> Result<PassReport, Error> {
    let passer = lock(&WORKER).as_ref().and_then(|worker| Some(worker.uploads.as_ref()?.passer()));
    let passer = passer.ok_or(Error::State("it is not installed with an address to upload to"))?;
    let (pass, status) = passer.pass(net, transport);
    let Pass { delivered, held, again, .. } = pass;
    Ok(PassReport { delivered, held, again_s: again.as_secs_f64(), status })
}

/// What somebody at the device asks for: the file that it came to.
pub(crate) fn local(
    request: tracetee_protocol::control_socket::AtraceRequest,
) -> Result<Option<std::path::PathBuf>, String> {
    let (answer, answered) = crossbeam_channel::bounded(1);
    send(Command::Local(on_device_capture::Ask { request, answer }))
        .map_err(|error| error.to_string())?;
    match answered.recv_timeout(on_device_capture::PATIENCE) {
        Ok(answer) => answer,
        Err(_) => Err("the agent does not answer".to_owned()),
    }
}

/// What it has come to; `None` when it is not installed.
pub fn report() -> Option<ControlReport> {
    if !is_installed() {
        return None;
    }
    let mut report = lock(&WORKER).as_ref().map(Worker::report)?;
    // ORDERING: Relaxed; a count.
    let lost = LOST_COMMANDS.load(Ordering::Relaxed);
    if lost > 0 && report.trouble.is_none() {
        report.trouble = Some(format!("{lost} calls of the app came too fast and were not heard"));
    }
    Some(report)
}

pub(crate) fn is_installed() -> bool {
    capture::owner() == Owner::Controller
}

/// In a forked child: forgets the parent's thread and its state.
pub(crate) fn reset_after_fork() {
    // A lock that was held when the parent forked is held for ever: nobody asks for it any more.
    if let Ok(mut worker) = WORKER.try_lock()
        && let Some(worker) = worker.take()
    {
        worker.forget();
    }
    if let Ok(mut thread) = THREAD.try_lock() {
        std::mem::forget(thread.take());
    }
}

fn send(command: Command) -> Result<(), Error> {
    const NOT_INSTALLED: Error = Error::State("it is not installed");
    if !is_installed() {
        return Err(NOT_INSTALLED);
    }
    match lock(&THREAD).as_ref() {
        Some(thread) => match thread.commands.try_send(command) {
            Err(TrySendError::Full(_)) => {
                // ORDERING: Relaxed; a count.
                LOST_COMMANDS.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            _ => Ok(()),
        },
        None => Err(NOT_INSTALLED),
    }
}

/// The agent's thread.
fn run(commands: &Receiver<Command>) {
    let _own = Own::register();
    lower_priority(NICE);
    tracetee_os::block_write_signals();
    let mut pause = Duration::ZERO;
    loop {
        let first = match commands.recv_timeout(pause) {
            Ok(command) => Some(command),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut guard = lock(&WORKER);
        let Some(worker) = guard.as_mut() else { return };
        let work = || {
            for command in first.into_iter().chain(commands.try_iter()) {
                worker.command(command);
            }
            worker.turn();
        };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            return worker.give_up();
        }
        pause = worker.pause();
        drop(guard);
        if own_threads::is_all_that_is_left() {
            return last_of_process(commands);
        }
        // Without the worker's lock: it waits where the app is loading a library. A fault of ours
        // here leaves that library unhooked.
        let _ = catch_unwind(capture::hook_later_libraries);
    }
}

/// The app's main thread has ended by `pthread_exit`, and its others have ended, too: the process
/// ends when our threads do. What is open is kept, as at an exit.
fn last_of_process(commands: &Receiver<Command>) {
    // Who is calling just now (nobody of the app's) is answered first.
    let thread = lock(&THREAD).take();
    if let Some(mut worker) = lock(&WORKER).take() {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            commands.try_iter().for_each(|command| worker.command(command));
            worker.exit();
        }));
    }
    let _ = capture::hand_over(Owner::Manual);
    // Ends the socket's thread.
    drop(thread);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
