//! One capture: start, stop, dump.
//!
//! By hand (the public functions), or driven by [`crate::controller`], which decides when; then hooks stay
//! in place between captures.
//!
//! Everything here runs under one lock, on whatever thread calls; nothing of it runs in a proxy.
//! Start: recorder, symbols, hooks, recording on, tags on. Stop: the same backwards. A stopped
//! capture's recorder is kept for dumps until the next start.

use crate::config::{ClockSetting, Config, PassOnSetting};
use crate::drain::Drain;
use crate::error::Error;
use crate::health::{Health, Stats};
use crate::hooks::thread_name;
use crate::hooks::write;
use crate::host::HOST;
use crate::libcutils::marker_fd;
use crate::libcutils::tag_words;
use crate::libcutils::tags::{TagChange, Tags};
use crate::section::{self, set_ready};
use crate::text::{self, Summary};
use crate::watch::{self, Watch};
use crate::{cost, recover};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError};
use tracetee_hooks::{Later, Registry};
use tracetee_recorder::clock;
use tracetee_recorder::layout::Mode;
use tracetee_recorder::pool::{Pool, Shape};
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::{session, thread};

/// The capture of this process. Hooks are process-wide, so there is one.
static SLOTS: [Mutex<Slot>; 4] =
    [const { Mutex::new(Slot { capture: None, hooks: None, ended: None }) }; 4];
/// Which of them is in use: a child that was forked while another thread held the lock goes on with
/// the next, as nobody gives that lock back.
static SLOT: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Slot {
    capture: Option<Capture>,
    /// Hooks that stay in place between the captures that [`crate::controller`] drives.
    hooks: Option<Hooks>,
    /// The last such capture's report, and the tags that it had forced.
    ended: Option<(Health, Tags)>,
}

/// Hooks in place.
#[derive(Debug)]
struct Hooks {
    registry: Arc<Registry>,
    with_fast_path: bool,
    /// Why libraries that were loaded since the last pass are not hooked.
    trouble: Option<String>,
    /// The process that they were put in place in. A forked child asks nothing of them: another thread
    /// may have held the linker's lock when it forked, which nobody gives back there.
    pid: u32,
}

#[derive(Debug)]
struct Capture {
    config: Config,
    pool: Box<Pool>,
    hooks: Option<Hooks>,
    drain: Option<Drain>,
    /// Watches the tags of a capture by hand, where there are any.
    watch: Option<Watch>,
    tags: Tags,
    health: Health,
    running: bool,
    /// [`crate::controller`] has started it: it alone stops it, and a forked child does not go on.
    is_driven: bool,
}

/// Starts a capture.
///
/// # Errors
/// [`Error::Config`] for a limit that does not hold, [`Error::State`] when one is running,
/// [`Error::Io`] when the recorder gets no memory or file, [`Error::Hooks`] when nothing can be
/// hooked. Nothing is changed in the process then.
pub fn start(config: &Config) -> Result<(), Error> {
    if crate::controller::is_installed() {
        return Err(Error::State(CONTROLLED));
    }
    config.validate()?;
    let mut slot = lock();
    if slot.is_running() {
        return Err(Error::State("a capture is running; stop it first"));
    }
    slot.capture = None;
    let mut capture = Capture::start(config.clone(), None, false)?;
    if capture.tags.has_copies() {
        match Watch::start() {
            Ok(watch) => capture.watch = Some(watch),
            Err(error) => capture.health.tags_unwatched = Some(error.to_string()),
        }
    }
    slot.capture = Some(capture);
    Ok(())
}

const CONTROLLED: &str = "captures are opened and closed by the configuration (tracetee_install)";

const CLONED: &str =
    "this process was made by clone(2), past fork's handlers; the recording is its parent's";

/// Starts a capture that [`crate::controller`] drives; the hooks stay in place after it.
pub(crate) fn start_driven(config: &Config) -> Result<(), Error> {
    config.validate()?;
    let mut slot = lock();
    if slot.is_running() {
        return Err(Error::State("a capture is running"));
    }
    slot.drop_capture();
    let hooks = slot.hooks.take();
    slot.capture = Some(Capture::start(config.clone(), hooks, true)?);
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
        if let Some((health, _)) = &mut slot.ended {
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
    // What the app records meanwhile would go with the measurement.
    set_ready(false);
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
        session::place_losses(&capture.pool);
        look(&PoolReader::of(&capture.pool));
    }
}

/// Forces the running capture's tags again where the system has reset them, which it notes in the
/// trace; returns how often it had.
pub(crate) fn watch_tags() -> u64 {
    let mut slot = lock();
    let capture = slot.capture.as_mut().filter(|capture| capture.running);
    capture.map(Capture::watch_tags).unwrap_or_default()
}

/// The same, of a capture by hand, unless it is being started, stopped or dumped just now.
pub(crate) fn try_watch_tags() {
    if let Ok(mut slot) = slot().try_lock()
        && let Some(capture) = slot.capture.as_mut().filter(|capture| capture.running)
    {
        capture.watch_tags();
    }
}

/// Hooks what was loaded since the hooks went in, as far as no watched `dlopen` has done so. It reads
/// a counter or the linker's list when nothing was loaded, and waits while a library is being loaded:
/// the agent's thread calls it four times a second during a recording, holding no lock.
pub(crate) fn hook_later_libraries() {
    let registry = lock().registry();
    hook_later_libraries_of(registry);
}

/// The running capture's hooks, unless it is being started, stopped or dumped just now.
pub(crate) fn try_registry() -> Option<Arc<Registry>> {
    slot().try_lock().ok()?.registry()
}

/// Hooks what was loaded since `registry`'s hooks went in. Called without any lock.
pub(crate) fn hook_later_libraries_of(registry: Option<Arc<Registry>>) {
    // Given back meanwhile, it finds nothing to do.
    let trouble = registry.and_then(|registry| registry.refresh().err());
    if let Some(trouble) = trouble
        && let Some(hooks) = lock().capture.as_mut().and_then(|capture| capture.hooks.as_mut())
    {
        hooks.trouble = Some(trouble.to_string());
    }
}

/// Stops the running capture: gives the tags back, waits for the writers, unhooks.
///
/// # Errors
/// [`Error::State`] when none is running.
pub fn stop() -> Result<(), Error> {
    if session::is_another_process() {
        return Err(Error::State(CLONED));
    }
    let mut slot = lock();
    let (streamed, watch) = match slot.capture.as_mut().filter(|capture| capture.running) {
        Some(capture) if capture.is_driven => return Err(Error::State(CONTROLLED)),
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
            (streamed, capture.watch.take())
        }
        None => return Err(Error::State("no capture is running")),
    };
    drop(slot);
    if let Some(watch) = watch {
        watch.end();
    }
    streamed
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
/// before the first. Hooks libraries that were loaded since, so that the report lists them.
#[must_use]
pub fn stats() -> Option<Stats> {
    let control = crate::controller::report();
    hook_later_libraries();
    let mut slot = lock();
    let Some(capture) = slot.capture.as_mut() else {
        let headline = control.as_ref()?.headline(false);
        let mut health = match &slot.ended {
            Some((health, tags)) => health.with_tags(tags),
            None => Health::of_this_process(),
        };
        if let Some(hooks) = &slot.hooks {
            hooks.report_to(&mut health);
        }
        health.recovered = recover::outcomes();
        let summary = Summary::default();
        return Some(Stats { headline, control, recording: false, health, summary });
    };
    capture.note_hooks();
    let mut health = capture.health.with_tags(&capture.tags);
    health.recovered = recover::outcomes();
    let recording = section::is_recording();
    let mut headline = control.as_ref().and_then(|control| control.headline(recording));
    let is_clone = capture.running && session::is_another_process();
    for (has_ended, reason) in [
        (clock::was_forbidden(), "prctl PR_SET_TSC forbade the clock"),
        (thread_name::is_strict(), "prctl PR_SET_SECCOMP, strict mode"),
        (is_clone, CLONED),
    ] {
        if has_ended {
            let ended = format!("recording ended: {reason}");
            health.not_hooked.push(ended.clone());
            headline = Some(headline.map_or(ended.clone(), |rest| format!("{ended}; {rest}")));
        }
    }
    if capture.running && !is_clone {
        session::place_losses(&capture.pool);
    }
    let summary = match &capture.drain {
        Some(drain) => drain.summary(),
        None => text::summarize(&[PoolReader::of(&capture.pool)], &capture.config.text),
    };
    Some(Stats { headline, control, recording, health, summary })
}

/// At the exit of a preloaded process: names are noted, and the trace is written if one was asked
/// for.
pub(crate) fn process_exits() -> Result<(), Error> {
    if session::is_another_process() {
        return Ok(());
    }
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
        capture.pool.note_stop(clock::boot_ns());
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
        {
            if let Some(path) = capture.pool.path() {
                let _ = std::fs::remove_file(path);
            }
            self.ended = Some((capture.health, capture.tags));
        }
    }

    /// The running capture's hooks, where they are this process's own.
    fn registry(&self) -> Option<Arc<Registry>> {
        let capture = self.capture.as_ref().filter(|capture| capture.running)?;
        let hooks = capture.hooks.as_ref().filter(|hooks| hooks.are_own())?;
        Some(Arc::clone(&hooks.registry))
    }

    fn is_running(&self) -> bool {
        self.capture.as_ref().is_some_and(|capture| capture.running)
    }
}

impl Hooks {
    /// `kept`: those of an earlier capture, if they are what this one needs. Libraries that were
    /// loaded since are hooked.
    fn install(kept: Option<Self>, with_fast_path: bool) -> Result<Self, Error> {
        if let Some(mut kept) = kept {
            if kept.with_fast_path == with_fast_path {
                kept.trouble = kept.registry.refresh().err().map(|error| error.to_string());
                return Ok(kept);
            }
            kept.registry.uninstall()?;
        }
        crate::android::pinned::stay_loaded();
        let hooks = write::hooks(with_fast_path);
        let (registry, _) = Registry::install(hooks, Box::new(|_| true), Later::Watch)?;
        let registry = Arc::new(registry);
        Ok(Self { registry, with_fast_path, trouble: None, pid: std::process::id() })
    }

    fn are_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Puts what is hooked now into `health`.
    fn report_to(&self, health: &mut Health) {
        if !self.are_own() {
            return;
        }
        health.take_hooks(&self.registry.report(), self.with_fast_path);
        if let Some(trouble) = &self.trouble {
            health.not_hooked.push(format!("libraries loaded since the last look: {trouble}"));
        }
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
        marker_fd::learn();

        set_ready(false);
        let mut health = Health::of_this_process();
        let tags = Tags::find().unwrap_or_else(|error| {
            health.atrace_missing = Some(error.to_string());
            Tags::none()
        });
        tag_words::set_passing(config.pass_on.into(), tags.of_the_system());

        // Mode systrace hooks nothing: the records go where libcutils writes them.
        let records = config.recorder.mode != Mode::Systrace;
        let hooks = if records { Some(Hooks::install(kept, config.fast_path)?) } else { kept };

        let wanted = config.tag_word()?;
        let pool = new_pool(&config, earlier)?;
        health.recorder_mode = config.recorder.mode;
        health.counter_clock = clock::uses_counter();
        let mut capture = Self {
            config,
            pool,
            hooks,
            drain: None,
            watch: None,
            tags,
            health,
            running: true,
            is_driven,
        };
        if capture.config.recorder.mode == Mode::Endless {
            capture.start_streaming()?;
        }
        if records {
            session::open(&raw const *capture.pool, deadline_ns(&capture.config), &HOST);
        }
        let leaves_perfetto = capture.config.pass_on == PassOnSetting::Auto;
        if let Some(left) = capture.tags.force(wanted, leaves_perfetto) {
            section::note(&left.to_string());
        }
        set_ready(true);
        capture.note_hooks();
        capture.health = capture.health.with_tags(&capture.tags);
        capture.write_meta();
        if let (Some(directory), Some(to)) =
            (&capture.config.recorder.directory, &capture.config.recorder.recover_to)
        {
            recover::in_background(directory, to, &capture.config.text);
        }
        Ok(capture)
    }

    /// Takes what is hooked now into the health report.
    fn note_hooks(&mut self) {
        let records = self.config.recorder.mode != Mode::Systrace;
        if let Some(hooks) = self.hooks.as_ref().filter(|_| records) {
            hooks.report_to(&mut self.health);
        }
    }

    /// Looks at the tags; returns how often the system had reset them.
    fn watch_tags(&mut self) -> u64 {
        if self.config.recorder.mode != Mode::Systrace && session::current() == 0 {
            // Its time is over, or the process has forbidden the clock.
            self.tags.note_given_back();
            return 0;
        }
        let changes = self.tags.watch();
        for change in &changes {
            section::note(&change.to_string());
        }
        let is_reset = |change: &&TagChange| matches!(change, TagChange::Reset { .. });
        let resets = u64::try_from(changes.iter().filter(is_reset).count()).unwrap_or(u64::MAX);
        self.health.tag_resets += resets;
        resets
    }

    /// `true` when no writer is left in the recorder.
    fn stop(&mut self) -> bool {
        set_ready(false);
        self.tags.give_back();
        session::note_thread_names(&self.pool);
        let free = session::close(&self.pool);
        self.pool.note_stop(clock::boot_ns());
        self.note_hooks();
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
        // The threads are the parent's, and so is the lock on the file.
        std::mem::forget((self.drain.take(), self.watch.take()));
        self.pool.close_file();
        let Some(pool) = pool else {
            tag_words::give_words_back();
            self.running = false;
            return;
        };
        self.pool = pool;
        set_ready(true);
        self.health.pid = std::process::id();
        self.health.parent = std::os::unix::process::parent_id();
        self.write_meta();
        session::open(&raw const *self.pool, session::deadline_ns(), &HOST);
    }
}

/// Makes what threads need to record. Fails where the process has too few pthread keys left.
pub(crate) fn prepare_threads() -> Result<(), Error> {
    thread::prepare().map_err(|errno| Error::Io {
        what: "have enough",
        path: PathBuf::from("pthread keys"),
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
    Ok(Box::new(Pool::create(&shape)?))
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
        // SAFETY: handlers of the right type. When they cannot be registered (no memory), a forked
        // child of a file recorder shares its parent's blocks until it execs.
        unsafe {
            libc::pthread_atfork(
                Some(watch::before_fork),
                Some(watch::after_fork_in_parent),
                Some(after_fork_in_child),
            )
        };
    });
}

extern "C" fn after_fork_in_child() {
    session::forget_after_fork();
    set_ready(false);
    watch::forget_after_fork();
    let errno = tracetee_recorder::errno::Saved::now();
    let done = std::panic::catch_unwind(|| {
        crate::controller::forget_after_fork();
        let mut slot = match slot().try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread was starting or stopping a capture when this one forked: stay off.
            Err(TryLockError::WouldBlock) => {
                SLOT.fetch_add(1, Ordering::Relaxed);
                return tag_words::give_words_back();
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
