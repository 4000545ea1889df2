//! One capture: start, stop, dump.
//!
//! By hand (the public functions), or driven by [`crate::control`], which decides when; then hooks stay
//! in place between captures.
//!
//! Everything here runs under one lock, on whatever thread calls; nothing of it runs in a proxy.
//! Start: recorder, symbols, hooks, recording on, tags on. Stop: the same backwards. A stopped
//! capture's recorder is kept for dumps until the next start.

use crate::config::{ClockSetting, Config};
use crate::drain::Drain;
use crate::error::Error;
use crate::health::{Health, Stats};
use crate::live;
use crate::recorder::layout::Mode;
use crate::recorder::pool::{Pool, Shape};
use crate::recorder::reader::PoolReader;
use crate::recorder::{session, thread};
use crate::tags::{TagReset, Tags};
use crate::text::{self, Summary};
use crate::{clock, cost, marker, proxy, recover};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use tracetee_hooks::{Later, Registry};

/// The capture of this process. Hooks are process-wide, so there is one.
static SLOTS: [Mutex<Slot>; 4] =
    [const { Mutex::new(Slot { capture: None, hooks: None, health: None }) }; 4];
/// Which of them is in use: a child that was forked while another thread held the lock goes on with
/// the next, as nobody gives that lock back.
static SLOT: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Slot {
    capture: Option<Capture>,
    /// Hooks that stay in place between the captures that [`crate::control`] drives.
    hooks: Option<Hooks>,
    /// What the last such capture found.
    health: Option<Health>,
}

/// Hooks in place, and what was found when they were put there.
#[derive(Debug)]
struct Hooks {
    registry: Registry,
    with_fast_path: bool,
    found: Health,
}

#[derive(Debug)]
struct Capture {
    config: Config,
    pool: Box<Pool>,
    hooks: Option<Hooks>,
    drain: Option<Drain>,
    tags: Tags,
    health: Health,
    running: bool,
    /// [`crate::control`] has started it: it alone stops it, and a forked child does not go on.
    is_driven: bool,
}

/// Starts a capture.
///
/// # Errors
/// [`Error::Config`] for a limit that does not hold, [`Error::State`] when one is running,
/// [`Error::Io`] when the recorder gets no memory or file, [`Error::Hooks`] when nothing can be
/// hooked. Nothing is changed in the process then.
pub fn start(config: &Config) -> Result<(), Error> {
    if crate::control::is_installed() {
        return Err(Error::State(CONTROLLED));
    }
    config.validate()?;
    let mut slot = lock();
    if slot.is_running() {
        return Err(Error::State("a capture is running; stop it first"));
    }
    slot.capture = None;
    slot.capture = Some(Capture::start(config.clone(), None, false)?);
    Ok(())
}

const CONTROLLED: &str = "captures are opened and closed by the configuration (tracetee_install)";

/// Starts a capture that [`crate::control`] drives; the hooks stay in place after it.
pub(crate) fn start_driven(config: &Config) -> Result<(), Error> {
    config.validate()?;
    let mut slot = lock();
    if slot.is_running() {
        return Err(Error::State("a capture is running"));
    }
    slot.drop_capture();
    let hooks = slot.hooks.take();
    let capture = Capture::start(config.clone(), hooks, true)?;
    slot.health = Some(capture.health.clone());
    slot.capture = Some(capture);
    Ok(())
}

/// Stops it. What it recorded is there for [`dump_driven`] until [`release_driven`].
pub(crate) fn stop_driven() -> Result<(), Error> {
    let mut slot = lock();
    let Some(capture) = slot.capture.as_mut().filter(|capture| capture.running) else {
        return Ok(());
    };
    let free = capture.stop();
    let streamed = capture.finish_streaming();
    if !free {
        capture.leak_pool();
    }
    let hooks = capture.hooks.take();
    slot.hooks = hooks;
    streamed
}

/// Writes a driven capture, the running or the stopped one.
pub(crate) fn dump_driven(
    path: &Path,
    options: &text::TextOptions,
    about: &text::About<'_>,
) -> Result<Summary, Error> {
    let slot = lock();
    let capture = slot.capture.as_ref().ok_or(Error::State("there was no capture"))?;
    if let Some(drain) = &capture.drain {
        return Ok(drain.summary());
    }
    if capture.running {
        session::note_thread_names(&capture.pool);
    }
    text::write(&[PoolReader::of(&capture.pool)], options, path, about)
}

/// Gives a stopped capture's memory and file back; `hooks`: and the hooks.
pub(crate) fn release_driven(hooks: bool) {
    let mut slot = lock();
    if slot.is_running() {
        return;
    }
    slot.drop_capture();
    if hooks && let Some(Err(error)) = slot.hooks.take().map(|hooks| hooks.registry.uninstall()) {
        // The proxies stay, and pass everything on.
        if let Some(health) = &mut slot.health {
            health.not_hooked.push(format!("uninstall: {error}"));
        }
    }
}

/// What a record costs here, ns; before the first capture.
pub(crate) fn measure_cost() -> Result<f64, Error> {
    let slot = lock();
    if slot.is_running() {
        return Err(Error::State("a capture is running"));
    }
    let earlier = clock::first_anchor();
    prepare_threads()?;
    cost::ns_per_record(earlier)
}

/// Whether what runs is recording: an app may have ended it by a system call of its own.
pub(crate) fn is_open() -> bool {
    session::current() != 0
}

pub(crate) fn is_running() -> bool {
    lock().is_running()
}

/// Looks at the pool of the running capture.
pub(crate) fn look(look: impl FnOnce(&PoolReader<'_>)) {
    let slot = lock();
    if let Some(capture) = slot.capture.as_ref().filter(|capture| capture.running) {
        look(&PoolReader::of(&capture.pool));
    }
}

/// Forces the running capture's tags again where the system has reset them.
pub(crate) fn watch_tags() -> Vec<TagReset> {
    let mut slot = lock();
    let capture = slot.capture.as_mut().filter(|capture| capture.running);
    capture.map(|capture| capture.tags.watch()).unwrap_or_default()
}

/// Stops the running capture: gives the tags back, waits for the writers, unhooks.
///
/// # Errors
/// [`Error::State`] when none is running.
pub fn stop() -> Result<(), Error> {
    let mut slot = lock();
    match slot.capture.as_mut().filter(|capture| capture.running) {
        Some(capture) if capture.is_driven => Err(Error::State(CONTROLLED)),
        Some(capture) => {
            let free = capture.stop();
            if let Some(Err(error)) = capture.hooks.take().map(|hooks| hooks.registry.uninstall()) {
                // The proxies stay, and pass everything on.
                capture.health.not_hooked.push(format!("uninstall: {error}"));
            }
            let streamed = capture.finish_streaming();
            if !free {
                // A writer is stuck inside the recorder (its thread is stopped, say): what it
                // writes to must stay mapped for ever. The dump still works, on a leaked pool.
                capture.leak_pool();
            }
            streamed
        }
        None => Err(Error::State("no capture is running")),
    }
}

/// Writes what the running or last capture has recorded as ftrace text to `path`, compressed when
/// it ends in `.zst`. Takes a while: not for the app's main thread.
///
/// # Errors
/// [`Error::State`] when there was no capture, [`Error::Io`] when the file cannot be written.
pub fn dump(path: &Path) -> Result<Summary, Error> {
    let slot = lock();
    let capture = slot.capture.as_ref().ok_or(Error::State("there was no capture"))?;
    match capture.config.recorder.mode {
        Mode::Systrace => return Err(Error::State("mode systrace records nothing")),
        Mode::Endless => {
            return Err(Error::State("mode endless streams to its output; it is whole after stop"));
        }
        Mode::Startup | Mode::Ring => {}
    }
    if capture.running {
        session::note_thread_names(&capture.pool);
    }
    text::write_trace(&[PoolReader::of(&capture.pool)], &capture.config.text, path)
}

/// The health report: what is known of the running or last capture, and of what drives it; `None`
/// before the first.
#[must_use]
pub fn stats() -> Option<Stats> {
    let control = crate::control::report();
    let slot = lock();
    let Some(capture) = slot.capture.as_ref() else {
        control.as_ref()?;
        let mut health = slot.health.clone().unwrap_or_else(Health::of_this_process);
        health.recovered = recover::outcomes();
        return Some(Stats { control, recording: false, health, summary: Summary::default() });
    };
    let mut health = capture.health.clone();
    health.atrace = capture.tags.report();
    health.recovered = recover::outcomes();
    if clock::was_forbidden() {
        health.not_hooked.push("recording ended: prctl PR_SET_TSC forbade the clock".to_owned());
    }
    let summary = match &capture.drain {
        Some(drain) => drain.summary(),
        None => text::summarize(&[PoolReader::of(&capture.pool)], &capture.config.text),
    };
    Some(Stats { control, recording: session::current() != 0, health, summary })
}

/// At the exit of a preloaded process: names are noted, and the trace is written if one was asked
/// for.
pub(crate) fn process_exits() -> Result<(), Error> {
    let mut slot = lock();
    let running = |capture: &&mut Capture| capture.running && !capture.is_driven;
    let Some(capture) = slot.capture.as_mut().filter(running) else { return Ok(()) };
    session::note_thread_names(&capture.pool);
    if capture.config.recorder.mode == Mode::Endless {
        let free = capture.stop();
        let result = capture.finish_streaming();
        if !free {
            capture.leak_pool();
        }
        return result;
    }
    let Some(output) = capture.config.output.clone() else {
        // The file is read by whoever started us; other threads may go on until the very end.
        let header = capture.pool.header();
        header.stop_boot_ns.store(clock::boot_ns(), Ordering::Relaxed);
        return Ok(());
    };
    let free = capture.stop();
    let path = expand(&output);
    let result = text::write_trace(&[PoolReader::of(&capture.pool)], &capture.config.text, &path);
    if !free {
        capture.leak_pool();
    }
    result.map(drop)
}

impl Slot {
    /// A driven capture's file goes with it: what it held was kept by then.
    fn drop_capture(&mut self) {
        if let Some(capture) = self.capture.take()
            && capture.is_driven
            && let Some(path) = capture.pool.path()
        {
            let _ = std::fs::remove_file(path);
        }
    }

    fn is_running(&self) -> bool {
        self.capture.as_ref().is_some_and(|capture| capture.running)
    }
}

impl Hooks {
    /// `kept`: those of an earlier capture, if they are what this one needs.
    fn install(kept: Option<Self>, with_fast_path: bool) -> Result<Self, Error> {
        if let Some(kept) = kept {
            if kept.with_fast_path == with_fast_path {
                return Ok(kept);
            }
            kept.registry.uninstall()?;
        }
        let hooks = proxy::hooks(with_fast_path);
        let (registry, report) = Registry::install(hooks, Box::new(|_| true), Later::Watch)?;
        let mut found = Health::default();
        found.take_hooks(&report);
        Ok(Self { registry, with_fast_path, found })
    }
}

impl Capture {
    fn start(config: Config, kept: Option<Hooks>, is_driven: bool) -> Result<Self, Error> {
        if !clock::is_allowed() {
            return Err(Error::State("the process forbids reading the clock (prctl PR_SET_TSC)"));
        }
        let earlier = clock::first_anchor();
        prepare_threads()?;
        watch_forks();
        marker::learn();

        let mut health = Health::of_this_process();
        let tags = Tags::find().unwrap_or_else(|error| {
            health.atrace_missing = Some(error.to_string());
            Tags::none()
        });
        live::set_passing(config.pass_on.into(), tags.of_the_system());

        // Mode systrace hooks nothing: the records go where libcutils writes them.
        let records = config.recorder.mode != Mode::Systrace;
        let hooks = if records { Some(Hooks::install(kept, config.fast_path)?) } else { kept };
        if let Some(hooks) = hooks.as_ref().filter(|_| records) {
            let Health { hooked_slots, hooked_libraries, libraries, not_hooked, .. } =
                hooks.found.clone();
            health = Health { hooked_slots, hooked_libraries, libraries, not_hooked, ..health };
        }

        let wanted = config.tag_word()?;
        let pool = new_pool(&config, earlier)?;
        health.recorder_mode = config.recorder.mode;
        health.counter_clock = clock::uses_counter();
        let mut capture =
            Self { config, pool, hooks, drain: None, tags, health, running: true, is_driven };
        if capture.config.recorder.mode == Mode::Endless {
            capture.start_streaming()?;
        }
        if records {
            session::open(&raw const *capture.pool, deadline_ns(&capture.config));
        }
        capture.tags.force(wanted);
        capture.health.atrace = capture.tags.report();
        capture.write_meta();
        if let (Some(directory), Some(to)) =
            (&capture.config.recorder.directory, &capture.config.recorder.recover_to)
        {
            recover::in_background(directory, to, &capture.config.text);
        }
        Ok(capture)
    }

    /// `true` when no writer is left in the recorder.
    fn stop(&mut self) -> bool {
        self.tags.give_back();
        session::note_thread_names(&self.pool);
        let free = session::close();
        let header = self.pool.header();
        if header.stop_boot_ns.load(Ordering::Relaxed) == 0 {
            header.stop_boot_ns.store(clock::boot_ns(), Ordering::Relaxed);
        }
        self.running = false;
        free
    }

    /// Mode endless: starts the thread that streams.
    fn start_streaming(&mut self) -> Result<(), Error> {
        let Some(output) = &self.config.output else { return Ok(()) };
        let path = expand(output);
        self.health.streaming_to = Some(path.clone());
        // For who recovers after a kill.
        self.write_meta();
        self.drain = Some(Drain::start(&self.pool, &path, &self.config)?);
        Ok(())
    }

    /// Mode endless, after the last writer: the rest is streamed and the trace gets its name.
    fn finish_streaming(&mut self) -> Result<(), Error> {
        let Some(drain) = &mut self.drain else { return Ok(()) };
        drain.finish()?;
        // All of it is in the trace.
        if let Some(path) = self.pool.path() {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// Keeps the pool mapped for the rest of the process, and reads from it all the same.
    fn leak_pool(&mut self) {
        let alias = Box::new(self.pool.alias());
        std::mem::forget(std::mem::replace(&mut self.pool, alias));
    }

    fn write_meta(&self) {
        // There is room for so much, and a reader wants it whole.
        let health = Health { libraries: Vec::new(), ..self.health.clone() };
        if let Ok(text) = serde_json::to_string(&health) {
            self.pool.set_meta(&text);
        }
    }

    /// In the child of a fork: records go on into a file of its own, or stop.
    fn continue_in_child(&mut self) {
        let pool = match &self.config.recorder.directory {
            Some(_)
                if self.running
                    && !self.is_driven
                    && self.config.recorder.mode != Mode::Endless =>
            {
                new_pool(&self.config, clock::first_anchor()).ok()
            }
            _ => None,
        };
        // The streaming thread is the parent's, and so is the lock on the file.
        std::mem::forget(self.drain.take());
        self.pool.close_file();
        let Some(pool) = pool else {
            live::give_words_back();
            self.running = false;
            return;
        };
        self.pool = pool;
        self.health.pid = std::process::id();
        self.health.parent = std::os::unix::process::parent_id();
        self.write_meta();
        session::open(&raw const *self.pool, session::deadline_ns());
    }
}

pub(crate) fn prepare_threads() -> Result<(), Error> {
    thread::prepare().map_err(|errno| Error::Io {
        what: "create the recorder's",
        path: PathBuf::from("pthread key"),
        source: std::io::Error::from_raw_os_error(errno),
    })
}

/// The recorder's memory. `earlier`: an anchor of the clock from some time ago.
fn new_pool(config: &Config, earlier: clock::Anchor) -> Result<Box<Pool>, Error> {
    let recorder = &config.recorder;
    let path = recorder.directory.as_ref().map(|directory| {
        directory.join(format!("{}-{}.pool", std::process::id(), clock::boot_ns()))
    });
    let anchors = match recorder.clock {
        ClockSetting::Auto => clock::choose(earlier),
        ClockSetting::Boot => clock::choose_boot(),
    };
    let shape = Shape {
        capacity_bytes: recorder.capacity_kb.saturating_mul(1024),
        block_bytes: recorder.block_kb * 1024,
        mode: recorder.mode,
        path: path.as_deref(),
        anchors,
    };
    Pool::create(&shape).map(Box::new)
}

/// An output path with `%p` as the process id.
fn expand(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace("%p", &std::process::id().to_string()))
}

fn deadline_ns(config: &Config) -> u64 {
    match config.duration_ms {
        Some(ms) => clock::boot_ns().saturating_add(ms.saturating_mul(1_000_000)),
        None => u64::MAX,
    }
}

fn slot() -> &'static Mutex<Slot> {
    // ORDERING: Relaxed; changes in a forked child alone, which has one thread then.
    let index = SLOT.load(Ordering::Relaxed);
    &SLOTS[index.min(SLOTS.len() - 1)]
}

fn lock() -> MutexGuard<'static, Slot> {
    slot().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has [`after_fork_in_child`] called in every forked child from now on.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a handler of the right type. When it cannot be registered (no memory), a forked
        // child of a file recorder shares its parent's blocks until it execs.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    });
}

extern "C" fn after_fork_in_child() {
    session::forget_after_fork();
    let errno = crate::errno::Saved::now();
    let done = std::panic::catch_unwind(|| {
        crate::control::forget_after_fork();
        let mut slot = match slot().try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread was starting or stopping a capture when this one forked: stay off.
            Err(TryLockError::WouldBlock) => {
                SLOT.fetch_add(1, Ordering::Relaxed);
                return live::give_words_back();
            }
        };
        if let Some(capture) = slot.capture.as_mut() {
            capture.continue_in_child();
        }
    });
    if done.is_err() {
        session::switch_off();
    }
    errno.restore();
}
