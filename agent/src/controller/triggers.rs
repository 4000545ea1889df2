//! Triggers: searches the records for the events that the armed windows wait for.
//!
//! Runs on the agent's thread, over what [`tracetee_recorder::tail`] shows. Sections are followed
//! by thread: a frame is judged when it ends, and a blocked main thread while it is blocked.

use super::glob::Glob;
use super::policy::Policy;
use super::trigger_pattern::{Pattern, is_of, nanos};
use tracetee_protocol::json::Decimal;
use tracetee_protocol::remote_config::{Opens, ThreadChoice};
use tracetee_recorder::layout::Form;
use tracetee_recorder::record::Record;
use tracetee_recorder::rich::Rich;
use tracetee_recorder::stored::parse_stored;
use tracetee_recorder::tail::{Sight, Who};
use tracetee_text::redact::Redactor;

/// The beginning of the name of the main thread's part of a frame.
const FRAME: &[u8] = b"Choreographer#doFrame";

/// An event that an armed window waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Keep this span of boot time, ns.
    Fired { window: usize, why: String, from_ns: u64, to_ns: u64 },
    /// The section that closes the window ended.
    Ended { window: usize, at_ns: u64 },
}

/// Triggers of a window.
#[derive(Debug)]
struct Watch {
    window: usize,
    pattern: Pattern,
    before_ns: u64,
    after_ns: u64,
}

/// A section that is open.
#[derive(Debug)]
struct Open {
    begin_ns: u64,
    /// The main thread's part of a frame.
    is_frame: bool,
    /// The watches that are notified when it ends.
    watches: Vec<usize>,
}

/// A thread's open sections.
#[derive(Debug)]
struct Thread {
    who: Who,
    open: Vec<Open>,
}

/// The threads whose records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    all: bool,
    main_tid: Option<i32>,
}

impl Wanted {
    pub(crate) fn includes(&self, who: Who) -> bool {
        self.all || Some(who.tid) == self.main_tid
    }
}

/// All triggers of the armed windows.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    watches: Vec<Watch>,
    threads: Vec<Thread>,
    /// The last one used: records come grouped by thread.
    last: usize,
    main_tid: i32,
    /// The display's refresh period.
    pub(crate) period_ns: u64,
    /// The last time in which no thread of the process could run.
    pub(crate) still: (u64, u64),
    redactor: Option<Redactor>,
    findings: Vec<Finding>,
    /// Frames of the main thread since the last check, if they must be counted: end and duration, ns.
    pub(crate) frames: Option<Vec<(u64, u64)>>,
}

impl Triggers {
    /// Makes the triggers of the windows with these indices.
    pub(crate) fn new(
        policy: &Policy,
        windows: &[usize],
        main_tid: i32,
        redactor: Option<Redactor>,
    ) -> Self {
        let mut watches = Vec::new();
        for &window in windows {
            let Some(opens) = policy.window(window).map(|window| &window.opens) else { continue };
            let max_ns = policy.window(window).map_or(0, |window| nanos(window.max_s));
            match opens {
                Opens::Section(span) => {
                    let pattern =
                        Pattern::From { name: Glob::new(&span.from), thread: span.thread };
                    watches.push(Watch { window, pattern, before_ns: 0, after_ns: max_ns });
                    if let Some(until) = &span.until {
                        let pattern =
                            Pattern::Until { name: Glob::new(until), thread: span.thread };
                        watches.push(Watch { window, pattern, before_ns: 0, after_ns: 0 });
                    }
                }
                Opens::Triggers(triggers) => {
                    watches.extend(triggers.any.iter().map(|trigger| Watch {
                        window,
                        pattern: Pattern::from_trigger(trigger),
                        before_ns: nanos(triggers.before_s),
                        after_ns: nanos(triggers.after_s).min(max_ns),
                    }));
                }
                Opens::AppStart | Opens::Schedule(_) | Opens::Manual => {}
            }
        }
        let (threads, findings, still) = (Vec::new(), Vec::new(), (0, 0));
        let period_ns = super::process_signals::period_ns();
        let (last, frames) = (0, None);
        Self { watches, threads, last, main_tid, period_ns, still, redactor, findings, frames }
    }

    /// Returns the threads whose records matter.
    pub(crate) fn wanted(&self) -> Wanted {
        let thread_of = |watch: &Watch| match watch.pattern {
            Pattern::Begin { thread, .. }
            | Pattern::From { thread, .. }
            | Pattern::Until { thread, .. } => Some(thread),
            Pattern::Jank { .. } | Pattern::Blocked { .. } => Some(ThreadChoice::Main),
            Pattern::Custom(_) | Pattern::LowMemory(_) => None,
        };
        let threads: Vec<_> = self.watches.iter().filter_map(thread_of).collect();
        Wanted {
            all: threads.contains(&ThreadChoice::Any),
            main_tid: (!threads.is_empty() || self.frames.is_some()).then_some(self.main_tid),
        }
    }

    /// Drops the conditions of windows that are no longer armed.
    pub(crate) fn keep(&mut self, windows: &[usize]) {
        if self.watches.iter().all(|watch| windows.contains(&watch.window)) {
            return;
        }
        self.watches.retain(|watch| windows.contains(&watch.window));
        // Sections know their watches by index.
        self.threads.clear();
    }

    /// Returns the highest memory limit of all triggers, percent; 0 if no trigger has one.
    pub(crate) fn memory_limit(&self) -> Decimal {
        let limits = self.watches.iter().map(|watch| match watch.pattern {
            Pattern::LowMemory(percent) => percent,
            _ => Decimal::ZERO,
        });
        limits.fold(Decimal::ZERO, Decimal::max)
    }

    /// Takes the events found so far.
    pub(crate) fn take(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// Takes the next record of a thread.
    pub(crate) fn see(&mut self, who: Who, sight: Sight<'_>) {
        let Sight::Record(time_ns, form, bytes) = sight else {
            self.threads.retain(|thread| thread.who != who);
            return;
        };
        if form == Form::Rich
            && let Some(Rich::Complete(event)) = Rich::parse(bytes)
        {
            // A section that is over already.
            let (begin_ns, end_ns) = (event.begin_ns, event.end_ns.min(time_ns));
            self.begin(who, begin_ns.min(end_ns), event.name);
            self.end(who, begin_ns.max(end_ns).min(time_ns));
            return;
        }
        let mut scratch = Vec::new();
        // The process does not matter here.
        match parse_stored(form, bytes, 0, &mut scratch).map(|(record, _)| record) {
            Some(Record::Begin { name, .. }) => self.begin(who, time_ns, name),
            Some(Record::End { .. }) => self.end(who, time_ns),
            Some(Record::Instant { name, .. } | Record::TrackInstant { name, .. }) => {
                self.instant(who, time_ns, name);
            }
            _ => {}
        }
    }

    fn thread(&mut self, who: Who) -> &mut Thread {
        if self.threads.get(self.last).is_none_or(|thread| thread.who != who) {
            let known = self.threads.iter().position(|thread| thread.who == who);
            self.last = known.unwrap_or(self.threads.len());
            if known.is_none() {
                self.threads.push(Thread { who, open: Vec::new() });
            }
        }
        &mut self.threads[self.last]
    }

    fn begin(&mut self, who: Who, begin_ns: u64, name: &[u8]) {
        let mut watches = Vec::new();
        let is_main = who.tid == self.main_tid;
        for index in 0..self.watches.len() {
            match &self.watches[index].pattern {
                Pattern::Jank { section, .. } if is_main && section.matches(name) => {
                    watches.push(index)
                }
                Pattern::Until { name: glob, thread }
                    if is_of(*thread, is_main) && glob.matches(name) =>
                {
                    watches.push(index);
                }
                Pattern::Begin { name: glob, thread } | Pattern::From { name: glob, thread }
                    if is_of(*thread, is_main) && glob.matches(name) =>
                {
                    let why = format!("section {}", self.shown(name));
                    self.fire(index, why, begin_ns, begin_ns);
                }
                _ => {}
            }
        }
        let is_frame = is_main && self.frames.is_some() && name.starts_with(FRAME);
        self.thread(who).open.push(Open { begin_ns, is_frame, watches });
    }

    fn instant(&mut self, who: Who, time_ns: u64, name: &[u8]) {
        let is_main = who.tid == self.main_tid;
        for index in 0..self.watches.len() {
            let watch = &self.watches[index];
            match &watch.pattern {
                Pattern::Begin { name: glob, thread } | Pattern::From { name: glob, thread }
                    if is_of(*thread, is_main) && glob.matches(name) =>
                {
                    let why = format!("instant {}", self.shown(name));
                    self.fire(index, why, time_ns, time_ns);
                }
                Pattern::Until { name: glob, thread }
                    if is_of(*thread, is_main) && glob.matches(name) =>
                {
                    let window = watch.window;
                    self.findings.push(Finding::Ended { window, at_ns: time_ns });
                }
                _ => {}
            }
        }
    }

    fn end(&mut self, who: Who, end_ns: u64) {
        let Some(open) = self.thread(who).open.pop() else { return };
        if let Some(frames) = self.frames.as_mut().filter(|_| open.is_frame) {
            frames.push((end_ns, took_ns(self.still, open.begin_ns, end_ns)));
        }
        for index in open.watches {
            let Some(watch) = self.watches.get_mut(index) else { continue };
            match &mut watch.pattern {
                Pattern::Until { .. } => {
                    let window = watch.window;
                    self.findings.push(Finding::Ended { window, at_ns: end_ns });
                }
                Pattern::Jank { over, count, within_ns, past, .. } => {
                    let over_ns = over.ns(self.period_ns);
                    let took_ns = took_ns(self.still, open.begin_ns, end_ns);
                    if took_ns <= over_ns {
                        continue;
                    }
                    past.push_back((open.begin_ns, end_ns));
                    while past.len() > *count as usize
                        || past.front().is_some_and(|&(_, end)| end + *within_ns < end_ns)
                    {
                        past.pop_front();
                    }
                    if past.len() < *count as usize {
                        continue;
                    }
                    let limit = millis(over_ns);
                    let mut why = format!("jank: {} ms, over {limit} ms", millis(took_ns));
                    if *count > 1 {
                        why = format!("{why}, {count} of them");
                    }
                    let from_ns = past.front().map_or(open.begin_ns, |&(begin, _)| begin);
                    past.clear();
                    self.fire(index, why, from_ns, end_ns);
                }
                _ => {}
            }
        }
    }

    /// Takes the main thread's state; `silent_ns`: the time for which its loop has not answered.
    pub(crate) fn look_at_main_thread(&mut self, now_ns: u64, silent_ns: u64) {
        let main_tid = self.main_tid;
        let is_main = |thread: &&Thread| thread.who.tid == main_tid && thread.who.lane == 0;
        let first = self.threads.iter().find(is_main).and_then(|thread| thread.open.first());
        let in_section_ns = first.map_or(0, |first| now_ns.saturating_sub(first.begin_ns));
        // Whether it was blocked before the process stood still is not known: it answers when it runs again.
        let blocked_ns = silent_ns.max(in_section_ns).min(now_ns.saturating_sub(self.still.1));
        for index in 0..self.watches.len() {
            let Pattern::Blocked { over_ns, was_reported } = &mut self.watches[index].pattern
            else {
                continue;
            };
            let is_blocked = blocked_ns > *over_ns;
            if is_blocked && !std::mem::replace(was_reported, is_blocked) {
                let why = format!("main thread blocked for {} ms", millis(blocked_ns));
                self.fire(index, why, now_ns - blocked_ns, now_ns);
            } else {
                *was_reported = is_blocked;
            }
        }
    }

    /// Fires the custom triggers of that name.
    pub(crate) fn custom(&mut self, name: &str, now_ns: u64) {
        for index in 0..self.watches.len() {
            if matches!(&self.watches[index].pattern, Pattern::Custom(wanted) if wanted == name) {
                self.fire(index, format!("custom {name}"), now_ns, now_ns);
            }
        }
    }

    /// Takes the share of available memory, percent; 0 if the system has reported that it is low.
    pub(crate) fn memory(&mut self, available_percent: Decimal, now_ns: u64) {
        for index in 0..self.watches.len() {
            if matches!(self.watches[index].pattern, Pattern::LowMemory(limit)
                if available_percent < limit || available_percent <= Decimal::ZERO)
            {
                let why = if available_percent > Decimal::ZERO {
                    format!("low memory: {available_percent:.1} % available")
                } else {
                    "low memory: the system says so".to_owned()
                };
                self.fire(index, why, now_ns, now_ns);
            }
        }
    }

    fn fire(&mut self, watch: usize, why: String, from_ns: u64, to_ns: u64) {
        let Some(watch) = self.watches.get(watch) else { return };
        self.findings.push(Finding::Fired {
            window: watch.window,
            why,
            from_ns: from_ns.saturating_sub(watch.before_ns),
            to_ns: to_ns.saturating_add(watch.after_ns),
        });
    }

    /// A name in the form in which it may leave the process.
    fn shown(&mut self, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name).into_owned();
        match &mut self.redactor {
            Some(redactor) => redactor.thread_name(name),
            None => name,
        }
    }
}

/// Returns how long something took, without the time in which the process stood still.
fn took_ns(still: (u64, u64), begin_ns: u64, end_ns: u64) -> u64 {
    let still_ns = still.1.min(end_ns).saturating_sub(still.0.max(begin_ns));
    end_ns.saturating_sub(begin_ns).saturating_sub(still_ns)
}

/// Nanoseconds as milliseconds with a decimal.
fn millis(ns: u64) -> String {
    format!("{}.{}", ns / 1_000_000, ns / 100_000 % 10)
}

#[cfg(test)]
#[path = "triggers_tests.rs"]
mod tests;
