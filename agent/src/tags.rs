//! Forces libcutils' tags on at the start of a capture, and gives them back at its end.
//!
//! Order matters. libcutils must have been initialised first, or its first event overwrites a
//! forced tag; from API 30 the *second* initialising call re-reads the property once, so it is
//! called twice. At the end `atrace_update_tags` brings back the system's present value, which
//! may be another one than at the start.

use crate::live::{self, IDLE_TAGS};
use crate::{error::Error, properties};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use tracetee_hooks::atrace::{Atrace, FoundBy};

/// Tag names and their bits (`atrace --list_categories`, and `app`, which atrace sets by `-a`).
pub const CATEGORIES: [(&str, u32); 27] = [
    ("gfx", 1),
    ("input", 2),
    ("view", 3),
    ("webview", 4),
    ("wm", 5),
    ("am", 6),
    ("sm", 7),
    ("audio", 8),
    ("video", 9),
    ("camera", 10),
    ("hal", 11),
    ("app", 12),
    ("res", 13),
    ("dalvik", 14),
    ("rs", 15),
    ("bionic", 16),
    ("power", 17),
    ("pm", 18),
    ("ss", 19),
    ("database", 20),
    ("network", 21),
    ("adb", 22),
    ("vibrator", 23),
    ("aidl", 24),
    ("nnapi", 25),
    ("rro", 26),
    ("thermal", 27),
];

/// The ALWAYS bit, and every category.
pub const ALL_TAGS: u64 = (1 << 28) - 1;

/// The tag word for category names; `all` stands for all of them.
///
/// # Errors
/// [`Error::Config`] that names the unknown category.
pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<u64, Error> {
    let mut tags = 1;
    for name in names {
        tags |= match CATEGORIES.iter().find(|(known, _)| *known == name) {
            Some((_, bit)) => 1 << bit,
            None if name == "all" => ALL_TAGS,
            None => {
                let known: Vec<_> = CATEGORIES.iter().map(|(name, _)| *name).collect();
                let reason =
                    format!("unknown category {name:?}; known are all, {}", known.join(", "));
                return Err(Error::Config { field: "tags", reason });
            }
        };
    }
    Ok(tags)
}

/// Who keeps a copy of the word: called when it was forced or given back.
static ON_CHANGE: OnceLock<fn(u64)> = OnceLock::new();

/// From now on `call` is told each new value of libcutils' word, on the thread that changes it.
#[cfg(feature = "jni")]
pub(crate) fn on_change(call: fn(u64)) {
    let _ = ON_CHANGE.set(call);
}

/// The copies of libcutils whose tags a capture has forced.
#[derive(Debug)]
pub(crate) struct Tags {
    copies: Vec<Copy>,
    wanted: u64,
}

/// The system has reset the tags to this word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagReset {
    pub(crate) to: u64,
}

/// One copy, and its tag word before and while it was forced.
#[derive(Debug)]
pub(crate) struct Copy {
    atrace: Atrace,
    before: u64,
    forced: u64,
}

impl Tags {
    /// Finds every libcutils and initialises it, so that its present tags are known.
    pub(crate) fn find() -> Result<Self, tracetee_hooks::Error> {
        let copies: Vec<_> = tracetee_hooks::atrace::find()?
            .into_iter()
            .map(|atrace| Copy { before: initialise(&atrace), atrace, forced: 0 })
            .collect();
        let atraces: Vec<_> = copies.iter().map(|copy| copy.atrace).collect();
        live::set_copies(&atraces);
        Ok(Self { copies, wanted: 0 })
    }

    /// None: plain Linux.
    pub(crate) fn none() -> Self {
        live::set_copies(&[]);
        Self { copies: Vec::new(), wanted: 0 }
    }

    /// Tags that a system trace has set of its own: the values before forcing, and the property.
    pub(crate) fn of_the_system(&self) -> u64 {
        let before = self.copies.iter().fold(0, |tags, copy| tags | copy.before);
        (before | properties::system_tags().unwrap_or(0)) & !IDLE_TAGS
    }

    /// Adds `wanted` to every copy's tags.
    pub(crate) fn force(&mut self, wanted: u64) {
        self.wanted = wanted;
        for (index, copy) in self.copies.iter_mut().enumerate() {
            copy.forced = (copy.before & !(1 << 63)) | wanted | 1;
            live::set_forced(index, copy.before, copy.forced);
            // ORDERING: Relaxed, as libcutils itself reads and writes it.
            copy.atrace.tags.store(copy.forced, Ordering::Relaxed);
        }
        self.tell();
    }

    /// Tells who keeps a copy of the word.
    fn tell(&self) {
        if let (Some(call), Some(copy)) = (ON_CHANGE.get(), self.copies.first()) {
            // ORDERING: Relaxed, as libcutils itself reads and writes it.
            call(copy.atrace.tags.load(Ordering::Relaxed));
        }
    }

    /// Forces the tags again where the system has put its own in their place, since it began or
    /// ended a trace. A trace that it began goes on to get the records: the new word holds both.
    pub(crate) fn watch(&mut self) -> Vec<TagReset> {
        let mut resets = Vec::new();
        for (index, copy) in self.copies.iter_mut().enumerate() {
            // ORDERING: Relaxed, as libcutils itself reads and writes it.
            let now = copy.atrace.tags.load(Ordering::Relaxed);
            if copy.forced == 0 || now == copy.forced {
                continue;
            }
            let forced = (now & !(1 << 63)) | self.wanted | 1;
            // Before the word is ours again: a trace that has begun misses nothing.
            live::add_system_tags(now);
            live::set_forced(index, now, forced);
            // Whoever changes it in this moment wins, and is seen the next time.
            let put = copy.atrace.tags.compare_exchange(
                now,
                forced,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if put.is_err() {
                live::set_forced(index, copy.before, copy.forced);
                continue;
            }
            (copy.before, copy.forced) = (now, forced);
            resets.push(TagReset { to: now });
        }
        if !resets.is_empty() {
            live::set_system_tags(self.of_the_system());
            self.tell();
        }
        resets
    }

    /// Gives every copy the system's value back.
    pub(crate) fn give_back(&mut self) {
        for copy in &mut self.copies {
            if let Some(update) = copy.atrace.update_tags {
                // SAFETY: libcutils' own function, without arguments, callable at any time.
                unsafe { update() };
            }
        }
        // Where there is no such function, or it does nothing (libcutils on Linux), the word still
        // holds what was forced. A system that asks for exactly these tags finds them again.
        let system = properties::system_tags().map(|tags| tags | 1);
        if self.copies.iter().any(|copy| Some(copy.forced) != system) {
            live::give_words_back();
        }
        for (index, copy) in self.copies.iter_mut().enumerate() {
            copy.forced = 0;
            live::set_forced(index, copy.before, 0);
        }
        self.tell();
    }

    /// What is known of each copy, for the health report.
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

/// One libcutils in the report. Tag words are hexadecimal texts.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct TagReport {
    /// Where its variables were found.
    pub found_by: String,
    /// The tag word before it was forced.
    pub tags_before: String,
    /// What it was forced to; 0x0 while it is not.
    pub tags_forced: String,
    /// The tag word at the time of the report.
    pub tags_now: String,
    /// libcutils' descriptor of the marker, −1 where it could not open it.
    pub marker_fd: i32,
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
