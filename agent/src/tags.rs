//! Forces libcutils' tags on at the start of a capture, and restores them at its end.
//!
//! Order matters. libcutils must have been initialised first, or its first event overwrites a forced tag; from API 30 the
//! *second* initialising call re-reads the property once, so it is called twice. At the end `atrace_update_tags` restores
//! the system's current value, which may differ from that at the start.
//!
//! Called under the capture's lock: at its start and end, and four times a second in between (on
//! the agent's thread, or that of `capture::tag_watch`), since the system resets the tags whenever a
//! trace begins or ends.

use crate::android::perfetto::{self, Perfetto};
use crate::android::properties;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use tracetee_hooks::atrace::{Atrace, FoundBy};
use tracetee_os::guard;
use tracetee_protocol::health::{PerfettoReport, TagReport};
use tracetee_protocol::notes;
use tracetee_recorder::clock;
use tracetee_tee::tag_words::{self, IDLE_TAGS};

/// Refreshes the word's copy (Java's); called when the word was changed here.
static ON_CHANGE: OnceLock<fn(u64)> = OnceLock::new();

/// Registers `call` for each new value of libcutils' word, on the thread that changes it.
#[cfg(feature = "jni")]
pub(crate) fn on_change(call: fn(u64)) {
    let _ = ON_CHANGE.set(call);
}

/// The copies of libcutils whose tags a capture has forced.
#[derive(Debug)]
pub(crate) struct Tags {
    copies: Vec<Copy>,
    wanted: u64,
    /// Sessions of Perfetto's SDK, which take precedence.
    perfetto: Option<Perfetto>,
    /// The tags of `wanted` that are left to such a session.
    left: u64,
    /// Boot time of the last check at which the tags were ours.
    seen_ns: u64,
    /// The copy of the word is refreshed once more at the next check: Java may have read the
    /// system's value before the last refresh, and stored it after.
    is_stale: bool,
}

/// Result of a check of the tags that has undone a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagChange {
    /// The system has set the tags to this word between these boot times, ns; at the second they are forced again.
    Reset { to: u64, from_ns: u64, to_ns: u64 },
    /// Sessions of Perfetto's SDK have begun or ended: these tags are left to them from now on.
    Left { tags: u64, before: u64 },
}

impl fmt::Display for TagChange {
    /// Writes the note for the trace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(notes::PREFIX)?;
        match *self {
            Self::Reset { to, from_ns, to_ns } => write!(
                f,
                "the system set the tags to {to:#x} within the last {} ms; \
                 sections since may be missing, they are forced again",
                to_ns.saturating_sub(from_ns) / 1_000_000
            ),
            Self::Left { tags: 0, before } => write!(
                f,
                "the Perfetto session that tags {before:#x} were left to has ended; they \
                 are forced again"
            ),
            Self::Left { tags, .. } => write!(
                f,
                "tags {tags:#x} are left to a Perfetto session that takes them from the \
                 app by its SDK; their sections are not in this trace"
            ),
        }
    }
}

/// One copy, and its tag word before and while it was forced.
#[derive(Debug)]
pub(crate) struct Copy {
    atrace: Atrace,
    before: u64,
    forced: u64,
}

impl Copy {
    /// The word with the system's tags and those of `wanted`.
    const fn with(system: u64, wanted: u64) -> u64 {
        (system & !(1 << 63)) | wanted | 1
    }
}

impl Tags {
    /// Finds every libcutils and initialises it, so that its current tags are known.
    pub(crate) fn find() -> Result<Self, tracetee_hooks::Error> {
        let copies: Vec<_> = tracetee_hooks::atrace::find()?
            .into_iter()
            .map(|atrace| Copy { before: initialise(&atrace), atrace, forced: 0 })
            .collect();
        Ok(Self::of(copies))
    }

    /// Makes tags without a libcutils: plain Linux.
    pub(crate) fn none() -> Self {
        Self::of(Vec::new())
    }

    fn of(copies: Vec<Copy>) -> Self {
        let atraces: Vec<_> = copies.iter().map(|copy| copy.atrace).collect();
        tag_words::set_copies(&atraces);
        Self { copies, wanted: 0, perfetto: None, left: 0, seen_ns: 0, is_stale: false }
    }

    /// True if there is a libcutils whose tags may be reset.
    pub(crate) const fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Tags set by a system trace: the values from before the agent forced them, and the property.
    pub(crate) fn of_the_system(&self) -> u64 {
        let before = self.copies.iter().fold(0, |tags, copy| tags | copy.before);
        (before | properties::system_tags().unwrap_or(0)) & !IDLE_TAGS
    }

    /// Adds `wanted` to every copy's tags. With `leaves_perfetto`, tags that this would take from a
    /// session of Perfetto's SDK are left to it, now and later; reports which, if any.
    pub(crate) fn force(&mut self, wanted: u64, leaves_perfetto: bool) -> Option<TagChange> {
        self.wanted = wanted;
        self.perfetto = if leaves_perfetto && self.has_copies() { Perfetto::find() } else { None };
        self.left = self.diverted();
        for (index, copy) in self.copies.iter_mut().enumerate() {
            copy.forced = Copy::with(copy.before, wanted & !self.left);
            tag_words::set_forced(index, copy.before, copy.forced);
            // ORDERING: Relaxed, as libcutils itself reads and writes it.
            copy.atrace.tags.store(copy.forced, Ordering::Relaxed);
        }
        undo_after_panic();
        self.seen_ns = clock::boot_ns();
        self.publish();
        (self.left != 0).then_some(TagChange::Left { tags: self.left, before: 0 })
    }

    /// Returns the wanted tags that the system has not set, and that would be diverted from a session of Perfetto's SDK.
    fn diverted(&self) -> u64 {
        let (Some(perfetto), Some(copy)) = (self.perfetto, self.copies.first()) else { return 0 };
        // ORDERING: Relaxed, as libcutils itself reads and writes it.
        let now = copy.atrace.tags.load(Ordering::Relaxed);
        let system = if now == copy.forced { copy.before } else { now };
        perfetto.diverted(self.wanted & !system, now)
    }

    /// Refreshes the copy of the word.
    fn publish(&self) {
        if let (Some(call), Some(copy)) = (ON_CHANGE.get(), self.copies.first()) {
            // ORDERING: Relaxed, as libcutils itself reads and writes it.
            call(copy.atrace.tags.load(Ordering::Relaxed));
        }
    }

    /// Forces the tags again if the system has replaced them, because it began or ended a trace. A trace that it began still
    /// gets the records: the new word contains both.
    pub(crate) fn watch(&mut self) -> Vec<TagChange> {
        let mut changes = Vec::new();
        let left = self.diverted();
        if left != self.left {
            changes.push(TagChange::Left { tags: left, before: self.left });
            self.left = left;
        }
        let now_ns = clock::boot_ns();
        let from_ns = self.seen_ns;
        for (index, copy) in self.copies.iter_mut().enumerate() {
            // ORDERING: Relaxed, as libcutils itself reads and writes it.
            let now = copy.atrace.tags.load(Ordering::Relaxed);
            let was_reset = now != copy.forced;
            let before = if was_reset { now } else { copy.before };
            let forced = Copy::with(before, self.wanted & !left);
            if copy.forced == 0 || now == forced {
                continue;
            }
            if was_reset {
                // Before the agent forces the word again, so that a system trace that has begun misses no record.
                tag_words::add_system_tags(now);
            }
            tag_words::set_forced(index, before, forced);
            // A change by others at this moment wins, and the next check sees it.
            let changed = copy.atrace.tags.compare_exchange(
                now,
                forced,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if changed.is_err() {
                tag_words::set_forced(index, copy.before, copy.forced);
                continue;
            }
            (copy.before, copy.forced) = (before, forced);
            if was_reset {
                changes.push(TagChange::Reset { to: now, from_ns, to_ns: now_ns });
            }
        }
        undo_after_panic();
        self.seen_ns = now_ns;
        // Also if the system has set exactly the forced tags.
        tag_words::set_system_tags(self.of_the_system());
        if std::mem::replace(&mut self.is_stale, !changes.is_empty()) || !changes.is_empty() {
            self.publish();
        }
        changes
    }

    /// Refreshes the copy of the word after a thread of the app has ended the capture and given the
    /// words back.
    pub(crate) fn note_given_back(&mut self) {
        tag_words::give_words_back();
        if self.copies.iter().any(|copy| copy.forced != 0) {
            self.forget_forced();
        }
    }

    fn forget_forced(&mut self) {
        for (index, copy) in self.copies.iter_mut().enumerate() {
            copy.forced = 0;
            tag_words::set_forced(index, copy.before, 0);
        }
        self.left = 0;
        self.publish();
    }

    /// Gives every copy the system's value back.
    pub(crate) fn give_back(&mut self) {
        for copy in &mut self.copies {
            if let Some(update) = copy.atrace.update_tags {
                // SAFETY: libcutils' own function, without arguments, callable at any time.
                unsafe { update() };
            }
        }
        if self.copies.is_empty() {
            return;
        }
        // If there is no such function, or it does nothing (libcutils on Linux), the word still
        // holds the forced tags. If the system has requested exactly these tags, they stay set.
        let system = properties::system_tags().map(|tags| tags | 1);
        if self.copies.iter().any(|copy| Some(copy.forced) != system) {
            tag_words::give_words_back();
        }
        self.forget_forced();
    }

    /// Reports sessions of Perfetto's SDK; `None` if forced tags take nothing from them.
    pub(crate) fn perfetto_report(&self) -> Option<PerfettoReport> {
        self.perfetto?;
        Some(PerfettoReport {
            tags_left: format!("{:#x}", self.left),
            prefer_sdk: format!("{:#x}", perfetto::preferred()),
        })
    }

    /// Reports each copy of libcutils, for the health report.
    pub(crate) fn report(&self) -> Vec<TagReport> {
        self.copies
            .iter()
            .map(|copy| TagReport {
                found_by: match copy.atrace.found_by {
                    FoundBy::MainProgram => "main program".to_owned(),
                    FoundBy::Library(name) => name.to_owned(),
                    FoundBy::SymbolTable => "symbol table".to_owned(),
                },
                tags_before: format!("{:#x}", copy.before),
                tags_forced: format!("{:#x}", copy.forced),
                tags_now: format!("{:#x}", copy.atrace.tags.load(Ordering::Relaxed)),
                marker_fd: copy.atrace.marker_fd.load(Ordering::Relaxed),
            })
            .collect()
    }
}

/// Gives the words back that were forced after a panic on another thread had given them back.
fn undo_after_panic() {
    if guard::must_undo() {
        tag_words::give_words_back();
    }
}

/// Restores the system's current value in every copy of libcutils, after a panic: by then the forced words have their former
/// values.
pub(crate) fn give_back_after_panic() {
    let copies = tracetee_hooks::atrace::find().unwrap_or_default();
    for update in copies.iter().filter_map(|copy| copy.update_tags) {
        // SAFETY: libcutils' own function, without arguments, callable at any time.
        unsafe { update() };
    }
    if let (Some(call), Some(copy)) = (ON_CHANGE.get(), copies.first()) {
        // ORDERING: Relaxed, as libcutils itself reads and writes it.
        call(copy.tags.load(Ordering::Relaxed));
    }
}

fn initialise(atrace: &Atrace) -> u64 {
    for _ in 0..2 {
        if let Some(get) = atrace.get_enabled_tags {
            // SAFETY: libcutils' own function, without arguments, callable at any time.
            unsafe { get() };
        } else if let Some(setup) = atrace.setup {
            // SAFETY: as above.
            unsafe { setup() };
        }
    }
    atrace.tags.load(Ordering::Relaxed)
}
