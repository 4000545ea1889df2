//! A capture from its start to its stop: recorder, hooks, tags and streaming.
//!
//! Called under the lock of [`super::slot`], which decides who may start or stop it.

use super::hooked::Hooks;
use super::memory::{choose_clock, deadline_ns, expand, new_pool, prepare_threads};
use super::{Lend, Owner};
use crate::android::system_trace;
use crate::error::Error;
use crate::event::Event;
use crate::health_report;
use crate::host::HOST;
use crate::recover;
use crate::section::{self, set_ready};
use crate::streaming::Drain;
use crate::tags::{TagChange, Tags};
use std::path::Path;
use std::sync::Arc;
use tracetee_hooks::Registry;
use tracetee_os::guard;
use tracetee_protocol::capture_config::Config;
use tracetee_protocol::categories::tag_word;
use tracetee_protocol::health::{Health, TagGap};
use tracetee_protocol::json;
use tracetee_protocol::notes;
use tracetee_protocol::recording::PassOnSetting;
use tracetee_recorder::layout::Mode;
use tracetee_recorder::pool::Pool;
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::{clock, session};
use tracetee_tee::{marker_fd, tag_words};
use tracetee_text::{self as text, About, Summary, TextOptions};

/// Maximum number of times without tags in the health report.
const MAX_GAPS: usize = 8;

/// A capture, running or stopped.
#[derive(Debug)]
pub(super) struct Capture {
    config: Config,
    owner: Owner,
    pool: Box<Pool>,
    hooks: Option<Hooks>,
    drain: Option<Drain>,
    tags: Tags,
    health: Health,
    running: bool,
    /// It is not decided yet whether its records may be kept.
    is_early: bool,
    /// An anchor of the clock from before the recording.
    earlier: clock::Anchor,
}

/// The start was not completed, because the agent was switched off meanwhile.
const NOT_STARTED: Error = Error::State("the agent failed because of an internal error");

impl Capture {
    /// Starts recording. `kept`: hooks that an earlier capture left in place.
    pub(super) fn start(
        config: Config,
        kept: Option<Hooks>,
        owner: Owner,
        lend: Lend<'_>,
    ) -> Result<Self, Error> {
        let mut capture = Self::prepare(config, owner)?;
        // Takes some milliseconds, which the waiting thread would otherwise spend.
        session::register(&HOST);
        let is_endless = capture.config.recorder.mode == Mode::Endless;
        let (mut kept, mut started) = (kept, Err(NOT_STARTED));
        lend(&mut || {
            started = capture.hook(kept.take());
            if started.is_ok() && !is_endless {
                started = capture.open();
            }
        });
        if started.is_ok() && is_endless {
            started = capture.start_streaming().and_then(|()| capture.open());
        }
        if let Err(error) = started {
            if let Some(path) = capture.pool.path() {
                let _ = std::fs::remove_file(path);
            }
            return Err(error);
        }
        if let (Some(directory), Some(to)) =
            (&capture.config.recorder.directory, &capture.config.recorder.recover_to)
        {
            recover::in_background(directory, to, &capture.config.text);
        }
        Ok(capture)
    }

    /// Starts to record the app's own sections, without hooks, tags, files and waits. It is decided later whether its
    /// records may be kept.
    pub(super) fn start_early(config: Config) -> Result<Self, Error> {
        let mut capture = Self::prepare(config, Owner::Controller)?;
        capture.is_early = true;
        session::count_frames(capture.config.frame_counters);
        session::open_at_once(&raw const *capture.pool, u64::MAX, &HOST);
        capture.make_ready();
        Ok(capture)
    }

    /// Adds hooks and tags to a recording that has begun early.
    pub(super) fn join_hooks(
        &mut self,
        config: Config,
        kept: Option<Hooks>,
        lend: Lend<'_>,
    ) -> Result<(), Error> {
        self.config = config;
        session::count_frames(self.config.frame_counters);
        session::stop_fencing();
        let (mut kept, mut joined) = (kept, Err(NOT_STARTED));
        lend(&mut || {
            joined = self.hook(kept.take()).and_then(|()| {
                self.choose_clock();
                self.force_tags()
            });
        });
        joined
    }

    /// Turns the recording that began early into that of `config`, if they are of the same kind; `false` if not.
    pub(super) fn adopt(&mut self, config: &Config, lend: Lend<'_>) -> Result<bool, Error> {
        let own = &self.config;
        let is_alike = self.is_early
            && config.recorder == own.recorder
            && config.output.is_none()
            && config.duration_ms.is_none();
        let is_hooked_alike = config.tags == own.tags
            && config.pass_on == own.pass_on
            && config.fast_path == own.fast_path;
        if !is_alike || self.hooks.is_some() && !is_hooked_alike {
            return Ok(false);
        }
        if self.hooks.is_some() {
            self.config = config.clone();
            session::count_frames(self.config.frame_counters);
        } else {
            self.join_hooks(config.clone(), None, lend)?;
        }
        self.is_early = false;
        Ok(true)
    }

    /// True while it is not decided whether its records may be kept.
    pub(super) const fn is_early(&self) -> bool {
        self.is_early
    }

    /// True if the recorder is one for `config`.
    pub(super) fn has_recorder_for(&self, config: &Config) -> bool {
        self.config.recorder == config.recorder
    }

    /// Makes the recorder, which carries boot time until the clock is chosen.
    fn prepare(config: Config, owner: Owner) -> Result<Self, Error> {
        if !clock::is_allowed() {
            return Err(Error::State("the process forbids reading the clock (prctl PR_SET_TSC)"));
        }
        let earlier = clock::first_anchor();
        prepare_threads()?;
        set_ready(false);
        let pool = new_pool(&config, clock::choose_boot())?;
        let mut health = health_report::of_this_process();
        health.recorder_mode = config.recorder.mode;
        Ok(Self {
            config,
            owner,
            pool,
            earlier,
            hooks: None,
            drain: None,
            tags: Tags::none(),
            health,
            running: true,
            is_early: false,
        })
    }

    /// Puts the hooks in place. Mode systrace hooks nothing: the records go where libcutils writes them.
    fn hook(&mut self, kept: Option<Hooks>) -> Result<(), Error> {
        marker_fd::learn();
        self.tags = Tags::find().unwrap_or_else(|error| {
            self.health.atrace_missing = Some(error.to_string());
            Tags::none()
        });
        tag_words::set_passing(self.config.pass_on.into(), self.tags.of_the_system());
        self.hooks = match self.config.recorder.mode {
            Mode::Systrace => kept,
            _ => Some(Hooks::install(kept, self.config.fast_path)?),
        };
        Ok(())
    }

    /// Chooses the clock; usually the time that this needs has already passed.
    fn choose_clock(&mut self) {
        if let Some(anchors) = choose_clock(&self.config, self.earlier) {
            self.pool.set_anchors(anchors);
        }
        self.health.counter_clock = clock::uses_counter();
    }

    fn open(&mut self) -> Result<(), Error> {
        self.choose_clock();
        if self.config.recorder.mode != Mode::Systrace {
            session::count_frames(self.config.frame_counters);
            session::open(&raw const *self.pool, deadline_ns(&self.config), &HOST);
        }
        self.force_tags()
    }

    fn force_tags(&mut self) -> Result<(), Error> {
        let wanted =
            tag_word(&self.config.tags).map_err(|reason| json::Error::new("tags", reason))?;
        let leaves_perfetto = self.config.pass_on == PassOnSetting::Auto;
        if let Some(left) = self.tags.force(wanted, leaves_perfetto) {
            section::note(&left.to_string());
        }
        self.make_ready();
        self.note_hooks();
        self.health = health_report::with_tags(&self.health, &self.tags);
        self.write_meta();
        Ok(())
    }

    fn make_ready(&self) {
        set_ready(true);
        if guard::must_undo() {
            set_ready(false);
            session::switch_off();
        }
    }

    /// Returns true if the process has tags that the system could reset.
    pub(super) fn has_tags(&self) -> bool {
        self.tags.has_copies()
    }

    /// Notes why the tags are not watched.
    pub(super) fn note_unwatched(&mut self, why: &std::io::Error) {
        self.health.tags_unwatched = Some(why.to_string());
    }

    /// Stops recording and waits for the writers; a controller's hooks are returned, others are removed.
    ///
    /// Fails if the rest of a streamed trace could not be written; the capture has then stopped.
    pub(super) fn stop(&mut self) -> (Option<Hooks>, Result<(), Error>) {
        let is_free = self.end_session();
        let hooks = match self.owner {
            Owner::Controller => self.hooks.take(),
            Owner::Manual => {
                if let Some(hooks) = self.hooks.take() {
                    hooks.uninstall(&mut self.health);
                }
                None
            }
        };
        let streamed = self.finish_streaming();
        self.keep_if_used(is_free);
        (hooks, streamed)
    }

    /// At the exit of a preloaded process: notes names, and writes the trace if there is an output.
    pub(super) fn exit(&mut self) -> Result<(), Error> {
        session::note_thread_names(&self.pool);
        let is_endless = self.config.recorder.mode == Mode::Endless;
        let output = self.config.output.as_deref().map(expand);
        if output.is_none() && !is_endless {
            // `tracetee run` reads the file; other threads may continue until the very end.
            self.pool.note_stop(clock::boot_ns());
            return Ok(());
        }
        let is_free = self.end_session();
        let result = match output {
            Some(path) if !is_endless => {
                let pools = [PoolReader::of(&self.pool)];
                text::write_trace(&pools, &self.config.text, &path).map(drop).map_err(Error::from)
            }
            _ => self.finish_streaming(),
        };
        self.keep_if_used(is_free);
        result
    }

    /// Writes the trace by its own configuration.
    pub(super) fn dump(&self, path: &Path) -> Result<Summary, Error> {
        match self.config.recorder.mode {
            Mode::Systrace => return Err(Error::State("mode systrace records nothing")),
            Mode::Endless => {
                return Err(Error::State(
                    "mode endless streams to its output; the file is complete after stop",
                ));
            }
            Mode::Startup | Mode::Ring => {}
        }
        self.write(path, &self.config.text, &About::default())
    }

    /// Writes the trace according to `options`. A streamed trace already exists.
    pub(super) fn write(
        &self,
        path: &Path,
        options: &TextOptions,
        about: &About<'_>,
    ) -> Result<Summary, Error> {
        if let Some(drain) = &self.drain {
            return Ok(drain.summary());
        }
        if self.running {
            session::note_thread_names(&self.pool);
        }
        Ok(text::write(&[PoolReader::of(&self.pool)], options, path, about)?)
    }

    /// Counts the records so far.
    pub(super) fn summary(&self) -> Summary {
        match &self.drain {
            Some(drain) => drain.summary(),
            None => text::summarize(&[PoolReader::of(&self.pool)], &self.config.text),
        }
    }

    /// Counts the losses of threads that had no place to count them in.
    pub(super) fn place_losses(&self) {
        session::place_losses(&self.pool);
    }

    /// Reads the pool.
    pub(super) fn look(&self, look: impl FnOnce(&PoolReader<'_>)) {
        self.place_losses();
        look(&PoolReader::of(&self.pool));
    }

    /// Checks the tags, and forces them again where the system has reset them; each reset becomes a
    /// note in the trace, and a section as long as sections may be missing. Returns how many there were.
    pub(super) fn watch_tags(&mut self) -> u64 {
        if self.config.recorder.mode != Mode::Systrace && session::current() == 0 {
            // The capture has reached its time limit, or the process has forbidden the clock.
            self.tags.note_given_back();
            return 0;
        }
        let changes = self.tags.watch();
        for change in &changes {
            section::note(&change.to_string());
            if let TagChange::Reset { to, from_ns, to_ns } = *change {
                self.note_gap(to, from_ns, to_ns);
            }
        }
        let is_reset = |change: &&TagChange| matches!(change, TagChange::Reset { .. });
        let resets = u64::try_from(changes.iter().filter(is_reset).count()).unwrap_or(u64::MAX);
        self.health.tag_resets += resets;
        resets
    }

    /// Notes the period in which the system had set the tags, and for which trace.
    fn note_gap(&mut self, tags: u64, from_ns: u64, to_ns: u64) {
        let session = system_trace::describe(tags);
        let args = [("session", (&*session).into())];
        Event::new(notes::TAGS_TAKEN).args(&args).complete(from_ns, to_ns);
        let gaps = &mut self.health.tag_gaps;
        if gaps.len() >= MAX_GAPS {
            gaps.remove(0);
        }
        gaps.push(TagGap { from_ns, to_ns, session });
    }

    /// The health report, with hooks and tags as they are now.
    pub(super) fn health(&mut self) -> Health {
        self.note_hooks();
        health_report::with_tags(&self.health, &self.tags)
    }

    /// The registry of the running capture's hooks, if this process installed them.
    pub(super) fn registry(&self) -> Option<Arc<Registry>> {
        self.hooks.as_ref().filter(|_| self.running)?.registry()
    }

    pub(super) fn note_hook_trouble(&mut self, trouble: String) {
        if let Some(hooks) = &mut self.hooks {
            hooks.note_trouble(trouble);
        }
    }

    /// Ends a stopped capture. The controller has written what its file held, so the file goes.
    pub(super) fn close(self) -> (Health, Tags) {
        if self.owner == Owner::Controller
            && let Some(path) = self.pool.path()
        {
            let _ = std::fs::remove_file(path);
        }
        (self.health, self.tags)
    }

    pub(super) const fn owner(&self) -> Owner {
        self.owner
    }

    pub(super) const fn is_running(&self) -> bool {
        self.running
    }

    /// In a forked child: recording continues into a file of the child's own, or stops.
    pub(super) fn continue_in_child(&mut self) {
        let goes_on = self.running
            && self.owner == Owner::Manual
            && self.config.recorder.mode != Mode::Endless
            && self.config.recorder.directory.is_some();
        let anchors = goes_on.then(|| choose_clock(&self.config, clock::first_anchor())).flatten();
        let pool = if goes_on { new_pool(&self.config, anchors).ok() } else { None };
        // The thread is the parent's, and so is the lock on the file.
        std::mem::forget(self.drain.take());
        self.pool.close_file();
        let Some(pool) = pool else {
            tag_words::give_words_back();
            self.running = false;
            return;
        };
        self.pool = pool;
        section::set_ready_quietly(true);
        self.health.pid = std::process::id();
        self.health.parent = std::os::unix::process::parent_id();
        self.write_meta();
        session::open(&raw const *self.pool, session::deadline_ns(), &HOST);
    }

    /// Ends the session and restores the tags. Returns `true` when no writer is left inside.
    fn end_session(&mut self) -> bool {
        set_ready(false);
        self.tags.give_back();
        session::note_thread_names(&self.pool);
        let is_free = session::close(&self.pool);
        self.pool.note_stop(clock::boot_ns());
        self.note_hooks();
        self.health.frames_uncounted += u64::from(session::take_uncounted());
        self.running = false;
        is_free
    }

    /// Puts the libraries that are hooked now into the health report.
    fn note_hooks(&mut self) {
        let records = self.config.recorder.mode != Mode::Systrace;
        if let Some(hooks) = self.hooks.as_ref().filter(|_| records) {
            hooks.report_to(&mut self.health);
        }
    }

    /// Mode endless: starts the thread that streams.
    fn start_streaming(&mut self) -> Result<(), Error> {
        let Some(output) = &self.config.output else { return Ok(()) };
        let path = expand(output);
        self.health.streaming_to = Some(path.clone());
        // Recovery reads this after a SIGKILL.
        self.write_meta();
        self.drain = Some(Drain::start(&self.pool, &path, &self.config)?);
        Ok(())
    }

    /// Mode endless, after the last writer: streams the rest and gives the trace its name.
    fn finish_streaming(&mut self) -> Result<(), Error> {
        let Some(drain) = &mut self.drain else { return Ok(()) };
        drain.finish()?;
        // The trace has every record.
        if let Some(path) = self.pool.path() {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// Keeps the pool mapped for the rest of the process, because a writer is stuck inside (for example a
    /// stopped thread), and continues to read from it.
    fn keep_if_used(&mut self, is_free: bool) {
        if !is_free {
            let alias = Box::new(self.pool.alias());
            std::mem::forget(std::mem::replace(&mut self.pool, alias));
        }
    }

    /// Writes the health report and the process into the pool, without the libraries: its room there is small,
    /// and a reader needs it whole.
    fn write_meta(&self) {
        let health = Health { libraries: Vec::new(), ..self.health.clone() };
        self.pool.set_meta(&recover::with_run(health.to_json()));
    }
}
