//! Ftrace text in the one form that Perfetto, catapult and systrace accept.

use crate::details::{Comments, Fractions};
use crate::kernel_text;
use crate::line::{NAMELESS, unscripted};
use crate::lossiness::Dropped;
use crate::perfetto::pid_of;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use tracetee_protocol::notes;
use tracetee_trace::text::{NO_NAME, is_task};
use tracetee_trace::{Async, Event, KernelEvent, NameId, Thread, Timeline, Trace, UNFINISHED};

pub(crate) fn write(
    trace: &Trace,
    fractions: Fractions,
    out: &mut impl Write,
    dropped: &mut Dropped,
) -> io::Result<()> {
    out.write_all(notes::HEADER.as_bytes())?;
    if !trace.about.is_empty() {
        writeln!(out, "{}{}", notes::COMMENT, trace.about.to_json())?;
    }
    let mut lines = Lines::for_trace(trace, fractions, dropped);
    let is_changed = |value: f64| fractions == Fractions::Rounded && value.fract() != 0.0;
    let changed = trace.counters.iter().filter(|one| is_changed(one.value)).count();
    dropped.add("fractions of counter values, rounded", changed as u64);
    let mut realtime = trace.realtime;
    let mut of_model = trace.kernel.iter().peekable();
    for (at_ns, event) in Timeline::new(trace) {
        while let Some(event) = of_model.next_if(|event| event.at_ns <= at_ns) {
            lines.kernel_event(out, event)?;
        }
        if let Some(wall) = realtime.take_if(|wall| wall.at_ns <= at_ns) {
            let key = lines.key_of(event);
            // The line is later than the note: so is the time of day.
            let ms = wall.unix_ns.saturating_add(at_ns - wall.at_ns) / 1_000_000;
            lines.line(out, key, at_ns, &format!("trace_event_clock_sync: realtime_ts={ms}"))?;
        }
        lines.event(out, at_ns, event)?;
    }
    for event in of_model {
        lines.kernel_event(out, event)?;
    }
    lines.comments.count_dropped(dropped);
    let is_nameless = |id: NameId| trace.names.text(id).trim_ascii().is_empty();
    let of_asyncs = trace.asyncs.iter().map(|one| (one.track, one.name));
    let of_instants = trace.instants.iter().map(|one| (one.track, one.name));
    let of_counters = trace.counters.iter().map(|one| (None, one.name));
    let labels = of_asyncs.chain(of_instants).chain(of_counters);
    let with_bar = labels.clone().flat_map(|(track, name)| [track.unwrap_or_default(), name]);
    let with_bar = with_bar.filter(|&id| trace.names.text(id).contains('|'));
    dropped.add("names changed", with_bar.collect::<HashSet<_>>().len() as u64);
    let nameless =
        labels.filter(|&(track, name)| is_nameless(name) || track.is_some_and(is_nameless)).count();
    dropped.add("events without a name, named (no name)", nameless as u64);
    Ok(())
}

/// Threads as lines name them.
struct Lines<'a> {
    trace: &'a Trace,
    /// Names in the form that records allow, by id.
    names: Vec<Box<str>>,
    /// Names of threads that look like a line's beginning, changed.
    tasks: HashMap<NameId, Box<str>>,
    is_ns: bool,
    fractions: Fractions,
    /// Cookies of the async slices without a track that are open.
    open: HashSet<(u32, NameId, i64)>,
    /// Other cookies of async slices within others of their name and cookie, by index.
    cookies: HashMap<usize, i64>,
    comments: Comments<'a>,
    payload: String,
}

impl<'a> Lines<'a> {
    fn for_trace(trace: &'a Trace, fractions: Fractions, dropped: &mut Dropped) -> Self {
        // Arguments are in comments.
        let of_threads = trace.threads.values().flat_map(|thread| thread.args.values().copied());
        let of_asyncs = trace.asyncs.iter().map(|one| one.args);
        let of_instants = trace.instants.iter().map(|one| one.args);
        let args: HashSet<NameId> = of_threads.chain(of_asyncs).chain(of_instants).collect();
        let mut changed = 0;
        let clean = |(id, name): (NameId, &str)| {
            let clean = cleaned(name);
            changed += u64::from(clean.trim_ascii() != name && !args.contains(&id));
            clean.into_boxed_str()
        };
        let names: Vec<Box<str>> = trace.names.iter().map(clean).collect();
        let mut tasks = HashMap::new();
        for &(_, id) in trace.threads.values().flat_map(|thread| &thread.names) {
            let name = names.get(id.number() as usize).map_or("", |name| name.trim_ascii());
            if !is_task(name) {
                tasks.entry(id).or_insert_with(|| name.replace(['-', '#'], "_").into());
            }
        }
        dropped.add("names changed", changed + tasks.len() as u64);
        let is_ns = has_ns(trace);
        let (open, cookies) = (HashSet::new(), HashMap::new());
        let comments = Comments::for_trace(trace, fractions, dropped);
        let payload = String::new();
        Self { trace, names, tasks, is_ns, fractions, open, cookies, comments, payload }
    }

    /// Returns the cookie of an async slice without a track at its begin: one that no open slice of its name has.
    fn cookie(&mut self, index: usize, one: &Async) -> i64 {
        let mut cookie = one.cookie;
        while !self.open.insert((one.pid, one.name, cookie)) {
            cookie = cookie.wrapping_add(i64::MIN | 1);
        }
        if cookie != one.cookie {
            self.cookies.insert(index, cookie);
        }
        cookie
    }

    /// Returns that cookie at the end of the slice.
    fn end_cookie(&mut self, index: usize, one: &Async) -> i64 {
        let cookie = self.cookies.remove(&index).unwrap_or(one.cookie);
        self.open.remove(&(one.pid, one.name, cookie));
        cookie
    }

    /// A name at the end of a line, where readers trim it.
    fn name(&self, id: NameId) -> &str {
        self.names.get(id.number() as usize).map_or("", |name| name.trim_ascii())
    }

    /// The same for a name that must not be empty: any name except a slice's.
    fn last_label(&self, id: NameId) -> Cow<'_, str> {
        one_field(Some(self.name(id)).filter(|name| !name.is_empty()).unwrap_or(NO_NAME))
    }

    /// A name that another field follows. It must not be empty.
    fn label(&self, id: NameId) -> Cow<'_, str> {
        let name = self.names.get(id.number() as usize).map_or("", |name| name);
        one_field(Some(name).filter(|name| !name.trim_ascii().is_empty()).unwrap_or(NO_NAME))
    }

    fn key_of(&self, event: Event) -> u32 {
        let trace = self.trace;
        match event {
            Event::Begin(key, _) | Event::End(key, _) | Event::StayOpen(key, _) => Some(key),
            Event::AsyncBegin(index) => trace.asyncs.get(index).map(|one| one.threads[0]),
            Event::AsyncEnd(index) => trace.asyncs.get(index).map(|one| one.threads[1]),
            Event::Instant(index) => trace.instants.get(index).map(|one| one.thread),
            Event::Counter(index) => trace.counters.get(index).map(|one| one.thread),
            Event::Flow(index) => trace.flows.get(index).map(|one| one.thread),
        }
        .unwrap_or(0)
    }

    fn event(&mut self, out: &mut impl Write, at_ns: u64, event: Event) -> io::Result<()> {
        use std::fmt::Write as _;
        let mut text = std::mem::take(&mut self.payload);
        text.clear();
        let trace = self.trace;
        let written = match event {
            Event::Begin(key, index) => slice(trace, key, index).map(|(thread, slice)| {
                write!(text, "B|{}|{}", pid_of(key, thread), self.name(slice.name))
            }),
            Event::End(key, index) => slice(trace, key, index)
                .map(|(thread, _)| write!(text, "E|{}", pid_of(key, thread))),
            Event::AsyncBegin(index) => trace.asyncs.get(index).map(|one| match one.track {
                None => {
                    let cookie = self.cookie(index, one);
                    write!(text, "S|{}|{}|{cookie}", one.pid, self.label(one.name))
                }
                Some(track) => {
                    let (track, name) = (self.label(track), self.label(one.name));
                    write!(text, "G|{}|{track}|{name}|{}", one.pid, one.cookie)
                }
            }),
            Event::AsyncEnd(index) => trace.asyncs.get(index).map(|one| match one.track {
                None => {
                    let cookie = self.end_cookie(index, one);
                    write!(text, "F|{}|{}|{cookie}", one.pid, self.label(one.name))
                }
                Some(track) => write!(text, "H|{}|{}|{}", one.pid, self.label(track), one.cookie),
            }),
            Event::Instant(index) => trace.instants.get(index).map(|one| match one.track {
                None => write!(text, "I|{}|{}", one.pid, self.last_label(one.name)),
                Some(track) => {
                    write!(
                        text,
                        "N|{}|{}|{}",
                        one.pid,
                        self.label(track),
                        self.last_label(one.name)
                    )
                }
            }),
            Event::Counter(index) => trace.counters.get(index).map(|one| {
                let value = match self.fractions {
                    Fractions::Kept => one.value,
                    Fractions::Rounded => one.value.round(),
                };
                write!(text, "C|{}|{}|{value}", one.pid, self.label(one.name))
            }),
            Event::StayOpen(..) | Event::Flow(_) => None,
        };
        if written.is_some() {
            let key = self.key_of(event);
            out.write_all(self.comments.comment(event, key, at_ns).as_bytes())?;
            self.line(out, key, at_ns, &text)?;
        }
        self.payload = text;
        Ok(())
    }

    /// An event of the kernel.
    fn kernel_event(&self, out: &mut impl Write, event: &KernelEvent) -> io::Result<()> {
        if let Some(text) = self.trace.event_text(event) {
            self.thread(out, text.thread, event.at_ns)?;
            write!(out, " [{:03}] ", event.cpu)?;
            // Readers take four flags, or five; kernels for real time write more.
            out.write_all(if matches!(text.flags.len(), 4 | 5) { text.flags } else { b"...1" })?;
            out.write_all(b" ")?;
            self.time(out, event.at_ns)?;
            write!(out, ": {}: ", text.event)?;
            out.write_all(&unscripted(text.payload))?;
            return out.write_all(b"\n");
        }
        if event.tid == 0 {
            write!(out, "{:>16}-{:<7} (-----)", "<idle>", 0)?;
        } else {
            self.thread(out, event.tid, event.at_ns)?;
        }
        write!(out, " [{:03}] d..2 ", event.cpu)?;
        self.time(out, event.at_ns)?;
        let name = |id| self.name(id);
        writeln!(out, ": {}: {}", event.kind.event(), kernel_text::payload(event, name))
    }

    fn line(&self, out: &mut impl Write, key: u32, at_ns: u64, payload: &str) -> io::Result<()> {
        self.thread(out, key, at_ns)?;
        out.write_all(b" [000] ...1 ")?;
        self.time(out, at_ns)?;
        writeln!(out, ": tracing_mark_write: {payload}")
    }

    /// A line's thread and process.
    fn thread(&self, out: &mut impl Write, key: u32, at_ns: u64) -> io::Result<()> {
        let thread = self.trace.threads.get(&key);
        let tid = thread.map_or(key, |thread| thread.tid);
        match thread.and_then(|thread| name_at(thread, at_ns)) {
            Some(id) => {
                let name = match self.tasks.get(&id) {
                    Some(name) => name,
                    None => self.name(id),
                };
                write!(out, "{name:>16}-{tid:<7} ")?;
            }
            None => write!(out, "{NAMELESS:>16}-{tid:<7} ")?,
        }
        match thread.and_then(|thread| thread.pid) {
            Some(pid) => write!(out, "({pid:5})"),
            None => out.write_all(b"(-----)"),
        }
    }

    fn time(&self, out: &mut impl Write, at_ns: u64) -> io::Result<()> {
        let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        if self.is_ns {
            write!(out, "{seconds}.{ns:09}")
        } else {
            write!(out, "{seconds}.{:06}", ns / 1000)
        }
    }
}

/// True if any time is finer than a microsecond.
fn has_ns(trace: &Trace) -> bool {
    let is_fine = |at_ns: u64| at_ns != UNFINISHED && !at_ns.is_multiple_of(1000);
    let slices = trace.threads.values().flat_map(|thread| &thread.slices);
    slices.flat_map(|one| [one.start_ns, one.end_ns]).any(is_fine)
        || trace.asyncs.iter().any(|one| is_fine(one.start_ns) || is_fine(one.end_ns))
        || trace.instants.iter().any(|one| is_fine(one.at_ns))
        || trace.counters.iter().any(|one| is_fine(one.at_ns))
        || trace.kernel.iter().any(|one| is_fine(one.at_ns))
}

fn slice(trace: &Trace, key: u32, index: u32) -> Option<(&Thread, &tracetee_trace::Slice)> {
    let thread = trace.threads.get(&key)?;
    Some((thread, thread.slices.get(index as usize)?))
}

/// The thread's name at that time; before its first name, the first one.
fn name_at(thread: &Thread, at_ns: u64) -> Option<NameId> {
    let later = thread.names.partition_point(|&(from_ns, _)| from_ns <= at_ns);
    thread.names.get(later.saturating_sub(1)).map(|&(_, name)| name)
}

/// A name that is one of several fields. The name of a slice is the rest of its record.
fn one_field(name: &str) -> Cow<'_, str> {
    if name.contains('|') { name.replace('|', " ").into() } else { name.into() }
}

/// A name without characters that break a line, or (backslash and n) catapult.
fn cleaned(name: &str) -> String {
    let clean = name.replace(['\n', '\r', '\0', '\u{2028}', '\u{2029}'], " ");
    let clean = clean.replace("\\n", " ");
    String::from_utf8_lossy(&unscripted(clean.as_bytes())).into_owned()
}
