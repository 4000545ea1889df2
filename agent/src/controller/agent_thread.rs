//! The agent's thread: from installation to its end.
//!
//! The thread owns nothing that outlives it: the controller is behind a lock, so the health report can be requested on any
//! thread.

use super::budget_ledger::Now;
use super::command::Command;
use super::control_socket::Socket;
use super::install::Install;
use super::outlook::Outlook;
use super::start_wait::StartWait;
use super::uploads::Passer;
use super::wait::Wait;
use super::{Controller, NOT_INSTALLED};
use crate::android::properties;
use crate::capture::{self, Owner};
use crate::error::Error;
use crate::fork_lock::ForkLock;
use crate::own_threads::{self, Own, lower_priority};
use crate::queue::{self, Receiver, Sender};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracetee_os::{OwnThread, guard};
use tracetee_protocol::ControlReport;
use tracetee_recorder::clock;

/// Below the app's threads, but not so far that a ring buffer wraps between checks.
const NICE: i32 = 10;
/// Time that calls which need the controller wait for the agent's start, ms.
const START_PATIENCE_MS: u32 = 1000;
/// Time that a request for a window waits until the agent has carried out earlier calls.
const CATCH_UP_NS: u64 = 100_000_000;
/// Maximum number of waiting commands. An app that sends faster than they are read repeats itself.
const MAX_COMMANDS: usize = 64;

static THREAD: ForkLock<Option<Box<Thread>>> = ForkLock::new([const { Mutex::new(None) }; 4]);
/// The thread's outlook has changed.
static SHOWN: Condvar = Condvar::new();
static CONTROLLER: ForkLock<Held> = ForkLock::new([const { Mutex::new(Held::Nothing) }; 4]);
static SOCKET: ForkLock<Option<Box<Socket>>> = ForkLock::new([const { Mutex::new(None) }; 4]);
/// The agent's thread holds the controller's lock until it has started, as long as the disk takes.
static IS_STARTING: AtomicBool = AtomicBool::new(false);
/// Commands that found no room.
static LOST_COMMANDS: AtomicU64 = AtomicU64::new(0);

/// The place of the controller.
enum Held {
    /// Not installed, or the thread has ended.
    Nothing,
    /// The agent's thread has not begun.
    Awaited,
    /// The start has failed, for this reason.
    Failed(Box<str>),
    Running(Box<Controller>),
}

struct Thread {
    commands: Sender<Command>,
    handle: OwnThread,
    outlook: Outlook,
}

impl Thread {
    /// Queues a command; `false` if there is no room.
    fn send(&mut self, command: Command) -> bool {
        let has_room = self.commands.send(command);
        if has_room {
            self.outlook.note_sent();
        } else {
            // ORDERING: Relaxed; a count.
            LOST_COMMANDS.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Queues a request for a window.
    fn ask(&mut self, id: &str, command: Command) -> Result<(), Error> {
        if self.send(command) {
            return Ok(());
        }
        Err(Error::Refused(format!("{id}: {MAX_COMMANDS} calls of the app wait; ask again")))
    }

    /// Gives the reason to the app, and to the health report.
    fn refuse(&mut self, reason: Option<String>) -> Result<(), Error> {
        let Some(reason) = reason else { return Ok(()) };
        self.send(Command::NotOpened(reason.clone()));
        Err(Error::Refused(reason))
    }
}

/// Installs the agent: see [`crate::install`]. Forks are watched by then.
///
/// Nothing here touches a file: the agent's thread does, and this one waits for it in [`StartWait::wait`]. The app's own
/// sections are recorded from here on, until the configuration is read.
pub(crate) fn install(install: Install) -> Result<(), Error> {
    let mut thread = lock(&THREAD);
    // It is also installed while another thread uninstalls it.
    if thread.is_some() || is_installed() {
        return Err(Error::State("it is installed already"));
    }
    capture::prepare_threads()?;
    capture::hand_over(Owner::Controller)?;
    capture::prepare_while_alone();
    if install.consent != Some(false) {
        capture::begin_early();
    }
    let start_wait = Arc::new(StartWait::new(Duration::from_millis(install.start_wait_ms.into())));
    *lock(&CONTROLLER) = Held::Awaited;
    match start(install, &start_wait) {
        Ok(started) => *thread = Some(Box::new(started)),
        Err(error) => {
            *lock(&CONTROLLER) = Held::Nothing;
            capture::discard_early();
            capture::hand_over(Owner::Manual)?;
            return Err(error);
        }
    }
    drop(thread);
    start_wait.wait().inspect_err(|_| {
        guard::leave_if_broken();
        let _ = uninstall();
    })
}

fn start(mut install: Install, start_wait: &Arc<StartWait>) -> Result<Thread, Error> {
    let (commands, receiver) = queue::bounded(MAX_COMMANDS);
    // The property's function is looked up under the dynamic linker's lock, which this thread may hold.
    install.api = install.api.or_else(properties::api_level);
    let (waits, path) = (install.start_wait_ms > 0, install.directory.clone());
    let start_wait = Arc::clone(start_wait);
    let work = move || run(&install, &start_wait, &receiver);
    let spawn = if waits { tracetee_os::spawn_here } else { tracetee_os::spawn };
    let started = spawn(c"tracetee", work);
    let handle = started.map_err(Error::io("start the agent's thread for", &path))?;
    Ok(Thread { commands, handle, outlook: Outlook::default() })
}

/// Uninstalls the agent: keeps the open capture, restores hooks and tags and ends the thread.
///
/// # Errors
/// [`Error::State`] when the agent is not installed.
pub fn uninstall() -> Result<(), Error> {
    if !is_installed() {
        return Err(NOT_INSTALLED);
    }
    let thread = lock(&THREAD).take().ok_or(NOT_INSTALLED)?;
    let mut held = lock(&CONTROLLER);
    match &*held {
        // A thread that has not begun has nothing to do.
        Held::Awaited => *held = Held::Nothing,
        Held::Nothing | Held::Failed(_) | Held::Running(_) => {}
    }
    drop(held);
    drop(thread.commands);
    // The end of the channel ends the thread.
    thread.handle.join();
    if let Held::Running(mut controller) = take_controller() {
        controller.exit();
    }
    capture::discard_early();
    drop(lock(&SOCKET).take());
    capture::hand_over(Owner::Manual)
}

/// Keeps the open capture, at an orderly exit of the process.
pub(crate) fn process_exits() {
    if !is_installed() {
        return;
    }
    let mut held = lock(&CONTROLLER);
    match &mut *held {
        Held::Running(controller) => controller.exit(),
        // Hooks that are installed now would look like hooks that have killed the process.
        Held::Awaited => *held = Held::Nothing,
        Held::Nothing | Held::Failed(_) => {}
    }
}

/// Returns the controller's part of the health report; `None` when the agent is not installed.
pub(crate) fn report() -> Option<ControlReport> {
    if !is_installed() {
        return None;
    }
    let Some(held) = started() else {
        return Some(without_controller("starting", "the agent reads its files"));
    };
    let mut report = match &*held {
        Held::Running(controller) => controller.report(),
        Held::Failed(reason) => without_controller("failed", reason),
        Held::Awaited | Held::Nothing => return None,
    };
    // ORDERING: Relaxed; a count.
    let lost = LOST_COMMANDS.load(Ordering::Relaxed);
    if lost > 0 && report.trouble.is_none() {
        report.trouble =
            Some(format!("{lost} calls of the app were dropped because too many came at once"));
    }
    Some(report)
}

/// Locks the controller once the agent has started; `None` if that takes too long.
fn started() -> Option<MutexGuard<'static, Held>> {
    for _ in 0..START_PATIENCE_MS {
        // ORDERING: Relaxed; a start that ends now is seen at the next check.
        if !IS_STARTING.load(Ordering::Relaxed) {
            let held = lock(&CONTROLLER);
            if !matches!(*held, Held::Awaited) {
                return Some(held);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

fn without_controller(state: &str, reason: &str) -> ControlReport {
    ControlReport { state: state.to_owned(), reason: reason.to_owned(), ..ControlReport::default() }
}

pub(crate) fn is_installed() -> bool {
    capture::owner() == Owner::Controller
}

/// Returns the passer that the calling thread needs for an upload; `None` if the agent sends nothing.
/// Waits for the agent's start.
pub(crate) fn passer() -> Option<Passer> {
    match &*started()? {
        Held::Running(controller) => controller.passer(),
        _ => None,
    }
}

/// Queues a command for the thread.
pub(crate) fn send(command: Command) -> Result<(), Error> {
    if !is_installed() {
        return Err(NOT_INSTALLED);
    }
    lock(&THREAD).as_mut().ok_or(NOT_INSTALLED)?.send(command);
    Ok(())
}

/// Opens the manual window with that id, now or when the capture that runs has ended. Waits at most 100 ms, and
/// only if the agent is still busy with its start or an earlier call.
///
/// # Errors
/// [`Error::State`] when the agent is not installed, [`Error::Refused`] if nothing will be recorded.
pub fn open_window(id: &str) -> Result<(), Error> {
    with_outlook(|thread| {
        let refused = thread.outlook.refusal_of_open(id, Now::read());
        thread.refuse(refused)?;
        thread.ask(id, Command::Open(id.to_owned()))
    })
}

/// Closes the manual window with that id; its capture is kept.
///
/// # Errors
/// [`Error::State`] when the agent is not installed, [`Error::Refused`] if the window was still waiting to open.
pub fn close_window(id: &str) -> Result<(), Error> {
    with_outlook(|thread| {
        let refused = thread.outlook.refusal_of_close(id, Now::read());
        thread.ask(id, Command::Close(id.to_owned()))?;
        thread.refuse(refused)
    })
}

fn with_outlook(call: impl FnOnce(&mut Thread) -> Result<(), Error>) -> Result<(), Error> {
    if !is_installed() {
        return Err(NOT_INSTALLED);
    }
    call(caught_up().as_mut().ok_or(NOT_INSTALLED)?)
}

/// Locks the thread once its outlook is current, or [`CATCH_UP_NS`] are over.
fn caught_up() -> MutexGuard<'static, Option<Box<Thread>>> {
    let end_ns = clock::boot_ns() + CATCH_UP_NS;
    let mut thread = lock(&THREAD);
    while thread.as_ref().is_some_and(|thread| !thread.outlook.is_current()) {
        let left_ns = end_ns.saturating_sub(clock::boot_ns());
        if left_ns == 0 {
            break;
        }
        let waited = SHOWN.wait_timeout(thread, Duration::from_nanos(left_ns));
        (thread, _) = waited.unwrap_or_else(PoisonError::into_inner);
    }
    thread
}

/// Changes the outlook of the app's threads.
fn show(change: impl FnOnce(&mut Outlook)) {
    if let Some(thread) = lock(&THREAD).as_mut() {
        change(&mut thread.outlook);
    }
    SHOWN.notify_all();
}

/// In a forked child: forgets the parent's thread and its controller.
pub(crate) fn reset_after_fork() {
    std::mem::forget(THREAD.after_fork().and_then(|mut thread| thread.take()));
    std::mem::forget(SOCKET.after_fork().and_then(|mut socket| socket.take()));
    let held = CONTROLLER.after_fork().map(|mut held| std::mem::replace(&mut *held, Held::Nothing));
    if let Some(Held::Running(controller)) = held {
        controller.forget();
    }
    IS_STARTING.store(false, Ordering::Relaxed);
}

/// The thread. A panic ends it: see `after_panic`.
fn run(install: &Install, start_wait: &Arc<StartWait>, commands: &Receiver<Command>) {
    let _own = Own::register();
    tracetee_os::block_write_signals();
    let ended = guard::run(|| {
        // Tools use it while the start continues, and when it has failed.
        *lock(&SOCKET) = Socket::open().map(Box::new);
        if begin(install, start_wait) {
            lower_priority(NICE);
            take_turns(commands);
        }
    });
    if ended.is_err() {
        start_wait.finish(Err(Error::State("the agent failed because of an internal error")));
    }
}

/// Starts the controller. `false`: there is none.
fn begin(install: &Install, start_wait: &Arc<StartWait>) -> bool {
    let mut held = lock(&CONTROLLER);
    if !matches!(*held, Held::Awaited) {
        return false;
    }
    // ORDERING: Relaxed, here and below; for the health report.
    IS_STARTING.store(true, Ordering::Relaxed);
    let started = Controller::start(install, start_wait);
    guard::planted("install");
    IS_STARTING.store(false, Ordering::Relaxed);
    match started {
        Ok(controller) => {
            let outlook = controller.outlook();
            *held = Held::Running(Box::new(controller));
            drop(held);
            show(|shown| shown.show(outlook, 0));
            true
        }
        Err(error) => {
            let reason = format!("the agent could not start: {error}");
            *held = Held::Failed(reason.as_str().into());
            drop(held);
            show(|shown| shown.fail(&reason));
            start_wait.finish(Err(error));
            false
        }
    }
}

/// Works until no sender of commands is left.
fn take_turns(commands: &Receiver<Command>) {
    let mut pause = Duration::ZERO;
    let mut taken = 0;
    loop {
        let waits = Wait::begin();
        let first = match commands.recv_timeout(pause) {
            Ok(command) => Some(command),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if guard::is_broken() {
            return;
        }
        let mut held = lock(&CONTROLLER);
        let Held::Running(controller) = &mut *held else { return };
        if let Some((from_ns, to_ns)) = waits.stood_still(pause) {
            controller.note_still(from_ns, to_ns);
        }
        for command in first.into_iter().chain(commands.try_iter()) {
            controller.command(command);
            taken += 1;
        }
        guard::planted("agent");
        controller.turn();
        pause = controller.pause();
        let outlook = controller.outlook();
        drop(held);
        show(|shown| shown.show(outlook, taken));
        if own_threads::is_all_that_is_left() {
            return end_with_process(commands);
        }
        // Without the controller's lock: it waits while the app is loading a library.
        capture::hook_later_libraries();
    }
}

/// Ends when the app's main thread has ended by `pthread_exit`, and its others have ended, too: the process ends when our
/// threads do. Keeps the open capture, as at an exit.
fn end_with_process(commands: &Receiver<Command>) {
    // Commands that are queued by now are carried out; later ones find no thread.
    drop(lock(&THREAD).take());
    if let Held::Running(mut controller) = take_controller() {
        for command in commands.try_iter() {
            controller.command(command);
        }
        controller.exit();
    }
    let _ = capture::hand_over(Owner::Manual);
    drop(lock(&SOCKET).take());
}

fn take_controller() -> Held {
    std::mem::replace(&mut *lock(&CONTROLLER), Held::Nothing)
}

fn lock<T>(lock: &'static ForkLock<T>) -> MutexGuard<'static, T> {
    guard::lock(lock.get())
}
