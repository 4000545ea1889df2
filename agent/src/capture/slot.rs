//! The one capture of this process, and its operations for the app or the controller.
//!
//! Hooks are process-wide, so there is one capture. All operations take its lock.

use super::hooked::Hooks;
use super::memory::prepare_threads;
use super::recording::Capture;
use super::tag_watch::{self, TagWatch};
use super::{Lend, Owner};
use crate::error::Error;
use crate::fork_lock::ForkLock;
use crate::health_report::Inspection;
use crate::section::{self, set_ready};
use crate::tags::Tags;
use crate::{config, cost};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tracetee_hooks::{ModuleReport, Outcome, Registry, Report};
use tracetee_os::guard;
use tracetee_protocol::capture_config::{Config, RecorderConfig};
use tracetee_protocol::health::Health;
use tracetee_protocol::notes;
use tracetee_protocol::remote_config::WindowRecorder;
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::{clock, session};
use tracetee_tee::{tag_words, write};
use tracetee_text::{About, Summary, TextOptions};

/// Libraries that one check notes in the trace.
const MAX_NOTES: usize = 16;
const CONTROLLED: &str = "captures are opened and closed by the configuration (tracetee_install)";
const NO_CAPTURE: &str = "there was no capture";
pub(super) const CLONED: &str =
    "this process was made by clone(2), which runs no fork handlers; its parent owns the recording";

static SLOT: ForkLock<Slot> = ForkLock::new([const { Mutex::new(Slot::empty()) }; 4]);
/// The controller owns the captures of this process.
static IS_CONTROLLED: AtomicBool = AtomicBool::new(false);

/// Boxed, so that an empty slot is zeroed memory and not a kilobyte of the library.
#[derive(Debug)]
struct Slot {
    capture: Option<Box<Capture>>,
    /// Looks after a manual capture, where there are tags.
    watch: Option<Box<TagWatch>>,
    /// Hooks that stay in place between the controller's captures.
    hooks: Option<Box<Hooks>>,
    /// The report of the controller's last capture, and the tags that it had forced.
    ended: Option<Box<(Health, Tags)>>,
    /// Records since [`begin_early`] with which no capture could continue.
    early_lost: u64,
}

/// Makes `owner` the party that starts and stops captures. Fails for the controller while a capture
/// runs.
pub(crate) fn hand_over(to: Owner) -> Result<(), Error> {
    if to == Owner::Controller && lock().is_running() {
        return Err(Error::State("a capture is running; stop it first"));
    }
    // ORDERING: Relaxed, here and below: a flag; a lock protects the data.
    IS_CONTROLLED.store(to == Owner::Controller, Ordering::Relaxed);
    Ok(())
}

/// Returns the current owner of captures.
pub(crate) fn owner() -> Owner {
    if IS_CONTROLLED.load(Ordering::Relaxed) { Owner::Controller } else { Owner::Manual }
}

/// Starts a capture for `by`. On an error the process is unchanged.
pub(crate) fn start(by: Owner, config: &Config) -> Result<(), Error> {
    start_lending(by, config, &|work| work())
}

/// Like [`start`], or continues the recording of [`begin_early`].
pub(crate) fn start_lending(by: Owner, config: &Config, lend: Lend<'_>) -> Result<(), Error> {
    if by != owner() {
        return Err(Error::State(CONTROLLED));
    }
    config::check(config)?;
    let mut slot = lock();
    if let Some(early) = slot.early() {
        if early.adopt(config, lend)? {
            return Ok(());
        }
        slot.end_early();
    }
    if slot.is_running() {
        return Err(Error::State("a capture is running; stop it first"));
    }
    slot.close_capture();
    let kept = slot.hooks.take().map(|hooks| *hooks);
    let mut capture = Capture::start(config.clone(), kept, by, lend)?;
    if by == Owner::Manual && capture.has_tags() {
        match TagWatch::start(look_after) {
            Ok(watch) => slot.watch = Some(Box::new(watch)),
            Err(error) => capture.note_unwatched(&error),
        }
    }
    slot.capture = Some(Box::new(capture));
    slot.note_early_losses();
    Ok(())
}

/// Begins to record the app's own sections, for the controller, before its configuration is known. Works in memory, and does
/// not wait. If it fails, the recording begins later.
pub(crate) fn begin_early() {
    let mut slot = lock();
    slot.early_lost = 0;
    if !slot.is_running() {
        slot.close_capture();
        let recorder = RecorderConfig {
            capacity_kb: WindowRecorder::default().capacity_kb,
            ..RecorderConfig::default()
        };
        let config = Config { recorder, ..Config::default() };
        slot.capture = Capture::start_early(config).ok().map(Box::new);
    }
}

/// Adds the hooks and tags of `config` to the recording of [`begin_early`].
pub(crate) fn hook_early(config: &Config, lend: Lend<'_>) -> Result<(), Error> {
    let mut slot = lock();
    if slot.early().is_some_and(|early| !early.has_recorder_for(config)) {
        slot.end_early();
        slot.capture = Some(Box::new(Capture::start_early(config.clone())?));
        slot.note_early_losses();
    }
    let kept = slot.hooks.take().map(|hooks| *hooks);
    match slot.early() {
        Some(early) => early.join_hooks(config.clone(), kept, lend),
        None => Err(Error::State("nothing is recorded yet")),
    }
}

/// Discards the records since [`begin_early`], and removes its hooks, if no capture has adopted them. Returns true if there
/// was such a recording.
pub(crate) fn discard_early() -> bool {
    let mut slot = lock();
    let is_early = slot.early().is_some();
    if is_early {
        slot.end_early();
        slot.early_lost = 0;
        if let Some(hooks) = slot.hooks.take() {
            hooks.uninstall(&mut Health::default());
        }
    }
    is_early
}

/// Stops the running capture of `by`: gives the tags back and waits for the writers. The hooks of a
/// capture by hand are taken out; the controller's stay until [`release`]. The records are there for
/// [`dump`] and [`write()`].
///
/// Fails if the capture is somebody else's, where the app has none, and where the rest of a
/// streamed trace could not be written.
pub(crate) fn stop(by: Owner) -> Result<(), Error> {
    if session::is_another_process() {
        return Err(Error::State(CLONED));
    }
    let mut slot = lock();
    guard::planted("stop");
    let Some(capture) = slot.running() else {
        return match by {
            Owner::Manual => Err(Error::State("no capture is running")),
            Owner::Controller => Ok(()),
        };
    };
    if capture.owner() != by {
        return Err(Error::State(CONTROLLED));
    }
    let (hooks, streamed) = capture.stop();
    slot.hooks = hooks.map(Box::new);
    let watch = slot.watch.take();
    drop(slot);
    if let Some(watch) = watch {
        watch.end();
    }
    streamed
}

/// Writes the running or last capture to `path` according to its own configuration.
pub(crate) fn dump(path: &Path) -> Result<Summary, Error> {
    lock().capture.as_ref().ok_or(Error::State(NO_CAPTURE))?.dump(path)
}

/// Writes the running or last capture to `path` according to `options`.
pub(crate) fn write(
    path: &Path,
    options: &TextOptions,
    about: &About<'_>,
) -> Result<Summary, Error> {
    lock().capture.as_ref().ok_or(Error::State(NO_CAPTURE))?.write(path, options, about)
}

/// Frees the memory and the file of a stopped capture; with `hooks`, also removes the hooks.
pub(crate) fn release(hooks: bool) {
    let mut slot = lock();
    if slot.is_running() {
        return;
    }
    slot.close_capture();
    if hooks && let Some(hooks) = slot.hooks.take() {
        let mut unheard = Health::default();
        let health = slot.ended.as_mut().map_or(&mut unheard, |ended| &mut ended.0);
        hooks.uninstall(health);
    }
}

/// Measures the cost of a record on this device, ns, before the first capture.
pub(crate) fn measure_cost() -> Result<tracetee_protocol::json::Decimal, Error> {
    let mut slot = lock();
    slot.end_early();
    if slot.is_running() {
        return Err(Error::State("a capture is running"));
    }
    // The app's own records would go into the recorder of the measurement, and be lost with it.
    set_ready(false);
    let earlier = clock::first_anchor();
    prepare_threads()?;
    cost::ns_per_record(earlier)
}

/// Returns true while records are taken: an app may have ended this with a system call.
pub(crate) fn is_open() -> bool {
    session::current() != 0
}

/// Reads the pool of the running capture.
pub(crate) fn look(look: impl FnOnce(&PoolReader<'_>)) {
    if let Some(capture) = lock().running() {
        capture.look(look);
    }
}

/// Checks the tags of the running capture, and forces them again where the system has reset them.
/// Returns how often it had.
pub(crate) fn watch_tags() -> u64 {
    lock().running().map(Capture::watch_tags).unwrap_or_default()
}

/// Hooks libraries that were loaded since the hooks were installed and that no watched `dlopen` has seen. Reads a counter or
/// the linker's list if nothing was loaded, and waits while a library is being loaded: the agent's thread calls it four
/// times a second during a recording, holding no lock.
pub(crate) fn hook_later_libraries() {
    let registry = lock().registry();
    refresh(registry);
}

/// Looks after a manual capture, on the thread of [`TagWatch`]. A check is left out while the capture
/// is being started, stopped or dumped.
fn look_after() {
    tag_watch::look(|| {
        if let Ok(mut slot) = SLOT.get().try_lock()
            && let Some(capture) = slot.running()
        {
            capture.watch_tags();
        }
    });
    let mut registry = None;
    tag_watch::look(|| registry = SLOT.get().try_lock().ok().and_then(|slot| slot.registry()));
    refresh(registry);
}

/// Hooks libraries that were loaded since `registry`'s hooks were installed. Called without any lock: it waits while the
/// program is loading a library.
fn refresh(registry: Option<Arc<Registry>>) {
    // A registry that was uninstalled meanwhile has nothing to do.
    match registry.map(|registry| registry.refresh()) {
        Some(Ok(found)) => note_late_libraries(&found),
        Some(Err(trouble)) => {
            if let Some(capture) = &mut lock().capture {
                capture.note_hook_trouble(trouble.to_string());
            }
        }
        None => {}
    }
}

/// Notes in the trace that libraries were loaded unnoticed: the linker of Android 7 offers no place to watch loads.
fn note_late_libraries(found: &Report) {
    let is_hooked = |module: &&ModuleReport| {
        module
            .slots
            .iter()
            .any(|slot| slot.outcome == Outcome::Hooked && write::is_write(slot.symbol))
    };
    for module in found.modules.iter().filter(is_hooked).take(MAX_NOTES) {
        let name = module.path.rsplit('/').next().unwrap_or_default();
        section::note(&format!(
            "{}{name} was loaded up to 250 ms ago, and hooked now: its records before are missing",
            notes::PREFIX
        ));
    }
}

/// Reports on the running or last capture.
pub(crate) fn inspect() -> Inspection {
    let mut slot = lock();
    let Slot { capture, hooks, ended, .. } = &mut *slot;
    match capture {
        Some(capture) => Inspection::with_capture(capture),
        None => Inspection::without_capture(hooks.as_deref(), ended.as_deref_mut()),
    }
}

/// At the exit of a preloaded process: notes thread names, and writes the trace if one was requested.
pub(crate) fn process_exits() -> Result<(), Error> {
    if session::is_another_process() {
        return Ok(());
    }
    let mut slot = lock();
    match slot.running().filter(|capture| capture.owner() == Owner::Manual) {
        Some(capture) => capture.exit(),
        None => Ok(()),
    }
}

/// In a forked child: a manual capture continues in a file of the child's own, or stops. The controller's captures belong to
/// the parent.
pub(crate) fn reset_after_fork() {
    IS_CONTROLLED.store(false, Ordering::Relaxed);
    // Another thread was starting or stopping a capture when this one forked: stay off.
    let Some(mut slot) = SLOT.after_fork() else { return tag_words::give_words_back() };
    std::mem::forget(slot.watch.take());
    if let Some(capture) = slot.capture.as_mut() {
        capture.continue_in_child();
    }
}

impl Slot {
    const fn empty() -> Self {
        Self { capture: None, watch: None, hooks: None, ended: None, early_lost: 0 }
    }

    fn running(&mut self) -> Option<&mut Capture> {
        self.capture.as_deref_mut().filter(|capture| capture.is_running())
    }

    fn is_running(&self) -> bool {
        self.capture.as_deref().is_some_and(Capture::is_running)
    }

    fn early(&mut self) -> Option<&mut Capture> {
        self.running().filter(|capture| capture.is_early())
    }

    /// Ends the early recording, without its records.
    fn end_early(&mut self) {
        let Some(early) = self.early() else { return };
        let (hooks, _) = early.stop();
        let lost: u64 = early.summary().records.values().sum();
        self.capture = None;
        self.hooks = hooks.map(Box::new);
        self.early_lost += lost;
    }

    /// Notes in the new trace the cost of [`Slot::end_early`].
    fn note_early_losses(&mut self) {
        let lost = std::mem::take(&mut self.early_lost);
        if lost > 0 {
            section::note(&format!(
                "{}{lost} records of the start are missing, from before the configuration was read",
                notes::PREFIX
            ));
        }
    }

    /// Frees the stopped capture.
    fn close_capture(&mut self) {
        if let Some(capture) = self.capture.take() {
            let owner = capture.owner();
            let ended = capture.close();
            if owner == Owner::Controller {
                self.ended = Some(Box::new(ended));
            }
        }
    }

    /// The registry of the running capture's hooks, if this process installed them.
    fn registry(&self) -> Option<Arc<Registry>> {
        self.capture.as_ref()?.registry()
    }
}

fn lock() -> MutexGuard<'static, Slot> {
    guard::lock(SLOT.get())
}
