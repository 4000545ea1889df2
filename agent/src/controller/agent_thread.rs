//! The agent's thread: from installation to its end.
//!
//! The thread owns nothing that outlives it: the controller lies behind a lock, so that the health
//! report can be asked for on any thread.

use super::NOT_INSTALLED;
use super::command::Command;
use super::control_socket::Socket;
use super::install::Install;
use super::turn::Controller;
use super::uploads::Passer;
use crate::capture::{self, Owner};
use crate::error::Error;
use crate::own_threads::{self, Own};
use crate::queue::{self, Receiver, RecvTimeoutError, Sender, TrySendError};
use crate::streaming::lower_priority;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_os::guard;
use tracetee_protocol::ControlReport;

/// Below the app's threads, but not so far that a ring buffer wraps before it looks.
const NICE: i32 = 10;
/// Commands that may wait. An app that sends faster than they are read repeats itself.
const MAX_COMMANDS: usize = 64;

static CONTROLLER: Mutex<Option<Controller>> = Mutex::new(None);
static THREAD: Mutex<Option<Thread>> = Mutex::new(None);
/// Commands that found no room.
static LOST_COMMANDS: AtomicU64 = AtomicU64::new(0);

struct Thread {
    commands: Sender<Command>,
    handle: JoinHandle<()>,
    /// Open as long as the thread is.
    _socket: Option<Socket>,
}

/// Installs the agent: see [`crate::install`]. Forks are watched by then.
pub(crate) fn install(install: &Install) -> Result<(), Error> {
    let mut thread = lock(&THREAD);
    if thread.is_some() {
        return Err(Error::State("it is installed already"));
    }
    capture::prepare_threads()?;
    capture::hand_over(Owner::Controller)?;
    // On the app's thread, and it creates files.
    let start = || tracetee_os::without_write_signals(|| start(install));
    let failed = match start() {
        Ok(started) => {
            *thread = Some(started);
            return Ok(());
        }
        Err(error) => error,
    };
    match lock(&CONTROLLER).take() {
        Some(mut controller) => controller.exit(),
        None => {
            // The controller may have begun a capture before it failed.
            let _ = capture::stop(Owner::Controller);
            capture::release(true);
        }
    }
    let _ = capture::hand_over(Owner::Manual);
    Err(failed)
}

fn start(install: &Install) -> Result<Thread, Error> {
    let controller = Controller::new(install)?;
    guard::planted("install");
    let (commands, receiver) = queue::bounded(MAX_COMMANDS);
    controller.connect(Some(commands.clone()));
    *lock(&CONTROLLER) = Some(controller);
    let handle = std::thread::Builder::new()
        .name("tracetee".to_owned())
        .spawn(move || run(&receiver))
        .map_err(|source| Error::Io {
            what: "start the agent's thread for",
            path: install.directory.clone(),
            source,
        })?;
    Ok(Thread { commands, handle, _socket: Socket::open() })
}

/// Uninstalls the agent: keeps what is open, gives hooks and tags back and ends the thread.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn uninstall() -> Result<(), Error> {
    if !is_installed() {
        return Err(NOT_INSTALLED);
    }
    let thread = lock(&THREAD).take().ok_or(NOT_INSTALLED)?;
    if let Some(controller) = lock(&CONTROLLER).as_ref() {
        controller.connect(None);
    }
    drop(thread.commands);
    // The end of the channel ends the thread.
    let _ = thread.handle.join();
    if let Some(mut controller) = lock(&CONTROLLER).take() {
        controller.exit();
    }
    capture::hand_over(Owner::Manual)
}

/// Keeps what is open, at an orderly exit of the process.
pub(crate) fn process_exits() {
    if is_installed()
        && let Some(controller) = lock(&CONTROLLER).as_mut()
    {
        controller.exit();
    }
}

/// Returns the controller's part of the health report; `None` when the agent is not installed.
pub fn report() -> Option<ControlReport> {
    if !is_installed() {
        return None;
    }
    let mut report = lock(&CONTROLLER).as_ref().map(Controller::report)?;
    // ORDERING: Relaxed; a count.
    let lost = LOST_COMMANDS.load(Ordering::Relaxed);
    if lost > 0 && report.trouble.is_none() {
        report.trouble =
            Some(format!("{lost} calls of the app were dropped because they came too fast"));
    }
    Some(report)
}

pub(crate) fn is_installed() -> bool {
    capture::owner() == Owner::Controller
}

/// Returns the passer that the calling thread needs for an upload; `None` if the agent sends nothing.
pub(crate) fn passer() -> Option<Passer> {
    lock(&CONTROLLER).as_ref().and_then(Controller::passer)
}

/// Queues a command for the thread.
pub(crate) fn send(command: Command) -> Result<(), Error> {
    if !is_installed() {
        return Err(NOT_INSTALLED);
    }
    let thread = lock(&THREAD);
    let sent = thread.as_ref().ok_or(NOT_INSTALLED)?.commands.try_send(command);
    if let Err(TrySendError::Full) = sent {
        // ORDERING: Relaxed; a count.
        LOST_COMMANDS.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// In a forked child: forgets the parent's thread and its controller.
pub(crate) fn reset_after_fork() {
    // A lock that was held when the parent forked is held for ever: nobody asks for it any more.
    if let Ok(mut controller) = CONTROLLER.try_lock()
        && let Some(controller) = controller.take()
    {
        controller.forget();
    }
    if let Ok(mut thread) = THREAD.try_lock() {
        std::mem::forget(thread.take());
    }
}

/// The thread. A panic ends it: see `after_panic`.
fn run(commands: &Receiver<Command>) {
    let _own = Own::register();
    lower_priority(NICE);
    tracetee_os::block_write_signals();
    let _ = guard::run(|| take_turns(commands));
}

fn take_turns(commands: &Receiver<Command>) {
    let mut pause = Duration::ZERO;
    loop {
        let first = match commands.recv_timeout(pause) {
            Ok(command) => Some(command),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if guard::is_broken() {
            return;
        }
        let mut locked = lock(&CONTROLLER);
        let Some(controller) = locked.as_mut() else { return };
        for command in first.into_iter().chain(std::iter::from_fn(|| commands.try_recv())) {
            controller.command(command);
        }
        guard::planted("agent");
        controller.turn();
        pause = controller.pause();
        drop(locked);
        if own_threads::is_all_that_is_left() {
            return end_with_process(commands);
        }
        // Without the controller's lock: it waits where the app is loading a library.
        capture::hook_later_libraries();
    }
}

/// Ends when the app's main thread has ended by `pthread_exit`, and its others have ended, too: the
/// process ends when our threads do. Keeps what is open, as at an exit.
fn end_with_process(commands: &Receiver<Command>) {
    // Commands that are queued by now are carried out; later ones find no thread.
    let thread = lock(&THREAD).take();
    if let Some(mut controller) = lock(&CONTROLLER).take() {
        while let Some(command) = commands.try_recv() {
            controller.command(command);
        }
        controller.exit();
    }
    let _ = capture::hand_over(Owner::Manual);
    // Ends the socket's thread.
    drop(thread);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    guard::lock(mutex)
}
